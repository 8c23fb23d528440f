// Package backends has a loop whose session has whatever trace backends show. It is used by tests only.
// docs/backends.md lists what each backend shows; interop/backends asks the real servers.
package backends
