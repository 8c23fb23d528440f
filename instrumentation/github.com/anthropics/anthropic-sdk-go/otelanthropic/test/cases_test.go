// Package test runs the SDK and its tool runner with the options against a model API on loopback, and compares the
// rebuilt sessions.
package test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/provider"
	"github.com/otelagent/otelagent/instrumentation/github.com/anthropics/anthropic-sdk-go/otelanthropic"
	"github.com/otelagent/otelagent/otelagent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// app is a program on the SDK: a client, tools, and a model API.
type app struct {
	*agenttest.Pipeline
	t      *testing.T
	server *provider.Server
	stream bool
	of     *otelanthropic.Instrumentation
	client anthropic.Client
	stop   bool   // at the first piece of a stream
	event  func() // at each piece of a stream; nil: nothing
	reply  func(int, provider.Request) provider.Reply
}

func newApp(t *testing.T, stream bool, capture otelagent.Capture, serve func(int, provider.Request) provider.Reply,
	more ...option.RequestOption) *app {
	a := &app{Pipeline: agenttest.New(t, otelagent.WithCapture(capture)), t: t, stream: stream, reply: serve}
	a.server = provider.NewFunc(t, func(n int, r provider.Request) provider.Reply { return a.reply(n, r) })
	base := &http.Transport{}
	t.Cleanup(base.CloseIdleConnections)
	a.of = otelanthropic.New(a.Tracer(), otelanthropic.WithAgent("assistant"))
	a.client = anthropic.NewClient(append(append([]option.RequestOption{option.WithBaseURL(a.server.URL),
		option.WithAPIKey("none"), option.WithHTTPClient(&http.Client{Transport: base})}, more...), a.of.Options()...)...)
	return a
}

// replies gives one reply a request.
func replies(t *testing.T, all ...provider.Reply) func(int, provider.Request) provider.Reply {
	return func(n int, _ provider.Request) provider.Reply {
		if n >= len(all) {
			t.Errorf("request %d, and only %d replies", n+1, len(all))
			return provider.Reply{Status: http.StatusBadRequest}
		}
		return all[n]
	}
}

type function struct {
	name string
	run  func(ctx context.Context, city string) (string, error)
}

func (f function) Name() string        { return f.name }
func (f function) Description() string { return "does " + f.name }
func (f function) InputSchema() anthropic.BetaToolInputSchemaParam {
	return anthropic.BetaToolInputSchemaParam{Properties: map[string]any{"city": map[string]any{"type": "string"}}}
}

func (f function) Execute(ctx context.Context, input json.RawMessage) (
	[]anthropic.BetaToolResultBlockParamContentUnion, error) {
	var in struct{ City string }
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, err
	}
	said, err := f.run(ctx, in.City)
	if err != nil {
		return nil, err
	}
	return []anthropic.BetaToolResultBlockParamContentUnion{{OfText: &anthropic.BetaTextBlockParam{Text: said}}}, nil
}

func weather(_ context.Context, city string) (string, error) {
	if city == "Atlantis" {
		return "", errors.New("no such city")
	}
	return "21 degrees", nil
}

// conversation is the messages of one conversation.
type conversation []anthropic.BetaMessageParam

// ask runs the tool runner for one question. With compact it compacts after the first turn.
func (a *app) ask(ctx context.Context, c *conversation, question string, compact bool,
	tools ...anthropic.BetaTool) error {
	*c = append(*c, anthropic.NewBetaUserMessage(anthropic.NewBetaTextBlock(question)))
	params := anthropic.BetaToolRunnerParams{BetaMessageNewParams: anthropic.BetaMessageNewParams{Model: "fake-1",
		MaxTokens: 100, Messages: *c}}
	tools = a.of.Tools(tools...)
	if a.stream {
		r := a.client.Beta.Messages.NewToolRunnerStreaming(tools, params)
		defer func() { *c = r.Messages() }()
		for events, err := range r.AllStreaming(ctx) {
			if err != nil {
				return err
			}
			if compact {
				r.CompactBeforeNextTurn(anthropic.BetaCompactionConfigUnionParam{})
				compact = false
			}
			for _, err := range events {
				if err != nil {
					return err
				}
				if a.event != nil {
					a.event()
				}
				if a.stop {
					return nil
				}
			}
		}
		return r.Err()
	}
	r := a.client.Beta.Messages.NewToolRunner(tools, params)
	defer func() { *c = r.Messages() }()
	for _, err := range r.All(ctx) {
		if err != nil {
			return err
		}
		if compact {
			r.CompactBeforeNextTurn(anthropic.BetaCompactionConfigUnionParam{})
			compact = false
		}
		if a.stop {
			return nil
		}
	}
	return r.Err()
}

