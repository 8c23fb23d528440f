package message

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// child returns the member of o of one of keys as an object; nil for other JSON.
func child(o *object.Object, keys ...string) *object.Object { return object.Of("", o.Raw(keys...)) }

func valid(raw []byte) bool { return rawjson.Valid(raw, rawjson.MaxDepth) == nil }

// is reports whether raw begins as a JSON object {, array [ or string ".
func is(raw []byte, first byte) bool { return len(raw) > 0 && raw[0] == first }

// Build returns the JSON object of pairs of a key and a value, in their order. It omits a value that is zero: pass its
// address to keep it. Bytes are JSON already.
func Build(keysAndValues ...any) []byte {
	var out []byte
	for i := 0; i < len(keysAndValues); i += 2 {
		value := keysAndValues[i+1]
		if v := reflect.ValueOf(value); !v.IsValid() || v.IsZero() {
			continue
		}
		key, _ := keysAndValues[i].(string)
		out = append(append(rawjson.Quote(append(out, ','), key), ':'), Encode(value)...)
	}
	return rawjson.Enclose(out, 0, "{}")
}

// Array returns the JSON array of elements.
func Array[T ~[]byte](elements []T) []byte {
	var out []byte
	for _, e := range elements {
		out = append(append(out, ','), e...)
	}
	return rawjson.Enclose(out, 0, "[]")
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

// shortEscapes are the control characters that Quote spells with a letter.
var shortEscapes = strings.NewReplacer(`\u0008`, `\b`, `\u0009`, `\t`, `\u000c`, `\f`, `\u000d`, `\r`, `\\`, `\\`)

// Quote writes a JSON string as serde does.
func Quote(s string) []byte { return []byte(shortEscapes.Replace(string(rawjson.Quote(nil, s)))) }
