package phi

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// document reads ledgers or an array of messages; several may follow each other.
func (d *Decoder) document(text []byte) {
	text = trimMark(text)
	if err := rawjson.ValidUTF8(text); err != nil {
		d.shell.RejectSyntax(err)
		text = bytes.ToValidUTF8(text, []byte("\uFFFD"))
	}
	c := rawjson.NewCursor(text, object.MaxDepth)
	for !d.shell.Stopped() && c.Peek() != 0 {
		rest := mender{Cursor: rawjson.NewCursor(text[c.Pos():], object.MaxDepth)}
		raw := c.Value()
		if raw == nil {
			rest.copy("", "")
			rest.broken, raw = true, rest.complete
		}
		// phi-core lays its files out for people, but not its events.
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			break // nothing is complete
		}
		switch raw = compact.Bytes(); raw[0] {
		case '{':
			d.session("", raw, &rest)
		case '[':
			d.array(raw, &rest)
		default:
			d.problem("", "want an object or an array, got "+rawjson.KindOf(raw))
		}
	}
	if err := c.End(); err != nil && !d.shell.Stopped() {
		d.shell.RejectSyntax(err)
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

// mender copies what is complete of a document that ends too early or is malformed: the members of sessions and of
// runs, and the elements of the arrays in them.
type mender struct {
	rawjson.Cursor
	complete []byte
	broken   bool   // something is not complete
	cut      string // where the run, or else the session, stands that is not
}

// lists are the arrays of a ledger of which every element counts on its own.
var lists = map[string]bool{"loops": true, "turns": true, "events": true, "messages": true}

// copy copies the object or array at path. Key is that of the array, or of the array around the object.
func (m *mender) copy(path, key string) {
	open, end := m.Peek(), byte('}')
	if open == '[' {
		end = ']'
	}
	if open != '[' && open != '{' || !m.Open(open) {
		return
	}
	m.complete = append(m.complete, open)
	for i := 0; m.More(end); i++ {
		before := len(m.complete)
		if m.complete[before-1] != open {
			m.complete = append(m.complete, ',')
		}
		at, inner := elementAt(path, i), key
		if open == '{' {
			spelled := m.RawKey()
			inner = stringOf(spelled)
			at = member(path, inner)
			m.complete = append(append(m.complete, spelled...), ':')
		}
		next := m.Peek()
		if open == '{' && next == '[' && lists[inner] ||
			open == '[' && next == '{' && (key == "loops" || key == "" && isSession(m.Cursor)) {
			m.copy(at, inner)
		} else if value := m.Value(); value != nil {
			m.complete = append(m.complete, value...)
		} else {
			m.complete = m.complete[:before]
		}
	}
	if open == '{' && m.Err() != nil && m.cut == "" {
		m.cut = path
	}
	m.complete = append(m.complete, end)
}

func isSession(c rawjson.Cursor) bool {
	kind, _ := kindOf(c)
	return kind == aSession
}

var wanted = map[kindOfObject]string{
	otherKind: "a session or a message", aSession: "a session", aMessage: "a message",
}

// array reads an array of sessions or messages. Its first element decides which it is.
func (d *Decoder) array(raw []byte, m *mender) {
	c := rawjson.NewCursor(raw, object.MaxDepth)
	c.Open('[')
	kind, _ := kindOf(c)
	if strings.HasPrefix(m.cut, "[0]") {
		kind = aSession
	}
	var messages [][]byte
	for i := 0; c.More(']') && !d.shell.Stopped(); i++ {
		own, _ := kindOf(c)
		value := c.Value()
		isObject := value[0] == '{'
		switch {
		case kind == aSession && isObject && own != aMessage:
			d.session(elementAt("", i), value, m)
		case kind == aMessage && isObject && len(messages) < object.MaxElements:
			messages = append(messages, value)
		case kind == aMessage && isObject:
			d.problem(elementAt("", i), "more than "+strconv.Itoa(object.MaxElements)+" messages")
		default:
			d.problem(elementAt("", i), "want "+wanted[kind]+", got "+rawjson.KindOf(value))
		}
	}
	if len(messages) > 0 && !d.shell.Stopped() {
		d.messageArray(messages, raw, !m.broken)
	}
}

// messageArray reads the conversation that an array of messages is. It has neither name nor run: both follow from its
// first message, so that they stay when it grows. It has ended when its last message is a reply that asks for
// nothing.
func (d *Decoder) messageArray(raws [][]byte, raw []byte, whole bool) {
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
	if tail := &list[len(list)-1]; whole && tail.reply() && !asks {
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
