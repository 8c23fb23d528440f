package inspect_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// oneByOne lets the copies of open spans and the spans that ended into one exporter, which is not for several at once.
type oneByOne struct {
	mu sync.Mutex
	to sdktrace.SpanExporter
}

func (e *oneByOne) ExportSpans(ctx context.Context, batch []sdktrace.ReadOnlySpan) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.to.ExportSpans(ctx, batch)
}

func (e *oneByOne) Shutdown(context.Context) error { return nil }

// newest are the rows that a store would keep.
func newest(rows []session.Row) []session.Row {
	type key struct {
		session session.Key
		trace   session.TraceID
		span    session.SpanID
	}
	at := map[key]int{}
	var out []session.Row
	for _, r := range rows {
		k := key{r.Session, r.Trace, r.Span}
		i, ok := at[k]
		switch {
		case !ok:
			at[k] = len(out)
			out = append(out, r)
		case session.Supersedes(&r, &out[i]):
			out[i] = r
		}
	}
	return out
}

// TestFollowSubAgents follows recordings whose lines come one a second: sub-agents are told in place as it happens, once, whether copies of
// what is open come (live) or nothing before it is over, the sub-agent's session before the call that spawned it.
func TestFollowSubAgents(t *testing.T) {
	const clarkSample, phiSample = "../../dialects/clark/testdata/sample.events.ndjson", "../../cmd/otelagent/demo.ndjson"
	for _, c := range []struct {
		name, path string
		live       bool
		end        int // after how many lines the process is killed; 0: never
	}{
		{"clark", clarkSample, true, 0},
		{"clark-ended", clarkSample, false, 0},
		{"phi", phiSample, true, 0},
		{"phi-ended", phiSample, false, 0},
		{"clark-killed", clarkSample, true, clarkChildLine},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, err := os.ReadFile(c.path)
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
				golden(t, "follow-"+c.name+".txt", followed(t, b, c.live, c.end))
			})
		})
	}
}

// clarkChildLine is the line of the sample of clark-agent at which its sub-agent is in a model call.
const clarkChildLine = 52

func followed(t *testing.T, events []byte, live bool, end int) string {
	w := &wire{t: t, blocks: map[string]*session.BlockSet{}}
	exporter, err := otlptrace.New(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	to := &oneByOne{to: exporter}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(to))
	opts := []otelagent.Option{otelagent.WithTracerProvider(provider), otelagent.WithCapture(otelagent.CaptureContent)}
	var copies *otelsetup.Live
	if live {
		copies = otelsetup.NewLive(to, 0)
		defer copies.Shutdown(context.WithoutCancel(t.Context()))
		opts = append(opts, otelagent.WithLive(copies))
	}
	rec := event.NewRecorder(otelagent.NewTracer(opts...))

	var out bytes.Buffer
	f := inspect.NewFollower(&out, inspect.Options{Width: 80})
	look := func(over bool) {
		synctest.Wait()
		to.mu.Lock()
		defer to.mu.Unlock()
		var main session.Tree
		var related []session.Tree
		for _, s := range session.AssembleAll(newest(w.rows)) {
			blocks := w.blocks[s.ID]
			if blocks == nil {
				blocks = &session.BlockSet{}
			}
			tree := session.Tree{Session: s, Blocks: blocks}
			if s.ID == "conv-42" || strings.HasPrefix(s.ID, "0b5cf0a5") {
				main = tree
			} else {
				related = append(related, tree)
			}
		}
		if main.Session == nil {
			return
		}
		if err := f.Write(main, related, nil, time.Now(), over); err != nil {
			t.Fatal(err)
		}
	}

	pipe, feed := io.Pipe()
	told := make(chan error, 1)
	go func() {
		all := phi.Events
		if bytes.Contains(events, []byte("conv-42")) {
			all = clark.Events
		}
		var opts []input.Option
		if live {
			opts = append(opts, input.WithLive())
		}
		for ev, err := range all(pipe, opts...) {
			var bad *input.LineError
			if err != nil && !errors.As(err, &bad) {
				told <- err
				return
			}
			if err == nil {
				rec.Record(context.Background(), ev)
			}
		}
		told <- nil
	}()
	for i, line := range bytes.SplitAfter(events, []byte("\n")) {
		if end > 0 && i == end {
			break
		}
		if _, err := feed.Write(line); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		look(false)
	}
	if end > 0 { // nothing comes any more
		if err := copies.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		look(false)
		look(true)
	}
	_ = feed.Close()
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	rec.Close(context.Background())
	if end == 0 {
		time.Sleep(time.Second)
		look(false)
		look(true)
	}
	return out.String()
}
