package backends

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/spans"
)

// startPhoenix starts the real server, which asks nobody else for anything, and returns its address.
func startPhoenix(t *testing.T) string {
	t.Helper()
	python := built(t, "PHOENIX_PYTHON", "venv/bin/python", "interop/backends/run.sh phoenix")
	free, dir := addresses(t, 2), t.TempDir()
	_, port, _ := strings.Cut(free[0], ":")
	_, grpc, _ := strings.Cut(free[1], ":")
	cmd := exec.Command(python, "-m", "phoenix.server.main", "serve")
	cmd.Dir = dir
	cmd.Env = []string{
		"HOME=" + dir, "TMPDIR=" + dir, "PYTHONDONTWRITEBYTECODE=1", "PHOENIX_WORKING_DIR=" + dir,
		"PHOENIX_HOST=127.0.0.1", "PHOENIX_PORT=" + port, "PHOENIX_GRPC_PORT=" + grpc,
		"PHOENIX_TELEMETRY_ENABLED=false", "PHOENIX_ALLOW_EXTERNAL_RESOURCES=false", "PHOENIX_DISABLE_AGENT_ASSISTANT=true",
		"PHOENIX_AGENTS_DISABLE_WEB_ACCESS=true", "PHOENIX_AGENTS_DISABLE_BASH=true",
	}
	address := "http://" + free[0]
	serve(t, address+"/healthz", cmd)
	return address
}

// phoenix is the address of a Phoenix.
type phoenix string

// TestPhoenix sends sessions through our collector to a real Phoenix, one as it is and one that a collector
// translates into the words of OpenInference, and reads them back through its API.
func TestPhoenix(t *testing.T) {
	p := phoenix(startPhoenix(t))
	endpoint, _ := collector(t, map[string]string{
		"otlp_http/phoenix": fmt.Sprintf("{endpoint: %q, sending_queue: {enabled: false}}", p),
	})
	sent := func(of *agenttest.Pipeline, file, endpoint string) []ptrace.Span {
		record(t, of, file)
		return spansOf(send(t, of, endpoint))
	}
	t.Run("as it is", func(t *testing.T) {
		p.testPlain(t, sent(agenttest.New(t, captured...), recordings[0], endpoint))
	})
	t.Run("through a collector", func(t *testing.T) {
		free := addresses(t, 2)
		cmd := exec.Command(distribution(t), "--config", "openinference.yaml")
		cmd.Env = []string{"OTLP_GRPC=" + free[0], "OTLP_HTTP=" + free[1], "PHOENIX=" + string(p)}
		serveAt(t, cmd, free[1])
		denied := "phi/testdata/phi-core-0.15.2/tool-denied-by-hook.events.ndjson"
		p.testTransform(t, sent(agenttest.New(t, captured...), denied, "http://"+free[1]))
	})
}

// phoenixSession is what Phoenix shows of a session.
type phoenixSession struct {
	SessionID  string
	NumTraces  int
	FirstInput *phoenixValue
	LastOutput *phoenixValue
	TokenUsage struct{ Prompt, Completion, Total float64 }
}

type phoenixValue struct{ Value, MimeType string }

// session waits until Phoenix has n spans of a session, and returns what it shows of the session and of each span by
// its id.
func (p phoenix) session(
	t *testing.T,
	id string,
	sent []ptrace.Span,
) (shown phoenixSession, kept map[string]phoenixSpan) {
	t.Helper()
	eventually(t, func() error {
		kept = map[string]phoenixSpan{}
		var list struct{ Data []phoenixSpan }
		if err := read(t, http.MethodGet, string(p)+"/v1/projects/default/spans?limit=1000", nil, &list); err != nil {
			return err
		}
		for _, s := range list.Data {
			kept[s.Context.SpanID] = s
		}
		for _, s := range sent {
			if _, ok := kept[s.SpanID().String()]; !ok {
				return fmt.Errorf("%s %s is not there", s.Name(), s.SpanID())
			}
		}
		var answer struct {
			Data struct {
				Projects struct {
					Edges []struct {
						Node struct {
							Sessions struct {
								Edges []struct{ Node phoenixSession }
							}
						}
					}
				}
			}
			Errors json.RawMessage
		}
		err := read(
			t,
			http.MethodPost,
			string(p)+"/graphql",
			map[string]string{"query": `{projects(first: 5) {edges {node {sessions(first: 50) {edges {node {
			sessionId numTraces firstInput {value mimeType} lastOutput {value mimeType}
			tokenUsage {prompt completion total}}}}}}}}`},
			&answer,
		)
		if err != nil {
			return err
		}
		if answer.Errors != nil {
			t.Fatalf("GraphQL: %s", answer.Errors)
		}
		for _, project := range answer.Data.Projects.Edges {
			for _, s := range project.Node.Sessions.Edges {
				if s.Node.SessionID == id {
					shown = s.Node
					return nil
				}
			}
		}
		return errors.New("there is no session " + id)
	})
	return shown, kept
}

