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

	"github.com/otelagent/otelagent/internal/phifixtures"
	"github.com/otelagent/otelagent/otelagent/phi"
	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
	"github.com/otelagent/otelagent/store"
	"github.com/otelagent/otelagent/store/sqlitestore"
)

// trees returns the JSON of all sessions of the rows, as `show --json` prints them.
func trees(t *testing.T, rows []session.Row) string {
	t.Helper()
	raw, err := json.MarshalIndent(session.AssembleAll(rows), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Order, duplicates, batches and the number of exporters that write into one store change nothing.
func TestOrderBlind(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, uint64(len(f.Events))))
			b := replay(t, f.Events)
			want := trees(t, b.Rows)

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
			doubled := append(slices.Clone(b.Rows), b.Rows...)
			random.Shuffle(len(doubled), func(i, j int) { doubled[i], doubled[j] = doubled[j], doubled[i] })
			for len(doubled) > 0 {
				n := 1 + random.IntN(min(7, len(doubled)))
				if err := exporters[random.IntN(2)].Put(t.Context(), session.Batch{Rows: doubled[:n]}); err != nil {
					t.Fatal(err)
				}
				doubled = doubled[n:]
			}
			var got []session.Row
			for _, s := range session.AssembleAll(b.Rows) {
				for row, err := range exporters[0].Rows(t.Context(), session.Key{Tenant: s.Tenant, ID: s.ID}) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, row)
				}
			}
			if diff := cmp.Diff(want, trees(t, got)); diff != "" {
				t.Errorf("from the store (-in order +shuffled):\n%s", diff)
			}

			twice := append(slices.Clone(b.Rows), b.Rows...)
			random.Shuffle(len(twice), func(i, j int) { twice[i], twice[j] = twice[j], twice[i] })
			if diff := cmp.Diff(want, trees(t, twice)); diff != "" {
				t.Errorf("without a store (-in order +shuffled):\n%s", diff)
			}
		})
	}
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
			leaves := func(calls []*session.ToolCall, perms []*session.Permission, comps []*session.Compaction) {
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
			leaves(r.ToolCalls, r.Permissions, r.Compactions)
			for _, turn := range r.Turns {
				add(turn.Defects)
				leaves(turn.ToolCalls, turn.Permissions, turn.Compactions)
			}
		}
	}
	return n
}

// A span that is lost never breaks the rest, and is named, but for what docs/fidelity.md lists.
func TestDropAnySpan(t *testing.T) {
	unnamed := make(map[string]bool)
	for _, cells := range phifixtures.Table(t, repository, "unnamed") {
		unnamed[strings.Trim(cells[0], "`")] = false
	}
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			rows := replay(t, f.Events).Rows
			whole := session.AssembleAll(rows)
			for i := range rows {
				lost := &rows[i]
				rest := session.AssembleAll(slices.Delete(slices.Clone(rows), i, i+1))
				name := fmt.Sprintf("without %s of run %q, turn %d, span %s", lost.Kind, lost.Run, lost.Turn, lost.Span)

				wholeThings, restThings := things(whole), things(rest)
				for addr, want := range wholeThings {
					if spanOf(want) == lost.Span.String() {
						continue // the lost one itself: absent, or inferred and so another
					}
					if diff := cmp.Diff(want, restThings[addr]); diff != "" {
						t.Errorf("%s: %s is another (-whole +rest):\n%s", name, addr, diff)
					}
				}
				before, after := defects(whole), defects(rest)
				named := false
				for code, n := range after {
					named = named || n > before[code]
				}
				if named {
					continue
				}
				reason := whyUnnamed(rows, lost)
				if _, listed := unnamed[reason]; !listed {
					t.Errorf("%s: nothing names it, and docs/fidelity.md does not list %q", name, reason)
				}
				unnamed[reason] = true
			}
		})
	}
	for reason, used := range unnamed {
		if !used {
			t.Errorf("docs/fidelity.md says that %q cannot be named, and no recording shows it", reason)
		}
	}
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

func spanOf(thing any) string {
	switch x := thing.(type) {
	case session.Group:
		return x.SpanID
	case session.Run:
		return x.SpanID
	case session.Turn:
		return x.SpanID
	case session.ToolCall:
		return x.SpanID
	case session.Compaction:
		return x.SpanID
	case session.Permission:
		return x.SpanID
	}
	return ""
}

// A stream that is cut after any line gives a tree whose finished parts are those of the whole, and whose unfinished parts
// are open or aborted.
func TestCutAnywhere(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			whole := things(session.AssembleAll(replay(t, f.Events).Rows))
			lines := f.Lines()
			for n := range lines {
				cut := bytes.Join(lines[:n], []byte("\n"))
				for addr, part := range things(session.AssembleAll(replay(t, cut).Rows)) {
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
					if knownOf(part) != spans.KnownObserved {
						continue
					}
					if diff := cmp.Diff(settled(want), settled(part)); diff != "" {
						t.Errorf("cut after line %d: %s is finished and another (-whole +cut):\n%s", n, addr, diff)
					}
				}
			}
		})
	}
}

func knownOf(thing any) spans.Known {
	switch x := thing.(type) {
	case session.Group:
		return x.Known
	case session.Run:
		return x.Known
	case session.Turn:
		return x.Known
	case session.ToolCall:
		return x.Known
	case session.Compaction:
		return x.Known
	case session.Permission:
		return x.Known
	}
	return ""
}

// settled takes off a tool call's end when it is a bound: the next line of the stream, the tool's message, may tell it better.
func settled(thing any) any {
	if c, ok := thing.(session.ToolCall); ok {
		c.End, c.EndSource = c.Start, ""
		return c
	}
	return thing
}

// The same stream sent from a growing file again and again is one run each, usage once, and nothing else.
func TestSentAgainAfterItGrew(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			lines := f.Lines()
			want := trees(t, replay(t, f.Events).Rows)
			var rows []session.Row
			for _, n := range []int{len(lines) / 3, len(lines) / 2, len(lines) - 1, len(lines), len(lines)} {
				rows = append(rows, replay(t, bytes.Join(lines[:n], []byte("\n"))).Rows...)
			}
			if diff := cmp.Diff(want, trees(t, rows)); diff != "" {
				t.Errorf("(-once +five times):\n%s", diff)
			}
		})
	}
}

// The same stream sent live under the SDK's own ids, and again from a file, is one run each, usage once, and one defect a run.
func TestLiveAndFromFileIsOnce(t *testing.T) {
	for _, f := range phifixtures.All(t, repository) {
		t.Run(f.String(), func(t *testing.T) {
			file := replay(t, f.Events).Rows
			live := play(t, f.Events, []phi.Option{phi.WithLive()}).Batch().Rows
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
			without, with := replay(t, f.Events).Rows, replay(t, f.Events, content).Rows
			want := trees(t, with)
			if diff := cmp.Diff(want, trees(t, append(slices.Clone(without), with...))); diff != "" {
				t.Errorf("(-with +without, then with):\n%s", diff)
			}
			if diff := cmp.Diff(want, trees(t, append(slices.Clone(with), without...))); diff != "" {
				t.Errorf("(-with +with, then without):\n%s", diff)
			}
		})
	}
}
