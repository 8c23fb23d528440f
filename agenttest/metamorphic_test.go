package agenttest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// assemble makes the trees of a batch as `otelagent show` does: from the rows, checked against the blocks.
func assemble(t *testing.T, b session.Batch) []*session.Session {
	t.Helper()
	all := session.AssembleAll(b.Rows)
	for _, s := range all {
		blocks, err := session.NewBlockSet(blocksOf(b, s.ID))
		if err != nil {
			t.Fatal(err)
		}
		s.CheckContent(blocks)
	}
	return all
}

// trees returns the JSON of all sessions of the batch, as `show --output json` prints them.
func trees(t *testing.T, b session.Batch) string {
	t.Helper()
	raw, err := json.MarshalIndent(assemble(t, b), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
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
	eachCapture(t, func(t *testing.T, f phifixtures.Fixture, capture otelagent.Option) {
		random := rand.New(rand.NewPCG(1, uint64(len(f.Events))))
		once := replay(t, f.Events, capture)
		want := trees(t, once)

		twice := join(once, once)
		random.Shuffle(len(twice.Rows), func(i, j int) { twice.Rows[i], twice.Rows[j] = twice.Rows[j], twice.Rows[i] })
		random.Shuffle(len(twice.Blocks), func(i, j int) { twice.Blocks[i], twice.Blocks[j] = twice.Blocks[j], twice.Blocks[i] })
		if diff := cmp.Diff(want, trees(t, twice)); diff != "" {
			t.Errorf("without a store (-in order +shuffled):\n%s", diff)
		}

		// Two exporters, each with the file open for itself.
		file := filepath.Join(t.TempDir(), "sessions.db")
		var exporters [2]store.Store
		for i := range exporters {
			st, err := sqlitestore.Open(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			exporters[i] = st
		}
		for rest := twice; len(rest.Rows)+len(rest.Blocks) > 0; {
			n, m := random.IntN(min(7, len(rest.Rows)+1)), random.IntN(min(7, len(rest.Blocks)+1))
			part := session.Batch{Rows: rest.Rows[:n], Blocks: rest.Blocks[:m]}
			rest = session.Batch{Rows: rest.Rows[n:], Blocks: rest.Blocks[m:]}
			if err := exporters[random.IntN(2)].Put(t.Context(), part); err != nil {
				t.Fatal(err)
			}
		}
		var kept session.Batch
		for _, s := range session.AssembleAll(once.Rows) {
			key := session.Key{Tenant: s.Tenant, ID: s.ID}
			for row, err := range exporters[0].Rows(t.Context(), key) {
				if err != nil {
					t.Fatal(err)
				}
				kept.Rows = append(kept.Rows, row)
			}
			for block, err := range exporters[1].Blocks(t.Context(), key, nil) {
				if err != nil {
					t.Fatal(err)
				}
				kept.Blocks = append(kept.Blocks, block)
			}
		}
		if diff := cmp.Diff(want, trees(t, kept)); diff != "" {
			t.Errorf("from the store (-in order +shuffled):\n%s", diff)
		}
	})
}

// things flattens a tree into its things by address, each without its children, sums and defects.
func things(all []*session.Session) map[string]any {
	out := make(map[string]any)
	put := func(addr string, thing any) {
		for n := 1; ; n++ {
			key := fmt.Sprintf("%s #%d", addr, n)
			if _, taken := out[key]; !taken {
				out[key] = thing
				return
			}
		}
	}
	for _, s := range all {
		for _, g := range s.Groups {
			c := *g
			c.Defects = nil
			put(fmt.Sprintf("%s group %d", s.ID, g.Start.UnixNano()), c)
		}
		for _, r := range s.Runs {
			run := fmt.Sprintf("%s run %s@%d", s.ID, r.ID, r.Start.UnixNano())
			tools := func(at string, calls []*session.ToolCall, perms []*session.Permission, comps []*session.Compaction) {
				for _, c := range calls {
					flat := *c
					flat.Permissions, flat.Defects = nil, nil
					addr := fmt.Sprintf("%s tool %s.%d", at, c.ID, c.Ordinal)
					put(addr, flat)
					for _, p := range c.Permissions {
						flat := *p
						flat.Defects = nil
						// A permission stands with its tool call, or with its turn when the call did not arrive.
						put(fmt.Sprintf("%s permission %s.%d %s", at, p.CallID, p.Ordinal, p.SpanID), flat)
					}
				}
				for _, p := range perms {
					flat := *p
					flat.Defects = nil
					put(fmt.Sprintf("%s permission %s.%d %s", at, p.CallID, p.Ordinal, p.SpanID), flat)
				}
				for _, c := range comps {
					flat := *c
					flat.Defects = nil
					put(fmt.Sprintf("%s compaction %s@%d", at, c.Kind, c.Start.UnixNano()), flat)
				}
			}
			tools(run, r.ToolCalls, r.Permissions, r.Compactions)
			for _, turn := range r.Turns {
				at := fmt.Sprintf("%s turn %d", run, turn.Index)
				tools(at, turn.ToolCalls, turn.Permissions, turn.Compactions)
				flat := *turn
				flat.ToolCalls, flat.Permissions, flat.Compactions, flat.Defects = nil, nil, nil, nil
				put(at, flat)
			}
			flat := *r
			flat.Turns, flat.ToolCalls, flat.Permissions, flat.Compactions, flat.Defects = nil, nil, nil, nil, nil
			flat.Usage = session.Usage{}
			put(run, flat)
		}
	}
	return out
}

// defects counts all defects of the trees, by code.
func defects(all []*session.Session) map[spans.DefectCode]int {
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
		for _, r := range s.Runs {
			add(r.Defects)
			visit := func(calls []*session.ToolCall, perms []*session.Permission, comps []*session.Compaction) {
				for _, c := range calls {
					add(c.Defects)
					for _, p := range c.Permissions {
						add(p.Defects)
					}
				}
				for _, p := range perms {
					add(p.Defects)
				}
				for _, c := range comps {
					add(c.Defects)
				}
			}
			visit(r.ToolCalls, r.Permissions, r.Compactions)
			for _, turn := range r.Turns {
				add(turn.Defects)
				visit(turn.ToolCalls, turn.Permissions, turn.Compactions)
			}
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

// A span that is lost, with the blocks that it alone carried, never breaks the rest, and is named by a defect of its kind, but
// for what docs/fidelity.md lists.
func TestDropAnySpan(t *testing.T) {
	unnamed := make(map[string]bool)
	for _, cells := range phifixtures.Table(t, filepath.Join(repository, "docs", "fidelity.md"), "unnamed") {
		unnamed[strings.Trim(cells[0], "`")] = false
	}
	eachCapture(t, func(t *testing.T, f phifixtures.Fixture, capture otelagent.Option) {
		rows := replay(t, f.Events, capture).Rows
		whole := session.AssembleAll(rows)
		for i := range rows {
			lost := &rows[i]
			rest := session.AssembleAll(slices.Delete(slices.Clone(rows), i, i+1))
			name := fmt.Sprintf("without %s of run %q, turn %d, span %s", lost.Kind, lost.Run, lost.Turn, lost.Span)

			wholeThings, restThings := things(whole), things(rest)
			for addr, want := range wholeThings {
				if spanOf(want).SpanID == lost.Span.String() {
					continue // the lost one itself: absent, or inferred and so another
				}
				if diff := cmp.Diff(want, restThings[addr], cmp.Comparer(sameOrUnresolved)); diff != "" {
					t.Errorf("%s: %s is another (-whole +rest):\n%s", name, addr, diff)
				}
			}
			before, after := defects(whole), defects(rest)
			named := slices.ContainsFunc(namedBy[lost.Kind], func(code spans.DefectCode) bool { return after[code] > before[code] })
			if named {
				continue
			}
			reason := whyUnnamed(rows, lost)
			if _, listed := unnamed[reason]; !listed {
				t.Errorf("%s: nothing names it, and docs/fidelity.md does not list %q; defects %v", name, reason, after)
			}
			unnamed[reason] = true
		}
	})
	for reason, used := range unnamed {
		if !used {
			t.Errorf("docs/fidelity.md says that %q cannot be named, and no recording shows it", reason)
		}
	}
}

// sameOrUnresolved reports whether requests say the same, but for lists that refer to one that only the lost span had and are said to be
// unresolved.
func sameOrUnresolved(a, b *session.Request) bool {
	list := func(a, b *session.Refs) bool {
		return a.Equal(b) || a != nil && b != nil && a.Count == b.Count && a.Complete != b.Complete
	}
	return a.Attempt == b.Attempt && list(a.Messages, b.Messages) && list(a.Params, b.Params)
}

// whyUnnamed says which rule of docs/fidelity.md a lost span falls under.
func whyUnnamed(rows []session.Row, lost *session.Row) string {
	if lost.Kind != session.KindRun {
		return "none"
	}
	alone, last := true, true
	for i := range rows {
		r := &rows[i]
		if r.Span == lost.Span || r.Session != lost.Session {
			continue
		}
		if r.RunKey() == lost.RunKey() {
			alone = false
		}
		if r.Kind == session.KindRun && r.Attr(spans.RunOrdinalKey).IntOr(0) > lost.Attr(spans.RunOrdinalKey).IntOr(0) {
			last = false
		}
	}
	if alone && last {
		return "last run without children"
	}
	return "none"
}

// spanOf returns what all things of a tree share: which span it came from, and how its end is known.
func spanOf(thing any) session.Span {
	switch x := thing.(type) {
	case session.Group:
		return x.Span
	case session.Run:
		return x.Span
	case session.Turn:
		return x.Span
	case session.ToolCall:
		return x.Span
	case session.Compaction:
		return x.Span
	case session.Permission:
		return x.Span
	}
	panic(fmt.Sprintf("%T is no thing of a tree", thing))
}

// A stream that is cut after any line gives a tree whose finished parts are those of the whole, none of them lost, and whose
// unfinished parts are open or aborted.
func TestCutAnywhere(t *testing.T) {
	eachCapture(t, func(t *testing.T, f phifixtures.Fixture, capture otelagent.Option) {
		whole := things(session.AssembleAll(replay(t, f.Events, capture).Rows))
		lines := f.Lines()
		finished := endings{}
		for n := range lines {
			cut := things(session.AssembleAll(replay(t, bytes.Join(lines[:n], []byte("\n")), capture).Rows))
			got := endings{}
			for addr, part := range cut {
				want, ok := whole[addr]
				if !ok {
					t.Errorf("cut after line %d: %s is not in the whole", n, addr)
					continue
				}
				if r, ok := part.(session.Run); ok && r.Known != spans.KnownObserved {
					if r.Status != spans.RunStatusOpen && r.Status != spans.RunStatusAborted {
						t.Errorf("cut after line %d: %s has no end and is %s", n, addr, r.Status)
					}
					continue
				}
				if spanOf(part).Known != spans.KnownObserved {
					continue
				}
				got.count(part)
				if diff := cmp.Diff(settled(want, part), settled(part, part)); diff != "" {
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

// endings counts what is over: as the lines of a stream report it, and as a tree shows it. Denied and skipped calls and
// permission evaluations have no line of their own and are not counted.
type endings struct{ runs, turns, tools int }

func (e *endings) line(t *testing.T, line []byte) {
	t.Helper()
	var ev struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &ev); err != nil {
		t.Fatal(err)
	}
	switch ev.Type {
	case "AgentEnd":
		e.runs++
	case "TurnEnd":
		e.turns++
	case "ToolExecutionEnd":
		e.tools++
	}
}

func (e *endings) count(thing any) {
	switch x := thing.(type) {
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

// settled takes off a tool call's end where the cut stream only bounds it: the next line, the tool's message, has a
// better one.
func settled(thing, cut any) any {
	c, ok := thing.(session.ToolCall)
	if ok && cut.(session.ToolCall).EndSource == spans.TimeSourceBound {
		c.End, c.EndSource = c.Start, ""
		return c
	}
	return thing
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

// The same stream sent live under the SDK's own ids, and again from a file, is one run each, usage once, and one defect a run.
func TestLiveAndFromFileIsOnce(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			file := replay(t, f.Events).Rows
			live := play(t, f.Events, []input.Option{input.WithLive()}).Batch().Rows
			once := session.AssembleAll(file)
			both := session.AssembleAll(append(slices.Clone(file), live...))
			if len(once) != len(both) {
				t.Fatalf("%d sessions from the file, %d from both", len(once), len(both))
			}
			for i, s := range both {
				o := once[i]
				if diff := cmp.Diff(shape(o), shape(s)); diff != "" {
					t.Errorf("session %s (-file +both):\n%s", s.ID, diff)
				}
				if s.Usage != o.Usage {
					t.Errorf("session %s: usage %+v, want %+v", s.ID, s.Usage, o.Usage)
				}
				for _, r := range s.Runs {
					twice := 0
					for _, d := range r.Defects {
						if d.Code == spans.DefectRecordedTwice {
							twice++
						}
					}
					if twice != 1 {
						t.Errorf("run %s: %d defects recorded_twice, want 1", r.ID, twice)
					}
				}
			}
		})
	}
}

// However slow the machine was that the loop ran on: what was sent live, with times of arrival for the tools, and again from a file, with
// those inside their messages, has its tools in their order.
func TestLiveAndFromFileInOrder(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			file := replay(t, f.Events).Rows
			live := play(t, f.Events, []input.Option{input.WithLive()}).Batch().Rows
			var want [][]string
			for _, s := range session.AssembleAll(file) {
				want = append(want, shape(s))
			}
			var late []int64 // what makes a live tool end with one of the file, where it is open whose end is later
			for i := range file {
				for j := range live {
					if file[i].Kind == session.KindToolCall && live[j].Kind == session.KindToolCall && file[i].Run == live[j].Run && file[i].Turn == live[j].Turn {
						late = append(late, file[i].End-live[j].End)
					}
				}
			}
			slices.Sort(late)
			for _, by := range slices.Compact(late) {
				for _, more := range []int64{-1, 0, 1} {
					moved := slices.Clone(live)
					for i := range moved {
						if r := &moved[i]; r.Kind == session.KindToolCall || r.Kind == session.KindPermission {
							r.Start, r.End = r.Start+by+more, r.End+by+more
						}
					}
					var got [][]string
					for _, s := range session.AssembleAll(append(slices.Clone(file), moved...)) {
						got = append(got, shape(s))
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("tools %d ns later (-file +both):\n%s", by+more, diff)
					}
				}
			}
		})
	}
}

// shape names every thing of a tree by its address.
func shape(s *session.Session) []string {
	var out []string
	for _, r := range s.Runs {
		out = append(out, fmt.Sprintf("run %s@%d", r.ID, r.Start.UnixNano()))
		leaf := func(calls []*session.ToolCall, perms []*session.Permission, comps []*session.Compaction) {
			for _, c := range calls {
				out = append(out, fmt.Sprintf("  tool %s.%d %s, %d permissions", c.ID, c.Ordinal, c.Outcome, len(c.Permissions)))
			}
			for _, p := range perms {
				out = append(out, "  permission "+p.CallID+string(p.Action))
			}
			for _, c := range comps {
				out = append(out, "  compaction "+string(c.Kind))
			}
		}
		leaf(r.ToolCalls, r.Permissions, r.Compactions)
		for _, turn := range r.Turns {
			out = append(out, fmt.Sprintf(" turn %d", turn.Index))
			leaf(turn.ToolCalls, turn.Permissions, turn.Compactions)
		}
	}
	return out
}

// Sent without content first and with it later, in either order, is what was sent with content.
func TestContentLater(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			without, with := replay(t, f.Events), replay(t, f.Events, content)
			want := trees(t, with)
			if diff := cmp.Diff(want, trees(t, join(without, with))); diff != "" {
				t.Errorf("(-with +without, then with):\n%s", diff)
			}
			if diff := cmp.Diff(want, trees(t, join(with, without))); diff != "" {
				t.Errorf("(-with +with, then without):\n%s", diff)
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
	if n := defects(session.AssembleAll(rows)); len(n) != 0 {
		t.Fatalf("nothing is lost, and yet: %v", n)
	}
	for i := range rows {
		n := rows[i].Attr(spans.RunOrdinalKey).IntOr(0)
		rest := slices.Delete(slices.Clone(rows), i, i+1)
		if got := defects(session.AssembleAll(rest))[spans.DefectRunMissing]; (got == 1) != (n < 3) {
			t.Errorf("without run %s, the %dth of its process: %d defects run_missing", rows[i].Run, n, got)
		}
	}
}