type phoenixSpan struct {
	Name       string         `json:"name"`
	Kind       string         `json:"span_kind"`
	Parent     *string        `json:"parent_id"`
	Status     string         `json:"status_code"`
	Attributes map[string]any `json:"attributes"`
	Context    struct {
		SpanID string `json:"span_id"`
	} `json:"context"`
}

// compare finds every span that was sent with its parent and status, and of the kind that Phoenix should give it.
func compare(t *testing.T, sent []ptrace.Span, kept map[string]phoenixSpan, kinds map[string]string) {
	t.Helper()
	for _, s := range sent {
		k := kept[s.SpanID().String()]
		parent := ""
		if k.Parent != nil {
			parent = *k.Parent
		}
		got := [4]string{k.Name, k.Kind, parent, k.Status}
		want := [4]string{s.Name(), kinds[s.Name()], s.ParentSpanID().String(), strings.ToUpper(s.Status().Code().String())}
		if got != want {
			t.Errorf("span %s: %q, want %q", s.SpanID(), got, want)
		}
	}
}

// testPlain finds session, tokens, kinds and messages as they are. What went in and out of the session is not
// shown then.
func (p phoenix) testPlain(t *testing.T, sent []ptrace.Span) {
	var prompt, completion int64
	var id string
	for _, s := range sent {
		v, _ := s.Attributes().Get(string(spans.SessionIDKey))
		id = v.Str()
		in, _ := s.Attributes().Get(string(spans.GenAIUsageInputKey))
		out, _ := s.Attributes().Get(string(spans.GenAIUsageOutputKey))
		prompt, completion = prompt+in.Int(), completion+out.Int()
	}
	got, kept := p.session(t, id, sent)
	want := phoenixSession{SessionID: id, NumTraces: 1}
	want.TokenUsage.Prompt, want.TokenUsage.Completion, want.TokenUsage.Total = float64(
		prompt,
	), float64(
		completion,
	), float64(
		prompt+completion,
	)
	if diff := gocmp.Diff(want, got); diff != "" || prompt == 0 {
		t.Errorf("session (-want +got):\n%s", diff)
	}
	compare(t, sent, kept, map[string]string{spans.SpanRun: "AGENT", spans.SpanTurn: "LLM", spans.SpanToolCall: "TOOL"})
	for _, s := range sent {
		attrs := kept[s.SpanID().String()].Attributes
		for _, key := range map[string][]string{
			spans.SpanTurn: {"llm.model_name", "llm.input_messages.0.message.role",
				"llm.output_messages.0.message.content", "llm.token_count.prompt"},
			spans.SpanToolCall: {"tool.name", "tool.id", "output.value"},
		}[s.Name()] {
			if _, asked := s.Attributes().Get(string(spans.InputMessagesKey)); !asked &&
				strings.HasPrefix(key, "llm.input_messages") {
				continue // only results of tool calls were new, and those are on the spans of the calls
			}
			if attrs[key] == nil {
				t.Errorf("%s: Phoenix made no %s", s.Name(), key)
			}
		}
	}
}

// testTransform finds kinds and values that a collector wrote in the words of OpenInference.
func (p phoenix) testTransform(t *testing.T, sent []ptrace.Span) {
	id, _ := sent[0].Attributes().Get(string(spans.SessionIDKey))
	got, kept := p.session(t, id.Str(), sent)
	if got.TokenUsage.Prompt == 0 || got.FirstInput != nil {
		t.Errorf("%+v: want tokens, and no first input", got)
	}
	compare(t, sent, kept, map[string]string{
		spans.SpanRun: "AGENT", spans.SpanTurn: "LLM", spans.SpanToolCall: "TOOL", spans.SpanPermission: "GUARDRAIL",
	})
	permissions := 0
	for _, s := range sent {
		attrs := kept[s.SpanID().String()].Attributes
		switch s.Name() {
		case spans.SpanPermission:
			permissions++
		case spans.SpanTurn:
			want, _ := s.Attributes().Get(string(spans.InputMessagesKey))
			if attrs["input.value"] != want.Str() {
				t.Errorf("input.value %.100q, want %.100q", attrs["input.value"], want.Str())
			}
		}
	}
	if permissions == 0 {
		t.Error("the recording has no permission evaluation")
	}
}
