package agenttest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Outline returns the trees of all sessions as text, one line for each session, run, turn, tool call, permission
// evaluation and compaction, sub-agents below their tool calls. It has what a test states: names, statuses, outcomes,
// attempts, usage, the number of the run that a run continues, and defects, and no generated ids and no times, but for
// the word bound where a time is only bounded.
//
//	session
//	  run coder completed
//	    turn 0 user tool_use in 15 out 5 cached 3
//	      tool c1 weather ok bound
//	    turn 1 continuation end_turn in 15 out 5 cached 3 attempts 2 discarded 1
//
// Sessions are in the order of their starts.
func (p *Pipeline) Outline() string {
	p.t.Helper()
	all := p.Sessions()
	slices.SortFunc(all, func(a, b *session.Session) int { return a.Start.Compare(b.Start) })
	var o outline
	for _, s := range all {
		o.session(s)
	}
	return o.String()
}

type outline struct {
	strings.Builder
	s       *session.Session
	history *session.History
}

// line writes one line: the words that are not empty, and the defects.
func (o *outline) line(depth int, defects []session.Defect, words ...string) {
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	fmt.Fprintf(o, "%s%s", strings.Repeat("  ", depth), strings.Join(words, " "))
	for _, d := range defects {
		fmt.Fprintf(o, " !%s", d.Code)
	}
	o.WriteByte('\n')
}

func (o *outline) session(s *session.Session) {
	o.s, o.history = s, session.HistoryOf(s, nil)
	id := s.ID
	if s.MadeUp {
		id = ""
	}
	o.line(0, s.Defects, "session", id)
	for _, r := range s.Runs {
		if r.ParentToolCallID == "" || o.history.Run(r).Parent == nil {
			o.run(1, r)
		}
	}
}

func (o *outline) run(depth int, r *session.Run) {
	continues := ""
	if n := slices.Index(o.s.Runs, o.history.Run(r).Parent); n >= 0 && r.Continuation == spans.ContinuationDefault {
		continues = fmt.Sprint("continues ", n+1)
	}
	o.line(depth, r.Defects, "run", r.Agent, string(r.Status), continues, text(r.Error))
	o.inside(depth+1, r, r.ToolCalls, r.Compactions, r.Permissions)
	for _, t := range r.Turns {
		words := []string{"turn", fmt.Sprint(t.Index), string(t.Trigger), string(t.Purpose), t.StopReason}
		if t.Usage != (session.Usage{}) {
			words = append(words, fmt.Sprintf("in %d out %d", t.Usage.Input, t.Usage.Output))
		}
		if t.Usage.CacheRead > 0 {
			words = append(words, fmt.Sprint("cached ", t.Usage.CacheRead))
		}
		if t.Attempts > 1 {
			words = append(words, fmt.Sprint("attempts ", t.Attempts))
		}
		if t.DiscardedAttempts > 0 {
			words = append(words, fmt.Sprint("discarded ", t.DiscardedAttempts))
		}
		if t.Partial {
			words = append(words, "partial")
		}
		if t.Failed {
			words = append(words, "failed", string(t.ErrorType), text(t.Error))
		}
		o.line(depth+1, t.Defects, words...)
		o.inside(depth+2, r, t.ToolCalls, t.Compactions, t.Permissions)
	}
}

func (o *outline) inside(depth int, r *session.Run, calls []*session.ToolCall, compactions []*session.Compaction,
	permissions []*session.Permission) {
	for _, c := range calls {
		bound := ""
		if c.StartSource == spans.TimeSourceBound || c.EndSource == spans.TimeSourceBound {
			bound = "bound"
		}
		o.line(depth, c.Defects, "tool", c.ID, c.Name, string(c.Outcome), text(c.Error), bound)
		o.inside(depth+1, r, nil, nil, c.Permissions)
		for _, sub := range o.s.Runs {
			if sub.ParentToolCallID == c.ID && o.history.Run(sub).Parent == r {
				o.run(depth+1, sub)
			}
		}
	}
	for _, p := range permissions {
		o.line(depth, p.Defects, "permission", p.Tool, string(p.Action), string(p.Source))
	}
	for _, c := range compactions {
		o.line(depth, c.Defects, "compaction", string(c.Kind), c.Trigger)
	}
}

// text quotes the text of an error; empty for none.
func text(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("%q", s)
}

// SameRequests fails the test unless the requests of all turns and attempts are those that were sent, byte for byte,
// in any order.
func (p *Pipeline) SameRequests(sent [][]byte) {
	p.t.Helper()
	b := p.Batch()
	blocks := &session.BlockSet{}
	for _, block := range b.Blocks {
		blocks.Add(block)
	}
	var recorded [][]byte
	for _, s := range p.Sessions() {
		for n := range s.Walk() {
			if n.Kind() != session.KindTurn {
				continue
			}
			for _, q := range n.Turn.Requests {
				got := q.Payload(blocks)
				if !got.Exact {
					p.t.Errorf("agenttest: the request of turn %d, attempt %d, is not exact: %v %v", n.Turn.Index, q.Attempt,
						got.Missing, got.Defects)
				}
				recorded = append(recorded, got.Bytes)
			}
		}
	}
	rest := slices.Clone(recorded)
	for i, body := range sent {
		at := slices.IndexFunc(rest, func(r []byte) bool { return bytes.Equal(r, body) })
		if at < 0 {
			p.t.Errorf("agenttest: request %d of %d was not recorded:\n%s", i+1, len(sent), body)
			continue
		}
		rest = slices.Delete(rest, at, at+1)
	}
	for _, body := range rest {
		p.t.Errorf("agenttest: a request was recorded that was not sent:\n%s", body)
	}
}
