package guide

import (
	"strconv"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// session is what is known of the session at hand.
type session struct {
	id       string
	agent    string
	model    model
	parent   string // id of its parent session
	parentAt string // of the user message there
	child    bool   // its metadata says that it is a sub-agent's
	created  time.Time
	updated  time.Time
	archived []byte // archived_at as it came, null included
	title    []byte // as it came
	rules    []rule
	rulesRaw []byte
	digests  []string        // of system prompts, as messages name them; at most maxDigests
	first    time.Time       // created_at of its first message
	ids      map[string]bool // of messages that were told, at most maxMessages
	order    []string
}

// model is {provider_id, model_id, variant}.
type model struct{ provider, id, variant string }

// rule is one permission rule and since when it holds; zero when that is not told.
type rule struct {
	raw   []byte
	added time.Time
}

// message is one row of chat_messages, with its parts.
type message struct {
	id, role string
	seq      int64
	row      []byte // compact
	further  []member
	meta     metadata
	created  time.Time
	updated  time.Time // not before created
	latest   time.Time // the latest time that its row states
	hidden   time.Time // since when it is rewound; zero when it is not
	hiddenAt []byte    // as it came, null included; nil without such a key
	parts    []*part
	partAt   map[string]int // where in parts, by id, until the message is whole
	lines    []ownLine      // of package ndjson that came with it
}

// metadata is what is read of metadata_json.
type metadata struct {
	usage      *otelagent.Usage
	model      model
	agent      string
	digest     string // of the system prompt
	trigger    []byte // the object
	source     string // of the trigger
	queuedAt   []byte // as it came; nil or null when it waits for nothing
	canceledAt []byte
	compaction bool
	own        *extension
}

// part is one row of chat_parts.
type part struct {
	id       string
	kind     string
	index    int64
	seq      int64
	row      []byte // compact
	further  []member
	data     []byte // the part of the AI SDK, as it was spelled; nil when there is none
	callID   string // columns
	state    string
	created  time.Time
	latest   time.Time
	position int // of the row among those of its message
}

// columns reads the columns of a row, by name. A column of another type than it should have is reported and not known.
type columns struct {
	d   *Decoder
	typ string
	all map[string][]byte
}

// columnsOf reads a row, and rejects what is no object.
func (d *Decoder) columnsOf(typ string, row []byte) (columns, bool) {
	c := rawjson.NewCursor(row, maxDepth)
	if len(row) == 0 || !c.Open('{') {
		reason := "missing, want an object"
		if len(row) > 0 {
			reason = "want an object, got " + rawjson.KindOf(row)
		}
		d.reject(typ, "data", reason)
		return columns{}, false
	}
	all := make(map[string][]byte, 16)
	for c.More('}') {
		key := string(c.Key())
		all[key] = c.Value()
	}
	return columns{d: d, typ: typ, all: all}, true
}

func (c *columns) bad(name, want string) {
	c.d.reject(c.typ, name, "want "+want+", got "+describe(c.all[name]))
}

// describe says what a value is that is not what it should be.
func describe(value []byte) string {
	switch kind := rawjson.KindOf(value); kind {
	case "a string":
		return "another string"
	case "a number":
		return "another number"
	default:
		return kind
	}
}

// get returns a column that is there and not null.
func (c *columns) get(name string) []byte {
	if v := c.all[name]; len(v) > 0 && v[0] != 'n' {
		return v
	}
	return nil
}

func (c *columns) text(name string) string {
	v := c.get(name)
	if v == nil {
		return ""
	}
	s, ok := rawjson.String(v)
	if !ok {
		c.d.reject(c.typ, name, "want a string, got "+rawjson.KindOf(v))
	}
	return s
}

// id is text for what a row means nothing without.
func (c *columns) id(name string) (string, bool) {
	v := c.get(name)
	s, ok := rawjson.String(v)
	switch {
	case v == nil:
		c.d.reject(c.typ, name, "missing, want a string")
	case !ok:
		c.d.reject(c.typ, name, "want a string, got "+rawjson.KindOf(v))
	case s == "":
		c.d.reject(c.typ, name, "want a string that is not empty")
	}
	return s, ok && s != ""
}

// millis is a column of epoch milliseconds.
func (c *columns) millis(name string) time.Time {
	v := c.get(name)
	if v == nil {
		return time.Time{}
	}
	t, ok := millis(v)
	if !ok {
		c.bad(name, "milliseconds from 1970 to 2262")
	}
	return t
}

// millis reads epoch milliseconds.
func millis(value []byte) (time.Time, bool) {
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f <= 0 || f >= 9223372036854 {
		return time.Time{}, false
	}
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		return time.UnixMilli(n).UTC(), true
	}
	return time.UnixMicro(int64(f * 1000)).UTC(), true
}

