package phi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
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

func elementAt(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func member(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// array reads an array of sessions or messages. Its first element decides which it is.
func (d *Decoder) array(raw []byte) {
	list := object.Of("", slices.Concat([]byte(`{"":`), raw, []byte("}")))
	var messages [][]byte
	want := "a session or a message"
	for i, value := range list.List("") {
		o := input.OutlineOf(value)
		if i == 0 && isSession(o, "") {
			want = "a session"
		} else if i == 0 && isMessage(o, "") {
			want = "a message"
		}
		switch isObject := value[0] == '{'; {
		case isObject && want == "a session" && !isMessage(o, ""):
			d.session(elementAt("", i), value)
		case isObject && want == "a message":
			messages = append(messages, value)
		default:
			d.problem(elementAt("", i), "want "+want+", got "+rawjson.KindOf(value))
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
	body, _, err := rawjson.AppendCanonical(nil, raws[0], envelope)
	if err != nil {
		d.shell.RejectSyntax(err)
		return
	}
	sum := sha256.Sum256(body)
	p.id = "messages-" + hex.EncodeToString(sum[:8])
	d.begin(p)
	d.step("messages", nil, func(l *line) []event.Event {
		events := d.runStarted(l, "", cmp.Or(d.shell.Settings.Session, p.id), "")
		events[0].(*event.RunStarted).Continuation = "" // an array does not say how it continues
		return events
	})
	asks := d.conversation(list, false)
	if tail := &list[len(list)-1]; tail.reply() && !asks {
		d.step("messages", object.Of("", slices.Concat([]byte(`{"messages":`), raw, []byte("}"))), d.agentEnd)
	}
	d.end()
}

// conversation reads the turns of a list of messages: the messages before a reply are its turn's input, the tool
// results behind it its turn's results. Messages behind the last of them belong to no turn. Turns have the numbers
// that the replies name, if numbered, else they are counted. It reports whether the last reply asks for a tool.
func (d *Decoder) conversation(list []message, numbered bool) (asks bool) {
	for n := int64(0); !d.shell.Stopped(); n++ {
		reply := slices.IndexFunc(list, func(msg message) bool { return msg.reply() })
		if reply < 0 {
			break
		}
		end := reply + 1
		for end < len(list) && list[end].Role == "toolResult" && list[end].llm() {
			end++
		}
		t := turn{index: n, reply: list[reply], results: list[reply+1 : end]}
		t.inputs = slices.Concat(list[:reply], t.results)
		if numbered {
			if named := object.Of("", t.reply.o.Raw("turnId")).Count("turnIndex"); named != nil {
				t.index = *named
			}
		}
		asks = d.turn(&t)
		list = list[end:]
	}
	for i := range list {
		d.added(list[i])
	}
	return asks
}

// timeOf returns the time that a JSON string says; zero when it says none.
func timeOf(raw []byte) time.Time {
	if len(raw) == 0 || raw[0] != '"' {
		return time.Time{}
	}
	t, _ := input.Time(raw)
	return t
}
