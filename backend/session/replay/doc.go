// Package replay tells whether the inputs of a turn are there, gives them back as the request body of a provider, and compares what is
// answered now with what was answered then. It sends nothing: who may send, and to whom, is the caller's.
//
// A captured request comes in the spelling of whoever emitted it: an agent loop's own, a provider's, a convention's. It is read into
// messages of one kind (request.go, read.go, block.go), told by its words alone (spelling.go), and written in one of the wire forms that providers publish
// (anthropic.go, chat.go, responses.go). What stands in the wanted form already goes through byte for byte. What the form has no place for is
// left out and named, what it demands and nobody told is added and named: see Note.
//
// JSON that belongs to tools (schemas, arguments) is copied as it is spelled; numbers are not converted. All is linear in the input, which
// nothing bounds but the 200 levels of internal/rawjson: a caller bounds it. What is no JSON is an error, and no input makes a panic.
package replay