// json returns the value of a column that holds JSON: a string of it, under name + "_json", or the value itself, under either name. Nil is
// none.
func (c *columns) json(name string) []byte {
	column := name + "_json"
	v := c.get(column)
	if v == nil {
		column = name
		v = c.get(column)
	}
	if v == nil {
		return nil
	}
	if v[0] != '"' {
		if v[0] != '{' && v[0] != '[' {
			c.bad(column, "JSON")
			return nil
		}
		return v
	}
	inner := rawjson.AppendString(nil, v)
	if rawjson.Valid(inner, maxDepth) != nil {
		c.d.reject(c.typ, column, "a string that is no JSON, or nested too deeply")
		return nil
	}
	if inner = trimmed(inner); inner[0] == 'n' {
		return nil
	}
	return inner
}

// trimmed returns JSON without blanks around it.
func trimmed(value []byte) []byte {
	c := rawjson.NewCursor(value, maxDepth)
	return c.Value()
}

// object is json for what must be an object.
func (c *columns) object(name string) []byte {
	v := c.json(name)
	if v != nil && v[0] != '{' {
		c.d.reject(c.typ, name, "want an object, got "+rawjson.KindOf(v))
		return nil
	}
	return v
}

// fields are the members of a JSON object.
type fields struct {
	c    *columns
	path string
	all  map[string][]byte
}

func (c *columns) fieldsOf(path string, object []byte) fields {
	f := fields{c: c, path: path, all: map[string][]byte{}}
	cur := rawjson.NewCursor(object, maxDepth)
	if cur.Open('{') {
		for cur.More('}') {
			key := string(cur.Key())
			f.all[key] = cur.Value()
		}
	}
	return f
}

func (f *fields) get(name string) []byte {
	if v := f.all[name]; len(v) > 0 && v[0] != 'n' {
		return v
	}
	return nil
}

func (f *fields) bad(name, want string) {
	f.c.d.reject(f.c.typ, f.path+"."+name, "want "+want+", got "+describe(f.all[name]))
}

func (f *fields) text(name string) string {
	v := f.get(name)
	s, ok := rawjson.String(v)
	if v != nil && !ok {
		f.c.d.reject(f.c.typ, f.path+"."+name, "want a string, got "+rawjson.KindOf(v))
	}
	return s
}

func (f *fields) millis(name string) time.Time {
	v := f.get(name)
	if v == nil {
		return time.Time{}
	}
	t, ok := millis(v)
	if !ok {
		f.bad(name, "milliseconds from 1970 to 2262")
	}
	return t
}

func (f *fields) object(name string) []byte {
	v := f.get(name)
	if v != nil && v[0] != '{' {
		f.c.d.reject(f.c.typ, f.path+"."+name, "want an object, got "+rawjson.KindOf(v))
		return nil
	}
	return v
}

func (f *fields) model(name string) (m model) {
	if v := f.object(name); v != nil {
		m = f.c.modelOf(f.path+"."+name, v)
	}
	return m
}

func (c *columns) modelOf(path string, object []byte) model {
	f := c.fieldsOf(path, object)
	return model{provider: f.text("provider_id"), id: f.text("model_id"), variant: f.text("variant")}
}

// count reads a number of tokens.
func count(value []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(string(value), 64)
		if ferr != nil || f != float64(int64(f)) || f > 1<<53 {
			return 0, false
		}
		n = int64(f)
	}
	return n, n >= 0
}

// usageOf reads {input, output, reasoning, cache_read, cache_write, total}; nil when none of them is there, or one is no count.
func (c *columns) usageOf(path string, object []byte, rule spans.UsageRule) *otelagent.Usage {
	f := c.fieldsOf(path, object)
	u := &otelagent.Usage{Rule: rule}
	any, good := false, true
	for _, field := range []struct {
		name string
		to   *int64
	}{{"input", &u.Input}, {"output", &u.Output}, {"reasoning", &u.Reasoning}, {"cache_read", &u.CacheRead},
		{"cache_write", &u.CacheWrite}, {"total", &u.Total}} {
		v := f.get(field.name)
		if v == nil {
			continue
		}
		n, ok := count(v)
		if !ok {
			f.bad(field.name, "a whole number that is not negative")
			good = false
			continue
		}
		*field.to, any = n, true
	}
	if !any || !good {
		return nil
	}
	return u
}

