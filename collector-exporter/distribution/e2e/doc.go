// Package e2e builds collectors with the Collector builder, as a user would, and sends spans through them. It takes
// minutes, so `make ocb-test` runs it and `make test` does not.
package e2e
