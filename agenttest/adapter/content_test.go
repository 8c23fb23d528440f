package adapter_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// ask plays one turn that asks and is answered.
func ask(t testing.TB, run *writer.Run, payload string, more ...func(*writer.Request)) {
	t.Helper()
	_, turn := run.StartTurn(t.Context(), writer.TurnInfo{})
	req, _ := writer.ParseRequest([]byte(payload)) // the tests of that are in the package
	for _, f := range more {
		f(&req)
	}
	turn.Request(req)
	turn.End(writer.TurnResult{Output: &writer.Message{Raw: []byte(`{"role":"assistant","content":"done"}`)}})
}

func payloadOf(system string, messages ...string) string {
	return `{"model":"m","system":` + system + `,"messages":[` + strings.Join(messages, ",") +
		`],"tools":[{"name":"bash"}],"max_tokens":5,"temperature":0.5}`
}

func user(text string) string { return `{"role":"user","content":"` + text + `"}` }

// start starts a run of session s over a collecting provider.
func start(t testing.TB, opts ...otelagent.Option) (*writer.Run, *tracetest.InMemoryExporter) {
	t.Helper()
	p, exp := collect(t)
	opts = append([]otelagent.Option{capturing, otelagent.WithTracerProvider(p)}, opts...)
	tracer := (*writer.Tracer)(otelagent.NewTracer(opts...))
	_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r", Agent: "coder"})
	return run, exp
}

func attr(s tracetest.SpanStub, key attribute.Key) attribute.Value {
	v, _ := attrOf(s, key)
	return v
}

