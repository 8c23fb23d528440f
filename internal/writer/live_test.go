package writer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent/redact"
	"github.com/otelagent/otelagent/spans"
)

// fakeLive keeps the calls that it gets, and makes copies only on request.
type fakeLive struct {
	mu      sync.Mutex
	open    []*writer.OpenSpan
	ended   []*writer.OpenSpan
	changed map[*writer.OpenSpan]time.Duration // the last apart
}

func (l *fakeLive) Heartbeat() time.Duration { return time.Minute }

func (l *fakeLive) Changed(s *writer.OpenSpan, apart time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = map[*writer.OpenSpan]time.Duration{}
	}
	if _, known := l.changed[s]; !known {
		l.open = append(l.open, s)
	}
	l.changed[s] = apart
}

func (l *fakeLive) Ended(s *writer.OpenSpan) { l.ended = append(l.ended, s) }

func liveTracer(opts ...func(*writer.Config)) (*fakeLive, *tracetest.SpanRecorder, *writer.Tracer) {
	live, rec := &fakeLive{}, tracetest.NewSpanRecorder()
	c := writer.Config{TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(rec)),
		MeterProvider: noop.NewMeterProvider(), Live: live}
	for _, o := range opts {
		o(&c)
	}
	return live, rec, writer.NewTracer(c)
}

// said returns what a copy has in addition to its span, by key, and the bodies of its events.
func said(t *testing.T, s *writer.OpenSpan) (map[string]string, []string) {
	t.Helper()
	attributes, blocks, ok := s.Copy(func() {})
	if !ok {
		t.Fatal("no copy")
	}
	got := map[string]string{}
	for _, kv := range attributes {
		got[string(kv.Key)] = kv.Value.Emit()
	}
	var bodies []string
	for _, kv := range blocks {
		if kv.Key == spans.BlockBodiesKey {
			bodies = append(bodies, kv.Value.AsStringSlice()...)
		}
	}
	return got, bodies
}

func TestCopiesOfOpenSpans(t *testing.T) {
	live, rec, tracer := liveTracer(
		func(c *writer.Config) { c.Capture = spans.CaptureContent },
		func(c *writer.Config) { c.PartialEvery = 3 * time.Second },
	)
	ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", Metadata: []byte(`{"a":1}`)})
	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{})
	_, tool := turn.StartTool(ctx, writer.ToolCall{ID: "c"})
	_, compaction := turn.StartCompaction(ctx, writer.Compaction{})
	writer.Decide(ctx, turn, writer.PermissionEvaluation{Action: spans.ActionAllow}) // over as soon as it is reported
	ask := writer.Ask(ctx, run, writer.PermissionEvaluation{Action: spans.ActionAsk})
	_, group := tracer.StartGroup(t.Context(), writer.GroupInfo{SessionID: "s"})
	if len(live.open) != 6 {
		t.Fatalf("%d spans are open; want 6", len(live.open))
	}
	base := map[string]string{"otelagent.known": "live", "otelagent.live.heartbeat": fmt.Sprint(int64(time.Minute))}
	for _, s := range live.open {
		if got, bodies := said(t, s); !maps.Equal(got, base) || bodies != nil {
			t.Errorf("%v %v, want %v", got, bodies, base)
		}
	}
	turn.Request(writer.Request{Attempt: 4})
	turn.AskUser()
	turn.AskUser()
	turn.UserAnswered()
	got, _ := said(t, live.open[1])
	if got["otelagent.turn.attempts"] != "5" || got["otelagent.waiting"] != "user_input" {
		t.Errorf("the turn says %v", got)
	}
	turn.UserAnswered()
	turn.UserAnswered() // one too many
	if got, _ := said(t, live.open[1]); got["otelagent.waiting"] != "" {
		t.Errorf("the turn says %v", got)
	}
	turn.Partial(writer.PartialText, []byte("Ahoy"))
	if apart := live.changed[live.open[1]]; apart != 3*time.Second {
		t.Errorf("partial output is sent every %v", apart)
	}
	if got, bodies := said(t, live.open[1]); got["otelagent.partial"] != "true" ||
		!slices.Equal(bodies, []string{`{"content":[{"text":"Ahoy","type":"text"}],"role":"assistant"}`}) {
		t.Errorf("the turn says %v %q", got, bodies)
	}
	turn.Request(writer.Request{Attempt: 5}) // begins anew
	if got, bodies := said(t, live.open[1]); got["otelagent.partial"] != "" || bodies != nil {
		t.Errorf("the turn says %v %q", got, bodies)
	}
	tool.End(writer.ToolResult{})
	compaction.End(writer.CompactionResult{})
	ask.End(writer.PermissionEvaluation{End: writer.Moment{Closed: true}})
	turn.End(writer.TurnResult{})
	run.End(writer.RunResult{})
	group.EndGroup(writer.GroupResult{})
	turn.AskUser()
	tool.Progress("p", nil, writer.Moment{})
	if len(live.ended) != 6 {
		t.Errorf("%d spans have ended", len(live.ended))
	}
	for _, s := range live.open {
		read := false
		if _, _, ok := s.Copy(func() { read = true }); ok || read {
			t.Error("a copy of what has ended")
		}
	}
	for _, s := range rec.Ended() {
		set := attribute.NewSet(s.Attributes()...)
		if set.HasValue(spans.LiveHeartbeatKey) || set.HasValue(spans.WaitingForKey) || set.HasValue(spans.PartialKey) {
			t.Errorf("%s carries what belongs to copies: %v", s.Name(), s.Attributes())
		}
	}
}

