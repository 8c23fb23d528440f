package adapter_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/agenttest"
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
	return `{"model":"m","system":` + system + `,"messages":[` + strings.Join(messages, ",") + `],"tools":[{"name":"bash"}],"max_tokens":5,"temperature":0.5}`
}

func user(text string) string { return `{"role":"user","content":"` + text + `"}` }

// start starts a run of session s over a collecting provider.
func start(t testing.TB, opts ...otelagent.Option) (*writer.Run, *tracetest.InMemoryExporter) {
	t.Helper()
	p, exp := collect(t)
	tracer := (*writer.Tracer)(otelagent.NewTracer(append([]otelagent.Option{otelagent.WithCapture(otelagent.CaptureContent), otelagent.WithTracerProvider(p)}, opts...)...))
	_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r", Agent: "coder"})
	return run, exp
}

func attr(s tracetest.SpanStub, key attribute.Key) attribute.Value {
	for _, kv := range s.Attributes {
		if kv.Key == key {
			return kv.Value
		}
	}
	return attribute.Value{}
}

// A request recorded as it goes to a provider: the turn has what is known of it, and its bytes come back.
func TestRequestFromPayload(t *testing.T) {
	for _, payload := range []string{
		payloadOf(`"Be brief."`, user("hi")),
		`{"messages":[],"model":"m"}`,
		`{"model":"m","input":[{"type":"message","role":"user","content":"x"}],"instructions":"y"}`,
		"{\n  \"model\": \"m\",\n  \"messages\": [ {\"role\": \"user\", \"content\": \"spread out\"} ]\n}",
		`{"model":"m","model":"n","messages":[{"role":"user","content":"a key twice"}]}`,
		`{"model":"m","messages":"no array"}`,
		`{"model":"m","input":"a string","instructions":null}`,
		`[1,2]`, `no JSON`, "not \xff UTF-8", `{}`,
	} {
		run, exp := start(t)
		ask(t, run, payload)
		got, err := readWire(t, exp.GetSpans()).payload("r", 0, 0, 0)
		want := strings.ToValidUTF8(payload, "\uFFFD")
		if err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	run, exp := start(t)
	ask(t, run, payloadOf(`"Be brief."`, user("hi")))
	turn := exp.GetSpans()[0]
	got := map[attribute.Key]string{}
	for _, key := range []attribute.Key{
		spans.RequestModelKey, spans.RequestMaxTokensKey, spans.RequestTemperatureKey, spans.RequestBytesKey,
		spans.PromptDigestKey, spans.InputMessagesKey, spans.OutputMessagesKey,
	} {
		got[key] = attr(turn, key).String()
	}
	if diff := cmp.Diff(map[attribute.Key]string{
		spans.RequestModelKey: "m", spans.RequestMaxTokensKey: "5", spans.RequestTemperatureKey: "0.5",
		spans.RequestBytesKey:   "137",
		spans.PromptDigestKey:   spans.BlockOfString(`"Be brief."`).String(),
		spans.InputMessagesKey:  `[{"role":"user","parts":[{"type":"text","content":"hi"}]}]`,
		spans.OutputMessagesKey: `[{"role":"assistant","parts":[{"type":"text","content":"done"}],"finish_reason":"unknown"}]`,
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
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
	if text := fmt.Sprintf("%+v", all); strings.Contains(text, secret) || strings.Contains(text, "role") {
		t.Error("content left")
	}
	w := readWire(t, all)
	if len(w.bodies) > 0 {
		t.Errorf("%d bodies", len(w.bodies))
	}
	old, now := attr(all[0], spans.PromptDigestKey), attr(all[1], spans.PromptDigestKey)
	if old == now || old.AsString() != spans.BlockOfString(`"the old `+secret+`"`).String() {
		t.Errorf("prompt digests %s and %s", old.AsString(), now.AsString())
	}
	var tools []spans.ShortID
	for _, l := range w.lists {
		for _, text := range l.Items {
			if it, err := spans.ParseItem(text); err == nil && it.Provenance == string(spans.ProvenanceTools) {
				tools = append(tools, it.Block)
			}
		}
	}
	if len(tools) != 2 || tools[0] != tools[1] {
		t.Errorf("tool catalogues %v", tools)
	}
	// The size and full digest of each message are there, and the list is that of the two messages.
	for _, text := range []string{user(secret), user("more " + secret)} {
		id := spans.BlockOfString(text)
		if b := w.withheld[id.Short()]; b != (spans.Withheld{Block: id, Size: int64(len(text))}) {
			t.Errorf("%s: %+v", text, b)
		}
	}
}

// Bounds on size leave a mark with size and digest.
func TestBounds(t *testing.T) {
	long := strings.Repeat("é", 1000) // two bytes each
	big := user(long)
	id := spans.BlockOfString(big)

	t.Run("block", func(t *testing.T) {
		run, exp := start(t, func(c *writer.Config) { c.MaxBlockBytes = 100 })
		ask(t, run, payloadOf(`"s"`, big, user("short")))
		w := readWire(t, exp.GetSpans())
		if b := w.withheld[id.Short()]; b != (spans.Withheld{Block: id, Size: int64(len(big)), Beginning: strings.ToValidUTF8(big[:100], "")}) {
			t.Fatalf("%+v", b)
		}
		if _, err := w.payload("r", 0, 0, 0); err == nil {
			t.Error("the request is whole")
		}
		if n := attr(exp.GetSpans()[0], spans.CaptureWithheldKey).AsInt64(); n != 1 {
			t.Errorf("%d withheld", n)
		}
	})
}

// Another level for some agents and sessions.
func TestCaptureFor(t *testing.T) {
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
	for _, test := range []struct{ session, agent, want string }{
		{"s", "coder", "content"}, {"private", "coder", "none"}, {"s", "other", "digests"}, {"s", "bad", "none"},
	} {
		p, exp := collect(t)
		tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(p), decide))
		_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: test.session, Agent: test.agent})
		ask(t, run, payloadOf(`"s"`, user("x")))
		run.End(writer.RunResult{})
		turn, whole := exp.GetSpans()[0], exp.GetSpans()[1]
		if got := attr(whole, spans.CaptureLevelKey).AsString(); got != test.want || (len(turn.Events) > 0) != (test.want != "none") {
			t.Errorf("%+v: %s with %d events", test, got, len(turn.Events))
		}
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

// What a redactor takes out is in no byte that is sent, and in no digest; the rest comes back byte for byte.
func TestRedactor(t *testing.T) {
	r := &shout{}
	run, exp := start(t, otelagent.WithRedactor(r))
	payload := payloadOf(`"SECRET prompt"`, user("a SECRET and SECRET"), user("PANIC SECRET"))
	ask(t, run, payload)
	ask(t, run, payload)
	run.Note("odd", []byte(`{"x":"SECRET"}`), writer.Moment{})
	run.Permission(t.Context(), writer.PermissionEvaluation{Tool: "bash", Pattern: "SECRET *", Action: spans.ActionDeny})
	_, tool := run.StartTool(t.Context(), writer.ToolCall{ID: "c", Name: "bash", Args: []byte(`"SECRET"`)})
	tool.End(writer.ToolResult{Result: []byte(`"SECRET"`), Error: "SECRET", Outcome: spans.OutcomeError})
	run.End(writer.RunResult{Error: "SECRET", Status: spans.RunStatusError})
	all := exp.GetSpans()
	if strings.Contains(fmt.Sprintf("%+v", all), "SECRET") {
		t.Error("the secret left")
	}
	w := readWire(t, all)
	id := spans.BlockOfString(user("a SECRET and SECRET"))
	if w.withheld[id.Short()].Size > 0 || strings.Contains(fmt.Sprintf("%+v", all), id.Short().String()) {
		t.Error("its digest left")
	}
	want := strings.ReplaceAll(payloadOf(`"SECRET prompt"`, user("a SECRET and SECRET"), `"[redacted: the redactor failed]"`), "SECRET", "[redacted:word]")
	if got, err := w.payload("r", 1, 0, 0); err != nil || got != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	if n := attr(all[0], spans.RedactedKey).AsInt64(); n != 4 { // prompt, two in a message, the message that failed
		t.Errorf("%d places counted", n)
	}
	if n := attr(all[1], spans.RedactedKey).AsInt64(); n != 0 {
		t.Errorf("%d places counted again", n)
	}
	for _, place := range []string{"message", "system", "tools", "rest", "event", "text", "args", "result"} {
		if !slices.Contains(r.pieces, place) {
			t.Errorf("the redactor never saw a %s", place)
		}
	}
}

// A body larger than a span goes on in children, in pieces, and comes back.
func TestLargeBodies(t *testing.T) {
	raw := make([]byte, 3<<20)
	_, _ = rand.Read(raw)
	image := base64.StdEncoding.EncodeToString(raw) // 4 MiB
	payload := payloadOf(`"s"`, `{"role":"user","content":[{"type":"image","data":"`+image+`"}]}`, user(strings.Repeat("\u20ac", 400_000)))
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
	_, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
	ask(t, run, payload)
	run.End(writer.RunResult{})
	largest := 0
	for _, row := range p.Batch().Rows {
		if row.Kind.String() == spans.SpanPayload && row.Turn != 0 {
			t.Errorf("a payload of turn %d", row.Turn)
		}
	}
	for _, otlp := range p.OTLP() {
		largest = max(largest, len(otlp))
	}
	if largest > 4<<20 {
		t.Errorf("a request of %d bytes", largest)
	}

	run, exp := start(t)
	ask(t, run, payload)
	run.End(writer.RunResult{})
	all := exp.GetSpans()
	if got, err := readWire(t, all).payload("r", 0, 0, 0); err != nil || got != payload {
		t.Errorf("%d bytes of %d: %v", len(got), len(payload), err)
	}
	children := 0
	for _, s := range all {
		n := 0
		for _, e := range s.Events {
			for _, kv := range e.Attributes {
				n += len(kv.Value.AsByteSlice())
				for _, text := range kv.Value.AsStringSlice() {
					n += len(text)
				}
			}
		}
		if n > writer.DefaultMaxSpanBytes {
			t.Errorf("%s carries %d bytes", s.Name, n)
		}
		if s.Name == spans.SpanPayload {
			children++
			if s.EndTime.Sub(s.StartTime) != time.Microsecond || s.Parent.SpanID() == s.SpanContext.SpanID() || attr(s, spans.SessionIDKey).AsString() != "s" {
				t.Errorf("%+v", s)
			}
		}
	}
	if children < 5 {
		t.Errorf("%d children for 5.2 MB", children)
	}
}

// lossy is a delivery that says what was lost.
type lossy struct {
	f func(string)
}

func (l *lossy) OnLost(f func(string)) { l.f = f }

// What a session sent is sent again when some of it did not arrive, and lists are complete next.
func TestLostIsSentAgain(t *testing.T) {
	d := &lossy{}
	run, exp := start(t, func(c *writer.Config) { c.Delivery = d })
	text := strings.Repeat("the result of the tool ", 100)
	_, tool := run.StartTool(t.Context(), writer.ToolCall{ID: "c", Name: "bash"})
	tool.End(writer.ToolResult{Result: []byte(`{"content":"` + text + `"}`)})
	var history []string
	for range 30 {
		history = append(history, user(fmt.Sprint("message ", len(history))))
		ask(t, run, payloadOf(`"s"`, append([]string{user(text)}, history...)...))
	}
	payload := payloadOf(`"s"`, append([]string{user(text)}, history...)...)
	exp.Reset()
	d.f("other")
	ask(t, run, payload)
	if w := readWire(t, exp.GetSpans()); len(w.bodies) > 0 {
		t.Errorf("a loss of another session: %d bodies were sent again", len(w.bodies))
	}
	exp.Reset()
	d.f("s")
	ask(t, run, payload)
	w := readWire(t, exp.GetSpans())
	if got, err := w.payload("r", 31, 0, 0); err != nil || got != payload {
		t.Errorf("the request alone is not whole: %v", err)
	}
	for i := range w.lists {
		if l := &w.lists[i]; l.Prefix != "" {
			t.Errorf("%s is not complete", l.Name)
		}
	}
}

// With blocks of the run's scope each run can be read without the others.
func TestBlockScopeRun(t *testing.T) {
	for _, whole := range []bool{true, false} {
		p, exp := collect(t)
		tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithCapture(otelagent.CaptureContent), otelagent.WithTracerProvider(p), func(c *writer.Config) { c.PerRun = whole }))
		for range 2 {
			exp.Reset()
			_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
			ask(t, run, payloadOf(`"s"`, user("x")))
			run.End(writer.RunResult{})
		}
		if _, err := readWire(t, exp.GetSpans()).payload("r", 0, 0, 0); (err == nil) != whole {
			t.Errorf("by run %v: %v", whole, err)
		}
	}
}
