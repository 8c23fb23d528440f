package phi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

const notUTF8 = "text that is not UTF-8"

// Bounds of what is read of one document.
const (
	maxLoops = 1 << 16 // of a session
	maxItems = 1 << 20 // turns, events or messages of a loop
)

// document is what is read instead of lines: ledgers, or an array of messages. Its runs are told from what was saved, by giving the
// reader of events the events that the loop must have emitted.
type document struct {
	// path is where we are, and the beginning of the field of errors.
	path string
	// record is the kind of record that is told, the name of the variant of errors; empty while a stored event is read, which has
	// a variant of its own. names are the names of the record's fields that are called otherwise in the event.
	record string
	names  map[string]string

	ledger ledger
}

// locate says where in the document an error is.
func (doc *document) locate(e *input.LineError) {
	e.Line = 0
	if doc.record != "" && e.Type != "" {
		e.Type = doc.record
		field, rest, inner := strings.Cut(e.Field, ".")
		if name := doc.names[field]; name != "" {
			field = name
		}
		if e.Field = field; inner {
			e.Field += "." + rest
		}
	}
	switch {
	case doc.path == "":
	case e.Field == "":
		e.Field = doc.path
	default:
		e.Field = doc.path + "." + e.Field
	}
}

// at goes to a place below the one at hand, and returns the way back.
func (d *Decoder) at(step string) (back func()) {
	before := d.doc.path
	if before != "" && step[0] != '[' {
		before += "."
	}
	d.doc.path, before = before+step, d.doc.path
	return func() { d.doc.path = before }
}

func elementAt(name string, i int) string { return name + "[" + strconv.Itoa(i) + "]" }

// problem rejects what stands at the place at hand.
func (d *Decoder) problem(field, reason string) {
	d.reject(&input.LineError{Field: field, Reason: reason})
}

// document reads a document.
func (d *Decoder) document(r io.Reader) {
	text, err := io.ReadAll(io.LimitReader(r, int64(d.settings.MaxLine)+1))
	if err != nil {
		d.yield(nil, fmt.Errorf("phi: read: %w", err))
		return
	}
	d.doc, d.arrived, d.seq, d.stamped = &document{}, time.Time{}, 0, time.Time{}
	defer func() { d.doc = nil }()
	if len(text) > d.settings.MaxLine {
		d.reject(&input.LineError{Reason: d.tooLong()})
		return
	}
	if len(text) >= len(byteOrderMark) && string(text[:len(byteOrderMark)]) == byteOrderMark {
		text = text[len(byteOrderMark):]
	}
	c := rawjson.NewCursor(text, maxDepth)
	for !d.stopped && c.Peek() != 0 { // documents may stand one behind the other
		switch c.Peek() {
		case '{':
			d.session(&c)
		case '[':
			d.array(&c)
		default:
			if value := c.Value(); value != nil {
				d.problem("", "want an object or an array, got "+rawjson.KindOf(value))
			}
		}
	}
	if err := c.End(); err != nil && !d.stopped {
		d.rejectSyntax(err)
	}
}

// array reads an array of sessions or messages. What its first element is decides about all.
func (d *Decoder) array(c *rawjson.Cursor) {
	var messages [][]byte
	kind := otherElement
	c.Open('[')
	for i := 0; !d.stopped && c.More(']'); i++ {
		if i == 0 {
			kind = kindOfElement(*c)
		}
		if kind == sessionElement && c.Peek() == '{' && (i == 0 || kindOfElement(*c) != messageElement) {
			back := d.at(elementAt("", i))
			d.session(c)
			back()
			continue
		}
		value := c.Value()
		switch {
		case value == nil: // the error is told at the end
		case kind == messageElement && i >= maxItems:
			if i == maxItems {
				d.problem(elementAt("", i), tooMany(maxItems, "messages"))
			}
		case kind == messageElement && value[0] == '{':
			messages = append(messages, value)
		case kind == messageElement:
			d.problem(elementAt("", i), "want a message, got "+rawjson.KindOf(value))
		default:
			want := map[element]string{otherElement: "a session or a message", sessionElement: "a session"}[kind]
			d.problem(elementAt("", i), "want "+want+", got "+strings.Replace(rawjson.KindOf(value), "an object", "another object", 1))
		}
	}
	if len(messages) > 0 && !d.stopped {
		d.messageArray(messages, c.Err() == nil)
	}
}

func tooMany(n int, what string) string { return "more than " + strconv.Itoa(n) + " " + what }

// withoutBlanks appends JSON to dst without the blanks between its tokens: what phi-core saves is laid out for people, what it emits is not.
// Raw may be cut.
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

// begin makes room for an event that we write.
func (d *Decoder) begin() {
	l := &d.ev
	l.has, l.twice, l.others, l.crowded = 0, "", l.others[:0], false
}

// put adds a member to the event that we write.
func (d *Decoder) put(k key, value []byte) {
	if value != nil {
		d.ev.values[k] = value
		d.ev.has |= 1 << k
	}
}

// tell hands out what the event that we wrote tells, and reports whether it could be read.
func (d *Decoder) tell(v variant) bool {
	if d.stopped {
		return false
	}
	d.seq++
	problem := d.badText()
	if problem == nil {
		problem = d.variant(v)
	}
	if problem != nil {
		if problem.Type == "" {
			problem.Type = variants[v].name
		}
		d.reject(problem)
	}
	return problem == nil
}

