package message

import (
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

func valid(raw []byte) bool { return rawjson.Valid(raw, rawjson.MaxDepth) == nil }

// first returns the first of keys that o has and that is not null. It marks all of them as read.
func first(o *object.Object, keys ...string) (value []byte) {
	for _, k := range keys {
		if v := o.Raw(k); value == nil {
			value = v
		}
	}
	return value
}

// str returns the first of keys that is a string, or "". It marks all of them as read.
func str(o *object.Object, keys ...string) (text string) {
	for _, k := range keys {
		if s, ok := rawjson.String(o.Raw(k)); ok && text == "" {
			text = s
		}
	}
	return text
}

// child returns first as an object, nil for other JSON.
func child(o *object.Object, keys ...string) *object.Object { return object.Of("", first(o, keys...)) }

// has reports whether o has one of keys.
func has(o *object.Object, keys ...string) bool {
	for _, k := range keys {
		if o.Has(k) {
			return true
		}
	}
	return false
}

// unread returns the keys of o that were not read and are not null.
func unread(o *object.Object) (keys []string) {
	for k, v := range object.Of("", o.Rest()).All() {
		if string(v) != "null" {
			keys = append(keys, k)
		}
	}
	return keys
}

// Elements returns the elements of an array, nil for other JSON. Raw must be valid JSON.
func Elements(raw []byte) (out [][]byte) {
	c := rawjson.NewCursor(raw, object.MaxDepth)
	for c.Open('['); c.More(']'); {
		out = append(out, c.Value())
	}
	return out
}

// is reports whether raw begins as a JSON object {, array [ or string ".
func is(raw []byte, first byte) bool { return len(raw) > 0 && raw[0] == first }

// Quote returns s as a JSON string.
func Quote(s string) []byte { return rawjson.Quote(nil, s) }

// Build returns the JSON object of pairs of a key and a value: a string, or JSON as []byte. It omits empty strings
// and nil.
func Build(pairs ...any) []byte {
	out := []byte{'{'}
	for i := 0; i+1 < len(pairs); i += 2 {
		value, ok := pairs[i+1].([]byte)
		if s, _ := pairs[i+1].(string); !ok && s != "" {
			value = Quote(s)
		}
		if value == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(rawjson.Quote(out, pairs[i].(string)), ':')
		out = append(out, value...)
	}
	return append(out, '}')
}

// Array returns the JSON array of elements.
func Array(elements [][]byte) []byte {
	out := []byte{'['}
	for i, e := range elements {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	return append(out, ']')
}
