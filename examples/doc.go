// Package examples has the test that runs each example by its one command; the examples themselves are in its folders.
package examples
