package export

import (
	"bytes"
	"slices"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

var null = []byte("null")

// How JSON is read and written. fields omits a value that is zero: its address keeps it. text returns the string that
// JSON is, and reports whether it is one.
var (
	fields   = message.Build
	encode   = message.Encode
	quote    = message.Quote
	elements = rawjson.Elements
	text     = rawjson.String
)

func list[T ~[]byte](l []T) []byte { return message.Array(l) }

// parse reads an object; nil, which has no members, for anything else.
func parse(raw []byte) *object.Object { return object.Of("", bytes.TrimSpace(raw)) }

// edited returns an object without the members of some keys, and with those of pairs of a key and a value at its end.
func edited(o *object.Object, without []string, with ...any) []byte {
	var pairs []any
	for key, value := range o.All() {
		if !slices.Contains(without, key) {
			pairs = append(pairs, key, value)
		}
	}
	return fields(append(pairs, with...)...)
}

// valueOf returns nil for null and for nothing.
func valueOf(raw []byte) []byte {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// sorted returns a JSON value with sorted keys and without blanks, as phi-core writes it; anything else as it is.
func sorted(raw []byte) []byte {
	if out, err := rawjson.AppendCanonical(nil, raw, nil); err == nil {
		return out
	}
	return raw
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
