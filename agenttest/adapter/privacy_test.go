package adapter_test

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// TestPrivate plays every fixture with content and learns from it which values are content; then it plays it without
// capture and looks for each of them in every byte that is sent.
func TestPrivate(t *testing.T) {
	for _, file := range fixtures(t) {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".events.ndjson"), func(t *testing.T) {
			secrets, public := classify(playFixture(t, file, otelagent.WithCapture(otelagent.CaptureContent)).Batch())
			if len(secrets) == 0 && !strings.Contains(file, "veto") {
				t.Error("no content in this fixture: the test looks for nothing")
			}
			p := playFixture(t, file)
			for _, otlp := range p.OTLP() {
				for s := range secrets {
					if !public[s] && bytes.Contains(otlp, []byte(s)) {
						t.Errorf("content left the process: %.100q", s)
					}
				}
			}
			for _, row := range p.Batch().Rows {
				if len(row.Lists) > 0 {
					t.Errorf("%s carries lists", row.Kind)
				}
				for _, a := range row.Attrs {
					if known, ok := spans.Lookup(attribute.Key(a.Key)); !ok || known.Class == spans.ClassContent {
						t.Errorf("%s carries %s", row.Kind, a.Key)
					}
				}
			}
		})
	}
}

// classify returns the texts of content in the batch, and those that stand in it as ids, names or words as well.
func classify(b session.Batch) (secrets, public map[string]bool) {
	secrets, public = map[string]bool{}, map[string]bool{}
	secret := func(s string) {
		if len(s) >= 6 { // shorter ones are found in ids by chance
			secrets[s] = true
		}
	}
	for _, block := range b.Blocks {
		secret(block.Body)
		texts(block.Body, secret)
	}
	for _, a := range spans.Attributes() {
		public[string(a.Key)] = true
	}
	for _, row := range b.Rows {
		public[row.Session.ID], public[row.Run], public[row.Service] = true, true, true
		for _, e := range row.Events {
			public[e.Type] = true
		}
		for _, a := range row.Attrs {
			known, ok := spans.Lookup(attribute.Key(a.Key))
			s := a.Value.Text()
			switch {
			case ok && known.Class == spans.ClassContent:
				secret(s)
				texts(s, secret)
			default:
				public[s] = true
			}
		}
	}
	// A word of a name is no secret either: the model named in a reply is the model of the turn.
	for s := range secrets {
		for p := range public {
			if strings.Contains(p, s) {
				public[s] = true
				break
			}
		}
	}
	return secrets, public
}

// texts calls f with every string value of a JSON text.
func texts(body string, f func(string)) {
	var v any
	if json.Unmarshal([]byte(body), &v) != nil {
		return
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			f(v)
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[string]any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(v)
}
