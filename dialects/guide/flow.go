package guide

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// This file follows the rows: which message a part belongs to, which messages make a run, what the session is.

// mostLines bounds the lines of package ndjson that come with one message.
const mostLines = 1024

// ownLine is a line of package ndjson that came behind so many part rows of its message.
type ownLine struct {
	line   input.Line
	seq    int64
	behind int
}

// sessionRow takes a row of chat_sessions. Further are members that stand beside the row, stated the time that the line states.
func (d *Decoder) sessionRow(row []byte, further []member, stated time.Time) {
	d.endSession()
	c, ok := d.columnsOf("session", row)
	if !ok {
		return
	}
	s := c.sessionOf()
	if s.id == "" {
		d.reject("session", "id", "missing, want a string")
		return
	}
	d.stats.Events++
	s.updated = later(s.updated, stated)
	row = compact(row)
	s.keep()
	d.session = s
	d.stateSession(row, further)
}

// keep makes what s keeps of its row its own: the row is gone with its line.
func (s *session) keep() {
	s.archived, s.title, s.rulesRaw = bytes.Clone(s.archived), bytes.Clone(s.title), bytes.Clone(s.rulesRaw)
	for i := range s.rules {
		s.rules[i].raw = bytes.Clone(s.rules[i].raw)
	}
}

// of reports whether a row that names a session belongs to the session at hand, which begins with it when there is none.
func (d *Decoder) of(typ, id string) bool {
	if d.session == nil {
		if id == "" {
			id = d.settings.Session
		}
		if id == "" {
			d.reject(typ, "session_id", "missing, want a string")
			return false
		}
		d.session = &session{id: id, agent: d.settings.Agent, model: model{provider: d.settings.Provider}}
		return true
	}
	if id != "" && id != d.session.id {
		d.reject(typ, "session_id", "of another session than the rows before")
		return false
	}
	return true
}

// messageRow takes a row of chat_messages.
func (d *Decoder) messageRow(row []byte, further []member, stated time.Time) {
	before := d.message
	if before != nil && !before.named(row) {
		d.endMessage()
		before = nil
	}
	c, ok := d.columnsOf("message", row)
	if !ok {
		return
	}
	id, ok := c.id("id")
	if !ok || !d.of("message", c.text("session_id")) {
		return
	}
	if before == nil && d.session.has(id) {
		d.reject("message", "id", "of a message that was there before")
		return
	}
	d.stats.Events++
	m := c.messageOf()
	m.id, m.seq = id, d.at.seq
	if m.updated.IsZero() {
		m.updated, m.latest = stated, later(m.latest, stated)
	}
	m.row = compact(row)
	m.keep(further)
	d.size += len(m.row) + sizeOf(m.further)
	if before != nil { // its row was written again: the last one counts
		m.parts, m.partAt, m.lines = before.parts, before.partAt, before.lines
	}
	d.message = m
}

// named reports whether the row of a message has the id of m.
func (m *message) named(row []byte) bool {
	c := rawjson.NewCursor(row, maxDepth)
	if len(row) == 0 || !c.Open('{') {
		return false
	}
	id := ""
	for c.More('}') {
		if key, value := string(c.Key()), c.Value(); key == "id" {
			id, _ = rawjson.String(value)
		}
	}
	return id == m.id
}

// maxMessages bounds the messages of a session that are known when they come again.
const maxMessages = 4096

// has reports whether a message was told, as far as that is remembered.
func (s *session) has(id string) bool { return s.ids[id] }

func (s *session) tell(id string) {
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	if len(s.order) == maxMessages {
		delete(s.ids, s.order[0])
		s.order = s.order[1:]
	}
	s.ids[id] = true
	s.order = append(s.order, id)
}

