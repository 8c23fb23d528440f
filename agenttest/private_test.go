package agenttest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// notContent are the keys of phi-core's events below which ids, numbers, names and words are. Everything else counts
// as content, so a new field is searched for until somebody decides otherwise.
var notContent = []string{
	"type", "role", "kind", "status", "loop_id", "session_id", "agent_id", "parent_loop_id", "child_loop_id",
	"loop_ids", "selected_loop_id", "tool_call_id", "toolCallId", "id", "tool_name", "toolName", "name",
	"loopId", "timestamp", "created_at", "stopReason", "triggered_by", "continuation_kind", "category",
	"model", "model_id", "provider", "api", "config_id", "thinking_level", "mimeType",
}

// free are keys of free JSON, which is content down to its keys' values, whatever they are called.
var free = []string{"arguments", "args", "details", "metadata", "data", "parameters"}

// contentOf finds every string of an event of phi-core that is content, and those that also are elsewhere.
func contentOf(v any, secret, public map[string]bool, open bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			contentOf(x, secret, public, open || slices.Contains(notContent, k))
			if slices.Contains(free, k) {
				contentOf(x, secret, map[string]bool{}, false)
			}
		}
	case []any:
		for _, x := range v {
			contentOf(x, secret, public, open)
		}
	case string:
		if open {
			public[v] = true
		} else if len(v) >= 6 { // shorter strings are in names and ids by chance
			secret[v] = true
		}
	}
}

// prose finds the strings of several words or with a slash, and those in strings that are JSON themselves. Names of
// agents, and ids and names with a slash, are public.
func prose(v any, secret, public map[string]bool, open bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			prose(x, secret, public, open || k == "agent" || k == "agentInfo" || k == "clientInfo")
		}
	case []any:
		for _, x := range v {
			prose(x, secret, public, open)
		}
	case string:
		var nested any
		names := []string{"example/", "estuary/", "session/", "fs/", "terminal/", "elicitation/", "$/", "_example.org/",
			"call/1", "trip-1/"}
		switch {
		case (strings.HasPrefix(v, "{") || strings.HasPrefix(v, "[")) && json.Unmarshal([]byte(v), &nested) == nil:
			prose(nested, secret, public, open)
		case open || slices.ContainsFunc(names, func(p string) bool { return strings.HasPrefix(v, p) }):
			public[v] = true
		case len(v) >= 8 && strings.ContainsAny(strings.TrimSpace(v), " /"):
			secret[v] = true
		}
	}
}

// recordings calls f with every recording of every dialect.
func recordings(t *testing.T, f func(t *testing.T, text []byte, phi bool)) {
	for _, fixture := range phifixtures.All(t, repository) {
		t.Run(fixture.String(), func(t *testing.T) { f(t, fixture.Events, true) })
	}
	for _, path := range foreignFiles(t) {
		text := must.Get(os.ReadFile(path))(t)
		t.Run(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), func(t *testing.T) { f(t, text, false) })
	}
}

// sendAll plays a recording of any dialect into a pipeline, and measures it.
func sendAll(t *testing.T, p *agenttest.Pipeline, text []byte, opts ...input.Settings) *agenttest.Pipeline {
	t.Helper()
	d, _, whole, err := dialects.Open(bytes.NewReader(text))
	must.Do(t, err)
	rec := event.NewRecorder(p.Tracer(), event.WithReplayMetrics())
	for ev, err := range d.New(append(opts, input.Settings{Session: "given-session"})...).Events(whole) {
		var bad *input.LineError
		if err != nil && !errors.As(err, &bad) {
			t.Fatal(err)
		} else if err == nil {
			rec.Record(t.Context(), ev)
		}
		if _, ok := ev.(*event.RequestPrepared); ok && len(opts) > 0 {
			time.Sleep(time.Millisecond) // so that live copies are made in between
		}
	}
	rec.Close(t.Context())
	return p
}

