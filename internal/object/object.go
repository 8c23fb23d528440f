// Package object reads JSON objects member by member. It remembers which members were read, so that a dialect can
// keep the rest, and collects the problems of a line under the paths of its keys.
//
// All dialects read with it:
//
//	o, err := object.Parse(line)
//	if err != nil { ... }         // not JSON, or no object
//	name := o.String("name")      // "" when absent
//	calls := o.Objects("calls")   // each with its own path: calls[0], calls[1]
//	rest := o.Rest()              // the members that nobody read, as an object
//	problems := o.Problems()      // name: want a string, got a number
package object

import (
	"bytes"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// MaxDepth is the depth of nesting that Parse accepts: the depth that content may have anywhere, and the levels
// around it.
const MaxDepth = rawjson.MaxDepth + 8

// MaxMembers is the number of members of one object that Parse keeps. More are a problem of the object, and are
// dropped.
const MaxMembers = 1024

// MaxElements is the number of elements of one array that List and Objects return. More are a problem of the member,
// and are dropped.
const MaxElements = 1 << 16

// maxProblems is the number of problems of one line that are kept.
const maxProblems = 8

// A Problem says what is wrong with one member. It holds no value of the input: lines are content.
type Problem struct {
	// Path names the member from the top of the line: payload.messages[2].role. It is empty where the line is wrong
	// as a whole.
	Path string
	// Reason says what is wrong and what is allowed.
	Reason string
}

// Object is one JSON object. Its values alias the input and are valid as long as that does not change. The nil Object
// is valid and has no members. Not safe for concurrent use.
type Object struct {
	line    *line // own, or that of the object around it
	own     line
	around  *Object // that it is a member of, at path; nil of the outermost, whose own path this is
	path    string
	element int // with 1 for the first one, of the array at path; 0 of an object that is the member
	members []member
	room    [usual]member // of members, while they are few
}

// line is what the objects of one line share.
type line struct {
	problems []Problem
	count    int
	again    bool      // the memory of the objects is for the next line, too
	inner    []*Object // up to usual
	used     int       // of inner
}

// next returns the memory of an object inside the line.
func (l *line) next() *Object {
	if !l.again || l.used == usual {
		return new(Object)
	}
	if l.used == len(l.inner) {
		l.inner = append(l.inner, new(Object))
	}
	l.used++
	return l.inner[l.used-1]
}

// member is a member of an object. Its key aliases the input, unless it is spelled with escapes.
type member struct {
	key, value []byte
	used       bool
}

// usual is how many members most objects have at most.
const usual = 8

// Parse reads one line, which must be one JSON object in UTF-8 and nothing else. The error is a *rawjson.SyntaxError,
// or says that the line is no object.
func Parse(text []byte) (*Object, error) {
	o := new(Object)
	o.line = &o.own
	return o, o.parse(text)
}

// Parse makes o what the function Parse returns, in the memory of o and of the objects inside it: those are no longer
// valid.
func (o *Object) Parse(text []byte) error { return o.ParseAt("", text) }

// ParseAt is Parse for an object whose problems have paths that begin with path.
func (o *Object) ParseAt(path string, text []byte) error {
	o.own = line{again: true, inner: o.own.inner}
	o.line, o.around, o.path, o.members = &o.own, nil, path, o.members[:0]
	return o.parse(text)
}

func (o *Object) parse(text []byte) error {
	if err := rawjson.ValidUTF8(text); err != nil {
		return err
	}
	c := rawjson.NewCursor(text, MaxDepth)
	if c.Peek() != '{' {
		if err := rawjson.Valid(text, MaxDepth); err != nil {
			return err
		}
		return errors.New("want an object, got " + rawjson.KindOf(bytes.TrimSpace(text)))
	}
	o.read(&c)
	return c.End()
}

// Of returns raw, valid JSON, as an Object whose problems have paths that begin with path. It is nil when raw is no
// object.
func Of(path string, raw []byte) *Object {
	if len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	o := new(Object)
	o.Reset(path, raw)
	return o
}

// Reset makes o what Of returns, in the memory of o, so that a loop over many objects allocates one. When raw is no
// object, o has no members.
func (o *Object) Reset(path string, raw []byte) {
	o.own = line{}
	o.line, o.around, o.path = &o.own, nil, path
	c := rawjson.NewCursor(raw, MaxDepth)
	o.read(&c)
}

// read reads the members of the object at c.
func (o *Object) read(c *rawjson.Cursor) {
	if o.members = o.members[:0]; o.members == nil {
		o.members = o.room[:0]
	}
	for c.Open('{'); c.More('}'); {
		key := c.Key()
		switch value := c.Value(); {
		case value == nil:
		case len(o.members) < MaxMembers:
			o.members = append(o.members, member{key: key, value: value})
		default:
			o.Fail("", "more than "+strconv.Itoa(MaxMembers)+" keys")
		}
	}
}

// find returns a member; nil when it is absent. Of a key that is there twice the last counts, as in JavaScript.
func (o *Object) find(key string) *member {
	if o == nil {
		return nil
	}
	for i := len(o.members) - 1; i >= 0; i-- {
		if string(o.members[i].key) == key {
			return &o.members[i]
		}
	}
	return nil
}

// Keys returns the keys in their order.
func (o *Object) Keys() []string {
	if o == nil {
		return nil
	}
	keys := make([]string, len(o.members))
	for i, m := range o.members {
		keys[i] = string(m.key)
	}
	return keys
}

// All returns the members as they are spelled, also those that are null, in their order. It does not count as reading
// them.
func (o *Object) All() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		o.Members()(func(key, value []byte) bool { return yield(string(key), value) })
	}
}