// keep makes what m keeps of its row its own.
func (m *message) keep(further []member) {
	m.hiddenAt = bytes.Clone(m.hiddenAt)
	m.meta.trigger = bytes.Clone(m.meta.trigger)
	m.meta.queuedAt, m.meta.canceledAt = bytes.Clone(m.meta.queuedAt), bytes.Clone(m.meta.canceledAt)
	m.further = cloned(further)
}

func cloned(l []member) []member {
	l = slices.Clone(l)
	for i := range l {
		l[i].value = compact(l[i].value)
	}
	return l
}

// partRow takes a row of chat_parts.
func (d *Decoder) partRow(row []byte, further []member, stated time.Time) {
	c, ok := d.columnsOf("part", row)
	if !ok {
		return
	}
	id, ok := c.id("id")
	if !ok {
		return
	}
	m := d.message
	of := c.text("message_id")
	switch {
	case m == nil:
		d.reject("part", "message_id", "of no message: its row has to stand before those of its parts")
		return
	case of != "" && of != m.id:
		d.reject("part", "message_id", "of another message than the one before it")
		return
	case len(m.parts) == maxParts:
		d.reject("part", "", "a message of more than "+strconv.Itoa(maxParts)+" parts")
		return
	case d.size+len(row)+sizeOf(further) > d.settings.MaxLine:
		d.reject("part", "", "a message with its parts longer than "+strconv.Itoa(d.settings.MaxLine)+" bytes")
		return
	}
	d.stats.Events++
	p := c.partOf()
	p.id, p.seq, p.position = id, d.at.seq, len(m.parts)
	p.latest = later(p.latest, stated)
	p.row, p.data, p.further = compact(row), bytes.Clone(p.data), cloned(further)
	if p.index < 0 {
		p.index = int64(p.position)
	}
	d.size += p.bytes()
	if i, again := m.partAt[id]; again { // written again: the last one counts
		d.size -= m.parts[i].bytes()
		p.position = m.parts[i].position
		m.parts[i] = p
		return
	}
	if m.partAt == nil {
		m.partAt = map[string]int{}
	}
	m.partAt[id] = len(m.parts)
	m.parts = append(m.parts, p)
}

// ownLine takes a line of package ndjson: it belongs to the message before it.
func (d *Decoder) ownLine(line input.Line) {
	m := d.message
	if m == nil {
		d.tellOwn(ownLine{line: line, seq: d.at.seq})
		return
	}
	if len(m.lines) == mostLines || d.size+len(line.Text) > d.settings.MaxLine {
		d.reject("", "", "more than "+strconv.Itoa(mostLines)+" lines of otelagent, or too long ones, behind one message")
		return
	}
	line.Text = bytes.Clone(line.Text)
	d.size += len(line.Text)
	m.lines = append(m.lines, ownLine{line: line, seq: d.at.seq, behind: len(m.parts)})
}

// tellOwn hands out what a line of package ndjson says.
func (d *Decoder) tellOwn(l ownLine) {
	d.own.Line(l.line, l.seq, func(ev otelagent.Event, err error) bool {
		if err != nil {
			d.stats.Rejected++
		} else {
			d.stats.Events++
		}
		if !d.stopped && !d.yield(ev, err) {
			d.stopped = true
		}
		return !d.stopped
	})
}

// lagged tells of rows that a feed left out because we were slow.
func (d *Decoder) lagged(missed int64) {
	ev := &otelagent.DefectFound{Meta: otelagent.Meta{Seq: d.at.seq}, Code: spans.DefectEventLost}
	if d.session != nil {
		ev.Session = d.session.id
	}
	if missed > 0 {
		ev.Detail = strconv.FormatInt(missed, 10) + " rows"
	}
	d.emit(ev)
}

