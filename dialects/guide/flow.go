package guide

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// This file follows the rows: which message a part belongs to, which messages make a run, which session is current.

// sessionRow reads a row of chat_sessions. Further are the other members of its line, stated the time that the line
// states.
func (d *Decoder) sessionRow(text, further []byte, stated time.Time) {
	d.endSession()
	r, ok := d.row("session", text)
	if !ok {
		return
	}
	s := d.newSession(r.String("id"))
	s.agent, s.model = r.String("agent"), modelOf(r.object("model"))
	s.parent, s.parentAt = r.String("parent_id"), r.String("parent_message_id")
	if s.parent != "" && s.parent == s.id {
		r.Fail("parent_id", "names the session itself")
		s.parent, s.parentAt = "", ""
	}
	meta := r.object("metadata")
	s.child = meta.Text("mode") == "subagent" || meta.Text("agent_mode") == "subagent"
	s.created = millisOf(r.Object, "created_at")
	s.updated = input.Later(input.Later(s.created, millisOf(r.Object, "updated_at")), millisOf(r.Object, "archived_at"))
	rules := r.json("permissions")
	if rules != nil && rules[0] != '[' {
		r.Fail("permissions", "want an array, got "+rawjson.KindOf(rules))
		rules = nil
	}
	for _, text := range rawjson.Elements(rules) {
		s.rules, s.added = append(s.rules, text), append(s.added, millisOf(r.Inner("permissions[]", text), "added_at"))
	}
	if s.id == "" {
		r.Fail("id", "want a string that is not empty")
	} else {
		d.Shell.Counts.Events++
		s.updated = input.Later(s.updated, stated)
		d.session = s
	}
	d.RejectProblems(r.typ, r.Object)
	if d.session == nil {
		return
	}
	f := &facts{subject: "session", at: s.updated, seq: d.Seq}
	f.add(factRow, r.text, f.at)
	for key, value := range object.Of("", further).All() {
		f.add(factFurther+key, value, f.at)
	}
	f.add("title", r.Literal("title"), f.at)
	f.since("archived_at", r.Spelled("archived_at"))
	f.add("rules", rules, f.at)
	d.state(f)
}

// of reports whether a row that names a session belongs to the current session, which begins with it when there is
// none.
func (d *Decoder) of(typ, id string) bool {
	if d.session == nil {
		s := d.newSession(id)
		if s.id == "" {
			d.reject(typ, "session_id", "missing, want a string")
			return false
		}
		d.session = s
	}
	if id != "" && id != d.session.id {
		d.reject(typ, "session_id", "of another session than the rows before")
		return false
	}
	return true
}

// messageRow reads a row of chat_messages.
func (d *Decoder) messageRow(text, further []byte, stated time.Time) {
	r, ok := d.row("message", text)
	id := ""
	if ok {
		id = r.id()
	}
	before := d.message
	if before != nil && before.id != id {
		d.endMessage()
		before = nil
	}
	if id == "" || !d.of(r.typ, r.String("session_id")) {
		d.RejectProblems(r.typ, r.Object)
		return
	}
	if before == nil && d.session.messages[id] {
		d.reject(r.typ, "id", "of a message that was there before")
		return
	}
	d.Shell.Counts.Events++
	m := &message{id: id, path: d.path, number: d.Number, seq: d.Seq, role: r.String("role"),
		created: millisOf(r.Object, "created_at"),
		partAt:  map[string]*part{}}
	m.updated = input.Later(m.created, millisOf(r.Object, "updated_at"))
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
	m.latest = input.Later(m.updated, m.hidden)
	for _, at := range [][]byte{m.queuedAt, m.canceledAt} {
		t, _ := millis(at)
		m.latest = input.Later(m.latest, t)
	}
	if m.updated.IsZero() {
		m.updated, m.latest = stated, input.Later(m.latest, stated)
	}
	m.line = lineOf(r.typ, r.text, further)
	m.size = len(m.line)
	if before != nil { // its row was written again: the last one counts
		m.parts, m.partAt, m.lines, m.size = before.parts, before.partAt, before.lines, m.size+before.size-len(before.line)
	}
	d.message = m
	d.RejectProblems(r.typ, r.Object)
}

