package e2e

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"go.opentelemetry.io/otel/attribute"
	"google.golang.org/grpc"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
	"github.com/otelagent/otelagent/spans"
)

// testExamples runs those of examples/pipelines that have a backend of somebody else behind them, and tail sampling by
// everything that it names.
func testExamples(t *testing.T, bin string) {
	t.Run("every file is valid", func(t *testing.T) {
		files, err := filepath.Glob(filepath.Join(repo, "examples", "pipelines", "*.yaml"))
		if err != nil || len(files) < 9 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, f := range files {
			if filepath.Base(f) == "signal-to-metrics.yaml" {
				continue // for a collector of another version, which interop/prometheus builds
			}
			run(t, t.TempDir(), bin, "validate", "--config", f)
		}
	})
	t.Run("fan-out", func(t *testing.T) { testFanOut(t, bin) })
	t.Run("live", func(t *testing.T) { testLive(t, bin, "live.yaml", "JAEGER", "TEMPO") })
	t.Run("live fan-out", func(t *testing.T) { testLive(t, bin, "fan-out.yaml", "JAEGER") })
	t.Run("redaction", func(t *testing.T) { testRedaction(t, bin) })
	t.Run("tail sampling keeps", func(t *testing.T) { testKeeps(t, bin) })
}

// backend takes OTLP as a tracing backend does, and keeps what came.
type backend struct {
	ptraceotlp.UnimplementedGRPCServer
	addr string

	mu  sync.Mutex
	got []ptrace.Traces
}

func (b *backend) Export(_ context.Context, r ptraceotlp.ExportRequest) (ptraceotlp.ExportResponse, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	td := ptrace.NewTraces()
	r.Traces().CopyTo(td)
	b.got = append(b.got, td)
	return ptraceotlp.NewExportResponse(), nil
}

// names returns the names of all spans that came, sorted, and everything that came as JSON.
func (b *backend) names(t *testing.T) (names []string, text string) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, td := range b.got {
		for _, s := range spansOf(td) {
			names = append(names, s.Name())
		}
		raw := must.Get((&ptrace.JSONMarshaler{}).MarshalTraces(td))(t)
		text += string(raw)
	}
	slices.Sort(names)
	return names, text
}

func spansOf(td ptrace.Traces) (all []ptrace.Span) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				all = append(all, s)
			}
		}
	}
	return all
}

// detailed is the name that the pipelines give a span for a backend.
func detailed(s ptrace.Span) string {
	name := s.Name()
	for _, key := range map[string][]attribute.Key{
		spans.SpanRun:        {spans.AgentNameKey},
		spans.SpanToolCall:   {spans.ToolNameKey},
		spans.SpanCompaction: {spans.CompactionKindKeyKey},
		spans.SpanPermission: {spans.PermissionActionKey, spans.ToolNameKey},
	}[name] {
		if v, ok := s.Attributes().Get(string(key)); ok {
			name += " " + v.Str()
		}
	}
	return name
}

func newBackend(t *testing.T) *backend {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	b := &backend{addr: l.Addr().String()}
	s := grpc.NewServer()
	ptraceotlp.RegisterGRPCServer(s, b)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return b
}

// liveCopies returns the spans as they are sent while they are open.
func liveCopies(td ptrace.Traces) ptrace.Traces {
	out := ptrace.NewTraces()
	td.CopyTo(out)
	for _, s := range spansOf(out) {
		s.Attributes().PutStr(string(spans.KnownAsKey), string(spans.KnownLive))
		s.SetEndTimestamp(s.StartTimestamp() + 1)
		s.Events().RemoveIf(func(ptrace.SpanEvent) bool { return true })
	}
	return out
}

