package otelacp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/coder/acp-go-sdk"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/dialects/acp"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is a client and an agent of the SDK over pipes, of which one side is traced.
type pair struct {
	t      testing.TB
	client interface {
		Initialize(context.Context, sdk.InitializeRequest) (sdk.InitializeResponse, error)
		NewSession(context.Context, sdk.NewSessionRequest) (sdk.NewSessionResponse, error)
		Prompt(context.Context, sdk.PromptRequest) (sdk.PromptResponse, error)
		Done() <-chan struct{}
	}
	agent    *sdk.AgentSideConnection
	script   *scripted
	toAgent  *io.PipeWriter
	toClient *io.PipeWriter
	outline  func() string
	traced   *ClientSideConnection // nil where the agent is traced
}

// side is where a connection is traced.
type side string

const (
	atClient side = "client"
	atAgent  side = "agent"
)

// connect connects the two, initializes, and opens the session s1.
func connect(t testing.TB, at side, tracer *otelagent.Tracer, answer answer, agent *scripted) *pair {
	t.Helper()
	agentReads, toAgent := io.Pipe()
	clientReads, toClient := io.Pipe()
	p := &pair{t: t, toAgent: toAgent, toClient: toClient, script: agent}
	quiet := slog.New(slog.DiscardHandler)
	agent.raw = toClient
	client := &editor{answer: answer, agent: agent}
	if at == atAgent {
		p.agent = NewAgentSideConnection(tracer, agent, toClient, agentReads)
		c := sdk.NewClientSideConnection(client, toAgent, clientReads)
		c.SetLogger(quiet)
		p.client = c
	} else {
		p.agent = sdk.NewAgentSideConnection(agent, toClient, agentReads)
		p.traced = NewClientSideConnection(tracer, client, toAgent, clientReads)
		p.traced.SetLogger(quiet)
		p.client = p.traced
	}
	p.agent.SetLogger(quiet)
	agent.conn = p.agent
	close(agent.ready)
	t.Cleanup(p.close)
	hello := sdk.InitializeRequest{ProtocolVersion: sdk.ProtocolVersionNumber}
	if _, err := p.client.Initialize(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	p.open()
	return p
}

// open opens the next session, s1 or s2.
func (p *pair) open() {
	p.t.Helper()
	_, err := p.client.NewSession(p.t.Context(), sdk.NewSessionRequest{Cwd: "/w", McpServers: []sdk.McpServer{}})
	if err != nil {
		p.t.Fatal(err)
	}
}

// close ends the connection, first where it is traced, and waits until both sides have seen that.
func (p *pair) close() {
	if p.traced != nil {
		_ = p.toClient.Close()
		<-p.client.Done()
	}
	_ = p.toAgent.Close()
	<-p.agent.Done()
	_ = p.toClient.Close()
	<-p.client.Done()
}

func (p *pair) prompt(ctx context.Context, session, text string) error {
	_, err := p.client.Prompt(ctx, sdk.PromptRequest{SessionId: sdk.SessionId(session),
		Prompt: []sdk.ContentBlock{sdk.TextBlock(text)}})
	return err
}

// scripted is an agent that does what its script says.
type scripted struct {
	sdk.Agent // what no test calls
	script    func(context.Context, *turn) (sdk.PromptResponse, error)
	ready     chan struct{}
	reached   chan struct{} // where a script waits
	goOn      chan struct{}
	conn      *sdk.AgentSideConnection
	raw       io.Writer

	mu       sync.Mutex
	sessions int
}

func newScripted(script func(context.Context, *turn) (sdk.PromptResponse, error)) *scripted {
	return &scripted{script: script, ready: make(chan struct{}), reached: make(chan struct{}, 1),
		goOn: make(chan struct{})}
}

func (a *scripted) Initialize(context.Context, sdk.InitializeRequest) (sdk.InitializeResponse, error) {
	return sdk.InitializeResponse{ProtocolVersion: sdk.ProtocolVersionNumber,
		AgentInfo: &sdk.Implementation{Name: "scripted", Version: "1"}}, nil
}

func (a *scripted) NewSession(context.Context, sdk.NewSessionRequest) (sdk.NewSessionResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sessions++
	return sdk.NewSessionResponse{SessionId: sdk.SessionId([]string{"s1", "s2"}[a.sessions-1])}, nil
}

func (a *scripted) Cancel(context.Context, sdk.CancelNotification) error { return nil }

func (a *scripted) Prompt(ctx context.Context, p sdk.PromptRequest) (sdk.PromptResponse, error) {
	<-a.ready
	return a.script(ctx, &turn{a, p.SessionId, p.Prompt[0].Text.Text})
}

// turn is one prompt for a script.
type turn struct {
	agent   *scripted
	session sdk.SessionId
	text    string
}

func (p *turn) update(u sdk.SessionUpdate) {
	_ = p.agent.conn.SessionUpdate(context.Background(), sdk.SessionNotification{SessionId: p.session, Update: u})
}

func (p *turn) says(text string) { p.update(sdk.UpdateAgentMessageText(text)) }

func (p *turn) starts(id, file string) {
	p.update(sdk.StartToolCall(sdk.ToolCallId(id), "Read "+file, sdk.WithStartKind(sdk.ToolKindRead),
		sdk.WithStartStatus(sdk.ToolCallStatusInProgress), sdk.WithStartRawInput(map[string]any{"path": file})))
}

func (p *turn) ends(id string, status sdk.ToolCallStatus, text string) {
	p.update(sdk.UpdateToolCall(sdk.ToolCallId(id), sdk.WithUpdateStatus(status),
		sdk.WithUpdateContent([]sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(text))})))
}