// endMessage tells of the message at hand, which has all its parts now: its rows as facts, and, with an assistant's, the run that it ends.
func (d *Decoder) endMessage() {
	m := d.message
	if m == nil {
		return
	}
	d.message, m.partAt = nil, nil
	d.session.tell(m.id)
	slices.SortStableFunc(m.parts, func(a, b *part) int { return cmp.Compare(a.index, b.index) })
	d.stateMessage(m)
	if m.meta.digest != "" {
		d.session.names(m.meta.digest)
	}
	if !m.waits() && d.session.first.IsZero() {
		d.session.first = m.created
	}
	d.runs.endBefore(d, m.created)
	switch {
	case m.waits():
		d.tellLines(m, 0, m.all())
		d.size = d.joined
	case m.meta.own != nil && m.meta.own.run.ID != "":
		d.ownMessage(m)
		d.size = d.joined
	case m.marker() && len(d.stretch) == 0:
		d.tellCompactionRun(m)
		d.size = 0
	case m.role == "assistant" && !m.marker():
		d.tellRun(m, true)
	default:
		d.join(m)
	}
}

// join adds a message of user or system, or a compaction between them, to the stretch.
func (d *Decoder) join(m *message) {
	if n := len(d.stretch); n > 0 {
		last := d.stretch[n-1]
		gone := !last.hidden.IsZero() && !last.hidden.After(m.created) // it was rewound before this one came
		if gone || n == maxStretch || d.size > d.settings.MaxLine {
			d.tellRun(nil, true)
		}
	}
	d.stretch = append(d.stretch, m)
	d.joined += m.bytes()
	d.size = d.joined
}

// bytes is how much of its input m holds.
func (m *message) bytes() int {
	n := len(m.row) + sizeOf(m.further)
	for _, p := range m.parts {
		n += p.bytes()
	}
	for _, l := range m.lines {
		n += len(l.line.Text)
	}
	return n
}

func (p *part) bytes() int { return len(p.row) + len(p.data) + sizeOf(p.further) }

func sizeOf(members []member) (n int) {
	for _, m := range members {
		n += len(m.key) + len(m.value)
	}
	return n
}

// endSession tells of what is at hand and forgets the session.
func (d *Decoder) endSession() {
	d.endMessage()
	if len(d.stretch) > 0 {
		d.tellRun(nil, false)
	}
	d.runs.endAll(d)
	d.session, d.recent = nil, nil
	d.size, d.joined, d.waiting = 0, 0, 0
	clear(d.kinds)
}

// names remembers that a message names a system prompt.
func (s *session) names(digest string) {
	if len(s.digests) < maxDigests && !slices.Contains(s.digests, digest) {
		s.digests = append(s.digests, digest)
	}
}

// maxDigests bounds the system prompts of a session whose bodies are looked up.
const maxDigests = 1024

// copied reports whether a message of that time was taken over from the session that this one was forked from.
func (s *session) copied(created time.Time) bool {
	return s.parent != "" && !created.IsZero() && created.Before(s.created)
}

// children are the sessions that tool calls named as their child.
type children struct {
	links map[string]link
	order []string
}

// link is the tool call that named a child session.
type link struct{ session, run, call string }

const maxChildren = 4096

func (c *children) put(child string, l link) {
	if c.links == nil {
		c.links = map[string]link{}
	}
	if _, known := c.links[child]; !known {
		if len(c.order) == maxChildren {
			delete(c.links, c.order[0])
			c.order = c.order[1:]
		}
		c.order = append(c.order, child)
	}
	c.links[child] = l
}

// childOf returns the session that the output of a task call points to: {session_id}, bare or as the data of an envelope.
func childOf(output []byte) string {
	var find func(v []byte, deep bool) string
	find = func(v []byte, deep bool) (id string) {
		c := rawjson.NewCursor(v, maxDepth)
		if !c.Open('{') {
			return ""
		}
		for c.More('}') {
			key, value := string(c.Key()), c.Value()
			switch {
			case key == "session_id":
				id, _ = rawjson.String(value)
			case key == "data" && deep && id == "":
				id = find(value, false)
			}
		}
		return id
	}
	return find(output, true)
}
