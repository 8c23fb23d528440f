package clark

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// message is an AgentMessage; without raw there is none.
type message struct {
	*object.Object // nil when it is no object
	raw            []byte
}

func messageOf(raw []byte) message { return message{object.Of("", raw), raw} }

func (m message) assistant() bool { return m.String("role") == "assistant" }

// failed reports whether a reply is a failure.
func failed(m message) bool {
	stop := m.String("stop_reason")
	return stop == "error" || stop == "aborted"
}

// time is the time inside the message, in milliseconds since 1970; zero without one.
func (m message) time() time.Time {
	ms := intOf(m.Raw("timestamp"), 0)
	if ms == 0 || ms > math.MaxInt64/int64(time.Millisecond) {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

func (m message) event() otelagent.Message {
	return otelagent.Message{Raw: m.raw, Role: m.String("role"), ToolCallID: m.String("tool_call_id"), Time: m.time()}
}

// eventsOf returns the messages of a list. Nil is nil, and an empty list is one.
func eventsOf(list [][]byte) []otelagent.Message {
	if list == nil {
		return nil
	}
	out := make([]otelagent.Message, len(list))
	for i, raw := range list {
		out[i] = messageOf(raw).event()
	}
	return out
}

// intOf returns an integer that is not negative, or none.
func intOf(value []byte, none int64) int64 {
	if n, err := strconv.ParseInt(string(value), 10, 64); err == nil && n >= 0 {
		return n
	}
	return none
}

// textOf returns the text blocks of a result, one a line.
func textOf(result []byte) string {
	var parts []string
	for p := range genaijson.Parts(result) {
		if s, ok := p.Text(); ok && p.Type == "text" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "\n")
}

var usageKeys = []string{"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"}

// usage reads the counts of the message of l; nil when there are none, and when one is wrong, which is a problem of the
// line. The wire does not say how they count: it is as set, else as the provider set is known to count.
func (d *Decoder) usage(l *line) *otelagent.Usage {
	problems, found := l.Failed(), false
	o := l.msg.Object.Object("usage")
	u := &otelagent.Usage{Rule: d.Settings.Rule}
	for i, to := range []*int64{&u.Input, &u.Output, &u.CacheWrite, &u.CacheRead} {
		if n := o.Count(usageKeys[i]); n != nil {
			*to, found = *n, true
		}
	}
	switch {
	case !found || l.Failed() > problems:
		return nil
	case u.Rule != "":
	case d.Settings.Provider == "anthropic":
		u.Rule = spans.UsageRuleExcludesCache
	default:
		u.Rule = spans.UsageRuleIncludesCache
	}
	return u
}