// waits waits until the prompt is cancelled, the connection ends, or the test goes on.
func (p *turn) waits(ctx context.Context) {
	p.agent.reached <- struct{}{}
	select {
	case <-ctx.Done():
	case <-p.agent.goOn:
	}
}

// asks asks the client for permission and returns whether it was given.
func (p *turn) asks(ctx context.Context, id string) (bool, error) {
	res, err := p.agent.conn.RequestPermission(ctx, sdk.RequestPermissionRequest{SessionId: p.session,
		ToolCall: sdk.ToolCallUpdate{ToolCallId: sdk.ToolCallId(id)},
		Options: []sdk.PermissionOption{
			{Kind: sdk.PermissionOptionKindAllowOnce, Name: "Allow", OptionId: "allow"},
			{Kind: sdk.PermissionOptionKindRejectOnce, Name: "Reject", OptionId: "reject"},
		}})
	return err == nil && res.Outcome.Selected != nil && res.Outcome.Selected.OptionId == "allow", err
}

func done() (sdk.PromptResponse, error) {
	cached := 3
	return sdk.PromptResponse{StopReason: sdk.StopReasonEndTurn,
		Usage: &sdk.Usage{InputTokens: 15, OutputTokens: 5, CachedReadTokens: &cached, TotalTokens: 20}}, nil
}

// editor is a client that answers permission requests as its field says.
type editor struct {
	sdk.Client // what no test calls
	answer     answer
	agent      *scripted
}

type answer func(context.Context, *scripted) (sdk.RequestPermissionResponse, error)

func (e *editor) SessionUpdate(context.Context, sdk.SessionNotification) error { return nil }

func (e *editor) RequestPermission(ctx context.Context, _ sdk.RequestPermissionRequest) (
	sdk.RequestPermissionResponse, error) {
	return e.answer(ctx, e.agent)
}

func chooses(option sdk.PermissionOptionId) answer {
	return func(context.Context, *scripted) (sdk.RequestPermissionResponse, error) {
		return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeSelected(option)}, nil
	}
}

// Usage of a prompt is that of its run, and counts once.
func TestUsage(t *testing.T) {
	pipe := agenttest.New(t)
	p := connect(t, atClient, pipe.Tracer(), nil,
		newScripted(func(context.Context, *turn) (sdk.PromptResponse, error) { return done() }))
	for range 2 {
		if err := p.prompt(t.Context(), "s1", "?"); err != nil {
			t.Fatal(err)
		}
	}
	p.close()
	s := pipe.Session()
	if u := s.Usage; u.Input != 30 || u.Output != 10 || u.CacheRead != 6 || len(s.Defects) > 0 {
		t.Errorf("usage %+v, defects %v", u, s.Defects)
	}
}

