package acp

import (
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// member is one member of an object: its key as it reads, and its value as it is spelled.
type member struct {
	key   string
	value []byte
}

// object is the members of a JSON object in their order. They point into the line.
type object []member

// members takes a valid JSON value apart if it is an object.
func members(raw []byte) (o object, ok bool) {
	c := rawjson.NewCursor(raw, maxDepth+1)
	if !c.Open('{') {
		return nil, false
	}
	for c.More('}') {
		key := string(c.Key())
		o = append(o, member{key, c.Value()})
	}
	return o, c.Err() == nil
}

// elements takes a valid JSON value apart if it is an array.
func elements(raw []byte) (list [][]byte) {
	c := rawjson.NewCursor(raw, maxDepth+1)
	for c.Open('['); c.More(']'); {
		list = append(list, c.Value())
	}
	return list
}

// get returns the value of a key, nil when it is absent or null. Of a key that stands there twice the last counts, as in JavaScript.
func (o object) get(key string) []byte {
	if v := o.raw(key); v != nil && v[0] != 'n' {
		return v
	}
	return nil
}

// raw is get that tells null from absent.
func (o object) raw(key string) []byte {
	for i := len(o) - 1; i >= 0; i-- {
		if o[i].key == key {
			return o[i].value
		}
	}
	return nil
}

// word returns a string, empty when there is none.
func (o object) word(key string) string {
	v := o.get(key)
	if v == nil || v[0] != '"' {
		return ""
	}
	s, _ := rawjson.String(v)
	return s
}

// object returns the members of a value that is an object.
func (o object) object(key string) object {
	v := o.get(key)
	if v == nil || v[0] != '{' {
		return nil
	}
	inner, _ := members(v)
	return inner
}

// without appends the object without the keys that known holds, and reports whether anything is left.
func (o object) without(known ...string) ([]byte, bool) {
	b := []byte{'{'}
next:
	for _, m := range o {
		for _, k := range known {
			if m.key == k {
				continue next
			}
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(rawjson.Quote(b, m.key), ':'), m.value...)
	}
	return append(b, '}'), len(b) > 1
}

// fields reads typed values and keeps the first problem. A value that is absent or null reads as nothing.
type fields struct {
	wrong *input.LineError
}

func (f *fields) problem(path, reason string) {
	if f.wrong == nil {
		f.wrong = &input.LineError{Field: path, Reason: reason}
	}
}

// want reports a problem unless value is absent or begins with one of first.
func (f *fields) want(path string, value []byte, first, what string) []byte {
	if value == nil {
		return nil
	}
	if strings.IndexByte(first, value[0]) < 0 {
		f.problem(path, "want "+what+", got "+rawjson.KindOf(value))
		return nil
	}
	return value
}

// must is want for what has to be there.
func (f *fields) must(path string, value []byte, first, what string) []byte {
	if value == nil {
		f.problem(path, "missing, want "+what)
		return nil
	}
	return f.want(path, value, first, what)
}

const numbers = "-0123456789"

func (f *fields) text(path string, value []byte) string {
	s, _ := rawjson.String(f.want(path, value, `"`, "a string"))
	return s
}

func (f *fields) mustText(path string, value []byte) string {
	s, _ := rawjson.String(f.must(path, value, `"`, "a string"))
	return s
}

// id is mustText for what addresses something.
func (f *fields) id(path string, value []byte) string {
	s := f.mustText(path, value)
	if s == "" {
		f.problem(path, "want a string that is not empty")
	}
	return s
}

func (f *fields) mustObject(path string, value []byte) object {
	o, _ := members(f.must(path, value, "{", "an object"))
	return o
}

// count reads an integer that is not negative, -1 when there is none.
func (f *fields) count(path string, value []byte) int64 {
	if f.want(path, value, numbers, "a number") == nil {
		return -1
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil || n < 0 {
		f.problem(path, "want an integer from 0 to 9223372036854775807, got another number")
		return -1
	}
	return n
}
