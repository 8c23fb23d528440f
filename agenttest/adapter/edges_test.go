package adapter_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// What an agent with digests referred to is sent in full by one with content in the same session.
func TestLevelsShareNoMemory(t *testing.T) {
	p, exp := collect(t)
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(p), otelagent.WithCaptureFor(func(r otelagent.RunInfo) otelagent.Capture {
		if r.Agent == "coder" {
			return otelagent.CaptureContent
		}
		return otelagent.CaptureDigests
	})))
	payload := payloadOf(`"Be brief."`, user("hi"))
	for _, agent := range []string{"other", "coder"} {
		_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: agent, Agent: agent})
		ask(t, run, payload)
		run.End(writer.RunResult{})
	}
	if got, err := readWire(t, exp.GetSpans()).payload("coder", 0, 0, 0); err != nil || got != payload {
		t.Errorf("got %s, %v", got, err)
	}
}

// A request recorded again of the same attempt adds no list that nobody sends, and nothing refers to one.
func TestRequestToldTwice(t *testing.T) {
	run, exp := start(t)
	var history []string
	for i := range 100 {
		history = append(history, user(fmt.Sprint(i)))
	}
	payload := payloadOf(`"s"`, history...)
	_, turn := run.StartTurn(t.Context(), writer.TurnInfo{})
	for range 3 {
		turn.Request(writer.Request{Payload: []byte(payload)})
	}
	turn.End(writer.TurnResult{})
	w := readWire(t, exp.GetSpans())
	if got, err := w.payload("r", 0, 0, 0); err != nil || got != payload {
		t.Errorf("got %.100s, %v", got, err)
	}
	if n := attr(exp.GetSpans()[0], spans.RequestBytesKey).AsInt64(); n != int64(len(payload)) {
		t.Errorf("a request of %d bytes, want %d", n, len(payload))
	}
}

// Lost content is sent again in each of several histories, whichever asks first.
func TestLostIsToldInEachHistory(t *testing.T) {
	d := &lossy{}
	run, exp := start(t, func(c *writer.Config) { c.Delivery = d })
	histories := make([][]string, 3)
	for range 40 {
		for i := range histories {
			histories[i] = append(histories[i], user(fmt.Sprint("branch ", i, " message ", len(histories[i]))))
			ask(t, run, payloadOf(`"s"`, histories[i]...))
		}
	}
	d.f("s")
	exp.Reset()
	for range 3 {
		ask(t, run, payloadOf(`"s"`, histories[0]...))
	}
	for i := range histories {
		ask(t, run, payloadOf(`"s"`, histories[i]...))
	}
	for _, l := range readWire(t, exp.GetSpans()).lists {
		if l.turn > 123 && l.Name == spans.ListRequest && l.Prefix != "" {
			t.Errorf("turn %d begins behind %s, and nothing before it arrived", l.turn, l.Prefix)
		}
	}
}

// slowly is a redactor that waits.
type slowly struct{ in, out chan struct{} }

func (s slowly) Redact(p spans.Redactable) ([]byte, int) {
	if p.Place == "rules" {
		s.in <- struct{}{}
		<-s.out
	}
	return p.Body, 0
}

// A redactor that is slow with one session keeps no other one waiting, whatever is forgotten meanwhile.
func TestSlowRedactorHoldsItsSessionOnly(t *testing.T) {
	s := slowly{make(chan struct{}), make(chan struct{})}
	p, _ := collect(t)
	d := &lossy{}
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(p), otelagent.WithCapture(otelagent.CaptureContent),
		otelagent.WithRedactor(s), func(c *writer.Config) { c.MaxBlockIDs = 1 }, func(c *writer.Config) { c.Delivery = d }))
	done := make(chan struct{})
	go func() {
		defer close(done)
		tracer.StartRun(context.Background(), writer.RunInfo{SessionID: "slow", Metadata: []byte(`{}`), Rules: []byte(`[]`)})
	}()
	<-s.in
	others := make(chan struct{})
	go func() {
		defer close(others)
		for i := range 3 {
			_, run := tracer.StartRun(context.Background(), writer.RunInfo{SessionID: fmt.Sprint(i)})
			run.Note("x", []byte(`{"a":1}`), writer.Moment{})
			d.f(fmt.Sprint(i))
			run.End(writer.RunResult{})
		}
	}()
	select {
	case <-others:
	case <-time.After(10 * time.Second):
		t.Error("other sessions wait")
	}
	close(s.out)
	<-done
}

// noting is a span processor of a host that uses the handle of the turn whose children end.
type noting struct{ turn *writer.Turn }

