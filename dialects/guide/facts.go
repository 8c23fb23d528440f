package guide

import (
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Keys of facts. The rows of a source are kept whole, so that an export gives them back: that of the session, and of a
// message the lines of its row and its parts, in an array. Columns that people look for are facts of their own.
const (
	factRow  = "guide.row"
	factLine = "guide.line"
	// factFurther begins the key of a further member: of a session's line, or of a document.
	factFurther = "guide."

	factTitle    = "title"
	factArchived = "archived_at"
	factRules    = "rules"
	factHidden   = "hidden_at"
	factQueued   = "queued_at"
	factCanceled = "queue_canceled_at"
	factPrompt   = "system_prompt_digest"
)

// facts are the facts of one row and of those that belong to it.
type facts []event.Fact

func (f *facts) add(subject, key string, value []byte, at time.Time, seq int64) {
	if value == nil {
		return
	}
	*f = append(*f, event.Fact{Subject: subject, Key: key, Value: value, At: event.Moment{Time: at, Seq: seq}})
}

// since adds a fact whose value, milliseconds, is also since when it is true; null takes it back at the time of the
// row.
func (f *facts) since(subject, key string, value []byte, row time.Time, seq int64) {
	at, ok := millis(value)
	if !ok {
		at = row
	}
	f.add(subject, key, value, at, seq)
}

func (d *reader) state(f facts, at time.Time, seq int64) {
	if len(f) == 0 {
		return
	}
	d.Emit(&event.FactStated{Meta: event.Meta{Session: d.session.id, Time: at, Seq: seq}, Dialect: Dialect,
		Recording: spans.RecordingLedger, Facts: f})
}

// stateSession states the row of the session at hand.
func (d *reader) stateSession(text, further []byte) {
	s := d.session
	var f facts
	f.add("session", factRow, text, s.updated, d.Seq)
	for key, value := range object.Of("", further).All() {
		f.add("session", factFurther+key, value, s.updated, d.Seq)
	}
	f.add("session", factTitle, s.title, s.updated, d.Seq)
	f.since("session", factArchived, s.archived, s.updated, d.Seq)
	f.add("session", factRules, s.rules, s.updated, d.Seq)
	d.state(f, s.updated, d.Seq)
}

// stateMessage states the rows of a message and its parts.
func (d *reader) stateMessage(m *message) {
	subject := "message/" + m.id
	var f facts
	lines, changed := [][]byte{m.line}, m.latest
	for _, p := range m.parts {
		lines, changed = append(lines, p.line), later(changed, p.latest)
	}
	f.add(subject, factRow, input.Array(lines), changed, m.seq)
	f.since(subject, factHidden, m.hiddenAt, m.latest, m.seq)
	f.since(subject, factQueued, m.queuedAt, m.latest, m.seq)
	f.since(subject, factCanceled, m.canceledAt, m.latest, m.seq)
	if m.digest != "" {
		f.add(subject, factPrompt, rawjson.Quote(nil, m.digest), m.latest, m.seq)
	}
	d.state(f, m.latest, m.seq)
}

// lineOf returns a line with a row and its further members.
func lineOf(typ string, text, further []byte) []byte {
	return input.Merge(input.Members("type", typ, "data", text), further)
}

// furtherLine states a line that is no row: a system prompt, a tool catalogue, a permission, a defect, or one of a
// later format. Value is valid JSON.
func (d *reader) furtherLine(kind string, value []byte) {
	d.endMessage()
	if !d.of("", "") { // the type is content, and no part of an error
		return
	}
	d.Stats.Events++
	s := d.session
	n := s.kinds[kind]
	if len(s.kinds) < maxKinds || n > 0 {
		s.kinds[kind] = n + 1
	}
	subject := kind + "/" + strconv.FormatInt(n, 10)
	if kind == "system_prompt" || kind == "tool_catalog" {
		if digest := textOf(object.Of("", value), "digest"); digest != "" {
			subject = kind + "/" + digest
		}
	}
	var f facts
	f.add(subject, factLine, compact(value), s.updated, d.Seq)
	d.state(f, s.updated, d.Seq)
}

// furtherKey states a further member of a document.
func (d *reader) furtherKey(key string, value []byte) {
	if kind, list := listsOfDocument[key]; list && value[0] == '[' {
		for i, value := range elements(value) {
			d.nextRow(key + "[" + strconv.Itoa(i) + "]")
			d.furtherLine(kind, value)
		}
		return
	}
	d.endMessage()
	if !d.of("document", "") {
		return
	}
	if _, list := listsOfDocument[key]; list {
		d.nextRow(key)
	} else { // any other key is content, and no part of an error
		d.nextRow("document")
	}
	d.Stats.Events++
	var f facts
	f.add("document", factFurther+key, value, d.session.updated, d.Seq)
	d.state(f, d.session.updated, d.Seq)
}

// listsOfDocument are the keys whose elements are lines in the other form, with their type there.
var listsOfDocument = map[string]string{"system_prompts": "system_prompt", "tool_catalogs": "tool_catalog",
	"permissions": "permission",
	"defects":     "defect"}