func (a *app) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Error(err)
	}
}

func call(id, name, city string) provider.Call {
	return provider.Call{ID: id, Name: name, Args: `{"city":"` + city + `"}`}
}

// cases are those that every integration is tested with. The SDK has no approvals. Each is run whole and streamed.
var cases = []struct {
	name    string
	replies []provider.Reply
	run     func(t *testing.T, a *app)
	// unsent says that the SDK builds a request which its context stops, whole that there is no streamed form.
	unsent, whole bool
}{
	{
		name: "parallel tools of which one fails",
		replies: []provider.Reply{{Text: "I look.", Calls: []provider.Call{call("c1", "weather", "Bonn"),
			call("c2", "weather", "Atlantis")}}, {Text: "21 degrees."}},
		run: func(t *testing.T, a *app) {
			a.must(a.ask(t.Context(), &conversation{}, "Weather?", false, function{"weather", weather}))
		},
	},
	{
		name:    "an attempt refused and asked again",
		replies: []provider.Reply{{Status: 429, Error: "slow down"}, {Status: 529}, {Text: "Done."}},
		run:     func(t *testing.T, a *app) { a.must(a.ask(t.Context(), &conversation{}, "Weather?", false)) },
	},
	{
		name:    "an error that is not retried",
		replies: []provider.Reply{{Status: 400, Error: "bad request"}},
		run: func(t *testing.T, a *app) {
			if a.ask(t.Context(), &conversation{}, "Weather?", false) == nil {
				t.Error("no error")
			}
		},
	},
	{
		name:    "a stream cut in the middle",
		replies: []provider.Reply{{Text: "A long answer.", Cut: true}, {Text: "Done."}},
		run: func(t *testing.T, a *app) {
			if err := a.ask(t.Context(), &conversation{}, "Weather?", false); (err != nil) != a.stream {
				t.Error(err) // what is not streamed is asked again
			}
		},
	},
	{
		name:    "an error in the middle of a stream",
		replies: []provider.Reply{{Text: "A long answer.", Error: "overloaded"}},
		run: func(t *testing.T, a *app) {
			if err := a.ask(t.Context(), &conversation{}, "Weather?", false); (err != nil) != a.stream {
				t.Error(err)
			}
		},
	},
	{
		name: "a stream closed early by the caller",
		run: func(t *testing.T, a *app) {
			a.stop = true
			a.reply = func(int, provider.Request) provider.Reply {
				r := provider.Reply{Text: "A long answer."}
				if a.stream {
					r.Pause = func(ctx context.Context) { <-ctx.Done() }
				}
				return r
			}
			a.must(a.ask(t.Context(), &conversation{}, "Weather?", false))
		},
	},
	{
		name: "cancellation in a model call",
		run: func(t *testing.T, a *app) {
			ctx, cancel := context.WithCancel(t.Context())
			a.reply = func(int, provider.Request) provider.Reply {
				return provider.Reply{Text: "A long answer.", Pause: func(ctx context.Context) {
					if !a.stream { // a stream is cancelled when its first event is there
						cancel()
					}
					<-ctx.Done()
				}}
			}
			a.event = cancel
			if a.ask(ctx, &conversation{}, "Weather?", false) == nil {
				t.Error("no error")
			}
		},
	},
	{
		name:    "cancellation in a tool",
		unsent:  true,
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "weather", "Bonn")}}},
		run: func(t *testing.T, a *app) {
			ctx, cancel := context.WithCancel(t.Context())
			if a.ask(ctx, &conversation{}, "Weather?", false, function{"weather", func(ctx context.Context, _ string) (
				string, error) {
				cancel()
				return "", ctx.Err()
			}}) == nil {
				t.Error("no error")
			}
		},
	},
	{
		name:    "two questions in one conversation",
		replies: []provider.Reply{{Text: "One."}, {Text: "Two."}},
		run: func(t *testing.T, a *app) {
			var c conversation
			a.must(a.ask(t.Context(), &c, "First?", false))
			a.must(a.ask(t.Context(), &c, "Second?", false))
		},
	},
	{
		name: "two conversations at once",
		run: func(t *testing.T, a *app) {
			var both sync.WaitGroup
			both.Add(2)
			a.reply = func(_ int, r provider.Request) provider.Reply {
				if bytes.Contains(r.Body, []byte("tool_result")) {
					return provider.Reply{Text: "21 degrees."}
				}
				both.Done()
				both.Wait()
				if bytes.Contains(r.Body, []byte("second")) {
					return provider.Reply{Calls: []provider.Call{call("c2", "weather", "Rome")}}
				}
				return provider.Reply{Calls: []provider.Call{call("c1", "weather", "Bonn")}}
			}
			var done sync.WaitGroup
			for _, which := range []string{"first", "second"} {
				done.Go(func() {
					a.must(a.ask(t.Context(), &conversation{}, "The "+which+"?", false, function{"weather", weather}))
				})
			}
			done.Wait()
		},
	},
	{
		name:    "a loop that stops with calls open",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "weather", "Bonn")}}},
		run: func(t *testing.T, a *app) {
			_, err := a.client.Messages.New(t.Context(), anthropic.MessageNewParams{Model: "fake-1", MaxTokens: 100,
				Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Weather?"))}})
			a.must(err)
		},
	},
	{
		name: "a sub-agent in a tool",
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "research", "Bonn")}},
			{Calls: []provider.Call{call("c2", "weather", "Bonn")}}, {Text: "21."}, {Text: "Done."}},
		run: func(t *testing.T, a *app) {
			a.must(a.ask(t.Context(), &conversation{}, "Research.", false, function{"research",
				func(ctx context.Context, _ string) (string, error) {
					return "21", a.ask(ctx, &conversation{}, "Weather?", false, function{"weather", weather})
				}}))
		},
	},
	{
		name:  "compaction",
		whole: true,
		replies: []provider.Reply{{Calls: []provider.Call{call("c1", "weather", "Bonn")}},
			{Blocks: []string{`{"type":"compaction","content":"The user asks for the weather."}`}, Stop: "compaction"},
			{Text: "21 degrees."}},
		run: func(t *testing.T, a *app) {
			ctx, run := a.Tracer().StartRun(t.Context(), otelagent.RunInfo{Agent: "own"})
			a.must(a.ask(ctx, &conversation{}, "Weather?", true, function{"weather", weather}))
			run.End(otelagent.RunResult{})
		},
	},
}