func (n *noting) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (n *noting) Shutdown(context.Context) error                  { return nil }
func (n *noting) ForceFlush(context.Context) error                { return nil }
func (n *noting) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.Name() == spans.SpanPayload {
		n.turn.Note("ended", nil, writer.Moment{})
	}
}

// The host's callbacks for the children that carry content may use the handle.
func TestEndsAreToldWithoutLocks(t *testing.T) {
	n := &noting{}
	p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(n))
	tracer := (*writer.Tracer)(otelagent.NewTracer(otelagent.WithTracerProvider(p), otelagent.WithCapture(otelagent.CaptureContent), func(c *writer.Config) { c.MaxSpanBytes = 64 << 10 }))
	_, run := tracer.StartRun(t.Context(), writer.RunInfo{})
	_, turn := run.StartTurn(t.Context(), writer.TurnInfo{})
	n.turn = turn
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
}

// The parameters of a request next to its payload do not change that.
func TestPayloadCounts(t *testing.T) {
	payload := payloadOf(`"s"`, user("1"), user("2"))
	for i, change := range []func(*writer.Request){
		func(r *writer.Request) { r.Messages = r.Messages[1:] },
		func(r *writer.Request) { r.Messages[0].Raw = []byte(user("changed")) },
		func(r *writer.Request) { r.System = []byte(`"t"`) },
	} {
		run, exp := start(t)
		ask(t, run, payload, change)
		if got, err := readWire(t, exp.GetSpans()).payload("r", 0, 0, 0); err != nil || got != payload {
			t.Errorf("change %d: got %s, %v", i, got, err)
		}
	}
}

// A payload in another spelling than its messages is searched for them, but not for ever.
func TestForeignMessagesAreSoonGivenUp(t *testing.T) {
	const n = 20_000
	var own []writer.Message
	var theirs []string
	for i := range n {
		own = append(own, writer.Message{Raw: []byte(user(fmt.Sprint(i, strings.Repeat(" own", 40))))})
		theirs = append(theirs, user(fmt.Sprint(i, strings.Repeat(" their", 40))))
	}
	payload := payloadOf(`"s"`, theirs...)
	run, exp := start(t)
	began := time.Now()
	_, turn := run.StartTurn(t.Context(), writer.TurnInfo{})
	turn.Request(writer.Request{Payload: []byte(payload), Messages: own})
	turn.End(writer.TurnResult{})
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("%v for a payload of %d bytes", d, len(payload))
	}
	all := exp.GetSpans()
	if got, err := readWire(t, all).payload("r", 0, 0, 0); err != nil || got != payload {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if n := attr(all[len(all)-1], spans.RequestBytesKey).AsInt64(); n != int64(len(payload)) {
		t.Errorf("a request of %d bytes, want %d", n, len(payload))
	}
}

// carried returns the largest text and the most bytes that a span carries in events, and the most events.
func carried(all tracetest.SpanStubs) (text, span, events int) {
	for _, s := range all {
		n := 0
		for _, e := range s.Events {
			for _, kv := range e.Attributes {
				n += len(kv.Value.AsByteSlice()) + len(kv.Value.AsString())
				for _, v := range kv.Value.AsStringSlice() {
					n += len(v)
					text = max(text, len(v))
				}
			}
		}
		span, events = max(span, n), max(events, len(s.Events))
	}
	return text, span, events
}

// Whatever is asked, no span carries more than its bound.
func TestSpanBoundOfPiecesAndCuts(t *testing.T) {
	large := strings.Repeat("large ", 400_000)
	var many []string
	for i := range 60_000 {
		many = append(many, user(fmt.Sprint(i, strings.Repeat("m", 110))))
	}
	for name, test := range map[string]struct {
		payload string
		opts    []otelagent.Option
	}{
		"cut":           {payload: payloadOf(`"s"`, user(large)), opts: []otelagent.Option{func(c *writer.Config) { c.MaxBlockBytes = 2 << 20 }}},
		"text between":  {payload: payloadOf(`"`+large+`"`, user(large+"!")) + "\n"},
		"many messages": {payload: strings.Replace(payloadOf(`"s"`, many...), ",", ", ", 1)},
	} {
		run, exp := start(t, test.opts...)
		ask(t, run, test.payload)
		all := exp.GetSpans()
		if text, span, _ := carried(all); name != "many messages" && span > writer.DefaultMaxSpanBytes || text > 2<<20 {
			t.Errorf("%s: a text of %d bytes, a span of %d", name, text, span)
		}
		if got, err := readWire(t, all).payload("r", 0, 0, 0); len(test.opts) == 0 && (err != nil || got != test.payload) {
			t.Errorf("%s: %d bytes of %d, %v", name, len(got), len(test.payload), err)
		}
	}
}

