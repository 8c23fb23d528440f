// Package modules holds tests about the modules of this repository: which there are, what the root module may require,
// and that the Makefile knows them all, and which package of the root module may import which. It has no code of its
// own.
package modules
