// Package backends says what trace backends read of our spans, and holds it against what they carry. It is used by
// tests only. docs/backends.md says what each backend shows; interop/backends asks the real servers.
package backends
