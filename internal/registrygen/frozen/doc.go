// Package frozen holds the tests that keep the names of spans/registry.yaml, which are formats, from changing.
package frozen
