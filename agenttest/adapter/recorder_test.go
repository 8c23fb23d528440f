package adapter_test

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// TestRecorder plays the events of each case and compares the trees. A Recorder that is closed does nothing.
func TestRecorder(t *testing.T) {
	const file = "testdata/recorder/events.txtar"
	arc, err := txtar.ParseFile(file)
	if err != nil || len(arc.Files) < 2 {
		t.Fatal(arc, err)
	}
	for i := 0; i+1 < len(arc.Files); i += 2 {
		t.Run(arc.Files[i].Name, func(t *testing.T) {
			n := 0
			ids := func() string { n++; return fmt.Sprint("made-", n) }
			p := agenttest.New(t)
			rec := event.NewRecorder(p.Tracer(), event.WithIDs(ids))
			play.Events(t, rec, ndjson.NewDecoder().Events(bytes.NewReader(arc.Files[i].Data)))
			rec.Record(t.Context(), &event.RunStarted{})
			got := fmt.Sprintln(rec.Lost(), "events lost") + outlines(p.Sessions())
			if want := &arc.Files[i+1].Data; *update {
				*want = []byte(got)
			} else if diff := gocmp.Diff(string(*want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if *update {
		must.Do(t, os.WriteFile(file, txtar.Format(arc), 0o644))
	}
}

// outlines lists trees, a line for each span.
func outlines(all []*session.Session) string {
	var b strings.Builder
	at := func(t time.Time, source spans.TimeSource) string {
		return fmt.Sprintf("%d(%s)", t.Sub(stamp(0)).Milliseconds(), cmp.Or(string(source), "event"))
	}
	line := func(indent string, s *session.Span, defects []session.Defect, words ...any) {
		fmt.Fprintf(&b, "%s%s %s to %s %s", indent, strings.Join(strings.Fields(fmt.Sprintln(words...)), " "),
			at(s.Start, s.StartSource), at(s.End, s.EndSource), s.Known)
		for _, d := range defects {
			fmt.Fprint(&b, " defect ", d.Code)
		}
		b.WriteString("\n")
	}
	for _, s := range all {
		fmt.Fprintln(&b, "session", s.ID, s.Status, "generated", s.MadeUp, "last", at(s.Last, ""), "usage", s.Usage)
		for _, g := range s.Groups {
			line("  ", &g.Span, g.Defects, "group", g.Members, g.SelectedID)
		}
		for n := range s.Walk() {
			indent, words := "      ", []any(nil)
			switch r, t, c, p := n.Run, n.Turn, n.Call, n.Permission; n.Kind() {
			case session.KindRun:
				indent, words = "  ", []any{"run", r.ID, r.Ordinal, r.Status, r.GroupRole, r.ParentToolCallID, len(r.Events)}
			case session.KindTurn:
				indent, words = "    ", []any{"turn", t.Index, t.StopReason, time.Duration(t.ModelCallNS), t.Usage, t.Discarded}
			case session.KindToolCall:
				words = []any{"tool", c.ID, c.Ordinal, c.Name, c.Outcome}
			case session.KindCompaction:
				words = []any{"compaction", n.Compaction.Kind}
			case session.KindPermission:
				words = []any{"permission", p.CallID, p.Action, time.Duration(p.WaitNS), p.Option}
			}
			line(indent, n.Span(), *n.Defects(), words...)
		}
	}
	return strings.ReplaceAll(b.String(), " false}", "}") // of usage that is no lower bound
}

// Tools of a stream that arrives live last from one arrival to the next, on the producer's clock.
func TestClockOfALiveStream(t *testing.T) {
	arrived := time.Now() // with a monotonic reading, on a clock unlike the producer's
	live := func(ms int, stated time.Time) event.Meta {
		return event.Meta{Session: "s", Run: "r", Time: stated, Arrived: arrived.Add(time.Duration(ms) * time.Millisecond)}
	}
	p := agenttest.New(t)
	rec := event.NewRecorder(p.Tracer())
	for _, ev := range []event.Event{
		&event.RunStarted{Meta: live(0, stamp(0))},
		&event.TurnStarted{Meta: live(10, stamp(10))},
		&event.RequestPrepared{Meta: live(11, stamp(11))},
		&event.ReplyReceived{Meta: live(100, time.Time{})},
		&event.ToolStarted{Meta: live(101, time.Time{}), ToolCall: writer.ToolCall{ID: "c"}},
		&event.ToolEnded{Meta: live(151, time.Time{}), CallID: "c"},
		&event.TurnEnded{Meta: live(160, stamp(160))},
		&event.RunEnded{Meta: live(161, stamp(161))},
	} {
		rec.Record(t.Context(), ev)
	}
	turn := p.Session().Runs[0].Turns[0]
	c := turn.ToolCalls[0]
	if !c.Start.Equal(stamp(101)) || !c.End.Equal(stamp(151)) || c.StartSource != spans.TimeSourceArrival {
		t.Errorf("the call lasts from %v (%s) to %v", c.Start, c.StartSource, c.End)
	}
	if want := (89 * time.Millisecond).Nanoseconds(); turn.ModelCallNS != want {
		t.Errorf("model call %d ns, want %d", turn.ModelCallNS, want)
	}
}

// What has no time in a file follows the start that its run states, whenever the file was written.
func TestStartBeforeTheFileWasWritten(t *testing.T) {
	for _, source := range []spans.TimeSource{"", spans.TimeSourceMessage, spans.TimeSourceBound} {
		p := agenttest.New(t)
		rec := event.NewRecorder(p.Tracer())
		rec.NextInput(stamp(1e6), event.RunInfo{})
		meta := event.Meta{Session: "s", Run: "r"}
		start := writer.Moment{Time: stamp(20), Source: source}
		rec.Record(t.Context(), &event.RunStarted{Meta: meta, RunInfo: writer.RunInfo{Start: start}})
		rec.Record(t.Context(), &event.TurnStarted{Meta: meta})
		rec.Record(t.Context(), &event.RunEnded{Meta: meta})
		run := p.Session().Runs[0]
		if turn := run.Turns[0]; !turn.Start.Equal(stamp(20)) || !run.End.Equal(stamp(20)) {
			t.Errorf("start from %q: the turn starts at %v, the run ends at %v", source, turn.Start, run.End)
		}
	}
}

// Beyond 4,096 open runs the oldest is ended.
func TestOpenRunsAreBounded(t *testing.T) {
	p := agenttest.New(t)
	rec := event.NewRecorder(p.Tracer())
	for i := range 4096 + 10 {
		rec.Record(t.Context(), &event.RunStarted{Meta: event.Meta{Session: "s", Run: fmt.Sprint(i), Time: stamp(i)}})
	}
	if n := len(p.Batch().Rows); n != 10 {
		t.Errorf("%d runs were ended to make room, want 10", n)
	}
	rec.Close(t.Context())
	if n := len(p.Batch().Rows); n != 4096+10 {
		t.Errorf("%d runs in all", n)
	}
}
