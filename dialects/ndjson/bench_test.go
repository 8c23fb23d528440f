package ndjson

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
)

// benchLines are the examples, and a request of 100 KB.
func benchLines(b *testing.B) (lines [][]byte, size int64) {
	text := must.Get(os.ReadFile("testdata/examples.ndjson"))(b)
	message := `{"role":"user","content":"` + strings.Repeat("some text of a session\\n", 40) + `"},`
	request := `{"type":"otelagent.request_prepared","run":"r1","payload":{"model":"m","messages":[` +
		strings.TrimSuffix(strings.Repeat(message, 100), ",") + `]}}`
	for line := range bytes.Lines(append(text, request...)) {
		line = bytes.TrimSpace(line)
		lines = append(lines, line)
		size += int64(len(line))
	}
	return lines, size
}

// BenchmarkDecoder reads lines. BenchmarkUnmarshal is what it is compared with: encoding/json into a struct of what
// every line has.
func BenchmarkDecoder(b *testing.B) {
	lines, size := benchLines(b)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		for i, line := range lines {
			if _, bad := Read(input.Settings{}, input.Line{Text: line, Number: int64(i), Seq: int64(i)}); bad != nil {
				b.Fatal(bad)
			}
		}
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	lines, size := benchLines(b)
	b.SetBytes(size)
	b.ReportAllocs()
	for b.Loop() {
		for _, line := range lines {
			var v struct {
				Type, Session, Run, Agent, Model, Provider, Name string
				TS, Config, Args, Result, Output, Payload        json.RawMessage
				CallID                                           string `json:"call_id"`
			}
			must.Do(b, json.Unmarshal(line, &v))
		}
	}
}
