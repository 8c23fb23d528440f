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
	attributes, blocks, ok := s.Copy()
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
		func(c *writer.Config) { c.Capture = writer.CaptureContent },
		func(c *writer.Config) { c.PartialEvery = 3 * time.Second },
	)
	ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s", Metadata: []byte(`{"a":1}`)})
	ctx, turn := run.StartTurn(ctx, writer.TurnInfo{})
	_, tool := turn.StartTool(ctx, writer.ToolCall{ID: "c"})
	_, compaction := turn.StartCompaction(ctx, writer.Compaction{})
	turn.Permission(ctx, writer.PermissionEvaluation{Action: spans.ActionAllow}) // over as soon as it is reported
	ask := run.Ask(ctx, writer.PermissionEvaluation{})
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
	ask.Close(writer.Moment{})
	turn.End(writer.TurnResult{})
	run.End(writer.RunResult{})
	group.End(writer.GroupResult{})
	turn.AskUser()
	tool.Progress("p", nil, writer.Moment{})
	if len(live.ended) != 6 {
		t.Errorf("%d spans have ended", len(live.ended))
	}
	for _, s := range live.open {
		if _, _, ok := s.Copy(); ok || !s.Ended() {
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

// Of a long reply the end is kept, in whole runes, and the copy says how much was dropped.
func TestPartialOutputIsBounded(t *testing.T) {
	for _, size := range []int{1, 7, 1000, writer.MaxPartialBytes + 3, 3*writer.MaxPartialBytes + 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			live, _, tracer := liveTracer(
				func(c *writer.Config) { c.Capture = writer.CaptureContent },
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
			func(c *writer.Config) { c.Capture = writer.CaptureContent },
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

// Half of a secret is none that a rule finds, so with a redactor only lines that are over are shown, and of what rules
// need whole only how long it is: on copies, and on turns that break off.
func TestPartialOutputIsRedacted(t *testing.T) {
	cards, err := redact.New(redact.Config{Rules: []redact.Rule{
		{Name: "card", Regexp: `\d{4}( \d{4}){3}`}, {Name: "verse", Regexp: `(?s)ROSE.*?THORN`},
	}})
	if err != nil {
		t.Fatal(err)
	}
	key := "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEA7abcd+/EFGH0123\n", 50)
	verse := strings.Repeat(
		"Roses are red.\n",
		writer.MaxPartialBytes/15-20,
	) // so that half of the key falls out of what is kept
	type pieces []struct{ kind, text string }
	for _, tt := range []struct {
		name     string
		redactor spans.Redactor
		pieces   pieces
		secret   string // of which eight bytes never leave
		want     string
	}{
		{"a key byte by byte", redact.Defaults(), pieces{{"text", "one\nit is "}, {"text", "sk-ant-api03-Zq7Rr2Kx9Lm4Np8Tv3Wb6Yc1"}, {"text", "\nand on"}}, "sk-ant-api03-Zq7Rr2Kx9Lm4Np8Tv3Wb6Yc1",
			`{"content":[{"text":"one\nit is [redacted:api-key]\n","type":"text"}],"omitted_bytes":6,"role":"assistant"}`},
		{"arguments", redact.Defaults(), pieces{{"text", "a\n"}, {"tool_input", `{"password":"hunter two\n`}}, `"hunter two\n`,
			`{"content":[{"text":"a\n","type":"text"}],"omitted_bytes":25,"role":"assistant"}`},
		{"half of a key", redact.Defaults(), pieces{{"text", key}, {"text", "-----END PRIVATE KEY-----\n"}, {"text", verse}, {"text", verse}}, "MIIEowIBAAKCAQEA7abcd",
			fmt.Sprintf(`{"content":[],"omitted_bytes":%d,"role":"assistant"}`, len(key)+26+2*len(verse))},
		{"blanks", cards, pieces{{"reasoning", "card\nno 4000 1234 5678 9012"}, {"reasoning", " it is"}}, "4000 1234 5678 9012",
			`{"content":[{"thinking":"card\n","type":"thinking"}],"omitted_bytes":24,"role":"assistant"}`},
		{"the break is in the secret", cards, pieces{{"", "one\nROSE of\nmany THORN"}}, "ROSE of\nmany THORN",
			`{"content":[{"text":"one\n","type":"text"}],"omitted_bytes":16,"role":"assistant"}`},
		{"one line", cards, pieces{{"text", "4000 1234 56"}}, "4000 1234 56", `{"content":[],"omitted_bytes":12,"role":"assistant"}`},
		{"no message is left", withheld{}, pieces{{"text", "swordfish\nand"}}, "swordfish", `{"content":[],"omitted_bytes":13,"role":"assistant"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			live, rec, tracer := liveTracer(
				func(c *writer.Config) { c.Capture = writer.CaptureContent },
				func(c *writer.Config) { c.PartialEvery = time.Second },
				func(c *writer.Config) { c.Redactor = tt.redactor },
			)
			ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
			_, turn := run.StartTurn(ctx, writer.TurnInfo{})
			var all, last []string
			for _, p := range tt.pieces {
				step := max(1, len(p.text)/40)
				if p.kind == "" {
					step, p.kind = len(p.text), "text" // at once
				}
				for at := 0; at < len(p.text); at += step {
					turn.Partial(writer.PartialKind(p.kind), []byte(p.text[at:min(at+step, len(p.text))]))
					_, last = said(t, live.open[1])
					all = append(all, last...)
				}
			}
			turn.Close(writer.Moment{})
			run.Close(writer.Moment{})
			all = append(all, fmt.Sprint(rec.Ended()))
			var closed []string
			for _, s := range rec.Ended() {
				for _, e := range s.Events() {
					for _, kv := range e.Attributes {
						if kv.Key == spans.BlockBodiesKey {
							closed = append(closed, kv.Value.AsStringSlice()...)
						}
					}
				}
			}
			all = append(all, closed...)
			if !slices.Equal([]string{tt.want}, last) {
				t.Errorf("the last copy is %q, want %q", last, tt.want)
			}
			if !slices.Equal([]string{tt.want}, closed) && tt.redactor != (withheld{}) {
				t.Errorf("the turn that broke off is %q, want %q", closed, tt.want)
			}
			for _, text := range all {
				for at := 0; at+8 <= min(len(tt.secret), 40); at++ {
					quoted := fmt.Sprintf("%q", tt.secret[at:at+8])
					if part := quoted[1 : len(quoted)-1]; strings.Contains(text, part) {
						t.Fatalf("%s is sent: %s", part, text)
					}
				}
			}
		})
	}
}

// withheld removes every message.
type withheld struct{}

func (withheld) Redact(spans.Redactable) ([]byte, int) { return []byte(`"gone"`), 1 }

// Partial output is content, and nothing without its option.
func TestPartialOutputIsAskedFor(t *testing.T) {
	for _, opts := range [][]func(*writer.Config){
		{func(c *writer.Config) { c.Capture = writer.CaptureContent }},
		{func(c *writer.Config) { c.PartialEvery = time.Second }},
		{func(c *writer.Config) { c.PartialEvery = time.Second }, func(c *writer.Config) { c.Capture = writer.CaptureDigests }},
	} {
		live, rec, tracer := liveTracer(opts...)
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		_, turn := run.StartTurn(ctx, writer.TurnInfo{})
		turn.Partial(writer.PartialText, []byte("Ahoy"))
		if got, bodies := said(t, live.open[1]); bodies != nil || got["otelagent.partial"] != "" {
			t.Errorf("%v %q", got, bodies)
		}
		turn.Close(writer.Moment{})
		run.Close(writer.Moment{})
		for _, s := range rec.Ended() {
			if len(s.Events()) > 0 || bytes.Contains(fmt.Append(nil, s.Attributes()), []byte("Ahoy")) {
				t.Errorf("%s: %v %v", s.Name(), s.Attributes(), s.Events())
			}
		}
	}
}
