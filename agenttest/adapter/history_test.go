package adapter_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// loop is an agent loop with random steps: its history is appended to, edited, compacted, taken back and continued in
// parallel runs and sub-agents. It remembers what each request was.
type loop struct {
	t        testing.TB
	random   *rand.Rand
	tracer   *writer.Tracer
	recorded []recordedRequest
	next     int
}

type recordedRequest struct {
	run     string
	turn    int64
	payload string
}

// text is new text of about n bytes.
func (l *loop) text(n int) string {
	l.next++
	var b strings.Builder
	fmt.Fprintf(&b, "%d ", l.next)
	for b.Len() < n {
		b.WriteString(strconv.FormatUint(l.random.Uint64(), 36))
		b.WriteByte(" \n\"\\é"[l.random.IntN(3)])
	}
	quoted, _ := json.Marshal(b.String())
	return string(quoted)
}

// message is a new message in one of several spellings.
func (l *loop) message() string {
	switch l.random.IntN(12) {
	case 0:
		return `{"role":"user","content":` + l.text(300) + `,"timestamp":1}`
	case 1:
		return `{"timestamp":1,"role":"user","content":[{"type":"text","text":` + l.text(20) + `}]}`
	case 2: // the keys of a text part in another order than elsewhere
		return `{"role":"user","content":[{"text":` + l.text(20) + `,"type":"text"},{"type":"text","text":"x"}]}`
	case 3:
		return `{"role":"user","content":"` + strconv.Itoa(l.next) + `","x":1.0,"x":2}`
	case 4:
		return l.text(30)
	}
	return `{"role":"assistant","content":[{"type":"text","text":` + l.text(100+l.random.IntN(900)) +
		`},{"type":"toolCall","id":"c","name":"bash","arguments":{"a":` + l.text(10) +
		`}}],"stopReason":"toolUse","turnId":{"loopId":"r","turnIndex":1}}`
}

// turns runs some turns over a history, and others below them.
func (l *loop) turns(run *writer.Run, id string, history []string, n, depth int) []string {
	ctx := l.t.Context()
	for range n {
		switch at := len(history); {
		case at > 4 && l.random.IntN(14) == 0: // compaction
			keep := l.random.IntN(at)
			history = append([]string{l.message()}, history[at-keep:]...)
		case at > 4 && l.random.IntN(8) == 0: // steering between earlier messages
			history = slices.Insert(slices.Clone(history), at-1-l.random.IntN(at/2), l.message())
		case at > 4 && l.random.IntN(20) == 0: // back
			history = slices.Clone(history[:l.random.IntN(at)])
		}
		for range 1 + l.random.IntN(4) {
			history = append(slices.Clip(history), l.message())
		}
		if l.random.IntN(40) == 0 { // a session taken up again
			for range 200 + l.random.IntN(300) {
				history = append(history, l.message())
			}
		}
		turnCtx, turn := run.StartTurn(ctx, writer.TurnInfo{})
		l.ask(turn, id, history)
		if l.random.IntN(3) == 0 {
			_, call := turn.StartTool(turnCtx, writer.ToolCall{ID: "c", Name: "bash", Args: []byte(l.message())})
			call.End(writer.ToolResult{Result: []byte(history[l.random.IntN(len(history))])})
		}
		if depth > 0 && l.random.IntN(10) == 0 {
			l.run(history[:l.random.IntN(len(history))], 1+l.random.IntN(8), depth-1)
		}
		turn.End(writer.TurnResult{Output: &writer.Message{Raw: []byte(history[len(history)-1])}})
	}
	return history
}

func (l *loop) ask(turn *writer.Turn, run string, history []string) {
	index := int64(0)
	for _, r := range l.recorded {
		if r.run == run {
			index++
		}
	}
	space := ""
	if l.random.IntN(30) == 0 { // no frame can say that
		space = " "
	}
	system := `"Be careful."`
	if l.random.IntN(10) == 0 {
		system = l.text(50)
	}
	payload := `{"model_id":"m",` + space + `"system_prompt":` + system + `,"messages":[` + strings.Join(
		history,
		",",
	) + `],"tools":[{"name":"bash"}],"temperature":0.20}`
	l.recorded = append(l.recorded, recordedRequest{run, index, payload})
	req, _ := writer.ParseRequest([]byte(payload)) // which has nothing wrong
	for i := range req.Messages {
		req.Messages[i].Provenance = spans.Provenance{
			Kind:      spans.ProvenanceLoopTurn,
			TurnIndex: int64(i / 2),
			Role:      "user-message",
		}
	}
	turn.Request(req)
	clear(req.Payload) // the tracer keeps nothing of it
}

func (l *loop) run(history []string, n, depth int) []string {
	id := "run-" + strconv.Itoa(l.next)
	l.next++
	_, run := l.tracer.StartRun(l.t.Context(), writer.RunInfo{SessionID: "s", ID: id})
	history = l.turns(run, id, history, n, depth)
	run.End(writer.RunResult{})
	return history
}

// play runs a session of about n turns.
func (l *loop) play(n int) {
	var history []string
	for len(l.recorded) < n {
		history = l.run(history, 1+l.random.IntN(30), 2)
	}
}

// Whatever becomes of the history, each request comes back byte for byte; and whatever is lost, duplicated or
// reordered, none comes back with a wrong byte.
func TestRandomHistories(t *testing.T) {
	seeds := uint64(30)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			p, exp := collect(t)
			opts := []otelagent.Option{
				otelagent.WithCapture(otelagent.CaptureContent),
				otelagent.WithTracerProvider(p),
				func(c *writer.Config) { c.PreviewBytes = -1 },
			}
			if seed%5 == 4 {
				opts = append(opts, func(c *writer.Config) { c.MaxBlockIDs = 200 }) // forgets all the time
			}
			if seed%7 == 6 {
				opts = append(opts, func(c *writer.Config) { c.PerRun = true })
			}
			l := &loop{t: t, random: rand.New(rand.NewPCG(7, seed)), tracer: (*writer.Tracer)(otelagent.NewTracer(opts...))}
			l.play(60)
			all := exp.GetSpans()
			if wrong := l.compare(readWire(t, all)); wrong > 0 {
				t.Errorf("%d requests did not come back although all arrived", wrong)
			}
			for range 3 {
				var some tracetest.SpanStubs
				for _, s := range all {
					for range []int{1, 1, 1, 1, 1, 1, 1, 1, 0, 2}[l.random.IntN(10)] {
						some = append(some, s)
					}
				}
				l.random.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
				l.compare(readWire(t, some))
			}
		})
	}
}

// compare fails for a wrong byte and returns how many requests are incomplete.
func (l *loop) compare(w *wire) (incomplete int) {
	l.t.Helper()
	for _, r := range l.recorded {
		got, err := w.payload(r.run, r.turn, 0)
		switch {
		case err != nil:
			incomplete++
		case got != r.payload:
			i := 0
			for i < len(got) && i < len(r.payload) && got[i] == r.payload[i] {
				i++
			}
			from := max(0, i-100)
			l.t.Errorf("run %s turn %d: wrong bytes\n got %.300s\nwant %.300s", r.run, r.turn, got[from:], r.payload[from:])
		}
	}
	return incomplete
}
