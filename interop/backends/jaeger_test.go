package backends

import (
	"cmp"
	"encoding/json"
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

	"github.com/otelagent/otelagent/agenttest/backends"
	"github.com/otelagent/otelagent/spans"
)

// startJaeger starts the real server with the configuration of docker-compose.yaml, and returns where it takes OTLP over gRPC and where it answers queries.
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

// TestJaegerLinks compares the links that docs/backends.md shows, those of compose/jaeger-ui.json and those that a Jaeger with this file gives to
// its UI, and finds the attributes that they name in the registry. How the UI draws them is not seen here.
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
			t.Errorf("#{%s} is no key of ours", key)
		}
	}
}

// Recordings of other producers that are sent beside the Go loop.
var recordings = []string{
	"dialects/phi/testdata/phi-core-0.15.2/sub-agent-built-in.events.ndjson",
	"dialects/phi/testdata/phi-core-0.15.2/compaction-in-turn.events.ndjson",
	"dialects/clark/testdata/clark-agent-0.4.0/agreeing-gates.enveloped.ndjson",
	"dialects/acp/testdata/sdk/permissions.ndjson",
}

// TestJaeger sends sessions through our collector to a real Jaeger and reads everything back through its query API.
func TestJaeger(t *testing.T) {
	otlp, query := startJaeger(t)
	copies := newSink(t)
	endpoint, db := collector(t, map[string]string{
		"otlp_grpc/jaeger": fmt.Sprintf("{endpoint: %q, tls: {insecure: true}, sending_queue: {enabled: false}}", otlp),
		"otlp_http/copies": fmt.Sprintf("{endpoint: %q, compression: none, sending_queue: {enabled: false}}", "http://"+copies.addr),
	})
	sendLoop(t, endpoint)
	for _, file := range recordings {
		run(t, "send", "--endpoint", endpoint, "--protocol", "http/protobuf", "--capture", "content", filepath.Join(repository, file))
	}
	j := &jaeger{query: query, sent: copies.sent(t)}

	t.Run("everything", j.testEverything)
	t.Run("by tag", j.testTags)
	t.Run("GenAI view", j.testGenAI)
	t.Run("same in both", func(t *testing.T) { j.testBoth(t, db) })
}

// jaeger is a Jaeger and what was sent to it.
type jaeger struct {
	query string
	sent  map[pcommon.TraceID]ptrace.Traces
}

// span is everything that OTLP says of a span, in a form that can be compared.
type span struct {
	ID, Parent, Name, Kind, Status, Message, State string
	Start, End                                     int64
	Attributes, Resource, Scope                    map[string]any
	Events                                         []event
	Links                                          []link
	Dropped                                        [3]uint32 // attributes, events, links
}

type event struct {
	Name       string
	At         int64
	Attributes map[string]any
}

type link struct {
	Trace, Span string
	Attributes  map[string]any
}

// raw is what a map holds, empty or not.
func raw(m pcommon.Map) map[string]any {
	if m.Len() == 0 {
		return nil
	}
	return m.AsRaw()
}

