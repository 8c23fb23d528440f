package phifixtures

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const repository = "../.."

// TestLong reads every line of every long session. The largest one is only counted: its lines are made by the same code.
func TestLong(t *testing.T) {
	turns := map[string]struct{ runs, turns int }{
		"long-200":   {1, 200},
		"long-20x10": {20, 200},
		"long-200x1": {200, 200},
		"long-mixed": {3, 200},
		"long-400":   {1, 400},
	}
	for _, name := range LongNames() {
		t.Run(name, func(t *testing.T) {
			want, ok := turns[name]
			if !ok {
				t.Fatal("unknown to this test")
			}
			stream := Long(t, repository, name)
			lines := bufio.NewReaderSize(stream, 1<<22)
			kinds := make(map[string]int)
			var raw, requests, first, last int
			distinct := make(map[string]struct{})
			for {
				line, err := lines.ReadSlice('\n')
				if len(line) == 0 && errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatalf("after %d bytes and %d of a line: %v", raw, len(line), err)
				}
				raw += len(line)
				kind := kindOf(t, line)
				kinds[kind]++
				if name != "long-400" && !json.Valid(line) {
					t.Fatalf("no JSON: %.200s", line)
				}
				if kind != "TurnRequest" {
					continue
				}
				payload := payloadOf(t, line)
				requests += len(payload)
				if first == 0 {
					first = len(payload)
				}
				last = len(payload)
				if testing.Verbose() {
					collect(t, payload, distinct)
				}
			}
			if err := stream.Close(); err != nil {
				t.Error(err)
			}
			if got := kinds["TurnRequest"]; got != want.turns || kinds["TurnStart"] != got || kinds["TurnEnd"] != got {
				t.Errorf("%d turns begin, %d have a request, %d end; want %d of each",
					kinds["TurnStart"], got, kinds["TurnEnd"], want.turns)
			}
			if kinds["AgentStart"] != want.runs || kinds["AgentEnd"] != want.runs {
				t.Errorf("%d runs begin and %d end, want %d", kinds["AgentStart"], kinds["AgentEnd"], want.runs)
			}
			size := 0
			for part := range distinct {
				size += len(part)
			}
			t.Logf("%d bytes; requests: %d bytes in all, first %d, last %d; their distinct parts: %d, %d bytes",
				raw, requests, first, last, len(distinct), size)
		})
	}
}

// TestLongNames: every long session that is there has a name, and the other fixtures are not disturbed by them.
func TestLongNames(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(repository, "dialects", "phi", "testdata", "long", "*.events.ndjson.zst"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		found = append(found, strings.TrimSuffix(filepath.Base(file), ".events.ndjson.zst"))
		if info, err := os.Stat(file); err != nil || info.Size() > 2<<20 {
			t.Errorf("%s: more than 2 MiB, or %v", file, err)
		}
	}
	if names := slices.Sorted(slices.Values(LongNames())); !slices.Equal(found, names) {
		t.Errorf("the folder has %q, LongNames %q", found, names)
	}
	for _, f := range All(t, repository) {
		if strings.HasPrefix(f.Name, "long") {
			t.Errorf("%s is among the short ones", f)
		}
	}
}

// TestEveryTurnHasItsRequest: tests of requests may take every turn of every recording.
func TestEveryTurnHasItsRequest(t *testing.T) {
	for _, f := range All(t, repository) {
		kinds := make(map[string]int)
		for _, line := range f.Lines() {
			kinds[kindOf(t, line)]++
		}
		if kinds["TurnStart"] != kinds["TurnRequest"] {
			t.Errorf("%s: %d turns, %d requests", f, kinds["TurnStart"], kinds["TurnRequest"])
		}
	}
}

// kindOf reads the type without the rest of a line that may have megabytes; phi-core writes it first.
func kindOf(t *testing.T, line []byte) string {
	t.Helper()
	rest, ok := bytes.CutPrefix(line, []byte(`{"type":"`))
	kind, _, found := bytes.Cut(rest, []byte(`"`))
	if !ok || !found {
		t.Fatalf("no event: %.200s", line)
	}
	return string(kind)
}

// payloadOf cuts the payload of a TurnRequest out of its line, byte for byte: between turn_index and timestamp.
func payloadOf(t *testing.T, line []byte) []byte {
	t.Helper()
	_, rest, ok := bytes.Cut(line, []byte(`,"payload":`))
	end := bytes.LastIndex(rest, []byte(`,"timestamp":"`))
	if !ok || end < 0 {
		t.Fatalf("no request: %.200s", line)
	}
	return rest[:end]
}

// collect adds the prompt, the tools and each message, as they are spelled.
func collect(t *testing.T, payload []byte, into map[string]struct{}) {
	t.Helper()
	var parts struct {
		Prompt   json.RawMessage   `json:"system_prompt"`
		Tools    json.RawMessage   `json:"tools"`
		Messages []json.RawMessage `json:"messages"`
	}
	if err := json.Unmarshal(payload, &parts); err != nil {
		t.Fatal(err)
	}
	for _, part := range append(parts.Messages, parts.Prompt, parts.Tools) {
		into[string(part)] = struct{}{}
	}
}
