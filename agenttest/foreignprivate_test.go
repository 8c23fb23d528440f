package agenttest_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// namedIn are keys below which a name with blanks may stand that is none of content: names of agents.
var namedIn = []string{"agent", "agentInfo", "clientInfo"}

// prose collects the strings of a JSON value that somebody wrote: those of several words, and what is behind keys that hold JSON as text.
func prose(v any, into map[string]bool, named map[string]bool, open bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			inner := open
			for _, n := range namedIn {
				inner = inner || k == n
			}
			prose(x, into, named, inner)
		}
	case []any:
		for _, x := range v {
			prose(x, into, named, open)
		}
	case string:
		var nested any
		if strings.HasPrefix(v, "{") || strings.HasPrefix(v, "[") {
			if json.Unmarshal([]byte(v), &nested) == nil {
				prose(nested, into, named, open)
				return
			}
		}
		switch {
		case open:
			named[v] = true
		case strings.Contains(strings.TrimSpace(v), " ") && len(v) >= 8 || strings.Contains(v, "/") && len(v) >= 8:
			into[v] = true
		}
	}
}

// The other dialects are as private as phi-core's: with capture none, and with digests, nothing that anybody wrote in a
// recording is in any byte that is sent, not in names, ids, values or facts either.
func TestNothingOfOtherDialectsLeaves(t *testing.T) {
	searched, found := 0, 0
	for _, path := range foreignFiles(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		secret, named := map[string]bool{}, map[string]bool{}
		for line := range bytes.Lines(text) {
			var v any
			if json.Unmarshal(line, &v) == nil {
				prose(v, secret, named, false)
			}
		}
		sent := func(level otelagent.Capture) []byte {
			d, _, whole, err := dialects.Open(bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			p := agenttest.New(t, writer.WithDerivedIDs, otelagent.WithCapture(level))
			rec := event.NewRecorder(p.Tracer())
			for ev, err := range d.New(input.WithSession("given")).Events(whole) {
				if err == nil {
					rec.Record(t.Context(), ev)
				}
			}
			rec.Close(t.Context())
			return bytes.Join(p.OTLP(), nil)
		}
		none, digests, captured := sent(otelagent.CaptureNone), sent(otelagent.CaptureDigests), sent(otelagent.CaptureContent)
		name := filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path)
		for s := range secret {
			if named[s] || isName(s) {
				continue
			}
			searched++
			if bytes.Contains(captured, []byte(s)) {
				found++
			}
			if bytes.Contains(none, []byte(s)) {
				t.Errorf("%s: is sent: %q", name, s)
			}
			if bytes.Contains(digests, []byte(s)) {
				t.Errorf("%s: is sent with digests: %q", name, s)
			}
		}
	}
	if searched < 500 || found < searched/2 {
		t.Errorf("%d values were searched for and %d are there when content is captured: the search is blind", searched, found)
	}
}

// isName reports whether s is a model, a method of ACP or an id of the recordings, which have slashes.
func isName(s string) bool {
	for _, p := range []string{"example/", "estuary/", "session/", "fs/", "terminal/", "elicitation/", "$/", "_example.org/", "call/1", "trip-1/"} {
		if strings.HasPrefix(s, p) {
			return true
		}
	}
	return false
}
