package input

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Check reads the members of an object that a shape has, and notes a problem with each that does not fit it, or is
// there twice. A shape is keys, each with its type after a colon if it is no string (any, object, array, number, count,
// boolean, time), and with "!" after it if it must be there. A string that must be there must not be empty.
func Check(o *object.Object, shape string) {
	twice := o.Twice()
	for field := range strings.FieldsSeq(shape) {
		field, required := strings.CutSuffix(field, "!")
		key, typ, _ := strings.Cut(field, ":")
		if required {
			o.Require(key)
		}
		value := o.Raw(key)
		switch {
		case slices.Contains(twice, key):
			o.Fail(key, "stands there twice")
		case value == nil, typ == "any", typ == "object" && value[0] == '{', typ == "array" && value[0] == '[':
		case typ == "object": // these note the problem
			o.Object(key)
		case typ == "array":
			o.List(key)
		case typ == "number":
			o.Float(key)
		case typ == "count":
			o.Count(key)
		case typ == "boolean":
			o.Bool(key)
		case typ == "time":
			o.Time(key)
		case required && string(value) == `""`:
			o.Fail(key, "want a string that is not empty")
		case value[0] != '"':
			o.String(key)
		}
	}
}

// Message reads the message o, which is spelled raw: its role, the tool call that it answers, and its time. Members of
// another type are no problem: Raw keeps them.
func Message(o *object.Object, raw []byte) event.Message {
	m := event.Message{Raw: raw, Role: o.Text("role"), ToolCallID: o.Text("tool_call_id", "toolCallId", "tool_use_id")}
	for _, key := range [...]string{"timestamp", "created_at", "createdAt"} {
		m.Time = cmp.Or(m.Time, Time(o.Raw(key)))
	}
	return m
}

// Messages reads a list of messages; nil is nil.
func Messages(list [][]byte) []event.Message {
	if list == nil {
		return nil
	}
	messages := make([]event.Message, len(list))
	var o object.Object
	for i, raw := range list {
		o.Reset("", raw)
		messages[i] = Message(&o, raw)
	}
	return messages
}

// Texts returns the text blocks of the content of a message, or of the result of a tool, one a line.
func Texts(content []byte) string {
	var texts []string
	for _, p := range genaijson.Blocks(content) {
		if text, ok := p.Text(); ok && p.Type == "text" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// Provenance reads where a message came from, as [spans.Provenance.AppendJSON] writes it, its members in any order.
// A value that has other members, or spells one otherwise, is kept as it is in Provenance.Raw; null is the zero value.
func Provenance(value []byte) spans.Provenance {
	if string(value) == "null" {
		return spans.Provenance{}
	}
	var o object.Object
	o.Reset("", value)
	number := func(key string) int64 {
		if n := o.Count(key); n != nil {
			return *n
		}
		return 0
	}
	p := spans.Provenance{
		Kind: spans.ProvenanceKind(o.String("kind")), Name: o.String("name"), Order: number("order"),
		Tier: o.String("tier"), RecordID: o.String("record_id"), TurnIndex: number("turn_index"),
		Role: o.String("role"), MessageIndex: number("message_index"),
	}
	spelled, short := p.AppendJSON(nil), p.Encode()
	known := short != "" && short[0] != '?' // its kind has a short form
	if known && !bytes.Equal(spelled, value) {
		sorted, _ := rawjson.AppendCanonical(nil, spelled, nil)
		same, err := rawjson.AppendCanonical(nil, value, nil)
		known = err == nil && bytes.Equal(sorted, same)
	}
	if !known {
		return spans.Provenance{Raw: string(value)}
	}
	return p
}

// Compact returns a copy of a valid JSON value without blanks between its tokens; nil of nil.
func Compact(value []byte) []byte {
	if value == nil {
		return nil
	}
	return rawjson.AppendCompact(make([]byte, 0, len(value)), value)
}

// Members returns keys and values, in turn, as a JSON object: a value of []byte as it is spelled, one of string as
// JSON. It omits empty values, and is nil without any other.
func Members(members ...any) (object []byte) {
	size := len("}")
	for _, m := range members {
		switch m := m.(type) {
		case []byte:
			size += len(m)
		case string:
			size += len(m) + len(`"":,`)
		}
	}
	object = make([]byte, 0, size)
	for i := 0; i < len(members); i += 2 {
		value, _ := members[i+1].([]byte)
		text, _ := members[i+1].(string)
		if len(value) == 0 && text == "" {
			continue
		}
		object = append(rawjson.Quote(append(object, ','), members[i].(string)), ':')
		if object = append(object, value...); text != "" {
			object = rawjson.Quote(object, text)
		}
	}
	if len(object) == 0 {
		return nil
	}
	return rawjson.Enclose(object, 0, "{}")
}

// Array returns elements as a JSON array.
func Array(elements [][]byte) []byte {
	return slices.Concat([]byte{'['}, bytes.Join(elements, []byte{','}), []byte{']'})
}

// Merge returns the members of two JSON objects, of which the first has some and the second may be nil, as one.
func Merge(a, b []byte) []byte {
	if len(b) <= len("{}") {
		return a
	}
	return append(append(a[:len(a)-1:len(a)-1], ','), b[1:]...)
}
