package otelllmhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// answers sends requests nowhere.
type answers func(*http.Request) (*http.Response, error)

func (f answers) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// recorded returns a tracer and the spans that it ended.
func recorded(t testing.TB) (*otelagent.Tracer, *tracetest.SpanRecorder) {
	seen := tracetest.NewSpanRecorder()
	p := trace.NewTracerProvider(trace.WithSpanProcessor(seen))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return otelagent.NewTracer(otelagent.WithTracerProvider(p), otelagent.WithCapture(otelagent.CaptureContent)), seen
}

func post(t testing.TB, path, body string) *http.Request {
	t.Helper()
	return must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://model"+path,
		strings.NewReader(body)))(t)
}

func response(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

const chatReply = `{"id":"r1","choices":[{"index":0,"finish_reason":"stop",` +
	`"message":{"role":"assistant","content":"hi"}}]}`

func question(text string) string { return `{"messages":[{"role":"user","content":"` + text + `"}]}` }

// check fails the test unless the maps of t agree.
func check(t testing.TB, tr *Transport, want int) {
	t.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if tr.recent.Len() > want || tr.recent.Len() == 0 && (len(tr.index) > 0 || tr.timer != nil) {
		t.Fatalf("%d conversations and %d keys, want at most %d conversations", tr.recent.Len(), len(tr.index), want)
	}
	keys := 0
	for at := tr.recent.Front(); at != nil; at = at.Next() {
		c := at.Value.(*conversation)
		if keys += len(c.keys); c.at != at || len(c.keys) > maxKeys || len(c.asked) > maxKeys {
			t.Fatalf("a conversation has %d keys and %d requests", len(c.keys), len(c.asked))
		}
	}
	for key, list := range tr.index {
		keys -= len(list)
		for _, c := range list {
			if c.at == nil || len(list) == 0 {
				t.Fatalf("key %x finds a conversation that was forgotten", key)
			}
		}
	}
	if keys != 0 {
		t.Fatalf("the index and the conversations differ by %d keys", keys)
	}
}

// What is remembered is bounded, also where the program never reads a reply, and nothing of it stays after Close.
func TestStateIsBounded(t *testing.T) {
	tracer, seen := recorded(t)
	tr := NewTransport(tracer, nil, WithBase(answers(func(*http.Request) (*http.Response, error) {
		return response(200, chatReply), nil
	})))
	for i := range maxConversations + 10 {
		must.Get(tr.RoundTrip(post(t, "/v1/chat/completions", question(fmt.Sprint(i)))))(t)
	}
	check(t, tr, maxConversations)
	ended := func() (n int) {
		for _, s := range seen.Ended() {
			if s.Name() == spans.SpanRun {
				n++
			}
		}
		return n
	}
	if n := ended(); n != 10 {
		t.Errorf("%d runs ended, want those of the 10 oldest conversations", n)
	}
	tr.Close()
	check(t, tr, 0)
	if n := ended(); n != maxConversations+10 {
		t.Errorf("%d runs ended after Close", n)
	}

	// One conversation of many requests.
	messages := `{"role":"user","content":"0"}`
	for i := range 2 * maxKeys {
		res := must.Get(tr.RoundTrip(post(t, "/v1/chat/completions", `{"messages":[`+messages+`]}`)))(t)
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		messages += `,{"role":"assistant","content":"hi"},{"role":"user","content":"` + fmt.Sprint(i) + `"}`
	}
	check(t, tr, 1)
	tr.mu.Lock()
	tr.recent.Front().Value.(*conversation).last = time.Now().Add(-maxIdle)
	tr.mu.Unlock()
	tr.idle()
	check(t, tr, 0)
}

// What is no model call passes as it is, and is not recorded.
func TestPassesUntouched(t *testing.T) {
	tracer, seen := recorded(t)
	large := strings.Repeat(" ", maxBody+1)
	for _, c := range []struct{ name, path, body string }{
		{"another path", "/v1/embeddings", question("a")},
		{"a message of an assistant", "/v1/threads/t1/messages", `{"role":"user","content":"a"}`},
		{"a count of tokens", "/v1/messages/count_tokens", question("a")},
		{"a chat of another API", "/api/chat", question("a")},
		{"no JSON", "/v1/messages", "a"},
		{"no messages", "/v1/messages", `{"model":"m"}`},
		{"cut JSON", "/v1/messages", `{"messages":[{"role":"user"`},
		{"too large", "/v1/messages", large},
		{"empty", "/v1/messages", ""},
	} {
		sent := post(t, c.path, c.body)
		if c.name == "too large" {
			sent.ContentLength = -1 // a stream
		}
		answer := response(200, "x")
		tr := NewTransport(tracer, WithBase(answers(func(r *http.Request) (*http.Response, error) {
			var got []byte
			if r.Body != nil {
				got, _ = io.ReadAll(r.Body)
			}
			if string(got) != c.body || r.URL != sent.URL || r.ContentLength != sent.ContentLength {
				t.Errorf("%s: %d bytes were sent", c.name, len(got))
			}
			return answer, nil
		})))
		if res, err := tr.RoundTrip(sent); err != nil || res != answer || res.Body != answer.Body {
			t.Errorf("%s: %v", c.name, err)
		}
		tr.Close()
	}
	failed := errors.New("no network")
	tr := NewTransport(nil, WithBase(answers(func(*http.Request) (*http.Response, error) { return nil, failed })))
	if _, err := tr.RoundTrip(post(t, "/v1/messages", question("a"))); !errors.Is(err, failed) {
		t.Error(err)
	}
	tr.CloseIdleConnections()
	if len(seen.Started()) > 0 {
		t.Errorf("%d spans", len(seen.Started()))
	}
}

// FuzzConversations lets three loops take turns as the input says, with calls whose ids differ, retries, cuts and marks
// of caches that move. Every request of a loop belongs to the conversation of that loop, and the maps agree.
func FuzzConversations(f *testing.F) {
	f.Add([]byte{0, 1, 2, 0, 9, 17, 33, 1, 2, 64, 65, 66, 0, 1, 2, 128, 129, 130, 0, 0, 0})
	f.Add([]byte("conversations by ids, by the longest prefix and by the reply"))
	tracer := otelagent.NewTracer()
	f.Fuzz(func(t *testing.T, script []byte) {
		tr := NewTransport(tracer)
		defer func() {
			tr.Close()
			check(t, tr, 0)
		}()
		type loop struct {
			messages []string
			of       *conversation
			open     bool
			failed   bool
		}
		loops := [3]loop{{messages: []string{`{"role":"user","content":"a"}`}},
			{messages: []string{`{"role":"user","content":"a"}`}}, {messages: []string{`{"role":"user","content":"b"}`}}}
		for i, op := range script[:min(len(script), 200)] {
			l := &loops[int(op)%len(loops)]
			mark := ""
			if op&8 != 0 {
				mark = `,"cache_control":{"type":"ephemeral"}`
			}
			if !l.failed && l.of != nil {
				last := `{"role":"user","content":[{"type":"text","text":"more"}]}`
				if l.open {
					last = fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c%p%d","content":"x"}]}`,
						l, len(l.messages))
				}
				l.messages = append(l.messages, last)
			}
			body := strings.Join(l.messages, ",")
			if mark != "" {
				body = strings.Replace(body, `"text":"more"`, `"text":"more"`+mark, 1)
			}
			body = `{"messages":[` + body + `]}`
			e := tr.begin(post(t, "/v1/messages", body), []byte(body))
			if e == nil || l.of != nil && e.of != l.of {
				t.Fatalf("operation %d: another conversation for %s", i, body)
			}
			// Of two loops that began alike and failed, nothing says which asks again.
			l.of, l.failed, l.open = e.of, op&16 != 0 && len(l.messages) > 1, op&32 != 0
			b := newBody(e, response(200, ""))
			reply := fmt.Sprintf(`[{"type":"text","text":"reply %d"}]`, i)
			switch {
			case l.failed:
				b.status, b.again = 529, true
				b.text.add([]byte(`{"type":"error","error":{"type":"overloaded_error","message":"no"}}`))
			case l.open:
				reply = fmt.Sprintf(`[{"type":"tool_use","id":"c%p%d","name":"look","input":{}}]`, l, len(l.messages)+1)
			}
			if !l.failed {
				b.text.add(fmt.Appendf(nil, `{"type":"message","role":"assistant","id":"m%d","content":%s}`, i, reply))
				l.messages = append(l.messages, `{"role":"assistant","content":`+reply+`}`)
			}
			b.finish(io.EOF)
			check(t, tr, len(loops))
		}
	})
}

