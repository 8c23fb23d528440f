package agenttest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// assemble makes the trees of a batch as `otelagent show` does: from the rows, checked against the blocks.
func assemble(t *testing.T, b session.Batch) []*session.Session {
	t.Helper()
	all := session.AssembleAll(b.Rows)
	for _, s := range all {
		blocks := must.Get(session.NewBlockSet(blocksOf(b, s.ID)))(t)
		s.CheckContent(blocks)
	}
	return all
}

// trees returns the JSON of all sessions of the batch, as `show --output json` prints them.
func trees(t *testing.T, b session.Batch) string {
	t.Helper()
	raw := must.Get(json.MarshalIndent(assemble(t, b), "", "  "))(t)
	return string(raw)
}

// join is what several deliveries come to.
func join(batches ...session.Batch) (b session.Batch) {
	for _, x := range batches {
		b.Rows = append(b.Rows, x.Rows...)
		b.Blocks = append(b.Blocks, x.Blocks...)
	}
	return b
}

// eachCapture runs f for every recording, with content, and unless -short with digests of it and without.
func eachCapture(t *testing.T, f func(t *testing.T, f phifixtures.Fixture, capture otelagent.Option)) {
	for _, fixture := range phifixtures.All(t, repository) {
		for _, level := range []otelagent.Capture{otelagent.CaptureContent, otelagent.CaptureNone, otelagent.CaptureDigests} {
			if testing.Short() && level != otelagent.CaptureContent {
				continue
			}
			t.Run(fmt.Sprintf("%s/capture-%s", fixture, level), func(t *testing.T) {
				f(t, fixture, otelagent.WithCapture(level))
			})
		}
	}
}

// Order, duplicates, batches and the number of exporters that write into one store change nothing.
func TestOrderBlind(t *testing.T) {
	t.Parallel()
	eachCapture(t, func(t *testing.T, f phifixtures.Fixture, capture otelagent.Option) {
		random := rand.New(rand.NewPCG(1, uint64(len(f.Events))))
		once := replay(t, f.Events, capture)
		want := trees(t, once)
		twice := join(once, once)
		rows, blocks := twice.Rows, twice.Blocks
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		random.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
		if diff := cmp.Diff(want, trees(t, twice)); diff != "" {
			t.Errorf("without a store (-in order +shuffled):\n%s", diff)
		}

		// Two exporters, each with the file open for itself.
		file := filepath.Join(t.TempDir(), "sessions.db")
		var exporters [2]store.Store
		for i := range exporters {
			st := must.Get(sqlitestore.Open(t.Context(), file))(t)
			defer st.Close()
			exporters[i] = st
		}
		for len(rows)+len(blocks) > 0 {
			n, m := random.IntN(min(7, len(rows)+1)), random.IntN(min(7, len(blocks)+1))
			must.Do(t, exporters[random.IntN(2)].Put(t.Context(), session.Batch{Rows: rows[:n], Blocks: blocks[:m]}))
			rows, blocks = rows[n:], blocks[m:]
		}
		var kept session.Batch
		for _, s := range session.AssembleAll(once.Rows) {
			kept = join(kept, stored(t, exporters[0], session.Key{Tenant: s.Tenant, ID: s.ID}))
		}
		if diff := cmp.Diff(want, trees(t, kept)); diff != "" {
			t.Errorf("from the store (-in order +shuffled):\n%s", diff)
		}
	})
}

// stored reads what a store has of a session.
func stored(t testing.TB, st store.Store, key session.Key) session.Batch {
	t.Helper()
	return session.Batch{Rows: must.All(st.Rows(t.Context(), key))(t), Blocks: must.All(st.Blocks(t.Context(), key))(t)}
}

// part is one span of a tree without its children, sums and defects.
type part struct {
	session.Span
	itself any
}

