package ndjson

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// asText follows the key of content where that stands as a string because it is no JSON in one line.
const asText = "_text"

// Bounds of a line.
const (
	maxProblems = 8       // that are told
	maxKeys     = 1 << 10 // of the line, and of an object that is not content
	maxElements = 1 << 16 // of an array that is not content
)

// member is one member of an object, its key unescaped, its value as it is spelled.
type member struct {
	key, value []byte
	used       bool
}

// reader sets what a shape visits from the members of an object.
type reader struct {
	arrived time.Time
	seq     int64
	session string          // that of a line which names none
	rule    spans.UsageRule // that of usage which names none

	cursor  rawjson.Cursor
	members []member // of the line, and behind them of the objects that are being read, innermost last
	base    int      // where those of the innermost begin
	path    []step   // to that object

	wrong    *input.LineError
	problems int

	last    otelagent.Meta
	origin  []byte // the value of provenance of a request
	scratch []byte
}

// step is one step to an object inside of a line.
type step struct {
	key   string
	index int // in an array; -1 where the object is the value of key
	base  int // of the object around it
	top   int // the member of the line that it is in
}

// begin takes a line apart and validates it.
func (r *reader) begin(line []byte) error {
	clear(r.members)
	r.members, r.base, r.path = r.members[:0], 0, r.path[:0]
	r.wrong, r.problems, r.origin = nil, 0, nil
	if err := rawjson.ValidUTF8(line); err != nil {
		return err
	}
	c := &r.cursor
	c.Reset(line, maxDepth)
	if c.Peek() != '{' {
		if c.Value(); c.End() == nil {
			r.mismatch("", line, "an object")
		}
		return c.End()
	}
	if !r.take() {
		r.problem("", tooManyKeys)
	}
	return c.End()
}

var (
	tooManyKeys     = "more than " + strconv.Itoa(maxKeys) + " keys"
	tooManyElements = "more than " + strconv.Itoa(maxElements) + " elements"
)

// take appends the members of the object at the cursor, and reports whether there are not too many.
func (r *reader) take() bool {
	c, n := &r.cursor, 0
	for c.Open('{'); c.More('}'); n++ {
		key := c.Key()
		if n >= maxKeys {
			c.Value()
			continue
		}
		if !c.Plain() {
			key = append([]byte(nil), key...)
		}
		r.members = append(r.members, member{key: key, value: c.Value()})
	}
	return n <= maxKeys
}

// typ returns the type of the line.
func (r *reader) typ() string {
	if r.wrong != nil {
		return ""
	}
	const want = "a string that begins with " + prefix
	value := r.find("type")
	if value == nil {
		r.problem("type", "missing, want "+want)
		return ""
	}
	if value[0] != '"' {
		r.mismatch("type", value, want)
		return ""
	}
	if inner := value[1 : len(value)-1]; len(inner) > len(prefix) && string(inner[:len(prefix)]) == prefix {
		if i, known := kindOf[string(inner[len(prefix):])]; known {
			return types[i]
		}
	}
	name, _ := rawjson.String(value)
	if !strings.HasPrefix(name, prefix) {
		r.problem("type", "want "+want+", got another string")
	}
	return name
}

// types are the types of kinds.
var types = func() (t [len(kinds)]string) {
	for i := range kinds {
		t[i] = prefix + kinds[i].name
	}
	return t
}()

// find returns the value of a key of the object at hand, or nil.
func (r *reader) find(key string) (value []byte) {
	for i := r.base; i < len(r.members); i++ {
		m := &r.members[i]
		if string(m.key) != key {
			continue
		}
		if value != nil {
			r.problem(key, "stands there twice")
		}
		value, m.used = m.value, true
	}
	return value
}

// get is find with nil for null.
func (r *reader) get(key string) []byte {
	if value := r.find(key); value != nil && value[0] != 'n' {
		return value
	}
	return nil
}

// of is get of a value that begins with one of first.
func (r *reader) of(key, first, want string) []byte {
	value := r.get(key)
	if value != nil && strings.IndexByte(first, value[0]) < 0 {
		r.mismatch(key, value, want)
		return nil
	}
	return value
}

// enter goes on to the members of the object value, which is that of key or an element of it. It reports whether there is one.
func (r *reader) enter(key string, index int, value []byte) bool {
	if value[0] != '{' {
		r.mismatch(r.element(key, index), value, "an object")
		return false
	}
	inner := len(r.members)
	r.cursor.Reset(value, maxDepth)
	if !r.take() {
		r.problem(r.element(key, index), tooManyKeys)
	}
	r.path = append(r.path, step{key: key, index: index, base: r.base, top: r.top(key)})
	r.base = inner
	return true
}

