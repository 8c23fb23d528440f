package export

import (
	"encoding/json"
	"slices"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/internal/rawjson"
)

var null = []byte("null")

// How JSON is written. fields omits a value that is zero: its address keeps it.
var (
	fields   = message.Build
	encode   = message.Encode
	quote    = message.Quote
	elements = message.Elements
)

func list[T ~[]byte](l []T) []byte { return message.Array(l) }

type member struct {
	key   string
	value []byte
}

// object is a JSON object: its members in their order, values as they are spelled.
type object []member

// parse reads an object; nil for anything else.
func parse(raw []byte) object {
	c := rawjson.NewCursor(raw, rawjson.MaxDepth+8)
	if !c.Open('{') {
		return nil
	}
	o := object{}
	for c.More('}') {
		key := string(c.Key())
		o = append(o, member{key, c.Value()})
	}
	if c.End() != nil {
		return nil
	}
	return o
}

// get returns the first member of that name; nil where there is none.
func (o object) get(key string) []byte {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// object returns a member that is an object; nil for anything else.
func (o object) object(key string) object { return parse(o.get(key)) }

// text returns a member that is a string, else "".
func (o object) text(key string) string {
	s, _ := text(o.get(key))
	return s
}

// with returns o with other members of the same names replaced, at the end.
func (o object) with(others ...member) object {
	has := func(m member) bool { return slices.ContainsFunc(others, func(x member) bool { return x.key == m.key }) }
	return append(slices.DeleteFunc(slices.Clone(o), has), others...)
}

// without returns o without some members.
func (o object) without(keys ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return slices.Contains(keys, m.key) })
}

func (o object) bytes() []byte {
	pairs := make([]any, 0, 2*len(o))
	for _, m := range o {
		pairs = append(pairs, m.key, m.value)
	}
	return fields(pairs...)
}

// text returns the string that raw is, and reports whether it is one.
func text(raw []byte) (string, bool) {
	var s string
	ok := len(raw) > 0 && raw[0] == '"' && json.Unmarshal(raw, &s) == nil
	return s, ok
}

// valueOf returns nil for null and for nothing.
func valueOf(raw []byte) []byte {
	if len(raw) == 0 || string(raw) == "null" {
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
