package ndjson

import (
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// plainMessage returns the message that the JSON value raw is by itself: its role and the call that it answers are read from it, and its time from
// timestamp, created_at or createdAt. It is no message by itself if it is null, or an object with the key raw or raw_text.
func plainMessage(raw []byte) (m otelagent.Message, ok bool) {
	if raw[0] == 'n' {
		return m, false
	}
	m.Raw = raw
	if raw[0] != '{' {
		return m, true
	}
	c := rawjson.NewCursor(raw, maxDepth)
	for c.Open('{'); c.More('}'); {
		switch key, value := c.Key(), c.Value(); string(key) {
		case "raw", "raw" + asText:
			return otelagent.Message{}, false
		case "role":
			m.Role = role(value)
		case "tool_call_id", "toolCallId", "tool_use_id":
			if s, isString := rawjson.String(value); isString {
				m.ToolCallID = s
			}
		case "timestamp", "created_at", "createdAt":
			if t, isTime := input.Time(value); isTime && m.Time.IsZero() {
				m.Time = t
			}
		}
	}
	return m, true
}

// role returns what a string says, of the usual roles without allocating.
func role(value []byte) string {
	switch string(value) {
	case `"user"`:
		return "user"
	case `"assistant"`:
		return "assistant"
	case `"tool"`:
		return "tool"
	case `"toolResult"`:
		return "toolResult"
	case `"system"`:
		return "system"
	}
	s, _ := rawjson.String(value)
	return s
}

// provenanceOf reads where a message came from, as Provenance.AppendJSON writes it. What says more, or something else, is kept as it came.
func provenanceOf(raw []byte) (p spans.Provenance) {
	asIs := spans.Provenance{Raw: string(raw)}
	if raw[0] != '{' {
		return asIs
	}
	const kind, name, order, tier, record, turn, by, message = 1, 2, 4, 8, 16, 32, 64, 128
	seen, strange := 0, false
	text := func(bit int, value []byte) string {
		s, ok := rawjson.String(value)
		strange = strange || !ok || seen&bit != 0
		seen |= bit
		return s
	}
	number := func(bit int, value []byte) int64 {
		var r reader
		if value[0] < '0' || value[0] > '9' || seen&bit != 0 {
			strange = true
			return 0
		}
		seen |= bit
		n := r.integer("", value)
		strange = strange || n < 0
		return n
	}
	c := rawjson.NewCursor(raw, maxDepth)
	for c.Open('{'); c.More('}'); {
		switch key, value := c.Key(), c.Value(); string(key) {
		case "kind":
			p.Kind = spans.ProvenanceKind(text(kind, value))
		case "name":
			p.Name = text(name, value)
		case "order":
			p.Order = number(order, value)
		case "tier":
			p.Tier = text(tier, value)
		case "record_id":
			p.RecordID = text(record, value)
		case "turn_index":
			p.TurnIndex = number(turn, value)
		case "role":
			p.Role = text(by, value)
		case "message_index":
			p.MessageIndex = number(message, value)
		default:
			return asIs
		}
	}
	want := 0
	switch p.Kind {
	case spans.ProvenanceSystem, spans.ProvenanceTools, spans.ProvenanceRest, spans.ProvenanceComposed,
		spans.ProvenanceSystemPrompt, spans.ProvenanceSteering, spans.ProvenanceFollowUp, spans.ProvenanceUnknown:
		want = kind
	case spans.ProvenanceIdentityBlock:
		want = kind | name | order
	case spans.ProvenanceMemoryTier:
		want = kind | tier | record
	case spans.ProvenanceLoopTurn:
		want = kind | turn | by | message
	}
	if strange || seen != want {
		return asIs
	}
	return p
}
