// Package agentsessionexporter is the Collector exporter "agent_session": it turns spans of the otelagent vocabulary,
// and log records that are their events, into rows and blocks and writes them to a store, from which the session tree
// is rebuilt.
//
// It is glue only: package otlprow decodes, package store keeps, package project keeps the projections current.
// ConsumeTraces and ConsumeLogs return nil only after the store has committed, unless the user switches a sending queue
// on.
//
// Its API is NewFactory and Config with its sections, for the Collector builder and for programs that build a
// collector themselves; nothing else of it is meant to be imported.
package agentsessionexporter

//go:generate go -C ../../internal/tools/mdatagen tool mdatagen $PWD/metadata.yaml
