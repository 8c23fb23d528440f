package ndjson

// Golden and ReadAll are for the tests that look from outside.
var (
	Golden  = golden
	ReadAll = readAll
)
