package message

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

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

// Elements returns the elements of an array, nil for anything else.
func Elements(raw []byte) []json.RawMessage {
	c := rawjson.NewCursor(raw, object.MaxDepth)
	if !c.Open('[') {
		return nil
	}
	out := []json.RawMessage{}
	for c.More(']') {
		out = append(out, c.Value())
	}
	if c.End() != nil {
		return nil
	}
	return out
}

// is reports whether raw begins as a JSON object {, array [ or string ".
func is(raw []byte, first byte) bool { return len(raw) > 0 && raw[0] == first }

// Build returns the JSON object of pairs of a key and a value, in their order. It omits a value that is zero: pass its
// address to keep it. Bytes are JSON already.
func Build(keysAndValues ...any) []byte {
	out := []byte{'{'}
	for i := 0; i < len(keysAndValues); i += 2 {
		value := keysAndValues[i+1]
		if v := reflect.ValueOf(value); !v.IsValid() || v.IsZero() {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		key, _ := keysAndValues[i].(string)
		out = append(append(append(out, Quote(key)...), ':'), Encode(value)...)
	}
	return append(out, '}')
}

// Array returns the JSON array of elements.
func Array[T ~[]byte](elements []T) []byte {
	out := []byte{'['}
	for i, e := range elements {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	return append(out, ']')
}

// Encode writes v as encoding/json does, without escapes for HTML; bytes are JSON already. A value that JSON cannot
// have is null.
func Encode(v any) []byte {
	switch v := v.(type) {
	case []byte:
		return v
	case string:
		return Quote(v)
	case *string:
		return Quote(*v)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return []byte("null")
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// Quote writes a JSON string as serde does: it escapes only what must be.
func Quote(s string) []byte {
	b := append(make([]byte, 0, len(s)+2), '"')
	for _, r := range s {
		switch i := strings.IndexRune("\n\r\t\b\f", r); {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r >= ' ':
			b = utf8.AppendRune(b, r)
		case i >= 0:
			b = append(b, '\\', "nrtbf"[i])
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return append(b, '"')
}
