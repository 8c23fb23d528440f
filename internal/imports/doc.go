// Package imports holds the test that keeps the rooms of this module apart: which package may import which. It has no
// code of its own. docs/architecture.md says why the rooms are cut this way.
package imports
