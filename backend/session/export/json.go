package export

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

var null = []byte("null")

// object builds a JSON object with its keys in the order in which they were added. Raw values are taken as they are.
type object struct{ buf []byte }

func (o *object) key(k string) {
	if o.buf == nil {
		o.buf = append(o.buf, '{')
	} else {
		o.buf = append(o.buf, ',')
	}
	o.buf = append(append(o.buf, quote(k)...), ':')
}

func (o *object) raw(k string, v []byte) {
	o.key(k)
	o.buf = append(o.buf, v...)
}

func (o *object) str(k, v string) { o.raw(k, quote(v)) }

func (o *object) optional(k, v string) {
	if v == "" {
		o.raw(k, null)
	} else {
		o.str(k, v)
	}
}

func (o *object) int(k string, n int64) {
	o.key(k)
	o.buf = strconv.AppendInt(o.buf, n, 10)
}

func (o *object) bool(k string, b bool) {
	o.key(k)
	o.buf = strconv.AppendBool(o.buf, b)
}

func (o *object) time(k string, t time.Time) { o.str(k, rfc3339(t)) }

func (o *object) bytes() []byte {
	if o.buf == nil {
		return []byte("{}")
	}
	return append(o.buf[:len(o.buf):len(o.buf)], '}')
}

// only returns an object that holds o under one key.
func (o *object) only(k string) []byte {
	var outer object
	outer.raw(k, o.bytes())
	return outer.bytes()
}

// array builds a JSON array.
type array struct{ buf []byte }

func (a *array) raw(v []byte) {
	if a.buf == nil {
		a.buf = append(a.buf, '[')
	} else {
		a.buf = append(a.buf, ',')
	}
	a.buf = append(a.buf, v...)
}

func (a *array) bytes() []byte {
	if a.buf == nil {
		return []byte("[]")
	}
	return append(a.buf[:len(a.buf):len(a.buf)], ']')
}

func list(l [][]byte) []byte {
	var a array
	for _, v := range l {
		a.raw(v)
	}
	return a.bytes()
}

// rfc3339 writes a time as serde and chrono do: UTC, and 0, 3, 6 or 9 digits, the fewest that are exact.
func rfc3339(t time.Time) string {
	t = t.UTC()
	layout := "2006-01-02T15:04:05.000000000Z"
	switch ns := t.Nanosecond(); {
	case ns == 0:
		layout = "2006-01-02T15:04:05Z"
	case ns%1_000_000 == 0:
		layout = "2006-01-02T15:04:05.000Z"
	case ns%1_000 == 0:
		layout = "2006-01-02T15:04:05.000000Z"
	}
	return t.Format(layout)
}

// quote writes a JSON string as serde does: nothing escaped that need not be.
func quote(s string) []byte {
	const hex = "0123456789abcdef"
	b := make([]byte, 0, len(s)+2)
	b = append(b, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			b = utf8.AppendRune(b, r)
			i += n
			continue
		}
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\r':
			b = append(b, '\\', 'r')
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\b':
			b = append(b, '\\', 'b')
		case c == '\f':
			b = append(b, '\\', 'f')
		case c < 0x20:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			b = append(b, c)
		}
		i++
	}
	return append(b, '"')
}

// fields returns an object of keys and values, in their order. A value that is zero is left out: what shall be there
// nevertheless is passed by its address. Bytes are JSON already.
func fields(keysAndValues ...any) []byte {
	var o object
	for i := 0; i < len(keysAndValues); i += 2 {
		key, _ := keysAndValues[i].(string)
		value := keysAndValues[i+1]
		if v := reflect.ValueOf(value); !v.IsValid() || v.IsZero() {
			continue
		}
		switch value := value.(type) {
		case []byte:
			o.raw(key, value)
		case string:
			o.str(key, value)
		case *string:
			o.str(key, *value)
		default:
			o.raw(key, encode(value))
		}
	}
	return o.bytes()
}

// encode writes v as encoding/json does, without escapes for HTML.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return null // the structs of this package have nothing that cannot be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'})
}

type member struct {
	key   string
	value []byte
}

// members returns the members of a JSON object in their order, values as they are spelled; nil for anything else.
func members(raw []byte) []member {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	l := []member{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil
		}
		key, _ := t.(string)
		var v json.RawMessage
		if d.Decode(&v) != nil {
			return nil
		}
		l = append(l, member{key, v})
	}
	return l
}

func find(l []member, key string) []byte {
	for _, m := range l {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// sorted returns a JSON value with sorted keys and without blanks, as phi-core writes it; anything else as it is.
func sorted(raw []byte) []byte {
	if out, _, err := rawjson.AppendCanonical(nil, raw, nil); err == nil {
		return out
	}
	return raw
}

// asMessage returns what stands in a list: a message with sorted keys, anything else as it is.
func asMessage(list, text string) []byte {
	switch list {
	case spans.ListInput, spans.ListOutput, spans.ListResults, spans.ListMessages, spans.ListOutside, spans.ListRequest,
		spans.ListBefore, spans.ListAfter:
		return sorted([]byte(text))
	}
	return []byte(text)
}

// message returns the body of a message with sorted keys.
func (g *Guide) message(ref session.Ref) (string, bool) {
	body, ok := g.window.set.Body(ref)
	return string(sorted([]byte(body))), ok
}

// merge puts the members of an envelope into a message and sorts its keys, as phi-core does. What is no object is
// returned as it is.
func merge(message, envelope []byte) []byte {
	if len(envelope) == 0 {
		return message
	}
	l := members(message)
	if l == nil {
		return message
	}
	for _, m := range members(envelope) {
		l = slices.DeleteFunc(l, func(have member) bool { return have.key == m.key })
		l = append(l, m)
	}
	slices.SortStableFunc(l, func(a, b member) int { return strings.Compare(a.key, b.key) })
	var o object
	for _, m := range l {
		o.raw(m.key, m.value)
	}
	return o.bytes()
}

func (o *object) notEmpty(k, v string) {
	if v != "" {
		o.str(k, v)
	}
}
