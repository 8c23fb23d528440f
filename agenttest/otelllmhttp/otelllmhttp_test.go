package otelllmhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/instrumentation/net/http/otelllmhttp"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// world is what a case runs in.
type world struct {
	*testing.T
	loop
	server    *provider.Server
	pipeline  *agenttest.Pipeline
	transport *otelllmhttp.Transport
}

// another returns a second loop over the same client.
func (w *world) another() *loop {
	return &loop{api: w.api, stream: w.stream, url: w.url, client: w.client}
}

var weather = provider.Reply{Text: "I look.", Calls: []provider.Call{
	{ID: "c1", Name: "weather", Args: `{"city":"Bonn"}`}, {ID: "c2", Name: "weather", Args: `{"city":"Atlantis"}`}}}

var weatherResults = []result{{id: "c1", name: "weather", text: "21 degrees"},
	{id: "c2", name: "weather", text: "no such city", failed: true}}

// cases are those that every integration is tested with.
var cases = []struct {
	name    string
	replies []provider.Reply
	run     func(w *world)
	want    string
	only    func(l *loop) bool
}{
	{
		name:    "two parallel tools of which one fails",
		replies: []provider.Reply{weather, {Thinking: "Bonn is fine.", Text: "21 degrees in Bonn."}},
		run: func(w *world) {
			w.user("How warm is it?")
			w.must(w.Context(), w.T)
			w.results(weatherResults...)
			w.must(w.Context(), w.T)
		},
		want: `
session
  run weatherman completed
    turn 0 user CALLS in 15 out 5 cached 3
      tool c1 weather ok bound
      tool c2 weather FAILED bound
    turn 1 continuation STOP in 15 out 5 cached 3
`,
	},
	{
		name: "an attempt refused and asked again",
		replies: []provider.Reply{{Status: 429}, {Status: 529, Error: "Overloaded"}, weather, {Status: 529},
			{Text: "21 degrees in Bonn."}},
		run: func(w *world) {
			w.user("How warm is it?")
			w.must(w.Context(), w.T)
			w.results(weatherResults...)
			w.must(w.Context(), w.T)
		},
		want: `
session
  run weatherman completed
    turn 0 user CALLS in 15 out 5 cached 3 attempts 3 discarded 2
      tool c1 weather ok bound
      tool c2 weather FAILED bound
    turn 1 continuation STOP in 15 out 5 cached 3 attempts 2 discarded 1
`,
	},
	{
		name:    "an error that is not retried",
		replies: []provider.Reply{{Status: 400, Error: "No."}},
		run: func(w *world) {
			w.user("How warm is it?")
			if err := w.ask(w.Context()); !errors.Is(err, errStatus(400)) {
				w.Error(err)
			}
		},
		want: `
session
  run weatherman error "ERROR: No."
    turn 0 user failed provider_error "ERROR: No."
`,
	},
	{
		name:    "a stream cut in the middle",
		replies: []provider.Reply{{Text: "21 degrees", Cut: true}},
		run: func(w *world) {
			w.user("How warm is it?")
			if err := w.ask(w.Context()); !errors.Is(err, io.ErrUnexpectedEOF) {
				w.Error(err)
			}
		},
		only: isStreamed,
		want: `
session
  run weatherman error "unexpected EOF"
    turn 0 user PARTIAL failed provider_error "unexpected EOF"
`,
	},
	{
		name:    "an error in the middle of a stream",
		replies: []provider.Reply{{Text: "21 degrees", Error: "Overloaded."}},
		run: func(w *world) {
			w.user("How warm is it?")
			if err := w.ask(w.Context()); err == nil || !strings.Contains(err.Error(), "Overloaded.") {
				w.Error(err)
			}
		},
		only: isStreamed,
		want: `
session
  run weatherman error "BROKEN: Overloaded."
    turn 0 user SOFAR failed provider_error "BROKEN: Overloaded."
`,
	},
	{
		name:    "a stream closed early by the caller",
		replies: []provider.Reply{{Text: "21 degrees", Pause: func(ctx context.Context) { <-ctx.Done() }}},
		run: func(w *world) {
			w.user("How warm is it?")
			res, err := w.send(w.Context())
			if err != nil {
				w.Fatal(err)
			}
			buf, n := make([]byte, 1<<12), 0
			for !bytes.Contains(buf[:n], []byte("21 de")) { // the first half of the text
				k, err := res.Body.Read(buf[n:])
				if n += k; err != nil {
					w.Fatal(err)
				}
			}
			_ = res.Body.Close()
		},
		only: isStreamed,
		want: `
session
  run weatherman cancelled "the client closed the response: context canceled"
    turn 0 user PARTIAL failed cancelled "the client closed the response: context canceled"
`,
	},
	{
		name:    "cancellation in a model call",
		replies: []provider.Reply{{Text: "21 degrees", Pause: func(ctx context.Context) { <-ctx.Done() }}},
		run: func(w *world) {
			ctx, cancel := context.WithCancel(w.Context())
			w.user("How warm is it?")
			go func() {
				for len(w.server.Requests()) == 0 {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
			if err := w.ask(ctx); !errors.Is(err, context.Canceled) {
				w.Error(err)
			}
		},
		want: `
session
  run weatherman cancelled "context canceled"
    turn 0 user failed cancelled "context canceled"
`,
		only: func(l *loop) bool { return !l.stream }, // of a stream it is a matter of time what arrived
	},
	{
		name:    "a stream that the caller cancels, and neither reads nor closes",
		replies: []provider.Reply{{Text: "21 degrees", Pause: func(ctx context.Context) { <-ctx.Done() }}},
		run: func(w *world) {
			ctx, cancel := context.WithCancel(w.Context())
			w.user("How warm is it?")
			if _, err := w.send(ctx); err != nil {
				w.Fatal(err)
			}
			cancel()
			for until := time.Now().Add(10 * time.Second); !strings.Contains(w.pipeline.Outline(), "cancelled"); {
				if time.Sleep(time.Millisecond); time.Now().After(until) {
					w.Fatal("the turn is still open")
				}
			}
		},
		only: isStreamed,
		want: `
session
  run weatherman cancelled "context canceled"
    turn 0 user failed cancelled "context canceled"
`,
	},
	{
		name:    "cancellation in a tool",
		replies: []provider.Reply{weather},
		run: func(w *world) {
			ctx, cancel := context.WithCancel(w.Context())
			w.user("How warm is it?")
			w.must(ctx, w.T)
			_, tool := w.transport.StartTool(ctx, "weather", []byte(`{"city": "Bonn"}`))
			cancel()
			tool.End(otelagent.ToolResult{Err: ctx.Err()})
		},
		want: `
session
  run weatherman aborted
    turn 0 user CALLS in 15 out 5 cached 3
      tool c2 weather bound
      tool c1 weather cancelled "context canceled"
`,
	},
	{
		name:    "two questions in one conversation",
		replies: []provider.Reply{{Text: "21 degrees."}, {Text: "You are welcome."}, {Text: "Bye."}},
		run: func(w *world) {
			for _, question := range []string{"How warm is it?", "Thanks.", "Bye."} {
				w.user(question)
				w.must(w.Context(), w.T)
			}
		},
		want: `
session
  run weatherman completed
    turn 0 user STOP in 15 out 5 cached 3
  run weatherman completed
    turn 0 user STOP in 15 out 5 cached 3
  run weatherman completed
    turn 0 user STOP in 15 out 5 cached 3
`,
	},
	{
		name: "a loop that stops with calls open",
		replies: []provider.Reply{weather, {Text: "Fine."},
			{Calls: []provider.Call{{ID: "c3", Name: "sleep"}}}},
		run: func(w *world) {
			w.user("How warm is it?")
			w.must(w.Context(), w.T)
			w.user("Never mind.")
			w.must(w.Context(), w.T)
			w.user("Sleep.")
			w.must(w.Context(), w.T)
		},
		want: `
session
  run weatherman aborted
    turn 0 user CALLS in 15 out 5 cached 3
      tool c1 weather bound
      tool c2 weather bound
  run weatherman completed
    turn 0 user STOP in 15 out 5 cached 3
  run weatherman aborted
    turn 0 user CALLS in 15 out 5 cached 3
      tool c3 sleep bound
`,
	},
	{
		name: "a sub-agent in a tool",
		replies: []provider.Reply{{Calls: []provider.Call{{ID: "c1", Name: "ask", Args: `{"q":1}`}}},
			{Calls: []provider.Call{{ID: "c1", Name: "look"}}}, {Text: "Found."}, {Text: "It was found."}},
		run: func(w *world) {
			w.user("Find it.")
			w.must(w.Context(), w.T)
			ctx, tool := w.transport.StartTool(w.Context(), "ask", []byte(`{"q":1}`))
			sub := w.another()
			sub.system = "You find it."
			sub.user("Where is it?")
			sub.must(ctx, w.T)
			sub.results(result{id: "c1", name: "look", text: "here"})
			sub.must(ctx, w.T)
			tool.End(otelagent.ToolResult{Result: []byte(`"Found."`)})
			w.results(result{id: "c1", name: "ask", text: "Found."})
			w.must(w.Context(), w.T)
		},
		want: `
session
  run weatherman completed
    turn 0 user CALLS in 15 out 5 cached 3
      tool c1 ask ok
        run weatherman completed
          turn 0 sub_agent CALLS in 15 out 5 cached 3
            tool c1 look ok bound
          turn 1 continuation STOP in 15 out 5 cached 3
    turn 1 continuation STOP in 15 out 5 cached 3
`,
	},
	{
		name: "compaction",
		replies: []provider.Reply{{Blocks: []string{`{"type":"compaction","content":"They spoke of the weather."}`},
			Stop: "compaction"}, {Text: "21 degrees."}, {Text: "Bye."}},
		run: func(w *world) {
			w.user("How warm is it?")
			w.must(w.Context(), w.T)
			w.messages = w.messages[1:]
			w.must(w.Context(), w.T)
			w.user("Bye.")
			w.must(w.Context(), w.T)
		},
		only: func(l *loop) bool { return l.api == provider.Anthropic },
		want: `
session
  run weatherman completed
    turn 0 user compaction in 15 out 5 cached 3
      compaction summary
    turn 1 continuation STOP in 15 out 5 cached 3
  run weatherman completed
    turn 0 user STOP in 15 out 5 cached 3
`,
	},
	{
		name:    "a run of the program",
		replies: []provider.Reply{weather, {Text: "21 degrees."}, {Text: "A summary."}, {Text: "Bye."}},
		run: func(w *world) {
			ctx, run := w.pipeline.Tracer().StartRun(w.Context(), otelagent.RunInfo{SessionID: "mine", Agent: "coder"})
			w.user("How warm is it?")
			w.must(ctx, w.T)
			w.results(weatherResults...)
			w.must(ctx, w.T)
			inside, compaction := run.StartCompaction(ctx, otelagent.CompactionInfo{})
			other := w.another()
			other.user("Summarize.")
			other.must(inside, w.T)
			compaction.End(otelagent.CompactionResult{})
			w.user("Bye.")
			w.must(ctx, w.T)
			run.End(otelagent.RunResult{})
		},
		want: `
session mine
  run coder completed
    compaction summary
    turn 0 user CALLS in 15 out 5 cached 3
      tool c1 weather ok bound
      tool c2 weather FAILED bound
    turn 1 continuation STOP in 15 out 5 cached 3
    turn 2 utility STOP in 15 out 5 cached 3
    turn 3 user STOP in 15 out 5 cached 3
`,
	},
	{
		name:    "turns of the program, with approvals",
		replies: []provider.Reply{{Status: 529}, weather, {Text: "21 degrees."}, {Status: 400, Error: "No."}},
		run: func(w *world) {
			ctx, run := w.pipeline.Tracer().StartRun(w.Context(), otelagent.RunInfo{SessionID: "mine", Agent: "coder"})
			w.user("How warm is it?")
			turnCtx, turn := run.StartTurn(ctx, otelagent.TurnInfo{Trigger: spans.TriggerUser})
			w.must(turnCtx, w.T)
			turn.StartPermission(turnCtx, "weather", "c1").End(otelagent.Decision{Action: spans.ActionAllow})
			turn.StartPermission(turnCtx, "weather", "c2").End(otelagent.Decision{Action: spans.ActionDeny})
			turn.End(otelagent.TurnResult{})
			w.results(weatherResults...)
			_, turn = run.StartTurn(ctx, otelagent.TurnInfo{})
			w.must(otelllmhttp.ContextWithTurn(w.Context(), turn), w.T)
			turn.End(otelagent.TurnResult{})
			w.user("Thanks.")
			turnCtx, turn = run.StartTurn(ctx, otelagent.TurnInfo{})
			_ = w.ask(turnCtx)
			turn.End(otelagent.TurnResult{})
			run.End(otelagent.RunResult{})
		},
		want: `
session mine
  run coder completed
    turn 0 user CALLS in 15 out 5 cached 3 attempts 2 discarded 1
      permission weather allow
      permission weather deny
    turn 1 STOP in 15 out 5 cached 3
    turn 2 failed provider_error "ERROR: No."
`,
	},
	{
		name:    "only what is new, after a response",
		replies: []provider.Reply{weather, {Status: 529}, {Text: "21 degrees."}, {Text: "Bye."}},
		run: func(w *world) {
			w.stateful = true
			w.user("How warm is it?")
			w.must(w.Context(), w.T)
			w.results(weatherResults...)
			w.must(w.Context(), w.T)
			w.user("Bye.")
			w.must(w.Context(), w.T)
		},
		only: func(l *loop) bool { return l.api == provider.OpenAIResponses },
		want: `
session
  run weatherman completed
    turn 0 user CALLS in 15 out 5 cached 3
      tool c1 weather ok bound
      tool c2 weather FAILED bound
    turn 1 continuation STOP in 15 out 5 cached 3 attempts 2 discarded 1
  run weatherman completed
    turn 0 user STOP in 15 out 5 cached 3
`,
	},
}

// errorTexts are how the APIs spell the error of a case.
var errorTexts = map[provider.API]string{
	provider.Anthropic: "invalid_request_error", provider.OpenAIChat: "server_error",
	provider.OpenAIResponses: "server_error", provider.Gemini: "UNAVAILABLE"}

func isStreamed(l *loop) bool { return l.stream }

// each runs f for every API, whole and streamed; with only, for those that it is true of.
func each(t *testing.T, only func(l *loop) bool, f func(t *testing.T, l loop)) {
	for _, api := range provider.APIs {
		for _, stream := range []bool{false, true} {
			l := loop{api: api, stream: stream}
			if only != nil && !only(&l) {
				continue
			}
			name := string(api)
			if stream {
				name += " streamed"
			}
			t.Run(name, func(t *testing.T) { f(t, l) })
		}
	}
}

func newWorld(t *testing.T, l loop, s *provider.Server, opts ...otelagent.Option) *world {
	p := agenttest.New(t, opts...)
	base := http.DefaultTransport.(*http.Transport).Clone()
	t.Cleanup(base.CloseIdleConnections)
	tr := otelllmhttp.NewTransport(p.Tracer(), otelllmhttp.WithAgent("weatherman"), otelllmhttp.WithBase(base))
	l.url, l.client = s.URL, &http.Client{Transport: tr}
	return &world{T: t, loop: l, server: s, pipeline: p, transport: tr}
}

var content = otelagent.WithCapture(otelagent.CaptureContent)

func TestCases(t *testing.T) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			each(t, c.only, func(t *testing.T, l loop) {
				s := provider.New(t, c.replies...)
				w := newWorld(t, l, s, content)
				c.run(w)
				w.transport.Close()
				want := strings.ReplaceAll(w.spelled(c.want), "ERROR", errorTexts[l.api])
				got := w.pipeline.Outline()
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				w.pipeline.SameRequests(s.Bodies())
			})
		})
	}
}

