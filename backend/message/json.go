package message

import (
	"slices"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// Member is a member of a JSON object, or an element of an array, which has no key.
type Member struct {
	Key   string
	Value []byte
}

// Members returns the members of an object or the elements of an array in their order, nil for other JSON. Raw must be valid JSON.
func Members(raw []byte) []Member {
	out := []Member{}
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	switch {
	case c.Open('{'):
		for c.More('}') {
			key := string(c.Key())
			out = append(out, Member{key, c.Value()})
		}
		return out
	case c.Open('['):
		for c.More(']') {
			out = append(out, Member{"", c.Value()})
		}
		return out
	}
	return nil
}

// Elements returns the elements of an array, nil for other JSON. Raw must be valid JSON.
func Elements(raw []byte) (out [][]byte) {
	if is(raw, '[') {
		for _, m := range Members(raw) {
			out = append(out, m.Value)
		}
	}
	return out
}

// Object is a JSON object for looking up members. Members that are null are left out; of two members of one key the last counts.
type Object map[string][]byte

// ObjectOf returns the object that raw is, nil for other JSON. Raw must be valid JSON.
func ObjectOf(raw []byte) Object {
	if !is(raw, '{') {
		return nil
	}
	o := Object{}
	for _, m := range Members(raw) {
		if delete(o, m.Key); string(m.Value) != "null" {
			o[m.Key] = m.Value
		}
	}
	return o
}

// First returns the value of the first of keys that o has, or nil.
func (o Object) First(keys ...string) []byte {
	for _, k := range keys {
		if v := o[k]; v != nil {
			return v
		}
	}
	return nil
}

// Has reports whether o has one of keys.
func (o Object) Has(keys ...string) bool { return o.First(keys...) != nil }

// Str returns the first of keys that is a string, or "".
func (o Object) Str(keys ...string) string {
	for _, k := range keys {
		if s, ok := rawjson.String(o[k]); ok {
			return s
		}
	}
	return ""
}

// Obj returns the first of keys that o has, as ObjectOf does.
func (o Object) Obj(keys ...string) Object { return ObjectOf(o.First(keys...)) }

// True reports whether the first of keys that o has is true.
func (o Object) True(keys ...string) bool { return string(o.First(keys...)) == "true" }

// without returns the keys of o that are none of known, sorted.
func (o Object) without(known []string) (out []string) {
	for k := range o {
		if !slices.Contains(known, k) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// is reports whether raw begins as a JSON object {, array [ or string ".
func is(raw []byte, first byte) bool { return len(raw) > 0 && raw[0] == first }

func isNumber(raw []byte) bool {
	return len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9')
}

// Quote returns s as a JSON string.
func Quote(s string) []byte { return rawjson.Quote(nil, s) }

// Build returns the JSON object of pairs of a key and a value: a string, or JSON as []byte. It leaves out empty strings and nil.
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