// leave goes back to the object around. Where a member was not used the line keeps the whole member that it is in.
func (r *reader) leave() {
	s := r.path[len(r.path)-1]
	for _, m := range r.members[r.base:] {
		if !m.used {
			r.members[s.top].used = false
		}
	}
	clear(r.members[r.base:])
	r.members, r.base, r.path = r.members[:r.base], s.base, r.path[:len(r.path)-1]
}

// top returns the member of the line that key, of the object at hand, is in.
func (r *reader) top(key string) int {
	if len(r.path) > 0 {
		return r.path[0].top
	}
	for i := range r.members {
		if string(r.members[i].key) == key {
			return i
		}
	}
	return 0 // not reached: key was found
}

// unused returns an object of the members of the line that no shape used, or nil. It is valid until the next call.
func (r *reader) unused() []byte {
	body := append(r.scratch[:0], '{')
	for _, m := range r.members {
		if m.used {
			continue
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(append(rawjson.Quote(body, string(m.key)), ':'), m.value...)
	}
	r.scratch = body
	if len(body) == 1 {
		return nil
	}
	r.scratch = append(body, '}')
	return r.scratch
}

// element names a key or an element of it.
func (r *reader) element(key string, index int) string {
	if index < 0 {
		return key
	}
	return key + "[" + strconv.Itoa(index) + "]"
}

// problem notes that the value of key, of the object at hand, is wrong.
func (r *reader) problem(key, reason string) {
	var field string
	for _, s := range r.path {
		field += r.element(s.key, s.index) + "."
	}
	field += key
	switch r.problems++; {
	case r.problems == 1:
		r.wrong = &input.LineError{Field: field, Reason: reason}
	case r.problems <= maxProblems:
		r.wrong.Reason += "; " + field + ": " + reason
	case r.problems == maxProblems+1:
		r.wrong.Reason += "; and more"
	}
}

func (r *reader) mismatch(key string, value []byte, want string) {
	got := "a number"
	switch value[0] {
	case '{':
		got = "an object"
	case '[':
		got = "an array"
	case '"':
		got = "a string"
	case 't', 'f':
		got = "a boolean"
	case 'n':
		got = "null"
	}
	r.problem(key, "want "+want+", got "+got)
}

func (r *reader) meta(m *otelagent.Meta) {
	*m = otelagent.Meta{Session: m.Session, Run: m.Run, Arrived: r.arrived}
	r.time("ts", &m.Time, "")
	if r.count("seq", &m.Seq, ""); m.Seq == 0 {
		m.Seq = r.seq
	}
	r.text("session", &m.Session, r.session, "")
	r.text("run", &m.Run, "", "")
	r.last = *m
}

// set sets p to what the string value says. What p says already is not stored again.
func set(p *string, value []byte) {
	if inner := value[1 : len(value)-1]; string(inner) != *p || strings.IndexByte(*p, '\\') >= 0 {
		*p, _ = rawjson.String(value)
	}
}

func (r *reader) text(key string, p *string, absent, _ string) {
	if value := r.of(key, `"`, "a string"); value != nil {
		set(p, value)
		return
	}
	*p = absent
}

const wantCount = "an integer from 0 to 9223372036854775807"

// integer reads a value that is not negative.
func (r *reader) integer(key string, value []byte) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil { // a whole number may be spelled as 1.0 or 1e3
		f, _ := strconv.ParseFloat(string(value), 64)
		if n = int64(f); math.Abs(f) > 1<<53 || float64(n) != f {
			n = -1
		}
	}
	if n < 0 {
		r.problem(key, "want "+wantCount+", got another number")
	}
	return n
}

const digits = "-0123456789"

func (r *reader) known(key string, p *int64, absent int64, _ string) {
	switch value := r.find(key); {
	case value == nil:
		*p = absent
	case value[0] == 'n':
		*p = -1
	case strings.IndexByte(digits, value[0]) < 0:
		r.mismatch(key, value, wantCount)
	default:
		*p = r.integer(key, value)
	}
}

func (r *reader) count(key string, p *int64, _ string) {
	*p = 0
	if value := r.of(key, digits, wantCount); value != nil {
		*p = r.integer(key, value)
	}
}

func (r *reader) small(key string, p *int, _ string) {
	var n int64
	r.count(key, &n, "")
	*p = int(n)
}

func (r *reader) limit(key string, p **int64, _ string) {
	*p = nil
	if value := r.of(key, digits, wantCount); value != nil {
		*p = new(r.integer(key, value))
	}
}

