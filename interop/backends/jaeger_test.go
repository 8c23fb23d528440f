package backends

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/backends"
	"github.com/otelagent/otelagent/spans"
)

// startJaeger starts the real server with the configuration of docker-compose.yaml, and returns where it takes OTLP
// over gRPC and where it answers queries.
func startJaeger(t *testing.T) (otlp, query string) {
	t.Helper()
	program := built(t, "JAEGER", "bin/jaeger", "interop/backends/run.sh jaeger")
	free := addresses(t, 4)
	cmd := exec.Command(program, "--config", filepath.Join(repository, "compose", "jaeger.yaml"))
	for i, name := range []string{"OTLP_GRPC", "JAEGER_HTTP", "JAEGER_GRPC", "HEALTH"} {
		cmd.Env = append(cmd.Env, name+"="+free[i])
	}
	cmd.Env = append(cmd.Env, "JAEGER_UI="+filepath.Join(repository, "compose", "jaeger-ui.json"))
	cmd.Env = append(cmd.Env, "OTEL_TRACES_SAMPLER=always_off") // it would send traces of its own to port 4317
	query = "http://" + free[1]
	serve(t, query+"/api/services", cmd)
	return free[0], query
}

// TestJaegerLinks compares the links that docs/backends.md shows, those of compose/jaeger-ui.json and those that a
// Jaeger with this file gives to its UI, and finds the attributes that they name in the registry. How the UI draws them
// is not seen here.
func TestJaegerLinks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docs", "backends.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```json\n")
	links, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/backends.md shows no links")
	}
	file, err := os.ReadFile(filepath.Join(repository, "compose", "jaeger-ui.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(links, string(file)); diff != "" {
		t.Errorf("(-docs +compose/jaeger-ui.json):\n%s", diff)
	}
	_, query := startJaeger(t)
	_, page, err := ask(t, http.MethodGet, query+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ = strings.Cut(string(page), "JAEGER_CONFIG = ")
	var want, got any
	if err := json.Unmarshal([]byte(links), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(strings.NewReader(rest)).Decode(&got); err != nil {
		t.Fatalf("the page has no configuration: %v", err)
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-docs +page):\n%s", diff)
	}
	for _, part := range strings.Split(links, "#{")[1:] {
		key, _, _ := strings.Cut(part, "}")
		if _, ok := spans.Lookup(attribute.Key(key)); !ok && key != "trace.traceID" {
			t.Errorf("#{%s} is no key of the registry", key)
		}
	}
}

// recordings are sessions of other producers that are sent after the Go loop.
var recordings = []string{
	"phi/testdata/phi-core-0.15.2/sub-agent-built-in.events.ndjson",
	"phi/testdata/phi-core-0.15.2/compaction-in-turn.events.ndjson",
	"clark/testdata/clark-agent-0.4.0/agreeing-gates.enveloped.ndjson",
	"acp/testdata/sdk/permissions.ndjson",
}

// TestJaeger sends sessions through our collector to a real Jaeger and reads everything back through its query API.
func TestJaeger(t *testing.T) {
	otlp, query := startJaeger(t)
	endpoint, db := collector(t, map[string]string{
		"otlp_grpc/jaeger": fmt.Sprintf("{endpoint: %q, tls: {insecure: true}, sending_queue: {enabled: false}}", otlp),
	})
	p := agenttest.New(t, captured...)
	for _, file := range append(recordings, "") {
		record(t, p, file)
	}
	sent := send(t, p, endpoint)
	longest := 0
	for id, td := range sent {
		want := plain(t, td)
		// Every span comes back as OTLP with every attribute, type, event and link, and no other.
		eventually(t, func() error {
			var answer struct {
				Result json.RawMessage `json:"result"`
			}
			if err := read(t, http.MethodGet, query+"/api/v3/traces/"+id.String(), nil, &answer); err != nil {
				return err
			}
			kept, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(answer.Result)
			if err != nil {
				return err
			}
			if diff := gocmp.Diff(want, plain(t, kept)); diff != "" {
				return fmt.Errorf("trace %s (-sent +kept):\n%s", id, diff)
			}
			return nil
		})
		for _, one := range single(td) {
			for _, e := range only(one).Events().All() {
				for _, v := range e.Attributes().All() {
					longest = max(longest, len(v.AsString()))
				}
			}
		}
		// The store has the session whose spans Jaeger has, by the trace id that Jaeger shows.
		v, _ := only(td).Attributes().Get(string(spans.SessionIDKey))
		var shown struct{ ID string }
		if err := json.Unmarshal([]byte(run(t, "show", id.String(), "--db", db, "--output", "json")), &shown); err != nil {
			t.Fatal(err)
		}
		if shown.ID != v.Str() {
			t.Errorf("otelagent show %s: session %q, Jaeger has %q", id, shown.ID, v.Str())
		}
	}
	if longest < 20000 {
		t.Errorf("the longest attribute of a span event has %d bytes, want 20,000", longest)
	}
	// Searches by tag. error=true, which is no attribute, finds nothing in this storage.
	for tags, traces := range map[string]int{
		`{"session.id":"` + backends.LoopSession + `"}`:                                      1,
		`{"gen_ai.conversation.id":"` + backends.LoopSession + `"}`:                          1,
		`{"gen_ai.tool.name":"radio","otelagent.tool.outcome":"error"}`:                      1,
		`{"error.type":"tool_error"}`:                                                        1,
		`{"otelagent.permission.action":"deny","session.id":"` + backends.LoopSession + `"}`: 1,
		`{"gen_ai.usage.output_tokens":"80"}`:                                                1,
		`{"gen_ai.tool.name":"tides","otelagent.tool.outcome":"error"}`:                      0,
		`{"session.id":"another"}`:                                                           0,
	} {
		var found struct {
			Data []struct{ TraceID string }
		}
		// The times of the loop lie in the future or the past of whoever runs this.
		at := "/api/traces?service=" + service(sent) + "&limit=20&start=0&end=4000000000000000&tags=" + url.QueryEscape(tags)
		if err := read(t, http.MethodGet, query+at, nil, &found); err != nil {
			t.Error(err)
		} else if len(found.Data) != traces {
			t.Errorf("%s: %d traces, want %d", tags, len(found.Data), traces)
		}
	}
}

// service is the service name of the spans.
func service(traces map[pcommon.TraceID]ptrace.Traces) string {
	for _, td := range traces {
		v, _ := td.ResourceSpans().At(0).Resource().Attributes().Get("service.name")
		return url.QueryEscape(v.AsString())
	}
	return ""
}

// plain are the spans of traces by id, as JSON in which attributes and events are in one order. Each event has all of
// its content in itself, so nothing depends on their order.
func plain(t *testing.T, td ptrace.Traces) map[string]any {
	t.Helper()
	var sorted func(v any) any
	sorted = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				if v[k] = sorted(x); k == "attributes" || k == "events" {
					list, _ := x.([]any)
					slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
				}
			}
		case []any:
			for i, x := range v {
				v[i] = sorted(x)
			}
		}
		return v
	}
	out := map[string]any{}
	for id, one := range single(td) {
		text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(one)
		var v any
		if err = errors.Join(err, json.Unmarshal(text, &v)); err != nil {
			t.Fatal(err)
		}
		out[id.String()] = sorted(v)
	}
	return out
}