// testFanOut: both homes get every span; a backend that is away does not hold up the sessions.
func testFanOut(t *testing.T, bin string) {
	sent, want := recordings(t)
	var names []string
	for _, td := range sent {
		for _, s := range spansOf(td) {
			names = append(names, detailed(s))
		}
	}
	slices.Sort(names)
	t.Run("both", func(t *testing.T) {
		jaeger := newBackend(t)
		db := filepath.Join(t.TempDir(), "sessions.db")
		c := startPipeline(t, bin, "fan-out.yaml", "OTELAGENT_DB="+db, "JAEGER="+jaeger.addr)
		for _, td := range sent {
			c.send(t, liveCopies(td)) // which only the sessions are to see
			c.send(t, td)
		}
		if err := sameTrees(readAll(t, db), want); err != nil { // no waiting: it was acknowledged
			t.Fatal(err)
		}
		eventually(t, "the backend has every span", func() error {
			if got, _ := jaeger.names(t); !slices.Equal(got, names) {
				return fmt.Errorf("%d spans, want %d", len(got), len(names))
			}
			return nil
		})
		c.stop(t, false)
	})
	t.Run("backend away", func(t *testing.T) {
		db := filepath.Join(t.TempDir(), "sessions.db")
		c := startPipeline(t, bin, "fan-out.yaml", "OTELAGENT_DB="+db, "JAEGER="+freePort(t))
		for _, td := range sent {
			c.send(t, td)
		}
		must.Do(t, sameTrees(readAll(t, db), want))
		c.stop(t, true)
	})
}

// testLive: of a session that is sent as it runs, agent_session has every state and other backends nothing but spans
// that are over, each once.
func testLive(t *testing.T, bin, file string, names ...string) {
	db := filepath.Join(t.TempDir(), "sessions.db")
	env := []string{"OTELAGENT_DB=" + db}
	var backends []*backend
	for _, name := range names {
		b := newBackend(t)
		backends, env = append(backends, b), append(env, name+"="+b.addr)
	}
	c := startPipeline(t, bin, file, env...)
	p := must.Get(otelsetup.Setup(
		t.Context(),
		otelsetup.WithEndpoint("http://"+c.grpc),
		otelsetup.WithProtocol(otelsetup.GRPC),
		otelsetup.WithoutGlobal(),
		otelsetup.WithLive(0),
	))(t)
	until := func(want spans.SessionStatus) {
		eventually(t, "the store has every state", func() error {
			if s, ok := readAll(t, db)["s"]; !ok || s.tree.StatusAt(time.Now()) != want {
				return fmt.Errorf("the session is not %s", want)
			}
			return nil
		})
	}
	ctx, r := (*writer.Tracer)(
		otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()), otelagent.WithLive(p.Live())),
	).
		StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
	_, tn := r.StartTurn(ctx, writer.TurnInfo{})
	until(spans.SessionStatusBusy)
	tn.End(writer.TurnResult{})
	r.End(writer.RunResult{})
	must.Do(t, p.Shutdown(t.Context()))
	until(spans.SessionStatusIdle)
	c.stop(t, false) // which sends on what waits
	for i, b := range backends {
		got, text := b.names(t)
		if !slices.Equal(got, []string{spans.SpanRun, spans.SpanTurn}) || strings.Contains(text, string(spans.KnownAsKey)) {
			t.Errorf("%s has %v, copies or none of both:\n%s", names[i], got, text)
		}
	}
}

// secret is in everything that somebody wrote; key is what the built-in rules know.
const (
	secret = "PELICAN"
	key    = "sk-ant-api03-Zq8Xw2Lk9Vb4Nm7Rt5Yp1Hd6Jf3Gs0Aa"
)