// FuzzRequest reads any body as a request and as a reply.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(question("a")), []byte(chatReply))
	f.Add([]byte(`{"input":[{"type":"custom_tool_call_output","call_id":"c","output":"x"}],"previous_response_id":"r"}`),
		[]byte(`{"object":"response","output":[{"type":"custom_tool_call","call_id":"c","name":"n","input":"i"}]}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"tool","content":"x"}]}`),
		[]byte(`{"message":{"role":"assistant","tool_calls":[{"function":{"name":"n","arguments":{}}}]},"done":true}`))
	tracer := otelagent.NewTracer()
	f.Fuzz(func(t *testing.T, sent, reply []byte) {
		for _, path := range []string{"/v1/messages", "/v1/responses", "/models/m:generateContent", "/api/chat"} {
			tr := NewTransport(tracer, WithBase(answers(func(r *http.Request) (*http.Response, error) {
				if got, _ := io.ReadAll(r.Body); !bytes.Equal(got, sent) {
					t.Errorf("%q was sent", got)
				}
				return response(200, string(reply)), nil
			})))
			for range 2 {
				res := must.Get(tr.RoundTrip(post(t, path, string(sent))))(t)
				if got, _ := io.ReadAll(res.Body); !bytes.Equal(got, reply) {
					t.Errorf("%q was passed on", got)
				}
				_ = res.Body.Close()
			}
			check(t, tr, 2)
			tr.Close()
			check(t, tr, 0)
		}
	})
}

