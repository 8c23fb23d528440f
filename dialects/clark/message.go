package clark

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// message is what stands at the top of an AgentMessage, as it is spelled; nil where it does not, or is null.
type message struct {
	raw, role, content, stopReason, errorMessage, timestamp, usage, toolCallID []byte
}

// messageOf looks into an object; raw is valid JSON.
func messageOf(raw []byte) message {
	m := message{raw: raw}
	c := rawjson.NewCursor(raw, maxDepth)
	for c.Open('{'); c.More('}'); {
		key, value := c.RawKey(), c.Value()
		if value[0] == 'n' {
			continue
		}
		switch string(key) {
		case `"role"`:
			m.role = value
		case `"content"`:
			m.content = value
		case `"stop_reason"`:
			m.stopReason = value
		case `"error_message"`:
			m.errorMessage = value
		case `"timestamp"`:
			m.timestamp = value
		case `"usage"`:
			m.usage = value
		case `"tool_call_id"`:
			m.toolCallID = value
		}
	}
	return m
}

func (m *message) assistant() bool { return string(m.role) == `"assistant"` }

// time is the time inside the message, in milliseconds since 1970; zero without one.
func (m *message) time() time.Time {
	ms, err := strconv.ParseInt(string(m.timestamp), 10, 64)
	if err != nil || ms <= 0 || ms > math.MaxInt64/int64(time.Millisecond) {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (m *message) event() otelagent.Message {
	return otelagent.Message{Raw: m.raw, Role: stringOf(m.role), ToolCallID: stringOf(m.toolCallID), Time: m.time()}
}

// messagesOf returns the elements of an array.
func messagesOf(array []byte) (list []message) {
	eachOf(array, func(raw []byte) {
		if raw[0] == '{' {
			list = append(list, messageOf(raw))
		} else {
			list = append(list, message{raw: raw})
		}
	})
	return list
}

// eventsOf returns messages as the neutral events have them. Nil is nil, and an empty list is one.
func eventsOf(list []message, there bool) []otelagent.Message {
	if !there {
		return nil
	}
	out := make([]otelagent.Message, len(list))
	for i := range list {
		out[i] = list[i].event()
	}
	return out
}

// eachOf calls fn for each element of an array; raw is valid JSON or nil.
func eachOf(raw []byte, fn func(value []byte)) {
	c := rawjson.NewCursor(raw, maxDepth)
	for c.Open('['); c.More(']'); {
		fn(c.Value())
	}
}

// membersOf calls fn for each member of an object; raw is valid JSON or nil. Values that are null are left out.
func membersOf(raw []byte, fn func(key string, value []byte)) {
	c := rawjson.NewCursor(raw, maxDepth)
	for c.Open('{'); c.More('}'); {
		key := string(c.Key())
		if value := c.Value(); value[0] != 'n' {
			fn(key, value)
		}
	}
}

// stringOf returns what a JSON string says; empty for all else.
func stringOf(value []byte) string {
	s, _ := rawjson.String(value)
	return s
}

// intOf returns an integer that is not negative, or none.
func intOf(value []byte, none int64) int64 {
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n >= 0 {
		return n
	}
	return none
}

// stringsOf returns the strings of an array.
func stringsOf(array []byte) []string {
	list := []string{}
	eachOf(array, func(value []byte) {
		if s, ok := rawjson.String(value); ok {
			list = append(list, s)
		}
	})
	return list
}

// textOf returns the text blocks of a content, one a line.
func textOf(content []byte) string {
	var parts []string
	eachOf(content, func(block []byte) {
		var typ string
		var text []byte
		membersOf(block, func(key string, value []byte) {
			switch key {
			case "type":
				typ = stringOf(value)
			case "text":
				text = value
			}
		})
		if s, ok := rawjson.String(text); ok && typ == "text" {
			parts = append(parts, s)
		}
	})
	return strings.Join(parts, "\n")
}

// usage reads four counts; nil when there are none, and when one is none: then the line is told to be wrong there.
func (d *Decoder) usage(l *line, path string, raw []byte) *otelagent.Usage {
	if raw == nil {
		return nil
	}
	if raw[0] != '{' {
		l.miss(path, "want an object, got "+rawjson.KindOf(raw))
		return nil
	}
	u := &otelagent.Usage{Rule: d.rule()}
	found := false
	membersOf(raw, func(key string, value []byte) {
		var to *int64
		switch key {
		case "input_tokens":
			to = &u.Input
		case "output_tokens":
			to = &u.Output
		case "cache_creation_input_tokens":
			to = &u.CacheWrite
		case "cache_read_input_tokens":
			to = &u.CacheRead
		default:
			return
		}
		found = true
		if *to = intOf(value, -1); *to < 0 {
			l.miss(path+"."+key, "want an integer from 0 to 9223372036854775807; the usage is unknown")
		}
	})
	if !found || min(u.Input, u.Output, u.CacheWrite, u.CacheRead) < 0 {
		return nil
	}
	return u
}

// rule says how usage is to be read, which the wire does not tell: as set, else as the provider set is known to count.
func (d *Decoder) rule() spans.UsageRule {
	switch {
	case d.settings.Rule != "":
		return d.settings.Rule
	case d.settings.Provider == "anthropic":
		return spans.UsageRuleExcludesCache
	default:
		return spans.UsageRuleIncludesCache
	}
}

// temperature rounds to 32 bits, which is what the loop has: some producers spell it with the digits of 64.
func temperature(value []byte) *float64 {
	t, err := strconv.ParseFloat(string(value), 32)
	if err != nil {
		return nil
	}
	if t, err = strconv.ParseFloat(strconv.FormatFloat(t, 'g', -1, 32), 64); err != nil {
		return nil
	}
	return &t
}