func (r *reader) number(key string, p **float64, _ string) {
	*p = nil
	if value := r.of(key, digits, "a number"); value != nil {
		f, err := strconv.ParseFloat(string(value), 64)
		if err != nil {
			r.problem(key, "want a number of at most 1.8e308, got a larger one")
			return
		}
		*p = &f
	}
}

func (r *reader) flag(key string, p *bool, _ string) {
	value := r.of(key, "tf", "a boolean")
	*p = value != nil && value[0] == 't'
}

func (r *reader) maybe(key string, p **bool, _ string) {
	*p = nil
	if value := r.of(key, "tf", "a boolean"); value != nil {
		*p = new(value[0] == 't')
	}
}

func (r *reader) nanos(key string, p *time.Duration, _ string) { r.count(key, (*int64)(p), "") }

const wantTime = "a time from 1678 to 2261: RFC 3339, or a number of nanoseconds, microseconds, milliseconds or seconds since 1970"

// instant reads a time.
func (r *reader) instant(key string, value []byte, want string) time.Time {
	if value[0] != '"' && strings.IndexByte(digits, value[0]) < 0 {
		r.mismatch(key, value, want)
		return time.Time{}
	}
	t, ok := input.Time(value)
	if !ok && value[0] == '"' { // messages of loops say that it is 1970 where they do not know
		s, _ := rawjson.String(value)
		var err error
		t, err = time.Parse(time.RFC3339Nano, s)
		ok = err == nil && t.Year() >= 1678 && t.Year() < 2262
		t = t.UTC()
	}
	switch {
	case ok:
		return t
	case value[0] == '"':
		r.problem(key, "want "+want+", got another string")
	default:
		r.problem(key, "want "+want+", got another number")
	}
	return time.Time{}
}

func (r *reader) time(key string, p *time.Time, _ string) {
	*p = time.Time{}
	if value := r.get(key); value != nil {
		*p = r.instant(key, value, wantTime)
	}
}

func (r *reader) moment(key string, p *otelagent.Moment, _ string) {
	value := r.get(key)
	switch {
	case value == nil:
		*p = otelagent.Moment{}
	case value[0] == '{':
		if r.enter(key, -1, value) {
			momentShape(r, p)
			r.leave()
		}
	default:
		*p = otelagent.Moment{Time: r.instant(key, value, wantTime+"; or an object")}
	}
}

func (r *reader) json(key string, p *[]byte, null bool, _ string) {
	value := r.find(key)
	*p = value
	if value != nil && value[0] == 'n' && !null {
		*p = nil
	}
	for i := r.base; i < len(r.members); i++ {
		m := &r.members[i]
		if len(m.key) != len(key)+len(asText) || string(m.key[:len(key)]) != key || string(m.key[len(key):]) != asText {
			continue
		}
		switch m.used = true; {
		case value != nil:
			r.problem(key+asText, "stands beside "+key+" or twice, want one of them")
		case m.value[0] == 'n':
		case m.value[0] != '"':
			r.mismatch(key+asText, m.value, "a string")
		default:
			if *p = rawjson.AppendString(nil, m.value); len(*p) == 0 {
				*p = nil
			}
		}
		value = m.value
	}
}

// elements calls fn for each element of an array, and reports whether there is an array.
func (r *reader) elements(key string, fn func(i int, value []byte)) bool {
	value := r.of(key, "[", "an array")
	if value == nil {
		return false
	}
	c := rawjson.NewCursor(value, maxDepth) // another one: what is read of an element may reset ours
	i := 0
	for c.Open('['); c.More(']'); i++ {
		if i == maxElements {
			r.problem(key, tooManyElements)
			break
		}
		fn(i, c.Value())
	}
	return true
}

// room returns list with one more element, in the memory behind it where there is some. It is not cleared.
func room[T any](list []T) ([]T, *T) {
	if len(list) < cap(list) {
		list = list[:len(list)+1]
	} else {
		var zero T
		list = append(list, zero)
	}
	return list, &list[len(list)-1]
}

// emptied is list without elements, and not nil.
func emptied[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list[:0]
}

func (r *reader) words(key string, p *[]string, _ string) {
	list := emptied(*p)
	if !r.elements(key, func(i int, value []byte) {
		if value[0] != '"' {
			r.mismatch(r.element(key, i), value, "a string")
			return
		}
		var s *string
		list, s = room(list)
		set(s, value)
	}) {
		list = nil
	}
	*p = list
}