// badText finds text that is not UTF-8 in the event that we wrote.
func (d *Decoder) badText() *input.LineError {
	if !d.doc.ledger.dirty {
		return nil
	}
	for k := range keys {
		if v := d.get(k); v != nil && !utf8.Valid(v) {
			return &input.LineError{Field: keyNames[k], Reason: notUTF8}
		}
	}
	return nil
}

// readMessages takes the array of messages under that name apart. The slice is used again.
func (d *Decoder) readMessages(list []message, name string, raw []byte) []message {
	list = list[:0]
	if raw == nil || raw[0] != '[' {
		return list
	}
	d.ev.c.Reset(raw, maxDepth)
	list, _ = d.ev.parseMessages(list, nil)
	if d.ev.crowded {
		d.problem(name, tooMany(maxItems, "messages"))
	}
	if d.ev.crowded = false; !d.doc.ledger.dirty {
		return list
	}
	n := 0
	for i := range list {
		if utf8.Valid(list[i].raw) {
			list[n] = list[i]
			n++
		} else {
			d.problem(elementAt(name, i), notUTF8)
		}
	}
	return list[:n]
}

// cleaned returns members without those that are not UTF-8, which are reported.
func (d *Decoder) cleaned(members []member) []member {
	if !d.doc.ledger.dirty {
		return members
	}
	return slices.DeleteFunc(members, func(m member) bool {
		bad := !utf8.Valid(m.key) || !utf8.Valid(m.value)
		if bad {
			d.problem("", notUTF8+" under an unknown key")
		}
		return bad
	})
}

// messageArray tells of the conversation that an array of messages is. It has no name and no run: both follow from its first message,
// so that they stay when it grows. It has ended when its last message is a reply that asks for nothing.
func (d *Decoder) messageArray(raws [][]byte, whole bool) {
	doc := &d.doc.ledger
	list := make([]message, 0, len(raws))
	var first, last time.Time
	for i, raw := range raws {
		d.stats.Lines++
		if err := rawjson.ValidUTF8(raw); err != nil {
			back := d.at(elementAt("", i))
			d.rejectSyntax(err)
			back()
			continue
		}
		d.stats.Events++
		var m message
		text := withoutBlanks(nil, raw)
		d.ev.c.Reset(text, maxDepth)
		d.ev.parseMessage(&m)
		list = append(list, m)
		if t := d.messageOf(&m).Time; !t.IsZero() {
			if first.IsZero() {
				first = t
			}
			if t.After(last) {
				last = t
			}
		}
	}
	if len(list) == 0 {
		return
	}
	if first.IsZero() {
		d.problem("", "no message has a timestamp")
		return
	}
	body, _, err := rawjson.AppendCanonical(nil, list[0].raw, envelope)
	if err != nil {
		d.rejectSyntax(err)
		return
	}
	sum := sha256.Sum256(body)
	id := "messages-" + hex.EncodeToString(sum[:8])
	session := d.settings.Session
	if session == "" {
		session = id
	}
	*doc = ledger{id: rawjson.Quote(nil, id), running: true}

	r := d.runs.started(id, session)
	r.told = true
	d.seq = 1
	e := &d.out.runStarted
	*e = otelagent.RunStarted{
		Meta: otelagent.Meta{Session: session, Run: id, Time: first, Seq: d.seq},
		RunInfo: otelagent.RunInfo{
			ID: id, SessionID: session, Dialect: Dialect, Agent: d.settings.Agent, Provider: d.settings.Provider,
			Start: otelagent.Moment{Time: first, Source: spans.TimeSourceMessage},
		},
	}
	d.emit(e)
	asks := d.conversation(list, false)
	if tail := &list[len(list)-1]; whole && tail.reply() && !asks {
		d.seq++
		e := &d.out.runEnded
		*e = otelagent.RunEnded{
			Meta: otelagent.Meta{Session: session, Run: id, Seq: d.seq},
			RunResult: otelagent.RunResult{
				End: otelagent.Moment{Time: last, Source: spans.TimeSourceMessage}, Status: spans.RunStatusCompleted, Messages: d.messageList(list),
			},
		}
		d.emit(e)
	}
	d.runs.close(r)
}

// conversation tells of the turns that messages are: what stands before a reply is its turn's input, the tool results behind it are
// its turn's results. What stands behind the last of them belongs to no turn. Turns have the numbers that the replies name, if numbered,
// else they are counted. It reports whether the last reply asks for a tool.
func (d *Decoder) conversation(list []message, numbered bool) (asks bool) {
	d.doc.record, d.doc.names = "messages", nil
	for n := 0; !d.stopped; n++ {
		reply := slices.IndexFunc(list, func(m message) bool { return m.reply() })
		if reply < 0 {
			break
		}
		end := reply + 1
		for end < len(list) && string(list[end].role) == `"toolResult"` && list[end].llm() {
			end++
		}
		t := turnRecord{index: strconv.AppendInt(nil, int64(n), 10), output: list[reply], inputs: slices.Concat(list[:reply], list[reply+1:end]),
			results: list[reply+1 : end]}
		if numbered {
			if own := memberOf(memberOf(list[reply].raw, "turnId"), "turnIndex"); own != nil {
				t.index = own
			}
		}
		t.usage = list[reply].usage
		asks = d.turn(&t)
		list = list[end:]
	}
	for i := range list {
		d.added(&list[i])
	}
	return asks
}

// memberOf returns the value of a member of an object, nil when there is none.
func memberOf(object []byte, name string) []byte {
	c := rawjson.NewCursor(object, maxDepth)
	if object == nil {
		return nil
	}
	for c.Open('{'); c.More('}'); {
		key := c.Key()
		found := string(key) == name
		if value := c.Value(); found {
			return value
		}
	}
	return nil
}