// outcomes returns the names and errors of the spans that ended.
func outcomes(seen *tracetest.SpanRecorder) (l []string) {
	for _, s := range seen.Ended() {
		word := s.Name()
		for _, a := range s.Attributes() {
			if a.Key == spans.ErrorMessageKey {
				word += " " + a.Value.AsString()
			}
		}
		l = append(l, word)
	}
	return l
}

// A redirect is an attempt that is repeated, whether or not the client reads its body.
func TestRedirect(t *testing.T) {
	for _, read := range []bool{false, true} {
		tracer, seen := recorded(t)
		status := http.StatusTemporaryRedirect
		tr := NewTransport(tracer, WithBase(answers(func(*http.Request) (*http.Response, error) {
			defer func() { status = http.StatusOK }()
			return response(status, chatReply), nil
		})))
		for i := range 2 {
			res := must.Get(tr.RoundTrip(post(t, "/v1/chat/completions", question("a"))))(t)
			if read || i == 1 {
				_, _ = io.Copy(io.Discard, res.Body)
			}
			_ = res.Body.Close()
		}
		if got := fmt.Sprint(outcomes(seen)); got != "[session.turn session.run]" {
			t.Errorf("read %v: %s", read, got)
		}
		tr.Close()
	}
}

// A request that passes two transports is recorded once, and a key in its URL is not recorded.
func TestTwoTransports(t *testing.T) {
	tracer, seen := recorded(t)
	inner := NewTransport(tracer, WithBase(answers(func(r *http.Request) (*http.Response, error) {
		return nil, &url.Error{Op: "Post", URL: r.URL.String(), Err: errors.New("no network")}
	})))
	outer := NewTransport(tracer, WithBase(inner))
	if _, err := outer.RoundTrip(post(t, "/m:generateContent?key=SECRET", `{"contents":[{"parts":[]}]}`)); err == nil {
		t.Error("no error")
	}
	outer.Close()
	inner.Close()
	if got := fmt.Sprint(outcomes(seen)); got != "[session.turn no network session.run no network]" {
		t.Error(got)
	}
}

// A tool call is started where one conversation has it open, and not where several have.
func TestStartTool(t *testing.T) {
	tracer, _ := recorded(t)
	n := 0
	tr := NewTransport(tracer, WithBase(answers(func(*http.Request) (*http.Response, error) {
		n++
		return response(200, fmt.Sprintf(`{"choices":[{"message":{"role":"assistant","tool_calls":[{"id":"c%d","function":`+
			`{"name":"look","arguments":"{\"at\":9007199254740993,\"all\":true}"}}]}}]}`, n)), nil
	})))
	defer tr.Close()
	ask := func(text string) {
		res := must.Get(tr.RoundTrip(post(t, "/v1/chat/completions", question(text))))(t)
		_, _ = io.Copy(io.Discard, res.Body)
	}
	start := func(args string) bool {
		_, tool := tr.StartTool(t.Context(), "look", []byte(args))
		return tool != nil
	}
	ask("a")
	ask("b")
	const args = `{"all": true, "at": 9007199254740992}` // as read into an any
	if start(args) {
		t.Error("started the call of one of two conversations")
	}
	tr.Close()
	ask("c")
	if start(`{}`) || !start(args) || start(args) {
		t.Error("want one call, by its arguments")
	}
}

// A key is remembered once a conversation, and counts as new where it comes again.
func TestKeysOnce(t *testing.T) {
	tr := NewTransport(nil)
	c, _, _ := tr.enter(tr.parse(post(t, "/v1/messages", ""), []byte(question("a"))))
	for i := range 3 * maxKeys {
		tr.add(c, tr.key("tool", "look"))
		tr.add(c, tr.key("call", fmt.Sprint(i)))
		check(t, tr, 1)
	}
	if len(tr.index[tr.key("tool", "look")]) != 1 || c.ctx != nil {
		t.Error("the name of the tool does not find the conversation")
	}
	tr.Close()
	check(t, tr, 0)
}

// A conversation that is forgotten while its request begins ends with the reply, though that makes a call.
func TestForgottenMeanwhile(t *testing.T) {
	tracer, seen := recorded(t)
	tr := NewTransport(tracer)
	r := post(t, "/v1/chat/completions", question("a"))
	q := tr.parse(r, []byte(question("a")))
	c, from, again := tr.enter(q)
	tr.Close()
	e := &exchange{ctx: t.Context(), sent: time.Now(), of: c}
	c.ask(e, q, nil, from, again)
	_, _ = io.ReadAll(newBody(e, response(200, `{"choices":[{"message":{"role":"assistant","tool_calls":`+
		`[{"id":"c1","function":{"name":"look","arguments":"{}"}}]}}]}`)))
	if got := fmt.Sprint(outcomes(seen)); got != "[tool.call session.turn session.run]" {
		t.Error(got)
	}
	check(t, tr, 0)
}
