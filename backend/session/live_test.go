package session

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/spans"
)

// liveCopies returns copies of a row as they are sent while its span is open: later ones say more, none has the
// end.
func liveCopies(r Row) []Row {
	atEnd := map[string]bool{
		"otelagent.run.status": true, "otelagent.turn.stop_reason": true, "otelagent.tool.outcome": true,
		"otelagent.tool.truncated": true,
	}
	var out []Row
	for i := range 3 {
		c := r
		c.Known, c.End, c.EndSeq, c.Failed = spans.KnownLive, r.Start+int64(i), 0, false
		c.Attrs = slices.DeleteFunc(slices.Clone(r.Attrs), func(a Attr) bool {
			return atEnd[a.Key] || i == 0 &&
				len(a.Key)%2 == 0
		})
		c.Attrs = append(c.Attrs, attrs("otelagent.live.heartbeat", 15_000_000_000)...)
		c.Lists = nil
		if r.Kind == KindTurn {
			c.Attrs = append(c.Attrs, attrs("otelagent.waiting", "user_input")...)
			if i > 0 {
				c.Attrs = append(c.Attrs, attrs("otelagent.partial", true)...)
				c.Lists = []List{{Name: spans.ListOutput, Count: 1, Items: []string{"AAAAAAAAAAA"}}}
			}
		}
		slices.SortFunc(c.Attrs, func(a, b Attr) int { return strings.Compare(a.Key, b.Key) })
		c.Attrs = slices.CompactFunc(c.Attrs, func(a, b Attr) bool { return a.Key == b.Key })
		out = append(out, c)
	}
	return out
}

// early moves the requests of turns to rows of their own, as a live session sends them.
func early(rows []Row) []Row {
	var out []Row
	for _, r := range rows {
		if r.Kind == KindTurn {
			p := Row{
				Trace: r.Trace, Span: r.Span, Parent: r.Span, Session: r.Session, Run: r.Run, RunStart: r.RunStart,
				Turn: r.Turn,
				Kind: KindPayload, Known: spans.KnownObserved, Start: r.Start + 1, End: r.Start + 1,
			}
			p.Span[0] = 0xee
			var rest []List
			for _, l := range r.Lists {
				if l.Name == spans.ListRequest {
					p.Lists = append(p.Lists, l)
				} else {
					rest = append(rest, l)
				}
			}
			r.Lists = rest
			out = append(out, p)
		}
		out = append(out, r)
	}
	return out
}

// TestLiveLeavesNothing: once everything ended the tree is the one without live copies, however many there were and
// in whatever order they came.
func TestLiveLeavesNothing(t *testing.T) {
	s := synthetic()
	whole := treeJSON(t, Assemble(s.rows))
	rows := early(s.rows)
	if got := treeJSON(t, Assemble(rows)); got != whole {
		t.Fatalf("requests on rows of their own give another tree:\n%s", cmp.Diff(whole, got))
	}
	all := slices.Clone(rows)
	for _, r := range s.rows {
		for _, c := range liveCopies(r) {
			if c.Span[7]%3 != byte(len(all))%3 { // some of the copies never came
				all = append(all, c)
			}
		}
	}
	disturb(t, all, whole)
}

// TestLiveReopens: at each moment of a session the copies so far give a tree of which nothing is lost that a later
// one has: late data reopens a session that counted as dead.
func TestLiveReopens(t *testing.T) {
	s := synthetic()
	var rows []Row
	for _, r := range early(s.rows) {
		if r.Kind == KindPayload {
			rows = append(rows, r)
			continue
		}
		rows = append(rows, liveCopies(r)...)
	}
	killed := Assemble(rows)
	if killed.Status != spans.SessionStatusWaitingOnApproval {
		t.Errorf("status %s", killed.Status)
	}
	if got := killed.StatusAt(killed.Last.AddDate(0, 0, 1)); got != spans.SessionStatusAborted {
		t.Errorf("a day later: %s", got)
	}
	want := Assemble(s.rows)
	for i, run := range killed.Runs {
		if run.Status != spans.RunStatusOpen || len(run.Turns) != len(want.Runs[i].Turns) || len(run.Defects) > 0 {
			t.Errorf("run %s: %s, %d turns, defects %v", run.ID, run.Status, len(run.Turns), run.Defects)
		}
		for j, turn := range run.Turns {
			if full := want.Runs[i].Turns[j]; !turn.Partial || turn.Output.Len() != 1 || !turn.End.IsZero() ||
				len(turn.Requests) != 1 || !turn.Requests[0].Equal(full.Requests[0]) ||
				len(turn.ToolCalls) != len(full.ToolCalls) || turn.ToolCalls[0].Outcome != "" {
				t.Errorf("turn %d: %+v", j, turn)
			}
		}
	}
}

// A live copy's part of a reply is not the reply that another recording of the turn lacks, and gives way to one that
// has it. Of two requests of one attempt the later one counts.
func TestPartialOfTwoRecordings(t *testing.T) {
	const partial, whole = "AAAAAAAAAAA", "BBBBBBBBBBA"
	list := func(name, block string) []List {
		if block == "" {
			return nil
		}
		return []List{{Name: name, Count: 1, Items: []string{block}}}
	}
	for _, c := range []struct {
		known      spans.Known // of the partial one
		other      string      // of the other, which is from a ledger
		otherKnown spans.Known
		want       string
	}{
		{spans.KnownLive, "", spans.KnownObserved, ""},
		{spans.KnownLive, whole, spans.KnownObserved, whole},
		{spans.KnownClosed, whole, spans.KnownClosed, whole},
		{spans.KnownClosed, "", spans.KnownClosed, partial},
	} {
		s := &synth{session: Key{ID: "s1"}}
		r := s.add(KindTurn, "r", at(0), 0, at(1), at(5), "otelagent.partial", true, "otelagent.live.heartbeat", 1)
		r.Known, r.Lists = c.known, list(spans.ListOutput, partial)
		r = s.add(KindTurn, "r", at(0), 0, at(1), at(5), "otelagent.recording", "ledger")
		r.Known, r.Lists = c.otherKnown, list(spans.ListOutput, c.other)
		s.add(KindPayload, "r", at(0), 0, at(2), at(2)).Lists = list(spans.ListRequest, partial)
		s.add(KindPayload, "r", at(0), 0, at(3), at(3)).Lists = list(spans.ListRequest, whole)
		for range 2 {
			turn := Assemble(s.rows).Runs[0].Turns[0]
			block := ""
			if turn.Output.Len() > 0 {
				block = turn.Output.Items()[0].Block
			}
			if block != c.want || turn.Partial != (c.want == partial) || turn.HeartbeatNS != 0 ||
				len(turn.Requests) != 1 || turn.Requests[0].Messages.Items()[0].Block != whole {
				t.Errorf("%+v: output %q, partial %v, %+v", c, block, turn.Partial, turn.Requests)
			}
			slices.Reverse(s.rows)
		}
	}
}
