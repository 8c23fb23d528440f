package otelllmhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// pieces is a body that comes piece by piece, and then fails.
type pieces struct {
	list   []string
	err    error
	closed int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.list) == 0 {
		return 0, p.err
	}
	n := copy(b, p.list[0])
	p.list = p.list[1:]
	return n, nil
}

func (p *pieces) Close() error { p.closed++; return errors.New("closed") }

// A stream passes byte for byte, piece for piece and error for error, and its turn ends with the last event even where
// the client does not read on.
func TestStream(t *testing.T) {
	list := []string{"data: {\"id\":\"r1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"[DONE] \"}}]}\n\n",
		"data: {\"id\":\"r1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"b\"},\"finish_reason\":",
		"\"stop\"}]}\r\n\r\n", "data: [DO", "NE]\r\n", "\r\n", "more"}
	failed := errors.New("reset")
	tracer, seen := recorded(t)
	for _, until := range []int{len(list) - 1, len(list)} {
		body := &pieces{list: slices.Clone(list), err: failed}
		tr := NewTransport(tracer, WithBase(answers(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}},
				Body: body}, nil
		})))
		res := must.Get(tr.RoundTrip(post(t, "/v1/chat/completions", question("a"))))(t)
		before := len(seen.Ended())
		b := make([]byte, 1<<10)
		for i, want := range list[:until] {
			if n, err := res.Body.Read(b); string(b[:n]) != want || err != nil {
				t.Errorf("piece %d is %q, %v", i, b[:n], err)
			}
		}
		if n := len(seen.Ended()) - before; n != 2 {
			t.Errorf("%d spans ended, want turn and run", n)
		}
		if until == len(list) {
			if _, err := res.Body.Read(b); !errors.Is(err, failed) {
				t.Error(err)
			}
		}
		if err := res.Body.Close(); err == nil || body.closed != 1 {
			t.Errorf("closed %d times, %v", body.closed, err)
		}
		tr.Close()
	}
}

// While a reply comes, at most its bytes are held: of a stream what it says, and not its events. Afterwards none are.
func TestMemory(t *testing.T) {
	const n = 16 << 10
	message := `{"role":"assistant","content":"` + strings.Repeat(" word", n*16) + `"}`
	whole := `{"choices":[{"index":0,"message":` + message + `,"finish_reason":"stop"}]}`
	const calls = `"tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{}"}}],"role"`
	delta := "data: {\"object\":\"chat.completion.chunk\",\"created\":1764000000,\"model\":\"m\"," +
		"\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"}}]}\n\n"
	for _, c := range []struct {
		name, typ, reply string
		length, most     int64
	}{
		{"whole, of a known length", "application/json", whole, int64(len(whole)), int64(len(whole))},
		{"whole, of no known length", "application/json", whole, -1, int64(len(whole))},
		{"whole, with a call that stays open", "application/json", strings.Replace(whole, `"role"`, calls, 1), -1,
			int64(len(whole))},
		{"JSON that is called a stream", "text/event-stream", "\n" + whole, -1, int64(len(whole))},
		{"a stream of many events", "text/event-stream", strings.Repeat(delta, n), -1, int64(n * len(delta) / 10)},
		{"a stream of large events", "text/event-stream", strings.Repeat("data: {\"type\":\"response.output_item.done\","+
			"\"output_index\":0,\"item\":"+message+"}\n\n", 3), -1, int64(3 * len(message))},
		{"a stream of one large event", "text/event-stream",
			"data: " + strings.Replace(whole, "message", "delta", 1) + "\n\n", -1, int64(len(whole))},
		{"lines", "application/x-ndjson", strings.Repeat(`{"model":"m","message":{"content":" word"},"done":false}`+"\n", n),
			-1, n * 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			tracer := otelagent.NewTracer(otelagent.WithTracerProvider(trace.NewTracerProvider()))
			tr := NewTransport(tracer, WithBase(answers(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {c.typ}},
					ContentLength: c.length, Body: io.NopCloser(strings.NewReader(c.reply))}, nil
			})))
			defer tr.Close()
			res := must.Get(tr.RoundTrip(post(t, "/v1/chat/completions", question("a"))))(t)
			p := make([]byte, 1000) // which cuts events
			before := heap()
			grown := func() int64 { return int64(heap() - before) }
			for at := 0; at < len(c.reply)-1; at += len(p) {
				must.Get(io.ReadFull(res.Body, p[:min(len(p), len(c.reply)-1-at)]))(t)
			}
			if got := grown(); got > c.most+64<<10 {
				t.Errorf("%d bytes are held of %d, want at most %d", got, len(c.reply), c.most)
			}
			must.Get(io.ReadAll(res.Body))(t)
			if got := grown(); got > 64<<10 {
				t.Errorf("%d bytes are held of a reply that was recorded", got)
			}
			runtime.KeepAlive(res)
		})
	}
}

// heap returns how many bytes are in use.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC() // twice, for what a sync.Pool holds
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A reply in an encoding that the client asked for passes, and its turn has no failure.
func TestContentEncoding(t *testing.T) {
	tracer, seen := recorded(t)
	for _, typ := range []string{"text/event-stream", "application/json"} {
		tr := NewTransport(tracer, WithBase(answers(func(*http.Request) (*http.Response, error) {
			res := response(200, "\x1f\x8b packed")
			res.Header = http.Header{"Content-Type": {typ}, "Content-Encoding": {"gzip"}}
			return res, nil
		})))
		res := must.Get(tr.RoundTrip(post(t, "/v1/chat/completions", question("a"))))(t)
		if got, err := io.ReadAll(res.Body); string(got) != "\x1f\x8b packed" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		tr.Close()
	}
	if got := fmt.Sprint(outcomes(seen)); got != "[session.turn session.run session.turn session.run]" {
		t.Error(got)
	}
}

