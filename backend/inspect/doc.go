// Package inspect renders sessions for people: a tree for the terminal, and a table of sessions.
//
// What is rendered was written by models, tools and users. Nothing of it reaches the terminal as a control character.
package inspect