// parts returns the spans of trees by address.
func parts(all []*session.Session) map[string]part {
	out := make(map[string]part)
	put := func(addr string, span session.Span, itself any) {
		n := 1
		for ; out[fmt.Sprint(addr, " #", n)].itself != nil; n++ {
		}
		out[fmt.Sprint(addr, " #", n)] = part{span, itself}
	}
	for _, s := range all {
		for _, g := range s.Groups {
			flat := *g
			flat.Defects = nil
			put(fmt.Sprintf("%s group %d", s.ID, g.Start.UnixNano()), g.Span, flat)
		}
		for n := range s.Walk() {
			at := fmt.Sprintf("%s run %s@%d", s.ID, n.Run.ID, n.Run.Start.UnixNano())
			if n.Turn != nil {
				at += fmt.Sprint(" turn ", n.Turn.Index)
			}
			switch n.Kind() {
			case session.KindRun:
				flat := *n.Run
				flat.Turns, flat.ToolCalls, flat.Permissions, flat.Compactions, flat.Defects = nil, nil, nil, nil, nil
				flat.Usage = session.Usage{}
				put(at, flat.Span, flat)
			case session.KindTurn:
				flat := *n.Turn
				flat.ToolCalls, flat.Permissions, flat.Compactions, flat.Defects = nil, nil, nil, nil
				put(at, flat.Span, flat)
			case session.KindToolCall:
				flat := *n.Call
				flat.Permissions, flat.Defects = nil, nil
				put(fmt.Sprintf("%s tool %s.%d", at, flat.ID, flat.Ordinal), flat.Span, flat)
			case session.KindPermission:
				// A permission is with its tool call, or with its turn when the call did not arrive.
				flat := *n.Permission
				flat.Defects = nil
				put(fmt.Sprintf("%s permission %s.%d %s", at, flat.CallID, flat.Ordinal, flat.SpanID), flat.Span, flat)
			case session.KindCompaction:
				flat := *n.Compaction
				flat.Defects = nil
				put(fmt.Sprintf("%s compaction %s@%d", at, flat.Kind, flat.Start.UnixNano()), flat.Span, flat)
			}
		}
	}
	return out
}

// defects counts all defects of the trees, by code.
func defects(all ...*session.Session) map[spans.DefectCode]int {
	n := make(map[spans.DefectCode]int)
	add := func(ds []session.Defect) {
		for _, d := range ds {
			n[d.Code]++
		}
	}
	for _, s := range all {
		add(s.Defects)
		for _, g := range s.Groups {
			add(g.Defects)
		}
		for node := range s.Walk() {
			add(*node.Defects())
		}
	}
	return n
}

// namedBy are the defects that may name a lost span of each kind.
var namedBy = map[session.Kind][]spans.DefectCode{
	session.KindRun:        {spans.DefectRunSpanMissing, spans.DefectRunMissing, spans.DefectGroupSpanMissing},
	session.KindTurn:       {spans.DefectTurnSpanMissing, spans.DefectTurnsMissing},
	session.KindToolCall:   {spans.DefectToolCallMissing},
	session.KindCompaction: {spans.DefectCompactionMissing},
	session.KindPermission: {spans.DefectPermissionMissing},
}

// A span that is lost, with the blocks that it alone carried, never breaks the rest, and is named by a defect of its
// kind. The last run of a session is not named when it has no children.
func TestDropAnySpan(t *testing.T) {
	// Requests may say that a list is unresolved, which only the lost span had.
	list := func(a, b *session.Refs) bool {
		return a.Equal(b) || a != nil && b != nil && a.Count == b.Count && a.Complete != b.Complete
	}
	same := cmp.Comparer(func(a, b *session.Request) bool {
		return a.Attempt == b.Attempt && list(a.Messages, b.Messages) && list(a.Params, b.Params)
	})
	eachCapture(t, func(t *testing.T, f phifixtures.Fixture, capture otelagent.Option) {
		rows := replay(t, f.Events, capture).Rows
		all := session.AssembleAll(rows)
		whole, before := parts(all), defects(all...)
		for i := range rows {
			lost := &rows[i]
			rest := slices.Delete(slices.Clone(rows), i, i+1)
			trees := session.AssembleAll(rest)
			name := fmt.Sprintf("without %s of run %q, turn %d, span %s", lost.Kind, lost.Run, lost.Turn, lost.Span)
			left := parts(trees)
			for addr, want := range whole {
				if want.SpanID == lost.Span.String() {
					continue // the lost one itself: absent, or inferred and so another
				}
				if diff := cmp.Diff(want.itself, left[addr].itself, same); diff != "" {
					t.Errorf("%s: %s is another (-whole +rest):\n%s", name, addr, diff)
				}
			}
			after := defects(trees...)
			named := slices.ContainsFunc(namedBy[lost.Kind], func(c spans.DefectCode) bool { return after[c] > before[c] })
			lastAlone := lost.Kind == session.KindRun && !slices.ContainsFunc(rest, func(r session.Row) bool {
				return r.Session == lost.Session && (r.RunKey() == lost.RunKey() || r.Kind == session.KindRun &&
					r.Attr(spans.RunOrdinalKey).IntOr(0) > lost.Attr(spans.RunOrdinalKey).IntOr(0))
			})
			if !named && !lastAlone {
				t.Errorf("%s: nothing names it; defects %v", name, after)
			}
		}
	})
}

