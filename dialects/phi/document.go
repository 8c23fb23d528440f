package phi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// document reads a ledger, or an array of ledgers or messages.
func (d *Decoder) document(raw []byte) {
	// phi-core lays its files out for people, but not its events.
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		d.shell.RejectSyntax(err)
		return
	}
	switch raw = compact.Bytes(); raw[0] {
	case '{':
		d.session("", raw)
	case '[':
		d.array(raw)
	default:
		d.problem("", "want an object or an array, got "+rawjson.KindOf(raw))
	}
}

// problem rejects what stands at a place of the document.
func (d *Decoder) problem(path, reason string) {
	d.shell.Reject(&input.LineError{Field: path, Reason: reason})
}

// array reads an array of sessions or messages. Its first element decides which it is.
func (d *Decoder) array(raw []byte) {
	list, first := object.Of("", input.Members("", raw)), input.OutlineOf(raw)
	want := "a session or a message"
	if isSession(first, "[]") {
		want = "a session"
	} else if isMessage(first, "[]") {
		want = "a message"
	}
	var messages [][]byte
	for i, value := range list.List("") {
		switch isObject := value[0] == '{'; {
		case isObject && want == "a session" && !isMessage(input.OutlineOf(value), ""):
			d.session(object.Element("", i), value)
		case isObject && want == "a message":
			messages = append(messages, value)
		default:
			d.problem(object.Element("", i), "want "+want+", got "+rawjson.KindOf(value))
		}
	}
	d.shell.RejectProblems("", list)
	if len(messages) > 0 && !d.shell.Stopped() {
		d.messageArray(messages, raw)
	}
}

// messageArray reads the conversation that an array of messages is. It has neither name nor run: both follow from its
// first message, so that they stay when it grows. It has ended when its last message is a reply that asks for
// nothing.
func (d *Decoder) messageArray(raws [][]byte, raw []byte) {
	list := conversationOf(raws)
	p := &record{}
	for i := range list {
		if t := list[i].Time; t.After(p.end.Time) {
			p.end = event.Moment{Time: t, Source: spans.TimeSourceMessage}
		}
	}
	p.startedWith(list)
	d.shell.Stats.Lines += int64(len(list))
	d.shell.Stats.Events += int64(len(list))
	if p.start.Time.IsZero() {
		d.problem("", "no message has a timestamp")
		return
	}
	body, err := rawjson.AppendCanonical(nil, raws[0], envelope)
	if err != nil {
		d.shell.RejectSyntax(err)
		return
	}
	sum := sha256.Sum256(body)
	p.id = "messages-" + hex.EncodeToString(sum[:8])
	d.begin(p)
	defer d.end()
	d.made("", "AgentStart", "session_id", cmp.Or(d.shell.Settings.Session, p.id))
	asks := d.conversation(p, list, false)
	if tail := &list[len(list)-1]; tail.reply() && !asks {
		d.made("", "AgentEnd", "messages", raw)
	}
}

// timeOf returns the time that a JSON string says; zero when it says none.
func timeOf(raw []byte) time.Time {
	if len(raw) == 0 || raw[0] != '"' {
		return time.Time{}
	}
	t, _ := input.Time(raw)
	return t
}