// A program that drives an agent from a tool of its own loop: the agent's run is a sub-agent of that tool.
func TestSubAgentInATool(t *testing.T) {
	pipe := agenttest.New(t)
	p := connect(t, atClient, pipe.Tracer(), nil, newScripted(
		func(_ context.Context, p *turn) (sdk.PromptResponse, error) {
			p.says("done")
			return done()
		}))
	ctx, run := pipe.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "main", Agent: "boss"})
	ctx, turn := run.StartTurn(ctx, otelagent.TurnInfo{})
	ctx, call := turn.StartTool(ctx, otelagent.ToolCall{ID: "c9", Name: "delegate"})
	if err := p.prompt(ctx, "s1", "?"); err != nil {
		t.Error(err)
	}
	call.End(otelagent.ToolResult{})
	turn.End(otelagent.TurnResult{})
	run.End(otelagent.RunResult{})
	if err := p.prompt(t.Context(), "s1", "and this?"); err != nil { // outside of the tool
		t.Error(err)
	}
	p.close()
	var parents []string
	for _, s := range pipe.Sessions() {
		for _, r := range s.Runs {
			parents = append(parents, s.ID+" "+r.ParentSessionID+" "+r.ParentToolCallID)
		}
	}
	slices.Sort(parents)
	if diff := cmp.Diff([]string{"main  ", "s1  ", "s1 main c9"}, parents); diff != "" {
		t.Error(diff)
	}
	if n := len(p.traced.wire.calls); n > 0 {
		t.Errorf("%d calls kept", n)
	}
}

// Without capture no byte of a prompt, a reply, an argument, a result or an error is sent.
func TestNothingLeavesWithoutCapture(t *testing.T) {
	for _, tt := range cases {
		pipe := agenttest.New(t)
		p := connect(t, atClient, pipe.Tracer(), tt.answer, newScripted(tt.script))
		p.outline = pipe.Outline
		if tt.run != nil {
			tt.run(t, p)
		} else {
			_ = p.prompt(t.Context(), "s1", "What is there?")
		}
		p.close()
		for _, batch := range pipe.OTLP() {
			for _, content := range []string{"What is", "I look", "I beg", "There is", "a.go", "no such file", "package a",
				"refused", "so be it", "shorter"} {
				if bytes.Contains(batch, []byte(content)) {
					t.Errorf("%s: %q was sent", tt.name, content)
				}
			}
		}
	}
}