// sessionOf reads a row of chat_sessions.
func (c *columns) sessionOf() *session {
	s := &session{}
	s.id = c.text("id")
	if s.id == "" {
		s.id = c.d.settings.Session
	}
	if s.agent = c.text("agent"); s.agent == "" {
		s.agent = c.d.settings.Agent
	}
	if v := c.object("model"); v != nil {
		s.model = c.modelOf("model", v)
	}
	if s.model.provider == "" {
		s.model.provider = c.d.settings.Provider
	}
	s.parent, s.parentAt = c.text("parent_id"), c.text("parent_message_id")
	if s.parent != "" && s.parent == s.id {
		c.d.reject(c.typ, "parent_id", "names the session itself")
		s.parent, s.parentAt = "", ""
	}
	s.created = c.millis("created_at")
	s.updated = later(s.created, c.millis("updated_at"))
	if v := c.object("metadata"); v != nil {
		f := c.fieldsOf("metadata", v)
		for _, key := range []string{"mode", "agent_mode"} {
			if word, _ := rawjson.String(f.get(key)); word == "subagent" {
				s.child = true
			}
		}
	}
	s.archived, s.title = c.all["archived_at"], c.get("title")
	s.updated = later(s.updated, c.millis("archived_at"))
	if _, isText := rawjson.String(s.title); !isText {
		s.title = nil
	}
	s.rulesRaw = c.json("permissions")
	s.rules = c.rulesOf(s.rulesRaw)
	return s
}

// rulesOf reads permission rules.
func (c *columns) rulesOf(list []byte) (rules []rule) {
	cur := rawjson.NewCursor(list, maxDepth)
	if list == nil {
		return nil
	}
	if !cur.Open('[') {
		c.d.reject(c.typ, "permissions", "want an array, got "+rawjson.KindOf(list))
		return nil
	}
	for cur.More(']') {
		v := cur.Value()
		r := rule{raw: v}
		if v[0] == '{' {
			f := c.fieldsOf("permissions[]", v)
			r.added = f.millis("added_at")
		}
		rules = append(rules, r)
	}
	return rules
}

// rulesAt returns the rules of the session that held at t, as a JSON array; nil when the session has none.
func (s *session) rulesAt(t time.Time) []byte {
	var b []byte
	for _, r := range s.rules {
		if r.added.After(t) {
			continue
		}
		if b == nil {
			b = append(b, '[')
		} else {
			b = append(b, ',')
		}
		b = append(b, r.raw...)
	}
	if b == nil {
		return nil
	}
	return append(b, ']')
}

// messageOf reads a row of chat_messages, but for its id and session.
func (c *columns) messageOf() *message {
	m := &message{role: c.text("role"), created: c.millis("created_at")}
	m.updated = later(m.created, c.millis("updated_at"))
	m.latest = m.updated
	m.hiddenAt = c.all["hidden_at"]
	m.hidden = c.millis("hidden_at")
	if v := c.object("metadata"); v != nil {
		c.metadataOf(v, m)
	}
	m.latest = later(m.latest, m.hidden)
	for _, at := range [][]byte{m.meta.queuedAt, m.meta.canceledAt} {
		if t, ok := millis(at); ok {
			m.latest = later(m.latest, t)
		}
	}
	return m
}

// metadataOf reads metadata_json of a message.
func (c *columns) metadataOf(object []byte, m *message) {
	f := c.fieldsOf("metadata", object)
	meta := &m.meta
	if v := f.object("usage"); v != nil {
		meta.usage = c.usageOf("metadata.usage", v, c.d.rule())
	}
	meta.model, meta.agent = f.model("model"), f.text("agent")
	meta.digest = f.text("system_prompt_digest")
	if meta.trigger = f.object("trigger"); meta.trigger != nil {
		t := c.fieldsOf("metadata.trigger", meta.trigger)
		meta.source = t.text("source")
	}
	meta.queuedAt, meta.canceledAt = f.all["queued_at"], f.all["queue_canceled_at"]
	meta.compaction = string(f.all["compaction"]) == "true"
	if at := f.all["hidden_at"]; at != nil && (m.hiddenAt == nil || m.hidden.IsZero()) {
		m.hiddenAt, m.hidden = at, f.millis("hidden_at")
	}
	if v := f.object("otelagent"); v != nil {
		meta.own = c.extensionOf(v)
	}
}

// waits reports whether the message is not yet, or never was, part of the transcript.
func (m *message) waits() bool {
	set := func(v []byte) bool { return len(v) > 0 && v[0] != 'n' }
	return set(m.meta.queuedAt) || set(m.meta.canceledAt)
}

// partOf reads a row of chat_parts, but for its ids.
func (c *columns) partOf() *part {
	p := &part{kind: c.text("type"), callID: c.text("tool_call_id"), state: c.text("tool_state"), created: c.millis("created_at")}
	p.latest = later(p.created, c.millis("updated_at"))
	p.index = -1
	if v := c.get("index"); v != nil {
		n, ok := count(v)
		if ok {
			p.index = n
		} else {
			c.bad("index", "a whole number that is not negative")
		}
	}
	p.data = c.json("data")
	if p.kind == "" && p.data != nil {
		f := c.fieldsOf("data", p.data)
		p.kind = f.text("type")
	}
	return p
}

// rule is how usage of the guide is to be read: see docs/dialects.md.
func (d *Decoder) rule() spans.UsageRule {
	if d.settings.Rule != "" {
		return d.settings.Rule
	}
	return spans.UsageRuleExcludesCache
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
