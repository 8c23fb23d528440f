package phi

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

const notUTF8 = "text that is not UTF-8"

// document reads ledgers or an array of messages; several may stand one behind the other.
func (d *Decoder) document(text []byte) {
	text = trimMark(text)
	c := rawjson.NewCursor(text, object.MaxDepth)
	for !d.shell.Stopped() && c.Peek() != 0 {
		from := c.Pos()
		raw := c.Value()
		broken := raw == nil
		d.cut = ""
		if broken || !utf8.Valid(raw) {
			rest := rawjson.NewCursor(text[from:], object.MaxDepth)
			raw = d.mend(nil, &rest, "", "")
		}
		switch raw = withoutBlanks(nil, raw); {
		case len(raw) == 0:
		case raw[0] == '{':
			d.session("", raw, broken)
		case raw[0] == '[':
			d.array(raw, broken)
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

// inside says of which arrays of a ledger the elements count on their own. Of those with true the members of an
// element do too.
var inside = map[string]bool{
	"": true, "loops": true, "turns": true,
	"events": false, "messages": false, "input_messages": false, "tool_results": false,
}

// mend appends the object or array at c to dst, without what is cut or broken in it and what is not UTF-8, of which
// it reports the latter. Key is that of the array around an object, or of the array itself.
func (d *Decoder) mend(dst []byte, c *rawjson.Cursor, path, key string) []byte {
	open, end := c.Peek(), byte('}')
	if open == '[' {
		end = ']'
	}
	if open != '[' && open != '{' || !c.Open(open) {
		return dst
	}
	dst = append(dst, open)
	for i := 0; c.More(end); i++ {
		before := len(dst)
		if dst[before-1] != open {
			dst = append(dst, ',')
		}
		at, inner := elementAt(path, i), key
		if open == '{' {
			spelled := c.RawKey()
			if inner = word(spelled); !utf8.Valid(spelled) {
				inner = ""
			}
			at = member(path, inner)
			dst = append(append(dst, spelled...), ':')
		}
		members, known := inside[inner]
		known = known && (inner != "" || open == '[')
		switch next := c.Peek(); {
		case next == '[' && open == '{' && known, next == '{' && open == '[' && members && (key != "" || isSession(*c)):
			dst = d.mend(dst, c, at, inner)
			switch {
			case c.Err() == nil || open == '{':
			case inner == "turns": // a turn counts whole
				dst = dst[:before]
			case d.cut == "":
				d.cut = at
			}
		default:
			value := c.Value()
			valid := utf8.Valid(dst[before:]) && utf8.Valid(value)
			if dst = append(dst, value...); value == nil || !valid {
				dst = dst[:before]
			}
			if !valid {
				d.problem(at, notUTF8)
			}
		}
	}
	return append(dst, end)
}

func isSession(c rawjson.Cursor) bool {
	kind, _ := kindOf(c)
	return kind == aSession
}

var wanted = map[kindOfObject]string{
	otherKind: "a session or a message", aSession: "a session", aMessage: "a message",
}

// array reads an array of sessions or messages. Its first element decides which it is.
func (d *Decoder) array(raw []byte, broken bool) {
	c := rawjson.NewCursor(raw, object.MaxDepth)
	c.Open('[')
	kind, _ := kindOf(c)
	if strings.HasPrefix(d.cut, "[0]") {
		kind = aSession
	}
	var messages [][]byte
	for i := 0; c.More(']') && !d.shell.Stopped(); i++ {
		own, _ := kindOf(c)
		value := c.Value()
		object := value[0] == '{'
		switch {
		case kind == aSession && object && own != aMessage:
			d.session(elementAt("", i), value, broken)
		case kind == aMessage && object && len(messages) < maxMessages:
			messages = append(messages, value)
		case kind == aMessage && object:
			d.problem(elementAt("", i), "more than "+strconv.Itoa(maxMessages)+" messages")
		default:
			d.problem(elementAt("", i), "want "+wanted[kind]+", got "+rawjson.KindOf(value))
		}
	}
	if len(messages) > 0 && !d.shell.Stopped() {
		d.messageArray(messages, raw, !broken)
	}
}

// maxMessages is the number of messages of one array that are read.
const maxMessages = object.MaxElements

// withoutBlanks appends JSON to dst without the blanks between its tokens: phi-core lays its files out for people,
// but not its events.
func withoutBlanks(dst, raw []byte) []byte {
	start, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch b := raw[i]; {
		case quoted && b == '\\':
			i++
		case b == '"':
			quoted = !quoted
		case !quoted && (b == ' ' || b == '\n' || b == '\t' || b == '\r'):
			dst = append(dst, raw[start:i]...)
			start = i + 1
		}
	}
	return append(dst, raw[min(start, len(raw)):]...)
}

// messageArray reads the conversation that an array of messages is. It has neither name nor run: both follow from its
// first message, so that they stay when it grows. It has ended when its last message is a reply that asks for
// nothing.
func (d *Decoder) messageArray(raws [][]byte, raw []byte, whole bool) {
	list := make([]message, len(raws))
	var first, last time.Time
	for i, raw := range raws {
		list[i] = messageOf(raw)
		if t := list[i].Time; !t.IsZero() && first.IsZero() {
			first = t
		}
		if t := list[i].Time; t.After(last) {
			last = t
		}
	}
	d.shell.Stats.Lines += int64(len(list))
	d.shell.Stats.Events += int64(len(list))
	if first.IsZero() {
		d.problem("", "no message has a timestamp")
		return
	}
	body, _, err := rawjson.AppendCanonical(nil, raws[0], envelope)
	if err != nil {
		d.shell.RejectSyntax(err)
		return
	}
	sum := sha256.Sum256(body)
	id := "messages-" + hex.EncodeToString(sum[:8])
	d.ledger = &ledger{
		id: id, start: otelagent.Moment{Time: first, Source: spans.TimeSourceMessage},
		end: otelagent.Moment{Time: last, Source: spans.TimeSourceMessage},
	}
	defer func() { d.ledger = nil }()
	d.shell.Seq = 0
	d.step("messages", nil, func(l *line) []otelagent.Event {
		events := d.runStarted(l, "", cmp.Or(d.shell.Settings.Session, id), "")
		events[0].(*otelagent.RunStarted).Continuation = "" // an array does not say how it continues
		return events
	})
	asks := d.conversation(list, false)
	if tail := &list[len(list)-1]; whole && tail.reply() && !asks {
		d.step("messages", object.Of("", slices.Concat([]byte(`{"messages":`), raw, []byte("}"))), d.agentEnd)
	}
	d.runs.find(id).close()
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
		t := turn{record: "messages", index: n, reply: list[reply], results: list[reply+1 : end]}
		t.inputs = slices.Concat(list[:reply], t.results)
		if numbered {
			t.index = countOr(object.Of("", t.reply.o.Raw("turnId")), "turnIndex", n)
		}
		asks = d.turn(&t)
		list = list[end:]
	}
	for i := range list {
		d.added("messages", list[i])
	}
	return asks
}