// testRedaction: the store has the sessions without the key, the backend the tree without a word that anybody wrote.
func testRedaction(t *testing.T, bin string) {
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	ctx, r := (*writer.Tracer)(
		p.Tracer(),
	).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r", Agent: "coder", Model: "m",
		Config: []byte(
			`{"note":"` + secret + `"}`,
		), Metadata: []byte(`{"by":"` + secret + `"}`), Rules: []byte(`["` + secret + `"]`)})
	ctx, tn := r.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerUser})
	question := writer.Message{Role: "user", Raw: []byte(`{"role":"user","content":"` + secret + ` ` + key + `"}`)}
	tn.AddInput(question)
	tn.Request(
		writer.Request{Payload: []byte(`{"model":"m","system":"` + secret + `","messages":[` + string(question.Raw) + `]}`)},
	)
	ctx, call := tn.StartTool(ctx, writer.ToolCall{ID: "c1", Name: "bash", Args: []byte(`{"command":"` + secret + `"}`)})
	writer.Decide(
		ctx, call,
		writer.PermissionEvaluation{
			Pattern:   secret,
			Action:    spans.ActionAsk,
			Reason:    secret,
			DecidedBy: secret,
			Source:    spans.PermissionSourceProject,
		},
	)
	call.Progress("note", []byte(`"`+secret+`"`), writer.Moment{})
	call.End(writer.ToolResult{Outcome: spans.OutcomeError, Error: secret, Result: []byte(`"` + secret + `"`)})
	_, m := tn.StartCompaction(ctx, writer.Compaction{Kind: spans.CompactionKindSummary})
	m.End(writer.CompactionResult{Reason: secret, Summary: []byte(`"` + secret + `"`)})
	tn.End(
		writer.TurnResult{
			StopReason: "stop",
			Usage:      &writer.Usage{Input: 77},
			Failed:     true,
			Error:      secret,
			Output:     &writer.Message{Role: "assistant", Raw: []byte(`{"role":"assistant","content":"` + secret + `"}`)},
		},
	)
	r.End(writer.RunResult{Status: spans.RunStatusError, Error: secret})

	other := newBackend(t)
	db := filepath.Join(t.TempDir(), "sessions.db")
	c := startPipeline(t, bin, "redaction.yaml", "OTELAGENT_DB="+db, "BACKEND="+other.addr)
	before := 0
	for _, td := range messages(t, p) {
		before += td.SpanCount()
		raw, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
		if err != nil || !strings.Contains(string(raw), secret) {
			t.Fatalf("%v: nothing to take out", err)
		}
		c.send(t, td)
	}
	var names []string
	var text string
	eventually(t, "the backend has every span", func() error {
		if names, text = other.names(t); len(names) != before {
			return fmt.Errorf("%d spans, want %d", len(names), before)
		}
		return nil
	})
	c.stop(t, false)
	want := []string{spans.SpanCompaction, spans.SpanPermission, spans.SpanRun, spans.SpanTurn, spans.SpanToolCall}
	if !slices.Equal(names, want) {
		t.Errorf("the backend has spans %v, want %v", names, want)
	}
	for _, gone := range []string{secret, key} {
		if i := strings.Index(text, gone); i >= 0 {
			t.Errorf("the backend has %q: …%s…", gone, text[max(0, i-300):i+50])
		}
	}
	for _, kept := range []string{
		`"gen_ai.usage.input_tokens","value":{"intValue":"77"}`, `"stringValue":"bash"`, `"stringValue":"ask"`,
	} {
		if !strings.Contains(text, kept) {
			t.Errorf("the backend lacks %s", kept)
		}
	}
	stored := readAll(t, db)["s"]
	all := stored.json + fmt.Sprint(stored.requests)
	if strings.Contains(all, key) || len(stored.requests) != 1 {
		t.Errorf("the store has the key, or not the one request: %.500s", all)
	}
	if !strings.Contains(all, secret) {
		t.Error("the store lacks what no rule takes out")
	}
}

