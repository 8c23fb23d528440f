package phi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
)

// rawEvent is what a reader by encoding/json would begin with: the keys of all variants, values as they came.
type rawEvent struct {
	Type          string          `json:"type"`
	LoopID        string          `json:"loop_id"`
	Timestamp     json.RawMessage `json:"timestamp"`
	AgentID       json.RawMessage `json:"agent_id"`
	SessionID     json.RawMessage `json:"session_id"`
	ParentLoopID  json.RawMessage `json:"parent_loop_id"`
	Continuation  json.RawMessage `json:"continuation_kind"`
	Metadata      json.RawMessage `json:"metadata"`
	Config        json.RawMessage `json:"config_snapshot"`
	Messages      json.RawMessage `json:"messages"`
	Usage         json.RawMessage `json:"usage"`
	Rejection     json.RawMessage `json:"rejection"`
	TurnIndex     json.RawMessage `json:"turn_index"`
	TriggeredBy   json.RawMessage `json:"triggered_by"`
	Payload       json.RawMessage `json:"payload"`
	Message       json.RawMessage `json:"message"`
	ToolResults   json.RawMessage `json:"tool_results"`
	Delta         json.RawMessage `json:"delta"`
	ToolCallID    json.RawMessage `json:"tool_call_id"`
	ToolName      json.RawMessage `json:"tool_name"`
	Args          json.RawMessage `json:"args"`
	PartialResult json.RawMessage `json:"partial_result"`
	Result        json.RawMessage `json:"result"`
	IsError       json.RawMessage `json:"is_error"`
	ChildLoopID   json.RawMessage `json:"child_loop_id"`
	Text          json.RawMessage `json:"text"`
	Reason        json.RawMessage `json:"reason"`
}

func sample(tb testing.TB) []byte {
	tb.Helper()
	return read(tb, "testdata/sample-session.ndjson")
}

func read(tb testing.TB, file string) []byte {
	tb.Helper()
	in := must.Get(os.ReadFile(file))(tb)
	return in
}

// BenchmarkReader reads the whole sample 16 times, as one stream of 1.5 MB: phi makes events of it, encodingjson only
// takes lines apart, into a struct of RawMessage fields. The ratio of the two is held by `make bench-check`.
func BenchmarkReader(b *testing.B) {
	in := bytes.Repeat(sample(b), 16)
	b.Run("phi", func(b *testing.B) {
		b.SetBytes(int64(len(in)))
		b.ReportAllocs()
		for b.Loop() {
			for _, err := range NewDecoder().Events(bytes.NewReader(in)) {
				must.Do(b, err)
			}
		}
	})
	b.Run("encodingjson", func(b *testing.B) {
		b.SetBytes(int64(len(in)))
		b.ReportAllocs()
		for b.Loop() {
			lines := bufio.NewScanner(bytes.NewReader(in))
			lines.Buffer(make([]byte, 64<<10), 64<<20)
			for lines.Scan() {
				var ev rawEvent
				must.Do(b, json.Unmarshal(lines.Bytes(), &ev))
			}
		}
	})
}
