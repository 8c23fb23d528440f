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
	"github.com/otelagent/otelagent/spans"
)

// This file reads the columns of the three tables.

// session is what is known of the session at hand.
type session struct {
	id       string
	agent    string
	model    model
	parent   string // id of its parent session
	parentAt string // of the user message there
	child    bool   // its metadata names it a sub-agent's
	created  time.Time
	updated  time.Time
	archived []byte // archived_at as it came, null included
	title    []byte // as it came
	rules    []byte // as they came
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
	partAt   map[string]int // where in parts, by id
	lines    []ownLine      // of package ndjson behind it, before its parts

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
	seq     int64
	line    []byte         // of the row, with its further members, compact
	data    []byte         // the part of the AI SDK; nil when there is none
	ai      *object.Object // data, when it is an object
	callID  string         // columns
	state   string
	created time.Time
	latest  time.Time
	lines   []ownLine // of package ndjson behind it
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
	text = compact(text)
	o := object.Of(d.path, text)
	if o == nil {
		d.reject(typ, "data", "want an object, got "+rawjson.KindOf(text))
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

var usageKeys = input.UsageKeys{Input: "input", Output: "output", Reasoning: "reasoning", CacheRead: "cache_read",
	CacheWrite: "cache_write", Total: "total"}

// sessionOf reads a row of chat_sessions.
func (d *Decoder) sessionOf(r *row) *session {
	s := d.newSession(r.String("id"))
	if agent := r.String("agent"); agent != "" {
		s.agent = agent
	}
	if m := modelOf(r.object("model")); m.provider != "" {
		s.model = m
	} else {
		s.model.id, s.model.variant = m.id, m.variant
	}
	s.parent, s.parentAt = r.String("parent_id"), r.String("parent_message_id")
	if s.parent != "" && s.parent == s.id {
		r.Fail("parent_id", "names the session itself")
		s.parent, s.parentAt = "", ""
	}
	meta := r.object("metadata")
	s.child = meta.Text("mode") == "subagent" || meta.Text("agent_mode") == "subagent"
	s.created = millisOf(r.Object, "created_at")
	s.updated = later(later(s.created, millisOf(r.Object, "updated_at")), millisOf(r.Object, "archived_at"))
	s.archived = r.Spelled("archived_at")
	if _, isText := rawjson.String(r.Raw("title")); isText {
		s.title = r.Raw("title")
	}
	if s.rules = r.json("permissions"); s.rules != nil && s.rules[0] != '[' {
		r.Fail("permissions", "want an array, got "+rawjson.KindOf(s.rules))
	}
	for _, rule := range elements(s.rules) {
		millisOf(r.Inner("permissions[]", rule), "added_at")
	}
	return s
}

// newSession returns a session of which the id and the settings are known.
func (d *Decoder) newSession(id string) *session {
	if id == "" {
		id = d.Settings.Session
	}
	return &session{id: id, agent: d.Settings.Agent, model: model{provider: d.Settings.Provider},
		messages: map[string]bool{}, kinds: map[string]int64{}}
}

// messageOf reads a row of chat_messages, but for its session.
func (d *Decoder) messageOf(r *row, id string) *message {
	m := &message{id: id, path: d.path, number: d.Number, seq: d.Seq, role: r.String("role"),
		created: millisOf(r.Object, "created_at"),
		partAt:  map[string]int{}}
	m.updated = later(m.created, millisOf(r.Object, "updated_at"))
	m.hiddenAt, m.hidden = r.Spelled("hidden_at"), millisOf(r.Object, "hidden_at")
	meta := r.object("metadata")
	m.usage = usageKeys.Read(meta.Object("usage"), cmp.Or(d.Settings.Rule, spans.UsageRuleExcludesCache))
	m.model, m.agent, m.digest = modelOf(meta.Object("model")), meta.String("agent"), meta.String("system_prompt_digest")
	if trigger := meta.Object("trigger"); trigger != nil {
		m.trigger, m.source = meta.Raw("trigger"), trigger.String("source")
	}
	m.queuedAt, m.canceledAt = meta.Spelled("queued_at"), meta.Spelled("queue_canceled_at")
	m.compaction = string(meta.Raw("compaction")) == "true"
	if at := meta.Spelled("hidden_at"); at != nil && m.hidden.IsZero() {
		m.hiddenAt, m.hidden = at, millisOf(meta, "hidden_at")
	}
	if own := meta.Object("otelagent"); own.Has("events") {
		if m.own = own.List("events"); m.own == nil {
			m.own = [][]byte{}
		}
	}
	m.latest = later(m.updated, m.hidden)
	for _, at := range [][]byte{m.queuedAt, m.canceledAt} {
		t, _ := millis(at)
		m.latest = later(m.latest, t)
	}
	return m
}

// waits reports whether the message is not yet, or never was, part of the transcript.
func (m *message) waits() bool {
	set := func(v []byte) bool { return len(v) > 0 && v[0] != 'n' }
	return set(m.queuedAt) || set(m.canceledAt)
}

// partOf reads a row of chat_parts; position is its place among those of its message.
func (d *Decoder) partOf(r *row, id string, position int) *part {
	p := &part{id: id, seq: d.Seq, kind: r.String("type"), callID: r.String("tool_call_id"),
		state:   r.String("tool_state"),
		created: millisOf(r.Object, "created_at"), index: int64(position)}
	p.latest = later(p.created, millisOf(r.Object, "updated_at"))
	if n := r.Count("index"); n != nil {
		p.index = *n
	}
	p.data = r.json("data")
	p.ai = object.Of("", p.data)
	if p.kind == "" {
		p.kind = p.ai.String("type")
	}
	return p
}