// Members is All with keys that alias the input.
func (o *Object) Members() iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		if o == nil {
			return
		}
		for _, m := range o.members {
			if !yield(m.key, m.value) {
				return
			}
		}
	}
}

// Twice returns the keys that are there more than once; nil when none is.
func (o *Object) Twice() (keys []string) {
	if o == nil {
		return nil
	}
	for i, m := range o.members {
		if slices.ContainsFunc(o.members[:i], func(b member) bool { return bytes.Equal(b.key, m.key) }) {
			keys = append(keys, string(m.key))
		}
	}
	return keys
}

// Has reports whether one of the members is there and not null. It does not count as reading it.
func (o *Object) Has(keys ...string) bool {
	return slices.ContainsFunc(keys, func(key string) bool {
		m := o.find(key)
		return m != nil && m.value[0] != 'n'
	})
}

// Use marks members as read without looking at them.
func (o *Object) Use(keys ...string) { o.mark(keys, true) }

// Keep marks members as not read: Rest returns them.
func (o *Object) Keep(keys ...string) { o.mark(keys, false) }

func (o *Object) mark(keys []string, used bool) {
	for _, key := range keys {
		if m := o.find(key); m != nil {
			m.used = used
		}
	}
}

// Spelled returns a member as it is spelled, also when it is null; nil when it is absent.
func (o *Object) Spelled(key string) []byte {
	m := o.find(key)
	if m == nil {
		return nil
	}
	m.used = true
	return m.value
}

// Raw returns the first of the members that is there and not null, as it is spelled; nil when none is. All of them
// count as read.
func (o *Object) Raw(keys ...string) (value []byte) {
	for _, key := range keys {
		if v := o.Spelled(key); value == nil && v != nil && v[0] != 'n' {
			value = v
		}
	}
	return value
}

// Literal returns the first of the members that is a string, as it is spelled; nil when none is. An empty string gives
// way to others. Members of another type are no problem. All of them count as read.
func (o *Object) Literal(keys ...string) (text []byte) {
	for _, key := range keys {
		if v := o.Spelled(key); len(text) <= len(`""`) && v != nil && v[0] == '"' {
			text = v
		}
	}
	return text
}

// Text returns the text of what Literal returns.
func (o *Object) Text(keys ...string) string {
	s, _ := rawjson.String(o.Literal(keys...))
	return s
}

// Require notes a problem for each of the keys that is absent or null, and reports whether none is.
func (o *Object) Require(keys ...string) bool {
	ok := true
	for _, key := range keys {
		if !o.Has(key) {
			o.Fail(key, "missing")
			ok = false
		}
	}
	return ok
}

// of returns a member of the type that begins with one of first; nil when it is absent, null or of another type,
// which is a problem.
func (o *Object) of(key, first, want string) []byte {
	v := o.Raw(key)
	if v == nil || strings.IndexByte(first, v[0]) >= 0 {
		return v
	}
	o.Fail(key, "want "+want+", got "+rawjson.KindOf(v))
	return nil
}

// String returns a string member; empty when it is absent.
func (o *Object) String(key string) string {
	v := o.of(key, `"`, "a string")
	if v == nil {
		return ""
	}
	s, _ := rawjson.String(v)
	return s
}

const wantCount = "an integer from 0 to 9223372036854775807"

// Count returns a member that is an integer and not negative; nil when it is absent.
func (o *Object) Count(key string) *int64 {
	return number(o, key, wantCount, wantCount, func(v []byte) (int64, error) {
		n, err := strconv.ParseUint(string(v), 10, 63)
		return int64(n), err
	})
}

// Int returns an integer member; nil when it is absent.
func (o *Object) Int(key string) *int64 {
	return number(o, key, "an integer", "an integer of 64 bits", func(v []byte) (int64, error) {
		return strconv.ParseInt(string(v), 10, 64)
	})
}

// Float returns a number; nil when it is absent.
func (o *Object) Float(key string) *float64 {
	return number(o, key, "a number", "a number that a float of 64 bits holds", func(v []byte) (float64, error) {
		return strconv.ParseFloat(string(v), 64)
	})
}

// number returns a member as parse reads it; nil when it is absent, no number, or no such number.
func number[T any](o *Object, key, want, such string, parse func([]byte) (T, error)) *T {
	v := o.of(key, "-0123456789", want)
	if v == nil {
		return nil
	}
	n, err := parse(v)
	if err != nil {
		o.Fail(key, "want "+such)
		return nil
	}
	return &n
}