// JSON that a server calls an event stream is read: an array of events, and a whole reply over several lines.
func TestJSONCalledStream(t *testing.T) {
	for _, reply := range []string{
		`[{"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]}}]},` + "\n" +
			`{"candidates":[{"content":{"parts":[{"text":"b"}]},"finishReason":"STOP"}]}]`,
		"\n{\n  \"choices\": [\n    {\"message\": {\"role\": \"assistant\", \"content\": \"ab\"},\n     " +
			"\"finish_reason\": \"STOP\"}\n  ]\n}\n",
	} {
		tracer, seen := recorded(t)
		tr := NewTransport(tracer, WithBase(answers(func(*http.Request) (*http.Response, error) {
			res := response(200, "")
			res.Header.Set("Content-Type", "text/event-stream; charset=utf-8")
			res.Body = io.NopCloser(iotest.OneByteReader(strings.NewReader(reply)))
			return res, nil
		})))
		res := must.Get(tr.RoundTrip(post(t, "/v1/chat/completions", question("a"))))(t)
		if got, err := io.ReadAll(res.Body); string(got) != reply || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		tr.Close()
		said := ""
		for _, a := range seen.Ended()[0].Attributes() {
			if a.Key == spans.OutputMessagesKey || a.Key == spans.TurnStopReasonKey {
				said += a.Value.AsString()
			}
		}
		if got := fmt.Sprint(outcomes(seen)); got != "[session.turn session.run]" || !strings.Contains(said, `"ab"`) ||
			!strings.Contains(said, "STOP") {
			t.Errorf("%s: %s", got, said)
		}
	}
}

// The reply that is larger than what is kept is partial, and passes whole.
func TestLargeReply(t *testing.T) {
	tracer, seen := recorded(t)
	const kept, rest = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", "data: [DONE]\n\n"
	tr := NewTransport(tracer, WithBase(answers(func(*http.Request) (*http.Response, error) {
		res := response(200, kept+rest)
		res.Header.Set("Content-Type", "text/event-stream")
		return res, nil
	})))
	res := must.Get(tr.RoundTrip(post(t, "/v1/chat/completions", question("a"))))(t)
	res.Body.(*body).size = maxBody - len(kept)
	if got, err := io.ReadAll(res.Body); string(got) != kept+rest || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	_ = res.Body.Close()
	tr.Close()
	partial := 0
	for _, s := range seen.Ended() {
		for _, a := range s.Attributes() {
			if a.Key == spans.PartialKey && a.Value.AsBool() {
				partial++
			}
		}
	}
	if got := fmt.Sprint(outcomes(seen)); got != "[session.turn session.run]" || partial != 1 {
		t.Errorf("%s, %d are partial", got, partial)
	}
}

// A response without a body is one whose body is empty.
func TestNoBody(t *testing.T) {
	tracer, seen := recorded(t)
	tr := NewTransport(tracer, WithBase(answers(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusBadRequest}, nil
	})))
	if res := must.Get(tr.RoundTrip(post(t, "/v1/chat/completions", question("a"))))(t); res.Body != nil {
		t.Error("the response got a body")
	}
	if got := fmt.Sprint(outcomes(seen)); got != "[session.turn HTTP status 400 session.run HTTP status 400]" {
		t.Error(got)
	}
	tr.Close()
}

// The body of a refused request that is read after the client went on says nothing about what it went on with.
func TestLateBody(t *testing.T) {
	const refusal = `{"error":{"message":"too many"}}`
	const refused = "session.turn HTTP status 429 session.run HTTP status 429 "
	two := `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`
	for _, c := range []struct {
		name string
		next []string // requests after the refused one, before its body is read
		want string
	}{
		{"read at once", nil, "[session.turn too many session.run too many]"},
		{"asked again", []string{question("a")}, "[session.turn session.run]"},
		{"another question", []string{two}, "[" + refused + "session.turn session.run]"},
		{"another question, which two ask at once", []string{two, two}, "[" + refused +
			"session.turn session.run session.turn session.run]"},
	} {
		tracer, seen := recorded(t)
		status, reply := http.StatusTooManyRequests, refusal
		tr := NewTransport(tracer, WithBase(answers(func(*http.Request) (*http.Response, error) {
			return response(status, reply), nil
		})))
		ask := func(body string) io.ReadCloser {
			return must.Get(tr.RoundTrip(post(t, "/v1/chat/completions", body)))(t).Body
		}
		read := func(body io.ReadCloser) {
			_, _ = io.ReadAll(body)
			_ = body.Close()
			_, _ = io.ReadAll(body)
		}
		late := ask(question("a"))
		status, reply = http.StatusOK, chatReply
		var open []io.ReadCloser
		for i, body := range c.next {
			if open = append(open, ask(body)); i == 0 {
				read(late)
			}
		}
		read(late)
		for _, body := range open {
			read(body)
		}
		tr.Close()
		if got := fmt.Sprint(outcomes(seen)); got != c.want {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
