package guide

import (
	"strconv"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Keys of facts. A row is kept whole, so that an export gives it back; what people look for is told beside it.
const (
	factRow  = "guide.row"
	factLine = "guide.line"
	// factFurther begins the key of what stands beside a row, or beside session and messages in a document.
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
type facts []otelagent.Fact

func (f *facts) add(subject, key string, value []byte, at time.Time, seq int64) {
	if value == nil {
		return
	}
	*f = append(*f, otelagent.Fact{Subject: subject, Key: key, Value: value, At: otelagent.Moment{Time: at, Seq: seq}})
}

// since adds a fact whose value, milliseconds, is also since when it is true; null takes it back at the time of the row.
func (f *facts) since(subject, key string, value []byte, row time.Time, seq int64) {
	at, ok := millis(value)
	if !ok {
		at = row
	}
	f.add(subject, key, value, at, seq)
}

func (f *facts) further(subject string, members []member, at time.Time, seq int64) {
	for _, m := range members {
		f.add(subject, factFurther+m.key, m.value, at, seq)
	}
}

func (d *Decoder) state(f facts, at time.Time, seq int64) {
	if len(f) == 0 {
		return
	}
	d.emit(&otelagent.FactStated{Meta: otelagent.Meta{Session: d.session.id, Time: at, Seq: seq}, Dialect: Dialect,
		Recording: spans.RecordingLedger, Facts: f})
}

// stateSession states the row of a session.
func (d *Decoder) stateSession(row []byte, further []member) {
	s := d.session
	var f facts
	f.add("session", factRow, row, s.updated, d.at.seq)
	f.further("session", cloned(further), s.updated, d.at.seq)
	f.add("session", factTitle, s.title, s.updated, d.at.seq)
	f.since("session", factArchived, s.archived, s.updated, d.at.seq)
	f.add("session", factRules, s.rulesRaw, s.updated, d.at.seq)
	d.state(f, s.updated, d.at.seq)
}

// stateMessage states the rows of a message and its parts.
func (d *Decoder) stateMessage(m *message) {
	subject := "message/" + m.id
	var f facts
	f.add(subject, factRow, m.row, m.latest, m.seq)
	f.further(subject, m.further, m.latest, m.seq)
	f.since(subject, factHidden, m.hiddenAt, m.latest, m.seq)
	f.since(subject, factQueued, m.meta.queuedAt, m.latest, m.seq)
	f.since(subject, factCanceled, m.meta.canceledAt, m.latest, m.seq)
	if m.meta.digest != "" {
		f.add(subject, factPrompt, rawjson.Quote(nil, m.meta.digest), m.latest, m.seq)
	}
	for _, p := range m.parts {
		f.add("part/"+p.id, factRow, p.row, p.latest, p.seq)
		f.further("part/"+p.id, p.further, p.latest, p.seq)
	}
	d.state(f, m.latest, m.seq)
}

// furtherLine states a line that is no row: a system prompt, a tool catalogue, a permission, a defect, or what later formats have.
// Value is valid JSON.
func (d *Decoder) furtherLine(kind string, value []byte) {
	d.endMessage()
	if d.session == nil && !d.of("", "") { // the type is the producer's word, and no part of an error
		return
	}
	d.stats.Events++
	n := d.kinds[kind]
	if len(d.kinds) < mostKinds || n > 0 {
		d.kinds[kind] = n + 1
	}
	subject := kind + "/" + strconv.FormatInt(n, 10)
	if kind == "system_prompt" || kind == "tool_catalog" {
		if digest := digestOf(value); digest != "" {
			subject = kind + "/" + digest
		}
	}
	var f facts
	f.add(subject, factLine, compact(value), d.session.updated, d.at.seq)
	d.state(f, d.session.updated, d.at.seq)
}

// mostKinds bounds the further types of lines whose number is counted.
const mostKinds = 64

func digestOf(object []byte) (digest string) {
	c := rawjson.NewCursor(object, maxDepth)
	if !c.Open('{') {
		return ""
	}
	for c.More('}') {
		if key, value := string(c.Key()), c.Value(); key == "digest" {
			digest, _ = rawjson.String(value)
		}
	}
	return digest
}

// furtherKey states a member that stands beside session and messages in a document.
func (d *Decoder) furtherKey(m member) {
	if kind, list := listsOfDocument[m.key]; list && m.value[0] == '[' {
		c := rawjson.NewCursor(m.value, maxDepth)
		c.Open('[')
		for i := 0; c.More(']'); i++ {
			d.nextRow(m.key + "[" + strconv.Itoa(i) + "]")
			d.furtherLine(kind, c.Value())
		}
		return
	}
	d.endMessage()
	if d.session == nil && !d.of("document", "") {
		return
	}
	d.nextRow(pathOf(m.key))
	d.stats.Events++
	var f facts
	f.add("document", factFurther+m.key, compact(m.value), d.session.updated, d.at.seq)
	d.state(f, d.session.updated, d.at.seq)
}

// pathOf is the place of a member of a document: its key where that is one of ours. Any other is no part of an error.
func pathOf(key string) string {
	if _, list := listsOfDocument[key]; list || key == "session" || key == "messages" {
		return key
	}
	return "document"
}

// listsOfDocument are the keys whose elements are lines in the other form, with their type there.
var listsOfDocument = map[string]string{"system_prompts": "system_prompt", "tool_catalogs": "tool_catalog", "permissions": "permission",
	"defects": "defect"}

// nextRow moves the place on to the row of a document that stands at path. A line is one place, whatever it holds.
func (d *Decoder) nextRow(path string) {
	if d.at.line == 0 {
		d.stats.Lines++
		d.at.seq = d.stats.Lines
	}
	d.at.path = path
}