func (r *reader) usage(key string, p **otelagent.Usage, _ string) {
	*p = nil
	if value := r.of(key, "{", "an object"); value != nil && r.enter(key, -1, value) {
		*p = new(otelagent.Usage)
		if usageShape(r, *p); (*p).Rule == "" {
			(*p).Rule = r.rule
		}
		r.leave()
	}
}

// one reads a message.
func (r *reader) one(key string, index int, value []byte, m *otelagent.Message) {
	var plain bool
	if *m, plain = plainMessage(value); plain {
		return
	}
	if value[0] != '{' { // null in an array
		m.Raw = value
		return
	}
	r.enter(key, index, value)
	messageShape(r, m)
	r.leave()
}

func (r *reader) message(key string, p *otelagent.Message, _ string) {
	if value := r.get(key); value != nil {
		r.one(key, -1, value, p)
		return
	}
	*p = otelagent.Message{}
}

func (r *reader) reply(key string, p **otelagent.Message, _ string) {
	*p = nil
	if value := r.get(key); value != nil {
		*p = new(otelagent.Message)
		r.one(key, -1, value, *p)
	}
}

func (r *reader) messages(key string, p *[]otelagent.Message, _ string) {
	list := emptied(*p)
	if !r.elements(key, func(i int, value []byte) {
		var m *otelagent.Message
		list, m = room(list)
		r.one(key, i, value, m)
	}) {
		list = nil
	}
	*p = list
}

func (r *reader) sections(key string, p *[]otelagent.Section, _ string) {
	list := emptied(*p)
	if !r.elements(key, func(i int, value []byte) {
		var s *otelagent.Section
		if list, s = room(list); r.enter(key, i, value) {
			sectionShape(r, s)
			r.leave()
		}
	}) {
		list = nil
	}
	*p = list
}

func (r *reader) facts(key string, p *[]otelagent.Fact, _ string) {
	list := emptied(*p)
	if !r.elements(key, func(i int, value []byte) {
		var f *otelagent.Fact
		if list, f = room(list); r.enter(key, i, value) {
			factShape(r, f)
			r.leave()
		}
	}) {
		list = nil
	}
	*p = list
}

func (r *reader) frame(key string, p **spans.Frame, _ string) {
	*p = nil
	if value := r.of(key, "{", "an object"); value != nil {
		f, err := spans.ParseFrame(string(value))
		if err != nil {
			r.problem(key, "want a frame")
		}
		*p = f
		c := rawjson.NewCursor(value, maxDepth)
		for c.Open('{'); c.More('}'); c.Value() {
			switch string(c.Key()) {
			case "keys", "system", "messages", "provenance", "tools", "shapes":
			default: // kept whole, as every object that says more
				r.members[r.top(key)].used = false
			}
		}
	}
}

func (r *reader) provenance(key string, p *spans.Provenance, _ string) {
	*p = spans.Provenance{}
	if value := r.get(key); value != nil {
		*p = provenanceOf(value)
	}
}

func (r *reader) origins(key string, _ *otelagent.Request, _ string) bool {
	r.origin = r.of(key, "[", "an array")
	return false
}

// attribute reads the payload of a request whose messages have provenances.
func (r *reader) attribute(req *otelagent.Request) {
	const key = "provenance"
	if r.origin == nil || r.wrong != nil {
		return
	}
	if req.Messages != nil {
		r.problem(key, "stands beside messages, which have their own")
		return
	}
	says, _ := otelagent.ParseRequest(req.Payload) // what cannot be read is kept as it is spelled
	n := 0
	r.elements(key, func(i int, value []byte) {
		if n = i + 1; n <= len(says.Messages) && value[0] != 'n' {
			says.Messages[i].Provenance = provenanceOf(value)
		}
	})
	if n != len(says.Messages) {
		r.problem(key, "want one for each of the "+strconv.Itoa(len(says.Messages))+" messages of payload, got "+strconv.Itoa(n))
		return
	}
	req.Messages = says.Messages
	if req.System == nil {
		req.System = says.System
	}
	if req.Tools == nil {
		req.Tools = says.Tools
	}
	if req.Rest == nil {
		req.Rest = says.Rest
	}
	if req.Frame == nil {
		req.Frame = says.Frame
	}
	if req.Model == "" {
		req.Model = says.Model
	}
	if req.Level == "" {
		req.Level = says.Level
	}
	if req.Format == "" {
		req.Format = says.Format
	}
	if req.MaxTokens == nil {
		req.MaxTokens = says.MaxTokens
	}
	if req.Temperature == nil {
		req.Temperature = says.Temperature
	}
	if req.Bytes == 0 {
		req.Bytes = says.Bytes
	}
}