// A stream that is cut after any line gives a tree whose finished parts are those of the whole, none of them lost, and
// whose unfinished parts are open or aborted.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	eachCapture(t, func(t *testing.T, f phifixtures.Fixture, capture otelagent.Option) {
		whole := parts(session.AssembleAll(replay(t, f.Events, capture).Rows))
		lines := f.Lines()
		finished := endings{}
		for n := range lines {
			cut := parts(session.AssembleAll(replay(t, bytes.Join(lines[:n], []byte("\n")), capture).Rows))
			got := endings{}
			for addr, p := range cut {
				want, ok := whole[addr]
				if !ok {
					t.Errorf("cut after line %d: %s is not in the whole", n, addr)
					continue
				}
				if p.Known != spans.KnownObserved {
					if r, ok := p.itself.(session.Run); ok && r.Status != spans.RunStatusOpen && r.Status != spans.RunStatusAborted {
						t.Errorf("cut after line %d: %s has no end and is %s", n, addr, r.Status)
					}
					continue
				}
				got.count(p.itself)
				// The end of a tool call is only bounded by the line that was cut off, the tool's message.
				if c, ok := p.itself.(session.ToolCall); ok && c.EndSource == spans.TimeSourceBound {
					w := want.itself.(session.ToolCall)
					c.End, c.EndSource, w.End, w.EndSource = c.Start, "", w.Start, ""
					p.itself, want.itself = c, w
				}
				if diff := cmp.Diff(want.itself, p.itself); diff != "" {
					t.Errorf("cut after line %d: %s is finished and another (-whole +cut):\n%s", n, addr, diff)
				}
			}
			if got != finished {
				t.Errorf("cut after line %d: finished are %+v, the lines before it end %+v", n, got, finished)
			}
			finished.line(t, lines[n])
		}
	})
}

// endings counts what is over: as the lines of a stream report it, and as a tree shows it. Denied calls and permission
// evaluations have no line of their own and are not counted.
type endings struct{ runs, turns, tools int }

func (e *endings) line(t *testing.T, line []byte) {
	t.Helper()
	var ev struct{ Type string }
	must.Do(t, json.Unmarshal(line, &ev))
	switch ev.Type {
	case "AgentEnd":
		e.runs++
	case "TurnEnd":
		e.turns++
	case "ToolExecutionEnd":
		e.tools++
	}
}

func (e *endings) count(itself any) {
	switch x := itself.(type) {
	case session.Run:
		e.runs++
	case session.Turn:
		e.turns++
	case session.ToolCall:
		if x.Outcome != spans.OutcomeDenied {
			e.tools++
		}
	}
}

// The same stream sent from a growing file again and again is one run each, usage once, and nothing else.
func TestSentAgainAfterItGrew(t *testing.T) {
	eachCapture(t, func(t *testing.T, f phifixtures.Fixture, capture otelagent.Option) {
		lines := f.Lines()
		want := trees(t, replay(t, f.Events, capture))
		var sent []session.Batch
		for _, n := range []int{len(lines) / 3, len(lines) / 2, len(lines) - 1, len(lines), len(lines)} {
			sent = append(sent, replay(t, bytes.Join(lines[:n], []byte("\n")), capture))
		}
		if diff := cmp.Diff(want, trees(t, join(sent...))); diff != "" {
			t.Errorf("(-once +five times):\n%s", diff)
		}
	})
}

// Sent without content first and with it later, in either order, is the same as sent with content.
func TestContentLater(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			without, with := replay(t, f.Events), replay(t, f.Events, content)
			want := trees(t, with)
			for _, both := range []session.Batch{join(without, with), join(with, without)} {
				if diff := cmp.Diff(want, trees(t, both)); diff != "" {
					t.Errorf("(-with +both):\n%s", diff)
				}
			}
		})
	}
}

// Two processes that count the runs of one session each from 1 do not hide what one of them lost.
func TestLostRunOfOneOfTwoProcesses(t *testing.T) {
	var rows []session.Row
	for process := range 2 {
		p := agenttest.New(t)
		for n := range 3 {
			_, run := p.Tracer().StartRun(t.Context(), otelagent.RunInfo{SessionID: "s", ID: fmt.Sprintf("p%d.r%d", process, n)})
			run.End(otelagent.RunResult{})
		}
		rows = append(rows, p.Batch().Rows...)
	}
	if n := defects(session.AssembleAll(rows)...); len(n) != 0 {
		t.Fatalf("nothing is lost, and yet: %v", n)
	}
	for i := range rows {
		n := rows[i].Attr(spans.RunOrdinalKey).IntOr(0)
		rest := slices.Delete(slices.Clone(rows), i, i+1)
		if got := defects(session.AssembleAll(rest)...)[spans.DefectRunMissing]; (got == 1) != (n < 3) {
			t.Errorf("without run %s, the %dth of its process: %d defects run_missing", rows[i].Run, n, got)
		}
	}
}