// TestCases compares the tree of each case with testdata/outlines.txtar, which has that of the streamed form where it
// differs, and its requests byte for byte.
func TestCases(t *testing.T) {
	golden, err := txtar.ParseFile(goldenFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	var written []txtar.File
	for _, c := range cases {
		for _, form := range []string{"", ", streamed"} {
			if c.whole && form != "" {
				continue
			}
			t.Run(c.name+form, func(t *testing.T) {
				a := newApp(t, form != "", otelagent.CaptureContent, replies(t, c.replies...))
				c.run(t, a)
				a.of.Close()
				got := ordered(a.Outline())
				if first, ok := find(written, c.name); *update && (!ok || got != first) {
					written = append(written, txtar.File{Name: c.name + form, Data: []byte(got)})
				}
				if !*update {
					want, ok := find(golden.Files, c.name+form)
					if !ok {
						want, _ = find(golden.Files, c.name)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("outline (-want +got):\n%s", diff)
					}
				}
				if !c.unsent {
					a.SameRequests(a.server.Bodies())
				}
			})
		}
	}
	if *update {
		if err := os.WriteFile(goldenFile, txtar.Format(&txtar.Archive{Files: written}), 0o600); err != nil {
			t.Error(err)
		}
	}
}

var update = flag.Bool("update", false, "write testdata/outlines.txtar")

const goldenFile = "testdata/outlines.txtar"

func find(files []txtar.File, name string) (string, bool) {
	i := slices.IndexFunc(files, func(f txtar.File) bool { return f.Name == name })
	if i < 0 {
		return "", false
	}
	return string(files[i].Data), true
}

// ordered sorts what begins in any order, calls that are one below the other, and takes off what depends on time.
func ordered(outline string) string {
	outline = strings.TrimSuffix(changing.ReplaceAllString(outline, `"context canceled"`), "\n")
	lines := strings.Split(outline, "\n")
	isCall := func(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " "), "tool ") }
	for i := range lines {
		for j := i; j > 0 && isCall(lines[j-1]) && isCall(lines[j]) && lines[j] < lines[j-1]; j-- {
			lines[j-1], lines[j] = lines[j], lines[j-1]
		}
	}
	sessions := strings.Split("\n"+strings.Join(lines, "\n"), "\nsession")[1:]
	slices.Sort(sessions)
	return "session" + strings.Join(sessions, "\nsession") + "\n"
}