// With capture none, which is the default, and with digests, no content of any recording is in any byte that is sent:
// not from a file, not live and in no copy of an open span, not with the names of content. With capture none there are
// no lists either, and with everything captured neither content nor ids are in metrics.
func TestNothingLeavesWithoutCapture(t *testing.T) {
	t.Parallel()
	searched, found, copies, spelled := 0, 0, 0, 0
	recordings(t, func(t *testing.T, text []byte, phi bool) {
		secret, public := map[string]bool{}, map[string]bool{}
		for line := range bytes.Lines(text) {
			var v any
			if json.Unmarshal(line, &v) != nil {
				continue
			} else if phi {
				contentOf(v, secret, public, false)
			} else {
				prose(v, secret, public, false)
			}
		}
		file := sendAll(t, agenttest.New(t, writer.WithDerivedIDs), text)
		for _, row := range file.Batch().Rows {
			if len(row.Lists) > 0 {
				t.Errorf("%s carries lists", row.Kind)
			}
			for _, a := range row.Attrs {
				if known, ok := spans.Lookup(attribute.Key(a.Key)); !ok || known.Class == spans.ClassContent {
					t.Errorf("%s carries %s", row.Kind, a.Key)
				}
			}
		}
		live := func(opts ...otelagent.Option) [][]byte {
			return sendAll(t, agenttest.NewLive(t, append(opts, partly)...), text, input.Settings{Live: true}).OTLP()
		}
		none := bytes.Join(append(file.OTLP(), live()...), nil)
		hashed := bytes.Join(append(sendAll(t, agenttest.New(t, writer.WithDerivedIDs, digests), text).OTLP(),
			live(digests)...), nil)
		all := sendAll(t, agenttest.New(t, content), text)
		captured, metrics := bytes.Join(all.OTLP(), nil), exportedMetrics(t, all)
		if bytes.Contains(none, []byte(spans.LiveHeartbeatKey)) {
			copies++
		}
		for s := range secret {
			if public[s] || partOfAKey(s) {
				continue
			}
			searched++
			if bytes.Contains(captured, []byte(s)) {
				found++
			}
			if bytes.Contains(none, []byte(s)) {
				t.Errorf("is sent: %q", s)
			}
			// Digests come with provenance, which names records of memory.
			if bytes.Contains(hashed, []byte(s)) && !bytes.Contains(text, fmt.Appendf(nil, `"record_id":%q`, s)) &&
				!bytes.Contains(text, fmt.Appendf(nil, `"tier":%q`, s)) {
				t.Errorf("is sent with digests: %q", s)
			}
		}
		ids, names := idsOf(all.Batch())
		for s := range ids {
			secret[s] = true
		}
		known := strings.Join(names, "\n")
		for s := range secret {
			if bytes.Contains(metrics, []byte(s)) && !strings.Contains(known, s) {
				t.Errorf("is in metrics: %q", s)
			}
		}
		for _, s := range names {
			if bytes.Contains(metrics, []byte(s)) {
				spelled++
			}
		}
	})
	// The same search finds what is captured, but for texts that JSON spells with escapes, and deltas.
	if searched < 1000 || found < searched*5/8 || copies < 20 || spelled < 100 {
		t.Errorf("%d values searched for, %d found with capture, %d names in metrics, copies of %d recordings: it is blind",
			searched, found, spelled, copies)
	}
}

// partOfAKey reports whether s is in the name of a key of the registry, such as "tokens".
func partOfAKey(s string) bool {
	return slices.ContainsFunc(spans.Attributes(), func(a spans.Attribute) bool {
		return strings.Contains(string(a.Key),
			s)
	})
}

// idsOf returns the ids on spans, and the names, with those that are in metrics whatever happens.
func idsOf(b session.Batch) (ids map[string]bool, names []string) {
	ids = map[string]bool{}
	for _, m := range spans.Metrics() {
		names = append(names, fmt.Sprintln(m.Name, m.Unit, m.Brief, m.Attributes))
	}
	for _, row := range b.Rows {
		for _, a := range row.Attrs {
			text := a.Value.Text()
			switch known, _ := spans.Lookup(attribute.Key(a.Key)); {
			case len(text) < 6:
			case known.Class == spans.ClassName, known.Class == spans.ClassEnum:
				names = append(names, text)
			case known.Class == spans.ClassID:
				ids[text] = true
			}
		}
		ids[row.Session.ID], ids[row.Run] = true, true
	}
	delete(ids, "")
	return ids, append(names, writer.ScopeName)
}

// exportedMetrics returns the metrics of p as they go over OTLP.
func exportedMetrics(t *testing.T, p *agenttest.Pipeline) (sent []byte) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	exporter := must.Get(otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpointURL(server.URL+"/v1/metrics")))(t)
	scope := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: writer.ScopeName}, Metrics: p.Metrics()}
	must.Do(t, errors.Join(exporter.Export(t.Context(), &metricdata.ResourceMetrics{
		Resource: resource.Empty(), ScopeMetrics: []metricdata.ScopeMetrics{scope},
	}), exporter.Shutdown(t.Context())))
	return sent
}
