package guide_test

import (
	"bytes"
	"flag"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
)

var update = flag.Bool("update", false, "write the golden files anew")

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// printed returns events as lines of package ndjson, and errors as text.
func printed(events iter.Seq2[event.Event, error]) []byte {
	var b []byte
	for ev, err := range events {
		if err != nil {
			b = append(append(append(b, "error: "...), err.Error()...), '\n')
			continue
		}
		b = append(ndjson.AppendEvent(b, ev), '\n')
	}
	return b
}

func eventsOf(text []byte, opts ...input.Option) []byte {
	return printed(guide.Events(bytes.NewReader(text), opts...))
}

func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(strings.Split(string(read(t, path)), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("%s (-want +got, -update writes it anew):\n%s", path, diff)
	}
}

// fixtures are the inputs of testdata: those of this folder, and those that the real AI SDK wrote.
func fixtures(t testing.TB) (files []string) {
	t.Helper()
	for _, pattern := range []string{"testdata/*.jsonl", "testdata/*.json", "testdata/ai-sdk/*.jsonl",
		"testdata/ai-sdk/*.json"} {
		l, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, l...)
	}
	if len(files) < 2 {
		t.Fatalf("only %d fixtures", len(files))
	}
	return files
}

// TestGolden reads every fixture and compares every event with its golden file.
func TestGolden(t *testing.T) {
	for _, file := range fixtures(t) {
		t.Run(file, func(t *testing.T) {
			golden(t, file+".golden", eventsOf(read(t, file)))
		})
	}
}