// testKeeps: of one session for each reason to keep one, and one for none, tail sampling keeps the former, whole.
func testKeeps(t *testing.T, bin string) {
	p := agenttest.New(t, otelagent.WithSessionTrace(), otelagent.WithCapture(otelagent.CaptureContent))
	two := func(id string, second func(context.Context, *writer.Turn) writer.TurnResult) {
		for n := range 2 { // two runs: what speaks for keeping the session is in the second alone
			ctx, r := (*writer.Tracer)(
				p.Tracer(),
			).StartRun(t.Context(), writer.RunInfo{SessionID: id, ID: fmt.Sprint("run-", n), Agent: "sampled", Model: "m"})
			ctx, tn := r.StartTurn(ctx, writer.TurnInfo{Trigger: spans.TriggerUser})
			res := writer.TurnResult{StopReason: "stop", Usage: &writer.Usage{Input: 100}}
			if n == 1 {
				res = second(ctx, tn)
			}
			tn.End(res)
			r.End(writer.RunResult{})
		}
	}
	cost := 0.75
	tool := func(ctx context.Context, tn *writer.Turn, end writer.ToolResult, asked ...writer.PermissionEvaluation) {
		ctx, call := tn.StartTool(ctx, writer.ToolCall{ID: "c", Name: "bash"})
		for _, e := range asked {
			writer.Decide(ctx, call, e)
		}
		call.End(end)
	}
	usual := writer.TurnResult{StopReason: "stop", Usage: &writer.Usage{Input: 100}}
	two("fine", func(ctx context.Context, tn *writer.Turn) writer.TurnResult {
		tool(ctx, tn, writer.ToolResult{}, writer.PermissionEvaluation{Action: spans.ActionAllow})
		small := 0.01
		return writer.TurnResult{StopReason: "stop", Usage: &writer.Usage{Input: 99_999}, Cost: &small, Currency: "USD"}
	})
	two("failed tool", func(ctx context.Context, tn *writer.Turn) writer.TurnResult {
		tool(ctx, tn, writer.ToolResult{Outcome: spans.OutcomeError})
		return usual
	})
	two("failed turn", func(context.Context, *writer.Turn) writer.TurnResult { return writer.TurnResult{Failed: true} })
	two("denied", func(ctx context.Context, tn *writer.Turn) writer.TurnResult {
		tool(ctx, tn, writer.ToolResult{Outcome: spans.OutcomeDenied}, writer.PermissionEvaluation{Action: spans.ActionDeny})
		return usual
	})
	two("denied without evaluation", func(ctx context.Context, tn *writer.Turn) writer.TurnResult {
		tool(ctx, tn, writer.ToolResult{Outcome: spans.OutcomeDenied})
		return usual
	})
	two("many tokens", func(context.Context, *writer.Turn) writer.TurnResult {
		return writer.TurnResult{StopReason: "stop", Usage: &writer.Usage{Input: 100_000}}
	})
	two("cost", func(context.Context, *writer.Turn) writer.TurnResult {
		return writer.TurnResult{StopReason: "stop", Usage: &writer.Usage{Input: 100}, Cost: &cost, Currency: "USD"}
	})
	two("long", func(ctx context.Context, tn *writer.Turn) writer.TurnResult {
		for range 200 {
			tool(ctx, tn, writer.ToolResult{})
		}
		return usual
	})
	want := map[string]string{}
	for _, s := range p.Sessions() {
		if s.ID != "fine" {
			want[s.ID] = treeJSON(t, s)
		}
	}
	if len(want) != 7 {
		t.Fatalf("%d sessions to keep, want 7", len(want))
	}
	db := filepath.Join(t.TempDir(), "sessions.db")
	c := startPipeline(t, bin, "tail-sampling.yaml", "OTELAGENT_DB="+db, "DECISION_WAIT=2s", "SHARE=0")
	for _, td := range messages(t, p) {
		c.send(t, td)
	}
	eventually(t, "what is to be kept is stored", func() error { return sameTrees(readAll(t, db), want) })
	c.stop(t, false)
	if err := sameTrees(readAll(t, db), want); err != nil { // and nothing else
		t.Fatal(err)
	}
}
