package inspect_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
)

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

// TestFollowSubAgents follows recordings whose lines come one a second: sub-agents are written in place, once, whether
// copies of what is open come (live) or nothing before it is over, the sub-agent's session before the call that spawned
// it.
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
				b := must.Get(os.ReadFile(c.path))(t)
				time.Sleep(time.Until(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)))
				golden(t, "follow-"+c.name+".txt", followed(t, b, c.live, c.end))
			})
		})
	}
}

// clarkChildLine is the line of the sample of clark-agent at which its sub-agent is in a model call.
const clarkChildLine = 52

func followed(t *testing.T, events []byte, live bool, end int) string {
	isClark := bytes.Contains(events, []byte("conv-42"))
	isMain := func(s *session.Session) bool { return s.ID == "conv-42" || strings.HasPrefix(s.ID, "0b5cf0a5") }
	p, opts := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent)), []input.Settings{}
	if live {
		p, opts = agenttest.NewLive(t, otelagent.WithCapture(otelagent.CaptureContent)), []input.Settings{{Live: true}}
	}
	rec := event.NewRecorder(p.Tracer())
	var out bytes.Buffer
	f := inspect.NewFollower(&out, inspect.Options{Width: 80})
	var batch session.Batch
	look := func(over bool) {
		batch.Rows = newest(batch.Rows)
		trees := treesOf(batch)
		i := slices.IndexFunc(trees, func(t session.Tree) bool { return isMain(t.Session) })
		if i < 0 {
			return
		}
		must.Do(t, f.Write(trees[i], slices.Delete(slices.Clone(trees), i, i+1), nil, time.Now(), over))
	}
	pipe, feed := io.Pipe()
	done := make(chan bool)
	go func() {
		play(t, rec, pipe, isClark, opts...)
		close(done)
	}()
	for i, line := range bytes.SplitAfter(events, []byte("\n")) {
		if end > 0 && i == end {
			break
		}
		must.Get(feed.Write(line))(t)
		time.Sleep(time.Second)
		synctest.Wait()
		batch = p.Batch()
		look(false)
	}
	if end > 0 { // nothing comes any more
		time.Sleep(time.Minute)
		look(false)
		look(true)
	}
	_ = feed.Close()
	<-done
	rec.Close(context.Background())
	if end == 0 {
		time.Sleep(time.Second)
		batch = p.Batch()
		look(false)
		look(true)
	}
	return out.String()
}
