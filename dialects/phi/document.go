package phi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// document reads a ledger, or an array of ledgers or messages. The first element of an array decides which it is.
func (d *Decoder) document(raw []byte) {
	// phi-core lays its files out for people, but not its events.
	text := input.Compact(raw)
	var list *object.Object
	values, want := [][]byte{text}, "a session"
	if raw[0] == '[' {
		list = object.Of("", input.Members("", text))
		values = list.List("")
	}
	if isMessage(input.OutlineOf(raw), "[]") {
		want = "a message"
	}
	var messages [][]byte
	for i, value := range values {
		at := ""
		if raw[0] == '[' {
			at = object.Element("", i)
		}
		switch {
		case value[0] != '{':
			d.problem(at, "want "+want+", got "+rawjson.KindOf(value))
		case want == "a message":
			messages = append(messages, value)
		default:
			d.session(at, value)
		}
	}
	d.RejectProblems("", list)
	if len(messages) > 0 {
		d.messages(messages, text)
	}
}

// messages reads the conversation that an array of messages is. It has neither name nor run: both follow from its first
// message, so that they stay when it grows. It has ended when its last message is a reply that asks for nothing.
func (d *Decoder) messages(list [][]byte, raw []byte) {
	d.Counts.Lines += int64(len(list))
	d.Counts.Events += int64(len(list))
	p := &record{}
	if p.start, p.end = times(list); p.start.Time.IsZero() {
		d.problem("", "no message has a timestamp")
		return
	}
	body, err := rawjson.AppendCanonical(nil, list[0], envelope)
	if err != nil {
		d.RejectSyntax(err)
		return
	}
	sum := sha256.Sum256(body)
	p.id = "messages-" + hex.EncodeToString(sum[:8])
	d.begin(p)
	defer d.end()
	d.made("", "AgentStart", "session_id", cmp.Or(d.Settings.Session, p.id))
	stats := d.Counts
	turns, behind := p.conversation(list)
	d.turns(p, turns, behind)
	d.Counts.Lines, d.Counts.Events = stats.Lines, stats.Events // the turns are the messages
	if tail := messageOf(list[len(list)-1]); tail.reply() && len(tail.asks()) == 0 {
		d.made("", "AgentEnd", "messages", raw)
	}
}

// times returns the first time that messages say, and the latest.
func times(list [][]byte) (first, latest event.Moment) {
	for _, msg := range input.Messages(list) {
		if !msg.Time.IsZero() {
			at := event.Moment{Time: msg.Time, Source: spans.TimeSourceMessage}
			if first = cmp.Or(first, at); at.Time.After(latest.Time) {
				latest = at
			}
		}
	}
	return first, latest
}

// problem rejects what is at a place of the document.
func (d *Decoder) problem(path, reason string) {
	d.Reject(&input.LineError{Field: path, Reason: reason})
}