func plain(td ptrace.Traces) []span {
	var list []span
	for _, p := range spansOf(td) {
		s := p.span
		one := span{
			ID: s.SpanID().String(), Parent: s.ParentSpanID().String(), Name: s.Name(), Kind: s.Kind().String(),
			Status: s.Status().Code().String(), Message: s.Status().Message(), State: s.TraceState().AsRaw(),
			Start: int64(s.StartTimestamp()), End: int64(s.EndTimestamp()),
			Attributes: raw(s.Attributes()), Resource: raw(p.resource.Attributes()), Scope: raw(p.scope.Attributes()),
			Dropped: [3]uint32{s.DroppedAttributesCount(), s.DroppedEventsCount(), s.DroppedLinksCount()},
		}
		for _, e := range s.Events().All() {
			one.Events = append(one.Events, event{e.Name(), int64(e.Timestamp()), raw(e.Attributes())})
		}
		// Events of one time come back in any order. Each has all of its content in itself, so nothing depends on it.
		slices.SortFunc(one.Events, func(a, b event) int {
			return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
		})
		for _, l := range s.Links().All() {
			one.Links = append(one.Links, link{l.TraceID().String(), l.SpanID().String(), raw(l.Attributes())})
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b span) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// testEverything asks for each trace as OTLP, and finds every span, attribute, type, event and link that was sent, and no other.
func (j *jaeger) testEverything(t *testing.T) {
	longest := 0
	for id, td := range j.sent {
		want := plain(td)
		eventually(t, func() error {
			var answer struct {
				Result json.RawMessage `json:"result"`
			}
			if err := read(t, http.MethodGet, j.query+"/api/v3/traces/"+id.String(), nil, &answer); err != nil {
				return err
			}
			kept, err := (&ptrace.JSONUnmarshaler{}).UnmarshalTraces(answer.Result)
			if err != nil {
				return err
			}
			got := plain(kept)
			if diff := gocmp.Diff(want, got); diff != "" {
				return fmt.Errorf("trace %s (-sent +kept):\n%s", id, diff)
			}
			return nil
		})
		for _, s := range want {
			for _, e := range s.Events {
				for _, v := range e.Attributes {
					longest = max(longest, len(fmt.Sprint(v)))
				}
			}
		}
	}
	if longest < 20000 {
		t.Errorf("the longest attribute of a span event has %d bytes, want 20,000: nothing shows that Jaeger keeps them whole", longest)
	}
}

// testTags finds sessions, and single spans, by what people search for.
func (j *jaeger) testTags(t *testing.T) {
	for _, c := range []struct {
		service string
		tags    string
		traces  int
	}{
		{"loop", `{"session.id":"` + backends.LoopSession + `"}`, 1},
		{"loop", `{"gen_ai.conversation.id":"` + backends.LoopSession + `"}`, 1},
		{"loop", `{"gen_ai.tool.name":"radio","otelagent.tool.outcome":"error"}`, 1},
		{"loop", `{"error.type":"tool_error"}`, 1}, // error=true, which is no attribute, finds nothing in this storage
		{"loop", `{"gen_ai.tool.name":"tides","otelagent.tool.outcome":"error"}`, 0},
		{"loop", `{"otelagent.permission.action":"deny"}`, 1},
		{"loop", `{"gen_ai.usage.output_tokens":"80"}`, 1},
		{"loop", `{"session.id":"another"}`, 0},
	} {
		var found struct {
			Data []struct{ TraceID string }
		}
		// The times of the loop lie in the future or the past of whoever runs this.
		at := "/api/traces?service=" + c.service + "&limit=20&start=0&end=4000000000000000&tags=" + url.QueryEscape(c.tags)
		if err := read(t, http.MethodGet, j.query+at, nil, &found); err != nil {
			t.Error(err)
		} else if len(found.Data) != c.traces {
			t.Errorf("%s: %d traces, want %d", c.tags, len(found.Data), c.traces)
		}
	}
}

// A legacy trace is what Jaeger's UI reads.
type legacyTrace struct {
	Spans []struct {
		OperationName string
		Tags          []tag
		Warnings      []string
	}
}

type tag struct {
	Key, Type string
	Value     json.RawMessage
}

// legacy asks for a trace as the UI does.
func (j *jaeger) legacy(t *testing.T, id string) *legacyTrace {
	t.Helper()
	var answer struct{ Data []legacyTrace }
	if err := read(t, http.MethodGet, j.query+"/api/traces/"+id, nil, &answer); err != nil {
		t.Fatal(err)
	}
	if len(answer.Data) != 1 {
		t.Fatalf("%d traces have the id %s", len(answer.Data), id)
	}
	return &answer.Data[0]
}

// testGenAI finds the tags that the UI's GenAI view reads in the types and shapes in which it reads them: counts as numbers,
// the operation as one of its own words, and messages as a list of {role, parts: [{type, ...}]}. agenttest/backends holds
// which tags there are.
func (j *jaeger) testGenAI(t *testing.T) {
	seen := 0
	for id := range j.sent {
		for _, s := range j.legacy(t, id.String()).Spans {
			if len(s.Warnings) > 0 {
				t.Errorf("%s: %q", s.OperationName, s.Warnings)
			}
			for _, g := range s.Tags {
				var text string
				var messages []struct {
					Role  string
					Parts []struct{ Type string }
				}
				ok := g.Type != "string" || json.Unmarshal(g.Value, &text) == nil
				switch {
				case strings.HasPrefix(g.Key, "gen_ai.usage."):
					ok = g.Type == "int64"
				case g.Key == "gen_ai.operation.name":
					ok = slices.Contains([]string{"chat", "execute_tool", "invoke_agent"}, text)
				case g.Key == "gen_ai.input.messages" || g.Key == "gen_ai.output.messages":
					ok = json.Unmarshal([]byte(text), &messages) == nil
					for _, m := range messages {
						ok = ok && slices.Contains([]string{"system", "user", "assistant", "tool"}, m.Role) && len(m.Parts) > 0
						for _, part := range m.Parts {
							ok = ok && part.Type != ""
						}
					}
				case g.Key == "gen_ai.tool.call.arguments" || g.Key == "gen_ai.tool.call.result":
					ok = json.Valid([]byte(text))
				default:
					seen--
				}
				if seen++; !ok {
					t.Errorf("%s %s is a %s that the view cannot read: %.200s", s.OperationName, g.Key, g.Type, g.Value)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d tags of the view", seen)
	}
}

// testBoth finds in our own store the sessions whose spans Jaeger has, by the trace id that Jaeger shows.
func (j *jaeger) testBoth(t *testing.T, db string) {
	for id, td := range j.sent {
		v, _ := spansOf(td)[0].span.Attributes().Get(string(spans.SessionIDKey))
		var shown struct{ ID string }
		if err := json.Unmarshal([]byte(run(t, "show", id.String(), "--db", db, "--output", "json")), &shown); err != nil {
			t.Fatal(err)
		}
		if shown.ID != v.Str() {
			t.Errorf("otelagent show %s: session %q, Jaeger has %q", id, shown.ID, v.Str())
		}
	}
}