// What a redactor finds in a reply that copies show counts once.
func TestReplyIsRedactedOnce(t *testing.T) {
	_, rec, tracer := liveTracer(func(c *writer.Config) {
		c.Capture, c.Redactor = spans.CaptureContent, redact.Defaults()
	})
	_, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
	_, turn := run.StartTurn(t.Context(), writer.TurnInfo{})
	turn.Reply(writer.TurnResult{Output: &writer.Message{
		Raw: []byte(`{"role":"assistant","content":"AKIAABCDEFGHIJKLMNOP"}`)}})
	turn.End(writer.TurnResult{})
	set := attribute.NewSet(rec.Ended()[0].Attributes()...)
	n, _ := set.Value(spans.RedactedKey)
	preview, _ := set.Value(spans.OutputMessagesKey)
	if n.AsInt64() != 1 || !strings.Contains(preview.AsString(), "[redacted:api-key]") {
		t.Errorf("%d places, preview %s", n.AsInt64(), preview.AsString())
	}
}

// Of a long reply the end is kept, in whole runes, and the copy says how much was dropped.
func TestPartialOutputIsBounded(t *testing.T) {
	for _, size := range []int{1, 7, 1000, writer.MaxPartialBytes + 3, 3*writer.MaxPartialBytes + 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			live, _, tracer := liveTracer(
				func(c *writer.Config) { c.Capture = spans.CaptureContent },
				func(c *writer.Config) { c.PartialEvery = time.Second },
			)
			ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
			_, turn := run.StartTurn(ctx, writer.TurnInfo{})
			piece := strings.Repeat("é", size/2) + strings.Repeat("x", size%2)
			total := 0
			for total < 4*writer.MaxPartialBytes && total < 2000*size {
				turn.Partial(writer.PartialText, []byte(piece))
				total += len(piece)
			}
			_, bodies := said(t, live.open[1])
			var m struct {
				Content []struct{ Text string }
				Omitted int `json:"omitted_bytes"`
			}
			if len(bodies) != 1 || json.Unmarshal([]byte(bodies[0]), &m) != nil || len(m.Content) != 1 {
				t.Fatalf("%.200q", bodies)
			}
			text := m.Content[0].Text
			if len(text)+m.Omitted != total || len(text) > writer.MaxPartialBytes+3 ||
				strings.Contains(text, "\ufffd") && size%2 == 0 ||
				total > writer.MaxPartialBytes && len(text) < writer.MaxPartialBytes-3 {
				t.Errorf("of %d bytes %d are kept, %d left out", total, len(text), m.Omitted)
			}
			turn.End(writer.TurnResult{})
			run.End(writer.RunResult{})
		})
	}
	t.Run("kinds that take turns", func(t *testing.T) {
		live, _, tracer := liveTracer(
			func(c *writer.Config) { c.Capture = spans.CaptureContent },
			func(c *writer.Config) { c.PartialEvery = time.Second },
		)
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		_, turn := run.StartTurn(ctx, writer.TurnInfo{})
		for range 1000 {
			turn.Partial(writer.PartialText, []byte("a"))
			turn.Partial(writer.PartialReasoning, []byte("b"))
		}
		_, bodies := said(t, live.open[1])
		if n := strings.Count(bodies[0], `"type"`); n > 256 || n < 200 ||
			!strings.HasSuffix(
				bodies[0],
				`{"thinking":"b","type":"thinking"}],"omitted_bytes":`+fmt.Sprint(2000-n)+`,"role":"assistant"}`,
			) {
			t.Errorf("%d parts, %s", n, bodies[0][len(bodies[0])-100:])
		}
		turn.End(writer.TurnResult{})
		run.End(writer.RunResult{})
	})
}

