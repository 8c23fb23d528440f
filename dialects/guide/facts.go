package guide

import (
	"cmp"
	"strconv"
	"strings"
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
)

// facts are the facts of one row and of those that belong to it.
type facts struct {
	subject string
	at      time.Time // of the row
	seq     int64
	list    []event.Fact
}

// since adds a fact whose value, milliseconds, is also since when it is true; null takes it back.
func (f *facts) since(key string, value []byte) {
	at, _ := millis(value)
	f.add(key, value, cmp.Or(at, f.at))
}

// add adds a fact that is true since a time, if it has a value.
func (f *facts) add(key string, value []byte, at time.Time) {
	if value != nil {
		f.list = append(f.list, event.Fact{Subject: f.subject, Key: key, Value: value,
			At: event.Moment{Time: at, Seq: f.seq}})
	}
}

func (d *Decoder) state(f *facts) {
	if len(f.list) > 0 {
		d.Emit(&event.FactStated{Meta: event.Meta{Session: d.session.id, Time: f.at, Seq: f.seq}, Dialect: Dialect,
			Recording: spans.RecordingLedger, Facts: f.list})
	}
}

// lineOf returns a line with a row and its further members.
func lineOf(typ string, text, further []byte) []byte {
	return input.Merge(input.Members("type", typ, "data", text), further)
}

// furtherLine states a line that is no row: a system prompt, a tool catalogue, a permission, a defect, or one of a
// later format. Value is valid JSON.
func (d *Decoder) furtherLine(kind string, value []byte) {
	d.endMessage()
	if !d.of("", "") { // the type is content, and no part of an error
		return
	}
	d.Shell.Counts.Events++
	s := d.session
	n := s.kinds[kind]
	if len(s.kinds) < maxKinds || n > 0 {
		s.kinds[kind] = n + 1
	}
	subject := kind + "/" + strconv.FormatInt(n, 10)
	if kind == "system_prompt" || kind == "tool_catalog" {
		if digest := object.Of("", value).Text("digest"); digest != "" {
			subject = kind + "/" + digest
		}
	}
	f := &facts{subject: subject, at: s.updated, seq: d.Seq}
	f.add(factLine, input.Compact(value), f.at)
	d.state(f)
}

// furtherKey states a further member of a document.
func (d *Decoder) furtherKey(key string, value []byte) {
	switch key {
	case "system_prompts", "tool_catalogs", "permissions", "defects": // lists of what lines have in the other form
		if value[0] != '[' {
			break
		}
		for i, value := range rawjson.Elements(value) {
			d.nextRow(object.Element(key, i))
			d.furtherLine(strings.TrimSuffix(key, "s"), value)
		}
		return
	}
	d.endMessage()
	if !d.of("document", "") {
		return
	}
	d.nextRow("document") // the key is content, and no part of an error
	d.Shell.Counts.Events++
	f := &facts{subject: "document", at: d.session.updated, seq: d.Seq}
	f.add(factFurther+key, value, f.at)
	d.state(f)
}