// partRow reads a row of chat_parts.
func (d *Decoder) partRow(text, further []byte, stated time.Time) {
	r, ok := d.row("part", text)
	if !ok {
		return
	}
	defer func() { d.RejectProblems(r.typ, r.Object) }()
	id := r.id()
	if id == "" {
		return
	}
	m := d.message
	if m == nil {
		d.reject(r.typ, "message_id", "of no message: its row has to stand before those of its parts")
		return
	}
	was := cmp.Or(m.partAt[id], &part{place: len(m.parts)}) // written again: the last one counts
	line := lineOf(r.typ, r.text, further)
	size := m.size + len(line) - len(was.line)
	switch of := r.String("message_id"); {
	case of != "" && of != m.id:
		d.reject(r.typ, "message_id", "of another message than the one before it")
		return
	case was.place == maxParts:
		d.reject(r.typ, "", "a message of more than "+strconv.Itoa(maxParts)+" parts")
		return
	case size > d.Settings.MaxLine:
		d.reject(r.typ, "", "a message with its parts longer than "+strconv.Itoa(d.Settings.MaxLine)+" bytes")
		return
	}
	d.Shell.Counts.Events++
	if m.partAt[id] = was; was.place == len(m.parts) {
		m.parts = append(m.parts, was)
	}
	p := part{id: id, seq: d.Seq, kind: r.String("type"), callID: r.String("tool_call_id"),
		state:   r.String("tool_state"),
		created: millisOf(r.Object, "created_at"), place: was.place, index: int64(was.place)}
	p.latest = input.Later(p.created, millisOf(r.Object, "updated_at"))
	if n := r.Count("index"); n != nil {
		p.index = *n
	}
	p.data = r.json("data")
	p.ai = object.Of("", p.data)
	if p.kind == "" {
		p.kind = p.ai.String("type")
	}
	p.latest, p.line, p.lines = input.Later(p.latest, stated), line, was.lines
	m.size, *was = size, p
}

// holds keeps a line of package ndjson for the message before it, to which it belongs. It reports false without one.
func (d *Decoder) holds(line input.Line) bool {
	m := d.message
	switch {
	case m == nil:
		return false
	case m.size+len(line.Text) > d.Settings.MaxLine:
		d.reject("", "", "a message with its parts longer than "+strconv.Itoa(d.Settings.MaxLine)+" bytes")
	default:
		line.Text = bytes.Clone(line.Text)
		m.size += len(line.Text) + 64 // what holds it
		lines := &m.lines
		if n := len(m.parts); n > 0 {
			lines = &m.parts[n-1].lines
		}
		*lines = append(*lines, line)
	}
	return true
}

// endMessage emits the events of the current message, which has all its parts now: its rows as facts, and, with an
// assistant's, the run that it ends.
func (d *Decoder) endMessage() {
	m := d.message
	if m == nil {
		return
	}
	d.message, m.partAt = nil, nil
	s := d.session
	input.Put(s.messages, maxMessages, m.id, true)
	slices.SortStableFunc(m.parts, func(a, b *part) int { return cmp.Compare(a.index, b.index) })
	lines, changed := [][]byte{m.line}, m.latest
	for _, p := range m.parts {
		lines, changed = append(lines, p.line), input.Later(changed, p.latest)
	}
	f := &facts{subject: "message/" + m.id, at: m.latest, seq: m.seq}
	f.add(factRow, input.Array(lines), changed)
	f.since("hidden_at", m.hiddenAt)
	f.since("queued_at", m.queuedAt)
	f.since("queue_canceled_at", m.canceledAt)
	if m.digest != "" {
		f.add("system_prompt_digest", rawjson.Quote(nil, m.digest), f.at)
	}
	d.state(f)
	if m.digest != "" && len(s.digests) < maxDigests && !slices.Contains(s.digests, m.digest) {
		s.digests = append(s.digests, m.digest)
	}
	if !m.waits() && s.first.IsZero() {
		s.first = m.created
	}
	switch {
	case m.own != nil:
		d.play(m)
	case m.waits():
		d.emitLines(m)
	case m.marker() && len(d.stretch) == 0:
		d.stretch = append(d.stretch, m)
		d.emitRun(nil, true)
	case m.role == "assistant" && !m.marker():
		d.emitRun(m, true)
	default: // a message of user or system, or a compaction between them
		if n := len(d.stretch); n > 0 {
			last := d.stretch[n-1]
			gone := !last.hidden.IsZero() && !last.hidden.After(m.created) // it was rewound before this one came
			if gone || n == maxStretch || d.joined+m.size > d.Settings.MaxLine {
				d.emitRun(nil, true)
			}
		}
		d.stretch, d.joined = append(d.stretch, m), d.joined+m.size
	}
}

// endSession emits the events of the current rows and forgets the session.
func (d *Decoder) endSession() {
	d.endMessage()
	if len(d.stretch) > 0 {
		d.emitRun(nil, false)
	}
	d.session, d.recent, d.joined = nil, nil, 0
}

// copied reports whether a message of that time was taken over from the session that this one was forked from.
func (s *session) copied(created time.Time) bool {
	return s.parent != "" && !created.IsZero() && created.Before(s.created)
}

// link is the tool call that named a child session.
type link struct{ session, run, call string }

// before returns the last run that was not rewound at t.
func (d *Decoder) before(t time.Time) string {
	for _, r := range slices.Backward(d.recent) {
		if r.hidden.IsZero() || r.hidden.After(t) {
			return r.id
		}
	}
	return ""
}

// emitLines emits the lines of package ndjson that came with a message and its parts.
func (d *Decoder) emitLines(m *message) {
	d.emitHeld(m.lines)
	for _, p := range m.parts {
		d.emitHeld(p.lines)
	}
}

func (d *Decoder) emitHeld(lines []input.Line) {
	for _, l := range lines {
		d.Own(l)
	}
}