// What a side writes is what the other reads, also where no line ends or can be read, and however it is cut. Afterwards
// nothing is kept.
func TestPassesEveryByte(t *testing.T) {
	sent := []byte("{\"jsonrpc\":\"2.0\"}\r\n\n\xff\x00{\n[1]\n" + strings.Repeat("[", 300) + "\n" +
		`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n" +
		`{"jsonrpc":"2.0","id":1,"result":{"stopReason":7}}` + "\nno end")
	long := slices.Concat(sent, bytes.Repeat([]byte{'x'}, maxLine+1), []byte("\n{}\n"))
	pipe := agenttest.New(t)
	for size, sent := range map[int][]byte{1 << 20: long, 4096: sent, 7: sent, 1: sent} {
		w := newWire(pipe.Tracer())
		var written bytes.Buffer
		out := &writer{&written, w, line{dir: acp.ToAgent}}
		in := &reader{bytes.NewReader(sent), w, line{dir: acp.ToClient}}
		var read bytes.Buffer
		buf := make([]byte, size)
		for {
			n, err := in.Read(buf)
			read.Write(buf[:n])
			if _, err := out.Write(buf[:n]); err != nil {
				t.Fatal(err)
			}
			if err != nil {
				break
			}
		}
		if !bytes.Equal(written.Bytes(), sent) || !bytes.Equal(read.Bytes(), sent) {
			t.Errorf("pieces of %d: %d bytes written and %d read of %d", size, written.Len(), read.Len(), len(sent))
		}
		if w.dec != nil || w.rec != nil || len(w.calls) > 0 {
			t.Error("something is kept after the end")
		}
	}
}

// pieces is a connection of which each call does what a function says.
type pieces []func(p []byte) (int, error)

func (l *pieces) next(p []byte) (int, error) {
	f := (*l)[0]
	*l = (*l)[1:]
	return f(p)
}

func (l *pieces) Write(p []byte) (int, error) { return l.next(p) }
func (l *pieces) Read(p []byte) (int, error)  { return l.next(p) }

func panics([]byte) (int, error)  { panic("the connection breaks") }
func works(p []byte) (int, error) { return len(p), nil }

// panicked calls f and reports whether the panic of a connection passed.
func panicked(f func()) (passed bool) {
	defer func() { passed = recover() == "the connection breaks" }()
	f()
	return false
}

const (
	asks     = `{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}` + "\n"
	callsOne = `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s",` +
		`"update":{"sessionUpdate":"tool_call","toolCallId":"c1","title":"R","kind":"read","status":"in_progress"}}}` + "\n"
	answers3 = `{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn"}}` + "\n"
)

// A request that is not sent, because the connection fails or panics, has failed, and the connection goes on. A panic
// of it passes.
func TestNotSent(t *testing.T) {
	pipe := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	w := newWire(pipe.Tracer())
	out := &writer{&pieces{panics, func([]byte) (int, error) { return 0, io.ErrClosedPipe }, works}, w,
		line{dir: acp.ToAgent}}
	send := func(id int) { _, _ = fmt.Fprintf(out, asks, id) }
	if !panicked(func() { send(1) }) {
		t.Error("the panic did not pass")
	}
	send(2)
	send(3)
	in := &reader{strings.NewReader(callsOne + answers3), w, line{dir: acp.ToClient}}
	if _, err := io.ReadAll(in); err != nil {
		t.Error(err)
	}
	want := `session s
  run error "the connection panicked"
    turn 0 user failed provider_error "the connection panicked"
  run error continues 1 "io: read/write on closed pipe"
    turn 0 user failed provider_error "io: read/write on closed pipe"
  run completed continues 2
    turn 0 user end_turn
      tool c1 read bound
`
	if diff := cmp.Diff(want, pipe.Outline()); diff != "" {
		t.Error(diff)
	}
}

// A panic of what the SDK reads from passes, and ends what is open.
func TestReadPanics(t *testing.T) {
	pipe := agenttest.New(t)
	w := newWire(pipe.Tracer())
	_, _ = fmt.Fprintf(&writer{io.Discard, w, line{dir: acp.ToAgent}}, asks, 1)
	in := &reader{&pieces{func(p []byte) (int, error) { return copy(p, callsOne), nil }, panics}, w,
		line{dir: acp.ToClient}}
	if !panicked(func() { _, _ = io.ReadAll(in) }) {
		t.Error("the panic did not pass")
	}
	want := `session s
  run aborted
    turn 0 user
      tool c1 read bound
`
	if diff := cmp.Diff(want, pipe.Outline()); diff != "" {
		t.Error(diff)
	}
}

// bad is a span processor of a program that panics when a tool call starts.
type bad struct{ trace.SpanProcessor }

func (b bad) OnStart(_ context.Context, s trace.ReadWriteSpan) {
	if s.Name() == spans.SpanToolCall {
		panic(s.Name())
	}
}

// A panic of the tracing ends what is open, and reaches no connection.
func TestPanicStaysHere(t *testing.T) {
	before := otel.GetErrorHandler()
	defer otel.SetErrorHandler(before)
	reported := 0
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) { reported++ }))
	seen := tracetest.NewSpanRecorder()
	p := trace.NewTracerProvider(trace.WithSpanProcessor(bad{seen}))
	w := newWire(otelagent.NewTracer(otelagent.WithTracerProvider(p)))
	out := &writer{io.Discard, w, line{dir: acp.ToAgent}}
	in := &writer{io.Discard, w, line{dir: acp.ToClient}}
	for range 2 {
		_, _ = fmt.Fprintf(out, asks, 1)
		_, _ = io.WriteString(in, callsOne)
	}
	w.end()
	var ended []string
	for _, s := range seen.Ended() {
		ended = append(ended, s.Name())
	}
	if diff := cmp.Diff([]string{spans.SpanTurn, spans.SpanRun}, ended); diff != "" || reported != 1 {
		t.Errorf("%d reports, %s", reported, diff)
	}
}

// Without a tracer the connection works.
func TestWithoutTracer(t *testing.T) {
	p := connect(t, atClient, nil, nil,
		newScripted(func(context.Context, *turn) (sdk.PromptResponse, error) { return done() }))
	if err := p.prompt(t.Context(), "s1", "?"); err != nil {
		t.Error(err)
	}
}