// Conversations over one client that begin alike stay apart: by call ids, or by what the model replied.
func TestConversationsAtOnce(t *testing.T) {
	each(t, nil, func(t *testing.T, l loop) {
		const n = 8
		s := provider.NewFunc(t, func(i int, r provider.Request) provider.Reply {
			if i < n {
				return provider.Reply{Text: "reply " + string(rune('a'+i))}
			}
			return provider.Reply{Text: "Bye."}
		})
		w := newWorld(t, l, s, content)
		var loops [n]*loop
		for _, question := range []string{"Hello?", "How warm is it?"} {
			var wg sync.WaitGroup
			for i := range loops {
				if loops[i] == nil {
					loops[i] = w.another()
				}
				loops[i].user(question)
				wg.Go(func() {
					if err := loops[i].ask(t.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		w.transport.Close()
		all := w.pipeline.Sessions()
		if len(all) != n {
			t.Errorf("%d sessions, want %d:\n%s", len(all), n, w.pipeline.Outline())
		}
		for _, s := range all {
			if len(s.Runs) != 2 || len(s.Defects) > 0 {
				t.Errorf("%d runs, defects %v", len(s.Runs), s.Defects)
			}
		}
		w.pipeline.SameRequests(s.Bodies())
	})
}

// Without capture no byte of content is sent.
func TestNoContent(t *testing.T) {
	each(t, nil, func(t *testing.T, l loop) {
		const secret = "SECRET"
		s := provider.New(t, provider.Reply{Thinking: secret, Text: secret, Calls: []provider.Call{{ID: "c1", Name: "look",
			Args: `{"for":"` + secret + `"}`}}}, provider.Reply{Status: 529, Error: secret},
			provider.Reply{Text: secret, Error: secret}, provider.Reply{Status: 400, Error: secret})
		w := newWorld(t, l, s)
		w.user(secret)
		w.must(t.Context(), t)
		w.results(result{id: "c1", name: "look", text: secret, failed: true})
		_ = w.ask(t.Context())
		_ = w.ask(t.Context())
		w.user(secret)
		_ = w.ask(t.Context())
		w.transport.Close()
		if len(s.Requests()) != 4 || len(w.pipeline.Session().Runs) == 0 {
			t.Errorf("%d requests:\n%s", len(s.Requests()), w.pipeline.Outline())
		}
		for _, otlp := range w.pipeline.OTLP() {
			if strings.Contains(string(otlp), secret) {
				t.Fatal("content left the process")
			}
		}
	})
}

// An inferred run is no child of the span that a framework has around its model call.
func TestNewRoot(t *testing.T) {
	s := provider.New(t, provider.Reply{Text: "Hello."})
	w := newWorld(t, loop{api: provider.Anthropic}, s)
	ctx, span := w.pipeline.Provider().Tracer("framework").Start(t.Context(), "messages.create")
	w.user("Hello?")
	w.must(ctx, t)
	span.End()
	w.transport.Close()
	if run := w.pipeline.Session().Runs[0]; run.TraceID == span.SpanContext().TraceID().String() {
		t.Error("the run is in the trace of the framework")
	}
}

// The copies of an open turn show the reply as it comes in.
func TestPieces(t *testing.T) {
	each(t, isStreamed, func(t *testing.T, l loop) {
		release := make(chan struct{})
		s := provider.New(t, provider.Reply{Thinking: "abcd", Text: "21 degrees",
			Calls: []provider.Call{{ID: "c1", Name: "look", Args: `{"city":"Bonn"}`}},
			Pause: func(context.Context) { <-release }})
		p := agenttest.NewLive(t, content)
		tr := otelllmhttp.NewTransport(p.Tracer())
		l.url, l.client = s.URL, &http.Client{Transport: tr}
		l.user("How warm is it?")
		done := make(chan error)
		go func() { done <- l.ask(t.Context()) }()
		p.When(func(all []*session.Session, _ session.Batch) bool {
			for _, s := range all {
				for _, b := range s.LiveBlocks() {
					if strings.Contains(b.Body, "ab") {
						return true
					}
				}
			}
			return false
		})
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		tr.Close()
		http.DefaultClient.CloseIdleConnections()
	})
}
