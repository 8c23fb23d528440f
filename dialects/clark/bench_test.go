package clark

import (
	"bufio"
	"bytes"
	"encoding/json"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
)

// rawEvent is what a reader by encoding/json would begin with: the keys of all variants, values as they came.
type rawEvent struct {
	Type      string          `json:"type"`
	Identity  json.RawMessage `json:"identity"`
	Messages  json.RawMessage `json:"messages"`
	Message   json.RawMessage `json:"message"`
	Results   json.RawMessage `json:"tool_results"`
	Partial   json.RawMessage `json:"partial"`
	Chunk     json.RawMessage `json:"chunk"`
	CallID    json.RawMessage `json:"tool_call_id"`
	ToolName  json.RawMessage `json:"tool_name"`
	Args      json.RawMessage `json:"args"`
	Result    json.RawMessage `json:"result"`
	IsError   json.RawMessage `json:"is_error"`
	Iteration json.RawMessage `json:"iteration"`
	Plugin    json.RawMessage `json:"plugin"`
	Before    json.RawMessage `json:"before"`
	After     json.RawMessage `json:"after"`
	Allow     json.RawMessage `json:"allow"`
	ModelID   json.RawMessage `json:"model_id"`
	System    json.RawMessage `json:"system_prompt"`
	Tools     json.RawMessage `json:"tools"`
}

// BenchmarkReader reads the sample 16 times over, as one stream: clark makes events of it, encodingjson only takes
// lines apart, into a struct of RawMessage fields.
func BenchmarkReader(b *testing.B) {
	in := bytes.Repeat(readFile(b, "testdata/sample.events.ndjson"), 16)
	b.Run("clark", func(b *testing.B) {
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