// Half of a secret is none that a rule finds, so with a redactor only the number of bytes is sent: on copies, and on
// turns that break off.
func TestPartialOutputIsRedacted(t *testing.T) {
	live, rec, tracer := liveTracer(
		func(c *writer.Config) { c.Capture = spans.CaptureContent },
		func(c *writer.Config) { c.PartialEvery = time.Second },
		func(c *writer.Config) { c.Redactor = redact.Defaults() },
	)
	ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
	_, turn := run.StartTurn(ctx, writer.TurnInfo{})
	turn.Partial(writer.PartialText, []byte("it is swordfish\n"))
	turn.Partial(writer.PartialToolInput, []byte(`{"password":"swordfish`))
	const want = `{"content":[],"omitted_bytes":38,"role":"assistant"}`
	if _, bodies := said(t, live.open[1]); !slices.Equal(bodies, []string{want}) {
		t.Errorf("the copy is %q, want %q", bodies, want)
	}
	turn.End(writer.TurnResult{End: writer.Moment{Closed: true}})
	run.End(writer.RunResult{End: writer.Moment{Closed: true}})
	var bodies []string
	for _, s := range rec.Ended() {
		for _, e := range s.Events() {
			for _, kv := range e.Attributes {
				if kv.Key != spans.BlockBodiesKey {
					continue
				}
				for _, template := range kv.Value.AsStringSlice() {
					if err := spans.Pieces(template, func(p spans.Piece) bool {
						bodies = append(bodies, p.Text)
						return true
					}); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
	all := fmt.Sprint(tracetest.SpanStubsFromReadOnlySpans(rec.Ended()))
	if strings.Contains(all, "swordfish") || !slices.Equal(bodies, []string{want}) {
		t.Errorf("want %s, got %q in %s", want, bodies, all)
	}
}

// Partial output is content, and nothing without its option.
func TestPartialOutputIsAskedFor(t *testing.T) {
	for _, opts := range [][]func(*writer.Config){
		{func(c *writer.Config) { c.Capture = spans.CaptureContent }},
		{func(c *writer.Config) { c.PartialEvery = time.Second }},
		{func(c *writer.Config) { c.PartialEvery, c.Capture = time.Second, spans.CaptureDigests }},
	} {
		live, rec, tracer := liveTracer(opts...)
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		_, turn := run.StartTurn(ctx, writer.TurnInfo{})
		turn.Partial(writer.PartialText, []byte("Ahoy"))
		if got, bodies := said(t, live.open[1]); bodies != nil || got["otelagent.partial"] != "" {
			t.Errorf("%v %q", got, bodies)
		}
		turn.End(writer.TurnResult{End: writer.Moment{Closed: true}})
		run.End(writer.RunResult{End: writer.Moment{Closed: true}})
		for _, s := range rec.Ended() {
			if len(s.Events()) > 0 || bytes.Contains(fmt.Append(nil, s.Attributes()), []byte("Ahoy")) {
				t.Errorf("%s: %v %v", s.Name(), s.Attributes(), s.Events())
			}
		}
	}
}
