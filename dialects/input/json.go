package input

import (
	"bytes"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// Members returns keys and values, in turn, as a JSON object: a value of []byte as it is spelled, one of string as JSON.
// It omits empty values, and is nil without any other.
func Members(members ...any) (object []byte) {
	for i := 0; i < len(members); i += 2 {
		value, _ := members[i+1].([]byte)
		if text, _ := members[i+1].(string); text != "" {
			value = rawjson.Quote(nil, text)
		}
		if len(value) > 0 {
			object = append(rawjson.Quote(append(object, ','), members[i].(string)), ':')
			object = append(object, value...)
		}
	}
	if object == nil {
		return nil
	}
	object[0] = '{'
	return append(object, '}')
}

// Array returns elements as a JSON array.
func Array(elements [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(elements, []byte{','})...), ']')
}

// Merge returns the members of two JSON objects, of which either may be nil, as one.
func Merge(a, b []byte) []byte {
	if len(a) <= len("{}") {
		return b
	}
	if len(b) <= len("{}") {
		return a
	}
	return append(append(a[:len(a)-1:len(a)-1], ','), b[1:]...)
}
