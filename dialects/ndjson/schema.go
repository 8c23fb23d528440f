package ndjson

import _ "embed"

// Schema is a JSON Schema (draft 2020-12) of one line. What it refuses a Decoder refuses too, and nearly the other way round: it does not say that a
// key stands there once, that a time lies between 1678 and 2261, or how many provenances a request has. A test compares both. Not to
// be written to.
//
//go:embed schema.json
var Schema []byte
