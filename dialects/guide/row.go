package guide

import (
	"bytes"
	"cmp"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// This file reads the columns of the three tables, and the documents that hold rows.

// session is what is known of the current session.
type session struct {
	id       string
	agent    string
	model    model
	parent   string // id of its parent session
	parentAt string // of the user message there
	child    bool   // its metadata names it a sub-agent's
	created  time.Time
	updated  time.Time
	rules    [][]byte    // as they came
	added    []time.Time // since when each holds
	digests  []string
	first    time.Time // created_at of its first message
	messages map[string]bool
	kinds    map[string]int64 // lines of each further type
}

// model is {provider_id, model_id, variant}.
type model struct{ provider, id, variant string }

// message is one row of chat_messages, with its parts.
type message struct {
	id, role string
	path     string // of the row in its document or database
	number   int64  // of its line
	seq      int64
	line     []byte // of the row, with its further members, compact
	size     int    // bytes of the message with its parts and lines
	created  time.Time
	updated  time.Time // not before created
	latest   time.Time // the latest time that its row states
	hidden   time.Time // since when it is rewound; zero when it is not
	hiddenAt []byte    // as it came, null included; nil without such a key
	parts    []*part
	partAt   map[string]*part // by id
	lines    []input.Line     // of package ndjson after it, before its parts

	usage      *event.Usage
	model      model
	agent      string
	digest     string // of the system prompt
	trigger    []byte // the object
	source     string // of the trigger
	queuedAt   []byte // as it came; nil or null when it waits for nothing
	canceledAt []byte
	compaction bool
	own        [][]byte // the events that otelagent wrote; nil: another wrote the row
}

// part is one row of chat_parts.
type part struct {
	id      string
	kind    string
	index   int64
	place   int // among the parts
	seq     int64
	line    []byte         // of the row, with its further members, compact
	data    []byte         // the part of the AI SDK; nil when there is none
	ai      *object.Object // data, when it is an object
	callID  string         // columns
	state   string
	created time.Time
	latest  time.Time
	lines   []input.Line // of package ndjson after it
	used    use
}

// row is a row of a table. A column of another type than it should have is a problem, and is not known.
type row struct {
	*object.Object
	typ  string
	text []byte // compact; the members alias it
}

// row reads a row, and rejects anything but an object.
func (d *Decoder) row(typ string, text []byte) (row, bool) {
	text = input.Compact(text)
	o := object.Of(d.path, text)
	if o == nil {
		d.reject(typ, "data", "want an object, got "+rawjson.KindOf(text))
	}
	if o.Twice() != nil {
		o.Fail("", "a column stands there twice")
	}
	return row{o, typ, text}, o != nil
}

// id reads the id of a row, which it needs.
func (r *row) id() string {
	id := r.String("id")
	if id == "" && r.Failed() == 0 {
		r.Fail("id", "want a string that is not empty")
	}
	return id
}

// json returns the value of a column that holds JSON: a string of it, under name_json, or the value itself, under
// either name.
func (r *row) json(name string) []byte {
	column := name + "_json"
	if !r.Has(column) {
		column = name
	}
	v := r.Raw(column)
	switch {
	case v == nil || v[0] == '{' || v[0] == '[':
		return v
	case v[0] != '"':
		r.Fail(column, "want JSON, got "+rawjson.KindOf(v))
		return nil
	}
	inner := bytes.TrimSpace(rawjson.AppendString(nil, v))
	if rawjson.Valid(inner, rawjson.MaxDepth) != nil {
		r.Fail(column, "a string that is no JSON, or nested too deeply")
		return nil
	}
	if inner[0] == 'n' {
		return nil
	}
	return inner
}

// object returns a column that holds a JSON object.
func (r *row) object(name string) *object.Object {
	v := r.json(name)
	if v != nil && v[0] != '{' {
		r.Fail(name, "want an object, got "+rawjson.KindOf(v))
	}
	return r.Inner(name, v)
}

// millis reads epoch milliseconds.
func millis(value []byte) (time.Time, bool) {
	ms, err := strconv.ParseFloat(string(value), 64)
	if err != nil || ms <= 0 || ms >= 9223372036854 {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(ms * 1000)).UTC(), true
}

// millisOf reads a key that holds epoch milliseconds.
func millisOf(o *object.Object, key string) time.Time {
	v := o.Raw(key)
	t, ok := millis(v)
	switch kind := rawjson.KindOf(v); {
	case v == nil || ok:
	case kind == "a number":
		o.Fail(key, "want milliseconds from 1970 to 2262")
	default:
		o.Fail(key, "want milliseconds from 1970 to 2262, got "+kind)
	}
	return t
}

func modelOf(o *object.Object) model {
	return model{provider: o.String("provider_id"), id: o.String("model_id"), variant: o.String("variant")}
}

var usageKeys = event.UsageKeys{Input: "input", Output: "output", Reasoning: "reasoning", CacheRead: "cache_read",
	CacheWrite: "cache_write", Total: "total"}

// newSession returns a session of which the id and the settings are known.
func (d *Decoder) newSession(id string) *session {
	return &session{id: cmp.Or(id, d.Settings.Session), messages: map[string]bool{}, kinds: map[string]int64{}}
}

// waits reports whether the message is not yet, or never was, part of the transcript.
func (m *message) waits() bool {
	set := func(v []byte) bool { return len(v) > 0 && v[0] != 'n' }
	return set(m.queuedAt) || set(m.canceledAt)
}

// The rest reads the canonical JSON: {"session": row, "messages": [{"message": row, "parts": [rows]}]} and the keys
// next to them.

// document reads one document.
func (d *Decoder) document(text []byte) {
	if o := object.Of("", text); o != nil {
		d.whole(o)
	} else {
		d.path = ""
		d.reject("", "", "want an object with session and messages")
	}
	d.endSession()
}

// whole reads an object that holds the row of a session, messages, or one message with its parts. All other keys are
// facts.
func (d *Decoder) whole(o *object.Object) {
	if row := o.Raw("session"); row != nil {
		d.nextRow("session")
		d.sessionRow(row, nil, time.Time{})
	}
	d.path = ""
	if o.Has("message", "parts") {
		d.rowsOf(o)
		return
	}
	for i, value := range o.List("messages") {
		d.path = object.Element("messages", i)
		if element := object.Of(d.path, value); element != nil {
			d.rowsOf(element)
		} else {
			d.reject("", "", "want an object, got "+rawjson.KindOf(value))
		}
	}
	d.RejectProblems("", o)
	for key, value := range o.All() {
		if key != "session" && key != "messages" {
			d.furtherKey(key, input.Compact(value))
		}
	}
}

// rowsOf reads the row of a message and those of its parts.
func (d *Decoder) rowsOf(o *object.Object) {
	path := d.path
	before := d.message
	d.nextRow(object.Join(path, "message"))
	d.messageRow(o.Spelled("message"), restOf(o, "session", "message", "parts"), time.Time{})
	read := d.message != nil && d.message != before
	for i, value := range o.List("parts") {
		d.nextRow(object.Join(path, object.Element("parts", i)))
		if !read {
			d.reject("part", "", "of a message that is not read")
			continue
		}
		d.partRow(value, nil, time.Time{})
	}
	d.RejectProblems("", o)
}
