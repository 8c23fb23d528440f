// Package spans is the vocabulary of otelagent: span names, attribute keys, values, defect codes, and the
// encodings that content takes inside span events.
//
// Both halves of the project speak it and share nothing else: package otelagent writes spans with it, package
// session reads them with it. Names, types, units and classes come from registry.yaml; `go generate` turns it into
// registry_gen.go, spans/ATTRIBUTES.md and docs/metrics.md.
package spans

//go:generate go -C ../internal/registrygen run . ../..