// Bool returns a boolean member; nil when it is absent.
func (o *Object) Bool(key string) *bool {
	v := o.of(key, "tf", "a boolean")
	if v == nil {
		return nil
	}
	b := v[0] == 't'
	return &b
}

// True reports whether a boolean member is true.
func (o *Object) True(key string) bool {
	b := o.Bool(key)
	return b != nil && *b
}

const wantTime = "a time in RFC 3339 between 1678 and 2262"

// Time returns a time in RFC 3339, in UTC, that nanoseconds since 1970 can hold; zero when it is absent.
func (o *Object) Time(key string) time.Time {
	v := o.of(key, `"`, wantTime)
	if v == nil {
		return time.Time{}
	}
	s, _ := rawjson.String(v)
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() < 1678 || t.Year() >= 2262 {
		o.Fail(key, "want "+wantTime)
		return time.Time{}
	}
	return t.UTC()
}

// Object returns a member that is an object; nil when it is absent. Its problems are problems of this line.
func (o *Object) Object(key string) *Object { return o.Inner(key, o.of(key, "{", "an object")) }

// Inner returns raw, valid JSON that a member holds in another form (a string of JSON), as an Object at the path of
// key. Its problems are problems of this line. It is nil when raw is no object.
func (o *Object) Inner(key string, raw []byte) *Object {
	if o == nil || len(raw) == 0 || raw[0] != '{' {
		return nil
	}
	c := rawjson.NewCursor(raw, MaxDepth)
	return o.inner(key, 0, &c)
}

// inner returns the object at c as an Object at the path of key, or as the element of an array there.
func (o *Object) inner(key string, element int, c *rawjson.Cursor) *Object {
	in := o.line.next()
	in.line, in.around, in.path, in.element = o.line, o, key, element
	in.read(c)
	return in
}

// List returns the elements of an array as they are spelled; nil when it is absent.
func (o *Object) List(key string) (list [][]byte) {
	if o.each(key, func(_ int, c *rawjson.Cursor) { list = append(list, c.Value()) }) && list == nil {
		return [][]byte{}
	}
	return list
}

// each calls read, which has to step over it, for each element of an array, and reports whether the array is there.
func (o *Object) each(key string, read func(i int, c *rawjson.Cursor)) bool {
	v := o.of(key, "[", "an array")
	c := rawjson.NewCursor(v, MaxDepth)
	i := 0
	for c.Open('['); c.More(']'); i++ {
		if i == MaxElements {
			o.Fail(key, "more than "+strconv.Itoa(MaxElements)+" elements")
			break
		}
		read(i, &c)
	}
	return v != nil
}

// Objects returns the elements of an array of objects. An element that is no object is a problem, and nil in the
// result.
func (o *Object) Objects(key string) (objects []*Object) {
	o.each(key, func(i int, c *rawjson.Cursor) {
		var in *Object
		if c.Peek() == '{' {
			in = o.inner(key, i+1, c)
		} else {
			o.Fail(Element(key, i), "want an object, got "+rawjson.KindOf(c.Value()))
		}
		objects = append(objects, in)
	})
	return objects
}

// Unread returns the keys of the members that were not read and are not null.
func (o *Object) Unread() (keys []string) {
	if o == nil {
		return nil
	}
	for i := range o.members {
		if m := &o.members[i]; !m.used && m.value[0] != 'n' {
			keys = append(keys, string(m.key))
		}
	}
	return keys
}

// Rest returns the members that were not read, as an object, newly allocated; nil when all were.
func (o *Object) Rest() []byte {
	if o == nil {
		return nil
	}
	var b []byte
	for i := range o.members {
		if m := &o.members[i]; !m.used {
			b = append(append(rawjson.Quote(append(b, ','), string(m.key)), ':'), m.value...)
		}
	}
	if b == nil {
		return nil
	}
	return rawjson.Enclose(b, 0, "{}")
}

// at returns the path of a member.
func (o *Object) at(key string) string {
	for ; o != nil; o = o.around {
		path := o.path
		if o.element > 0 {
			path = Element(path, o.element-1)
		}
		key = Join(path, key)
	}
	return key
}

// Join returns the path of a member of the object at a path; either may be empty.
func Join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// Element returns the path of an element of the array at a path.
func Element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// Fail notes a problem with a member; with the object itself when key is empty. The first eight of a line are kept.
func (o *Object) Fail(key, reason string) {
	if o == nil {
		return
	}
	if o.line.count++; o.line.count <= maxProblems {
		o.line.problems = append(o.line.problems, Problem{Path: o.at(key), Reason: reason})
	}
}

// Problems returns the problems of the whole line so far, the first eight, in the order in which they were found.
func (o *Object) Problems() []Problem {
	if o == nil {
		return nil
	}
	return o.line.problems
}

// Failed returns how many problems the whole line has so far, also those that Problems omits.
func (o *Object) Failed() int {
	if o == nil {
		return 0
	}
	return o.line.count
}