// The redactor sees what stands in lists, too, and is asked again of a message that another rule may hit.
func TestRedactorSeesLists(t *testing.T) {
	run, exp := start(t, otelagent.WithRedactor(&shout{}))
	ask(t, run, `{"SECRET":1,"messages":[`+user("x")+`]}`)
	ask(t, run, payloadOf(`"s"`, user("y")), func(r *writer.Request) {
		r.Messages[0].Provenance.Raw = `{"kind":"SECRET"}`
	})
	_, turn := run.StartTurn(t.Context(), writer.TurnInfo{})
	turn.AddInput(writer.Message{Raw: []byte(user("z")), Provenance: spans.Provenance{Raw: `{"kind":"SECRET"}`}})
	turn.End(writer.TurnResult{})
	if strings.Contains(fmt.Sprintf("%+v", exp.GetSpans()), "SECRET") {
		t.Error("the secret left")
	}
	byRole := redactorFunc(func(p spans.Redactable) ([]byte, int) {
		if p.Role == "user" {
			return []byte(`"gone"`), 1
		}
		return p.Body, 0
	})
	run, exp = start(t, otelagent.WithRedactor(byRole))
	_, turn = run.StartTurn(t.Context(), writer.TurnInfo{})
	turn.AddInput(writer.Message{Raw: []byte(user("x"))})
	turn.AddInput(writer.Message{Raw: []byte(user("x")), Role: "user"})
	turn.End(writer.TurnResult{})
	if w := readWire(t, exp.GetSpans()); w.bodies[spans.BlockOfString(`"gone"`).Short()] == "" {
		t.Error("what was known of another role was taken for redacted")
	}
}

type redactorFunc func(spans.Redactable) ([]byte, int)

func (f redactorFunc) Redact(p spans.Redactable) ([]byte, int) { return f(p) }

// The fields of a block other than its text are bounded, and the request comes back all the same.
func TestLargeEnvelopes(t *testing.T) {
	run, exp := start(t)
	tags := strings.Repeat("tag ", 100_000)
	payload := payloadOf(`"s"`, `{"role":"user","tags":"`+tags+`","content":"x"}`, user("y"))
	ask(t, run, payload, func(r *writer.Request) {
		r.Messages[1].Provenance = spans.Provenance{Kind: spans.ProvenanceIdentityBlock, Name: tags}
	})
	w := readWire(t, exp.GetSpans())
	for _, l := range w.lists {
		if n := len(strings.Join(l.Items, "")); n > 4<<10 {
			t.Errorf("%s takes %d bytes", l.Name, n)
		}
	}
	if got, err := w.payload("r", 0, 0, 0); err != nil || got != payload {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// A payload of many keys comes back.
func TestManyKeys(t *testing.T) {
	var keys, shapes []string
	for i := range 2000 {
		keys = append(keys, fmt.Sprintf(`"k%d":1`, i))
	}
	for i := range 60 {
		shapes = append(shapes, fmt.Sprintf(`{"z%d%s":1,"a":2}`, i, strings.Repeat("k", 2000)))
	}
	for _, payload := range []string{`{` + strings.Join(keys, ",") + `}`, payloadOf(`"s"`, shapes...)} {
		run, exp := start(t)
		ask(t, run, payload)
		if got, err := readWire(t, exp.GetSpans()).payload("r", 0, 0, 0); err != nil || got != payload {
			t.Errorf("%d bytes of %d, %v", len(got), len(payload), err)
		}
	}
}

// A call without an id and its turn may both overflow: what carries the rest of each has an id of its own, also when ids are derived.
func TestPayloadsOfACallAndItsTurn(t *testing.T) {
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
	ctx, run := (*writer.Tracer)(p.Tracer()).StartRun(t.Context(), writer.RunInfo{SessionID: "s", ID: "r"})
	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{})
	_, call := turn.StartTool(ctx, writer.ToolCall{Name: "read"})
	call.End(writer.ToolResult{Result: []byte(`"` + strings.Repeat("a", 2<<20) + `"`)})
	turn.AddInput(writer.Message{Raw: []byte(`"` + strings.Repeat("b", 2<<20) + `"`)})
	turn.End(writer.TurnResult{})
	run.End(writer.RunResult{})
	seen, payloads := map[string]bool{}, 0
	for _, row := range p.Batch().Rows {
		if seen[row.Span.String()] {
			t.Errorf("two spans are %s", row.Span)
		}
		seen[row.Span.String()] = true
		if row.Kind.String() == spans.SpanPayload {
			payloads++
		}
	}
	if payloads < 2 {
		t.Errorf("%d payloads", payloads)
	}
}