var changing = regexp.MustCompile(`"([^"\\]|\\.)*context canceled"`)

// Without capture no byte of content is sent.
func TestCaptureNone(t *testing.T) {
	for _, stream := range []bool{false, true} {
		a := newApp(t, stream, otelagent.CaptureNone, replies(t, provider.Reply{Text: "SecretReply",
			Calls: []provider.Call{call("c1", "weather", "SecretCity"), call("c2", "weather", "Atlantis")}},
			provider.Reply{Status: 400, Error: "SecretError"}))
		if a.ask(t.Context(), &conversation{}, "SecretQuestion", false, function{"weather", weather}) == nil {
			t.Error("no error")
		}
		a.of.Close()
		for _, batch := range a.OTLP() {
			for _, word := range []string{"Secret", "Atlantis", "no such city", "21 degrees"} {
				if bytes.Contains(batch, []byte(word)) {
					t.Errorf("%q is sent", word)
				}
			}
		}
		if o := a.Outline(); !strings.Contains(o, "c1 weather ok") || !strings.Contains(o, "in 15 out 5") {
			t.Errorf("outline:\n%s", o)
		}
	}
}

// The SDK's own spans are off; where they stay, the tree is the same and counts tokens once.
func TestOwnSpans(t *testing.T) {
	var off string
	for _, on := range []bool{false, true} {
		a := newApp(t, true, otelagent.CaptureContent, replies(t,
			provider.Reply{Calls: []provider.Call{call("c1", "weather", "Bonn")}}, provider.Reply{Text: "21."}))
		var more []otelanthropic.Option
		if on {
			more = append(more, otelanthropic.WithOwnSpans())
		}
		a.of = otelanthropic.New(a.Tracer(), append(more, otelanthropic.WithAgent("assistant"))...)
		a.client = anthropic.NewClient(append(a.of.Options(), option.WithBaseURL(a.server.URL), option.WithAPIKey("none"),
			option.WithTracerProvider(a.Provider()))...)
		a.must(a.ask(t.Context(), &conversation{}, "Weather?", false, function{"weather", weather}))
		a.of.Close()
		var in, out int64
		foreign, ours := 0, 0
		for _, s := range a.Sessions() {
			in, out = in+s.Usage.Input, out+s.Usage.Output
			if len(s.Runs) == 0 {
				foreign++
			} else {
				ours++
			}
		}
		if in != 30 || out != 10 || ours != 1 || (foreign > 0) != on {
			t.Errorf("own spans %v: %d and %d tokens, %d sessions, %d traces of theirs", on, in, out, ours, foreign)
		}
		_, tree, _ := strings.Cut("\n"+a.Outline(), "\n  run ")
		if !on {
			off = tree
		} else if tree != off {
			t.Errorf("with own spans:\n%s\nwithout:\n%s", tree, off)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
