package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/otelagent/otelagent/internal/rawjson"
)

var null = []byte("null")

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

// number returns a member that is a number, else 0.
func (o object) number(key string) float64 {
	f, _ := strconv.ParseFloat(string(o.get(key)), 64)
	return f
}

// has reports whether there is such a member and it is not null.
func (o object) has(key string) bool { return valueOf(o.get(key)) != nil }

// with returns o with other members of the same names replaced, at the end.
func (o object) with(others ...member) object {
	has := func(m member) bool { return slices.ContainsFunc(others, func(x member) bool { return x.key == m.key }) }
	return append(slices.DeleteFunc(slices.Clone(o), has), others...)
}

// without returns o without some members.
func (o object) without(keys ...string) object {
	return slices.DeleteFunc(slices.Clone(o), func(m member) bool { return slices.Contains(keys, m.key) })
}

func (o object) sort() object {
	slices.SortStableFunc(o, func(a, b member) int { return strings.Compare(a.key, b.key) })
	return o
}

func (o object) bytes() []byte {
	pairs := make([]any, 0, 2*len(o))
	for _, m := range o {
		pairs = append(pairs, m.key, m.value)
	}
	return fields(pairs...)
}

// fields returns an object of keys and values, in their order. It omits a value that is zero: pass its address to keep
// it. Bytes are JSON already.
func fields(keysAndValues ...any) []byte {
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
		out = append(append(append(out, quote(key)...), ':'), encode(value)...)
	}
	return append(out, '}')
}

// list returns the array of values.
func list[T ~[]byte](l []T) []byte {
	out := []byte{'['}
	for i, v := range l {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

// elements returns the elements of an array, nil for anything else.
func elements(raw []byte) (l []json.RawMessage) {
	_ = json.Unmarshal(raw, &l)
	return l
}

// encode writes v as encoding/json does, without escapes for HTML; bytes are JSON already.
func encode(v any) []byte {
	switch v := v.(type) {
	case []byte:
		return v
	case string:
		return quote(v)
	case *string:
		return quote(*v)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return null // the structs of this package have nothing that cannot be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

// quote writes a JSON string as serde does: it escapes only what must be.
func quote(s string) []byte {
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
	if out, _, err := rawjson.AppendCanonical(nil, raw, nil); err == nil {
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
