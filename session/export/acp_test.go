package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/internal/phifixtures"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/acp"
	"github.com/otelagent/otelagent/otelagent/clark"
	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/session/export"
	"github.com/otelagent/otelagent/spans"
)

// recorded records events and returns the sessions.
func recorded(t *testing.T, events iter.Seq2[otelagent.Event, error], capture otelagent.Capture) []export.Recorded {
	t.Helper()
	p := agenttest.New(t, otelagent.WithCapture(capture), otelagent.WithDerivedIDs())
	rec := otelagent.NewRecorder(p.Tracer())
	for ev, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(context.Background(), ev)
	}
	rec.Close(context.Background())
	return arrived(t, p)
}

func asTrace(t *testing.T, s *export.Recorded, opts export.Options) (trace []byte, missing []export.Missing) {
	t.Helper()
	var out bytes.Buffer
	missing, err := export.ACP(t.Context(), &out, s.Session, export.Held(s.Blocks), opts)
	if err != nil {
		t.Fatalf("session %s: %v", s.ID, err)
	}
	return out.Bytes(), missing
}

// What sessions of each dialect come to. interop/acp asks the official SDK whether it is valid, and plays it to its client.
func TestACPGolden(t *testing.T) {
	golden := func(t *testing.T, name string, sessions []export.Recorded) {
		t.Helper()
		if len(sessions) == 0 {
			t.Fatal("no sessions")
		}
		for i := range sessions {
			trace, missing := asTrace(t, &sessions[i], export.Options{})
			checkTrace(t, trace)
			var left []string
			for _, m := range missing {
				left = append(left, m.What)
			}
			file := name
			if i > 0 {
				file += "." + string(rune('a'+i))
			}
			export.Golden(t, "../acp/"+file+".ndjson", trace)
			if again, _ := asTrace(t, &sessions[i], export.Options{}); !bytes.Equal(trace, again) {
				t.Error("written again it is something else")
			}
			if d := gocmp.Diff(acpLeft[file], left); d != "" {
				t.Errorf("%s: what is left out: -want +got:\n%s", file, d)
			}
		}
	}
	names := []string{"compaction-in-turn", "tool-denied-by-hook", "steering-and-follow-up", "killed", "extension-message-and-image",
		"input-rejected-before-run", "parallel-tools-one-error", "sub-agent-host-wired", "revert"}
	for _, f := range phifixtures.All(t, "../..") {
		name, ok := strings.CutPrefix(f.String(), "0.15.2/")
		if !ok || !slices.Contains(names, name) {
			continue
		}
		t.Run(name, func(t *testing.T) { golden(t, "phi-core."+name, replayed(t, f.Events, otelagent.CaptureContent)) })
	}
	t.Run("guide", func(t *testing.T) {
		golden(t, "guide", imported(t, readFile(t, "../../otelagent/guide/testdata/session.jsonl")))
	})
	t.Run("clark-agent", func(t *testing.T) {
		golden(t, "clark-agent", recorded(t, clark.Events(bytes.NewReader(readFile(t, "../../otelagent/clark/testdata/sample.events.ndjson"))), otelagent.CaptureContent))
	})
	t.Run("acp", func(t *testing.T) {
		golden(t, "acp", recorded(t, acp.Events(bytes.NewReader(readFile(t, "../../otelagent/acp/testdata/sample.ndjson"))), otelagent.CaptureContent))
	})
}

// acpLeft is what ACP has no place for, by golden.
var acpLeft = map[string][]string{
	"phi-core.extension-message-and-image": {"ACP has no place for parts of the type data-extension (1)"},
	"guide":                                {"ACP has no place for parts of the type data-chart (1)"},
	"clark-agent":                          {"ACP has no place for parts of the type data-reasoning_details (1)"},
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// traced is a line of a trace.
type traced struct {
	TS        time.Time
	Direction string
	Message   struct {
		ID     *int64
		Method string
		Params struct {
			SessionID string
			Update    struct {
				SessionUpdate, ToolCallID, Status string
			}
			Meta struct {
				Otelagent struct{ Reconstructed bool }
			} `json:"_meta"`
		}
		Result, Error json.RawMessage
	}
}

// checkTrace holds what every trace must hold: ids from 0 on each side, responses to requests, the mark, and no call that goes back
// in its states.
func checkTrace(t *testing.T, raw []byte) []traced {
	t.Helper()
	var l []traced
	next := map[string]int64{}
	open := map[string]map[int64]bool{"client_to_agent": {}, "agent_to_client": {}}
	back := map[string]string{"client_to_agent": "agent_to_client", "agent_to_client": "client_to_agent"}
	over := map[string]bool{}
	for i, line := range bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n")) {
		var m traced
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		l = append(l, m)
		switch id := m.Message.ID; {
		case m.Message.Method == "":
			if id == nil || !open[back[m.Direction]][*id] {
				t.Errorf("line %d: nobody asked", i+1)
				continue
			}
			delete(open[back[m.Direction]], *id)
		case id != nil:
			if *id != next[m.Direction] {
				t.Errorf("line %d: id %d, want %d", i+1, *id, next[m.Direction])
			}
			next[m.Direction]++
			open[m.Direction][*id] = true
		}
		if u := m.Message.Params.Update; u.ToolCallID != "" {
			if over[u.ToolCallID] {
				t.Errorf("line %d: %s goes on after its end", i+1, u.ToolCallID)
			}
			over[u.ToolCallID] = u.Status == "completed" || u.Status == "failed"
		}
	}
	if l[0].Message.Method != "initialize" || !l[0].Message.Params.Meta.Otelagent.Reconstructed {
		t.Error("the first message does not say that this is a reconstruction")
	}
	return l
}

var _ = errors.Is
var _ = filepath.Base
var _ session.Session
var _ spans.RunStatus