func fixtures(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../dialects/phi/testdata/phi-core-*/*.events.ndjson")
	if err != nil || len(files) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	return files
}

// TestRequestsComeBack checks of every recording of the real crate what a reader relies on: each list has the count and
// digest it states, each block that it names is sent, no block twice, and every request comes back byte for byte.
func TestRequestsComeBack(t *testing.T) {
	for _, file := range fixtures(t) {
		t.Run(filepath.Base(filepath.Dir(file))+"/"+filepath.Base(file), func(t *testing.T) {
			raw := must.Get(os.ReadFile(file))(t)
			p, exp := collect(t)
			rec := event.NewRecorder(otelagent.NewTracer(capturing, otelagent.WithTracerProvider(p)))
			play.Events(t, rec, phi.NewDecoder().Events(bytes.NewReader(raw)))
			w := readWire(t, exp.GetSpans())
			w.checkLists(t)
			nth := map[string]int{}
			for line := range bytes.Lines(raw) {
				var want struct {
					Type    string
					Run     string          `json:"loop_id"`
					Turn    int64           `json:"turn_index"`
					Payload json.RawMessage `json:"payload"`
				}
				must.Do(t, json.Unmarshal(line, &want))
				if want.Type != "TurnRequest" {
					continue
				}
				at := fmt.Sprint(want.Run, want.Turn)
				got, err := w.payload(want.Run, want.Turn, nth[at])
				nth[at]++
				if err != nil || got != string(want.Payload) {
					t.Errorf("turn %d of %s: %v\n got %s\nwant %s", want.Turn, want.Run, err, got, want.Payload)
				}
			}
		})
	}
}

// TestEveryPayloadComesBack records requests as they go to a provider. Each comes back byte for byte, in whatever form
// and size it is and whatever parameters are next to it, and no span and no text is larger than its bound.
func TestEveryPayloadComesBack(t *testing.T) {
	large, image := strings.Repeat("large ", 400_000), make([]byte, 3<<20)
	_, _ = rand.Read(image)
	var many, theirs, keys, shapes []string
	var own []writer.Message
	for i := range 20_000 {
		many = append(many, user(fmt.Sprint(i, strings.Repeat("m", 110))))
		own = append(own, writer.Message{Raw: []byte(user(fmt.Sprint(i, strings.Repeat(" own", 40))))})
		theirs = append(theirs, user(fmt.Sprint(i, strings.Repeat(" their", 40))))
	}
	for i := range 2000 {
		keys = append(keys, fmt.Sprintf(`"k%d":1`, i))
	}
	for i := range 60 {
		shapes = append(shapes, fmt.Sprintf(`{"z%d%s":1,"a":2}`, i, strings.Repeat("k", 2000)))
	}
	tags := strings.Repeat("tag ", 100_000)
	two := payloadOf(`"s"`, user("1"), user("2"))
	for name, c := range map[string]struct {
		payload string
		change  func(*writer.Request)
	}{
		"plain":                 {payload: payloadOf(`"Be brief."`, user("hi"))},
		"no messages":           {payload: `{"messages":[],"model":"m"}`},
		"input":                 {payload: `{"model":"m","input":[{"type":"message","content":"x"}],"instructions":"y"}`},
		"spread out":            {payload: "{\n  \"messages\": [ {\"role\": \"user\", \"content\": \"x\"} ]\n}"},
		"a key twice":           {payload: `{"model":"m","model":"n","messages":[{"role":"user","content":"x"}]}`},
		"messages are no array": {payload: `{"model":"m","messages":"no array"}`},
		"input is a string":     {payload: `{"model":"m","input":"a string","instructions":null}`},
		"a list":                {payload: `[1,2]`},
		"no JSON":               {payload: `no JSON`},
		"no UTF-8":              {payload: "not \xff UTF-8"},
		"empty":                 {payload: `{}`},
		"fewer messages given":  {payload: two, change: func(r *writer.Request) { r.Messages = r.Messages[1:] }},
		"another message given": {payload: two, change: func(r *writer.Request) { r.Messages[0].Raw = []byte(user("x")) }},
		"another prompt given":  {payload: two, change: func(r *writer.Request) { r.System = []byte(`"t"`) }},
		"a text between":        {payload: payloadOf(`"`+large+`"`, user(large+"!")) + "\n"},
		"an image": {payload: payloadOf(`"s"`, `{"role":"user","content":[{"type":"image","data":"`+
			base64.StdEncoding.EncodeToString(image)+`"}]}`, user(strings.Repeat("\u20ac", 400_000)))},
		"many messages": {payload: strings.Replace(payloadOf(`"s"`, many...), ",", ", ", 1)},
		"many keys":     {payload: `{` + strings.Join(keys, ",") + `}`},
		"many shapes":   {payload: payloadOf(`"s"`, shapes...)},
		"messages in another spelling": {payload: payloadOf(`"s"`, theirs...),
			change: func(r *writer.Request) { r.Messages = own }},
		"a large envelope": {payload: payloadOf(`"s"`, `{"role":"user","tags":"`+tags+`","content":"x"}`, user("y")),
			change: func(r *writer.Request) {
				r.Messages[1].Provenance = spans.Provenance{Kind: spans.ProvenanceIdentityBlock, Name: tags}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			run, exp := start(t)
			began := time.Now()
			for range 2 { // the second request refers to what the first one sent
				ask(t, run, c.payload, func(r *writer.Request) {
					if c.change != nil {
						c.change(r)
					}
				})
			}
			if d := time.Since(began); d > 10*time.Second {
				t.Errorf("%v for a payload of %d bytes", d, len(c.payload))
			}
			all := exp.GetSpans()
			w := readWire(t, all)
			for turn := range int64(2) {
				got, err := w.payload("r", turn, 0)
				if err != nil || got != strings.ToValidUTF8(c.payload, "\uFFFD") {
					t.Errorf("turn %d: %d bytes of %d, %v: %.100s", turn, len(got), len(c.payload), err, got)
				}
			}
			if strings.HasPrefix(name, "many messages") {
				return // their list is one attribute
			}
			for _, s := range all {
				n := 0
				for _, e := range s.Events {
					for _, kv := range e.Attributes {
						n += len(kv.Value.AsString())
						for _, v := range kv.Value.AsStringSlice() {
							if n += len(v); len(v) > 2<<20 {
								t.Errorf("%s has a text of %d bytes", s.Name, len(v))
							}
						}
					}
				}
				if n > writer.DefaultMaxSpanBytes {
					t.Errorf("%s carries %d bytes", s.Name, n)
				}
			}
		})
	}
}

// With digests no content is sent, and everything is sent that is needed to say what changed.
func TestDigests(t *testing.T) {
	const secret = "hide this"
	run, exp := start(t, otelagent.WithCapture(otelagent.CaptureDigests))
	ask(t, run, payloadOf(`"the old `+secret+`"`, user(secret)))
	ask(t, run, payloadOf(`"the new `+secret+`"`, user(secret), user("more "+secret)))
	_, tool := run.StartTool(t.Context(), writer.ToolCall{ID: "c", Name: "bash", Args: []byte(`"` + secret + `"`)})
	tool.End(writer.ToolResult{Result: []byte(`"` + secret + `"`), Error: secret})
	run.End(writer.RunResult{})
	all := exp.GetSpans()
	w := readWire(t, all)
	if text := fmt.Sprintf("%+v", all); strings.Contains(text, secret) || strings.Contains(text, "role") ||
		len(w.bodies) > 0 {
		t.Errorf("content left: %d bodies", len(w.bodies))
	}
	old, now := attr(all[0], spans.PromptDigestKey), attr(all[1], spans.PromptDigestKey)
	if old == now || old.AsString() != spans.BlockOfString(`"the old `+secret+`"`).String() {
		t.Errorf("prompt digests %s and %s", old.AsString(), now.AsString())
	}
	// The size and full digest of each message are there.
	for _, text := range []string{user(secret), user("more " + secret)} {
		id := spans.BlockOfString(text)
		if b := w.withheld[id.Short()]; b.ID != id || b.Size != int64(len(text)) || b.Body != "" {
			t.Errorf("%s: %+v", text, b)
		}
	}
}

// Bounds on size leave a mark with size and digest, and with the beginning of a block.
func TestBounds(t *testing.T) {
	big := user(strings.Repeat("é", 1000)) // two bytes each
	id := spans.BlockOfString(big)
	for name, c := range map[string]struct {
		bound     func(*writer.Config)
		payload   string
		beginning string
	}{
		"block": {func(c *writer.Config) { c.MaxBlockBytes = 100 }, payloadOf(`"s"`, big, user("short")),
			strings.ToValidUTF8(big[:100], "")},
	} {
		run, exp := start(t, c.bound)
		ask(t, run, c.payload)
		w := readWire(t, exp.GetSpans())
		if b := w.withheld[id.Short()]; b.ID != id || b.Size != int64(len(big)) || b.Body != c.beginning {
			t.Errorf("%s: %+v", name, b)
		}
		if _, err := w.payload("r", 0, 0); err == nil || attr(exp.GetSpans()[0], spans.CaptureWithheldKey).AsInt64() == 0 {
			t.Errorf("%s: the request is whole, or nothing counts what is withheld: %v", name, err)
		}
	}
}

// Another level for some agents and sessions. A function that panics captures nothing. Content that digests named is
// sent in full by an agent with content in the same session.
func TestCaptureFor(t *testing.T) {
	p, exp := collect(t)
	decide := otelagent.WithCaptureFor(func(r otelagent.RunInfo) otelagent.Capture {
		switch {
		case r.SessionID == "private":
			return otelagent.CaptureNone
		case r.Agent == "coder":
			return otelagent.CaptureContent
		case r.Agent == "bad":
			panic("mine")
		}
		return otelagent.CaptureDigests
	})
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(p), decide))
	payload := payloadOf(`"Be brief."`, user("hi"))
	for i, test := range []struct{ session, agent, want string }{
		{"s", "other", "digests"}, {"s", "coder", "content"}, {"private", "coder", "none"}, {"s", "bad", "none"},
	} {
		_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: test.session, ID: fmt.Sprint(i), Agent: test.agent})
		ask(t, run, payload)
		run.End(writer.RunResult{})
		turn, whole := exp.GetSpans()[2*i], exp.GetSpans()[2*i+1]
		if got := cmp.Or(attr(whole, spans.CaptureLevelKey).AsString(), "content"); got != test.want ||
			(len(turn.Events) > 0) != (test.want != "none") {
			t.Errorf("%+v: %s with %d events", test, got, len(turn.Events))
		}
	}
	if got, err := readWire(t, exp.GetSpans()).payload("1", 0, 0); err != nil || got != payload {
		t.Errorf("the request with content is %s, %v", got, err)
	}
}

// shout is a redactor for tests: it takes out every place of a word.
type shout struct{ pieces []string }

func (s *shout) Redact(p spans.Redactable) ([]byte, int) {
	s.pieces = append(s.pieces, p.Place)
	if bytes.Contains(p.Body, []byte("PANIC")) {
		panic(string(p.Body))
	}
	n := bytes.Count(p.Body, []byte("SECRET"))
	return bytes.ReplaceAll(p.Body, []byte("SECRET"), []byte("[redacted:word]")), n
}

type redactorFunc func(spans.Redactable) ([]byte, int)

func (f redactorFunc) Redact(p spans.Redactable) ([]byte, int) { return f(p) }

// What a redactor takes out is in no byte that is sent, and in no digest; the rest comes back byte for byte. The
// redactor is asked again of a message that another rule may hit.
func TestRedactor(t *testing.T) {
	r := &shout{}
	run, exp := start(t, otelagent.WithRedactor(r))
	payload := payloadOf(`"SECRET prompt"`, user("a SECRET and SECRET"), user("PANIC SECRET"))
	ask(t, run, payload)
	ask(t, run, payload)
	ask(t, run, `{"SECRET":1,"messages":[`+user("x")+`]}`)
	from := spans.Provenance{Raw: `{"kind":"SECRET"}`}
	ask(t, run, payloadOf(`"s"`, user("y")), func(r *writer.Request) { r.Messages[0].Provenance = from })
	_, turn := run.StartTurn(t.Context(), writer.TurnInfo{})
	turn.AddInput(writer.Message{Raw: []byte(user("z")), Provenance: from})
	turn.End(writer.TurnResult{})
	writer.Note(run, "odd", []byte(`{"x":"SECRET"}`), writer.Moment{})
	writer.Decide(t.Context(), run, writer.PermissionEvaluation{
		Tool: "bash", Pattern: "SECRET *", Action: spans.ActionDeny,
	})
	_, tool := run.StartTool(t.Context(), writer.ToolCall{ID: "c", Name: "bash", Args: []byte(`"SECRET"`)})
	tool.End(writer.ToolResult{Result: []byte(`"SECRET"`), Error: "SECRET", Outcome: spans.OutcomeError})
	run.End(writer.RunResult{Error: "SECRET", Status: spans.RunStatusError})
	all := exp.GetSpans()
	w := readWire(t, all)
	id := spans.BlockOfString(user("a SECRET and SECRET")).Short()
	if text := fmt.Sprintf("%+v", all); strings.Contains(text, "SECRET") || strings.Contains(text, id.String()) ||
		w.withheld[id].Size > 0 {
		t.Error("the secret or its digest left")
	}
	want := strings.ReplaceAll(
		payloadOf(`"SECRET prompt"`, user("a SECRET and SECRET"), `"[redacted: the redactor failed]"`),
		"SECRET",
		"[redacted:word]",
	)
	if got, err := w.payload("r", 1, 0); err != nil || got != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	// The prompt, two places in a message, and the message that failed; none of them counts again.
	if first, second := attr(all[0], spans.RedactedKey).AsInt64(), attr(all[1], spans.RedactedKey).AsInt64(); first != 4 ||
		second != 0 {
		t.Errorf("%d and %d places counted", first, second)
	}
	for _, place := range []string{"message", "system", "tools", "rest", "event", "text", "args", "result"} {
		if !slices.Contains(r.pieces, place) {
			t.Errorf("the redactor never saw a %s", place)
		}
	}

	run, exp = start(t, otelagent.WithRedactor(redactorFunc(func(p spans.Redactable) ([]byte, int) {
		if p.Role == "user" {
			return []byte(`"gone"`), 1
		}
		return p.Body, 0
	})))
	_, turn = run.StartTurn(t.Context(), writer.TurnInfo{})
	turn.AddInput(writer.Message{Raw: []byte(user("x"))})
	turn.AddInput(writer.Message{Raw: []byte(user("x")), Role: "user"})
	turn.End(writer.TurnResult{})
	if w := readWire(t, exp.GetSpans()); w.bodies[spans.BlockOfString(`"gone"`).Short()] == "" {
		t.Error("a message of another role was taken for redacted")
	}
}

// A redactor that is slow with one session keeps no other one waiting, whatever is forgotten meanwhile.
func TestSlowRedactorHoldsItsSessionOnly(t *testing.T) {
	in, out, done, others := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	slow := redactorFunc(func(p spans.Redactable) ([]byte, int) {
		if p.Place == "rules" {
			in <- struct{}{}
			<-out
		}
		return p.Body, 0
	})
	p, _ := collect(t)
	d := &lossy{}
	tracer := (*writer.Tracer)(
		otelagent.NewTracer(otelagent.WithTracerProvider(p), capturing, otelagent.WithRedactor(slow),
			func(c *writer.Config) { c.MaxBlockIDs, c.Delivery = 1, d }),
	)
	go func() {
		defer close(done)
		tracer.StartRun(context.Background(), writer.RunInfo{SessionID: "slow", Metadata: []byte(`{}`), Rules: []byte(`[]`)})
	}()
	<-in
	go func() {
		defer close(others)
		for i := range 3 {
			_, run := tracer.StartRun(context.Background(), writer.RunInfo{SessionID: fmt.Sprint(i)})
			writer.Note(run, "x", []byte(`{"a":1}`), writer.Moment{})
			d.f(fmt.Sprint(i))
			run.End(writer.RunResult{})
		}
	}()
	select {
	case <-others:
	case <-time.After(10 * time.Second):
		t.Error("other sessions wait")
	}
	close(out)
	<-done
}

// lossy is a delivery that says what was lost.
type lossy struct{ f func(string) }

func (l *lossy) OnLost(f func(string)) { l.f = f }

// What a session sent is sent again when some of it did not arrive, in each of its histories; lists are complete next.
func TestLostIsSentAgain(t *testing.T) {
	d := &lossy{}
	run, exp := start(t, func(c *writer.Config) { c.Delivery = d })
	histories := make([][]string, 3)
	for range 40 {
		for i := range histories {
			histories[i] = append(
				histories[i],
				user(fmt.Sprint("branch ", i, " message ", len(histories[i]), strings.Repeat(" and", 20))),
			)
			ask(t, run, payloadOf(`"s"`, histories[i]...))
		}
	}
	exp.Reset()
	d.f("other")
	ask(t, run, payloadOf(`"s"`, histories[0]...))
	if w := readWire(t, exp.GetSpans()); len(w.bodies) > 0 {
		t.Errorf("a loss of another session: %d bodies were sent again", len(w.bodies))
	}
	exp.Reset()
	d.f("s")
	for i, history := range slices.Concat([][]string{histories[0], histories[0]}, histories) {
		ask(t, run, payloadOf(`"s"`, history...))
		w := readWire(t, exp.GetSpans())
		if got, err := w.payload("r", int64(121+i), 0); err != nil || got != payloadOf(`"s"`, history...) {
			t.Errorf("request %d after the loss is not whole: %v", i, err)
		}
	}
}

// A text is sent once, however the messages around it are spelled, and what is no JSON is kept.
func TestTwoSpellingsShareTheirTexts(t *testing.T) {
	run, exp := start(t, func(c *writer.Config) { c.PreviewBytes = -1 })
	_, turn := run.StartTurn(t.Context(), writer.TurnInfo{})
	text := strings.Repeat("the same text ", 4)
	turn.AddInput(
		writer.Message{Raw: []byte(`{"content":[{"text":"` + text + `","type":"text"}],"role":"user","turnId":{"t":0}}`)},
	)
	turn.Request(writer.Request{Messages: []writer.Message{
		{Raw: []byte(`{"role": "user", "content": [{"type": "text", "text": "` + text + `"}]}`)},
		{Raw: []byte("{\"role\":\"user\",\"content\":\"not \xff UTF-8\"}")},
		{Raw: []byte(`not JSON`)},
	}})
	turn.End(writer.TurnResult{})
	run.End(writer.RunResult{})
	w := readWire(t, exp.GetSpans())
	w.checkLists(t)
	if n := strings.Count(fmt.Sprintf("%v", exp.GetSpans()), text); n != 1 {
		t.Errorf("the text was sent %d times", n)
	}
	want := []string{`{"role": "user", "content": [{"type": "text", "text": "` + text + `"}]}`,
		"{\"role\":\"user\",\"content\":\"not \uFFFD UTF-8\"}", `"not JSON"`}
	for i, ref := range w.runs[0].Turns[0].Requests[0].Messages.Items() {
		if body, ok := w.blocks.Body(ref); !ok || body != want[i] {
			t.Errorf("message %d is %s, want %s", i, body, want[i])
		}
	}
}

// More messages than a list takes are counted, and the reader says that the list is not whole.
func TestTooManyMessagesAreCounted(t *testing.T) {
	p := agenttest.New(t, capturing)
	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
	_, turn := run.StartTurn(ctx, writer.TurnInfo{})
	const recorded = 4096 + 3
	for i := range recorded {
		turn.AddInput(writer.Message{Raw: fmt.Appendf(nil, `{"role":"user","n":%d}`, i)})
	}
	turn.End(writer.TurnResult{})
	run.End(writer.RunResult{})
	got := p.Session().Runs[0].Turns[0]
	if got.Input.Count != recorded || len(got.Input.Items()) != 4096 {
		t.Errorf("%d items of a list of %d", len(got.Input.Items()), got.Input.Count)
	}
	if len(got.Defects) != 1 || got.Defects[0].Code != spans.DefectListBroken {
		t.Errorf("defects %+v, want one list_broken", got.Defects)
	}
}

// A call without an id and its turn may both overflow: each span that carries the rest of them has an id of its own,
// also when ids are derived.
func TestPayloadsOfACallAndItsTurn(t *testing.T) {
	p := agenttest.New(t, capturing, writer.WithDerivedIDs)
	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{})
	_, call := turn.StartTool(ctx, writer.ToolCall{Name: "read"})
	call.End(writer.ToolResult{Result: []byte(`"` + strings.Repeat("a", 2<<20) + `"`)})
	turn.AddInput(writer.Message{Raw: []byte(`"` + strings.Repeat("b", 2<<20) + `"`)})
	turn.End(writer.TurnResult{})
	run.End(writer.RunResult{})
	kinds := map[string]int{}
	seen := map[string]bool{}
	for _, row := range p.Batch().Rows {
		kinds[row.Kind.String()]++
		seen[row.Span.String()] = true
	}
	if len(seen) != len(p.Batch().Rows) || kinds[spans.SpanPayload] < 2 {
		t.Errorf("%d ids of %v", len(seen), kinds)
	}
	for _, otlp := range p.OTLP() {
		if len(otlp) > 4<<20 {
			t.Errorf("a request of %d bytes", len(otlp))
		}
	}
}

// onEnd is a span processor of a host that calls a function as each span ends.
type onEnd struct {
	sdktrace.SpanProcessor
	ended func(sdktrace.ReadOnlySpan)
}

func (p onEnd) OnEnd(s sdktrace.ReadOnlySpan) { p.ended(s) }

// The host's callbacks for a span, and for the children that carry its content, may use the handle.
func TestHandleIsUsedWhileItEnds(t *testing.T) {
	var turn *writer.Turn
	names := map[string]bool{}
	processor := onEnd{sdktrace.NewSimpleSpanProcessor(tracetest.NewInMemoryExporter()), func(s sdktrace.ReadOnlySpan) {
		names[cmp.Or(s.Name(), "?")] = true
		writer.Note(turn, "late", nil, writer.Moment{})
	}}
	p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(processor))
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(p), capturing,
		func(c *writer.Config) { c.MaxSpanBytes = 64 << 10 }))
	_, run := tracer.StartRun(t.Context(), writer.RunInfo{})
	_, turn = run.StartTurn(t.Context(), writer.TurnInfo{})
	turn.Request(writer.Request{Payload: []byte(payloadOf(`"s"`, user(strings.Repeat("x", 100_000))))})
	done := make(chan struct{})
	go func() {
		defer close(done)
		turn.End(writer.TurnResult{})
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("End does not return")
	}
	if !names[spans.SpanTurn] || !names[spans.SpanPayload] {
		t.Errorf("spans that ended: %v", names)
	}
}
