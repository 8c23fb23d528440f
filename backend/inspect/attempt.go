package inspect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// noteDiscarded is the type of the event of a discarded reply, as the adapter writes it.
const noteDiscarded = "attempt.discarded"

// outcomeResolved is the outcome of a decision that settles gates without a common tool, in the word of clark-agent.
const outcomeResolved = "conflict_resolved"

// moment is a point within a turn. Sequence numbers order what has one time.
type moment struct {
	at  time.Time
	seq int64
}

func (m moment) after(o moment) bool {
	return cmp.Or(m.at.Compare(o.at), cmp.Compare(m.seq, o.seq)) > 0
}

func began(s session.Span) moment { return moment{s.Start, s.Seq} }

// discards returns when replies of a turn were discarded. It is nil where events are not known of every attempt but
// the last: then the attempt of a decision is unknown.
func discards(t *session.Turn) []moment {
	var out []moment
	for i := range t.Events {
		if e := &t.Events[i]; e.Type == noteDiscarded {
			out = append(out, moment{e.Time, e.Seq})
		}
	}
	if n := int64(len(out)); n != t.DiscardedAttempts || n+1 != t.Attempts {
		return nil
	}
	return out
}

// attemptAt returns the number of the attempt at a point, from 0.
func attemptAt(thrown []moment, at moment) int {
	n := 0
	for _, m := range thrown {
		if at.after(m) {
			n++
		}
	}
	return n
}

// beforeReply parts the events of a turn: early ones happened before its reply, since a reply was discarded or one of
// decisions was made at that time or later.
func beforeReply(events []EventView, decisions []timed) (early, late []EventView) {
	var last moment
	for _, k := range decisions {
		if m := began(k.span); m.after(last) {
			last = m
		}
	}
	at := func(e *EventView) moment { return moment{e.At, e.of.Seq} }
	for i := range events {
		if m := at(&events[i]); events[i].Type == noteDiscarded && m.after(last) {
			last = m
		}
	}
	for i := range events {
		if e := &events[i]; e.of.Type == "" || at(e).after(last) {
			late = append(late, *e)
		} else {
			early = append(early, *e)
		}
	}
	return early, late
}

// decisions draws those of a turn that are of no tool call, with the attempt where it is known. The gates that a
// decision settles are below it.
func (r *renderer) decisions(v *TurnView) []timed {
	thrown := discards(v.of.Turn)
	var out []timed
	var of []*PermissionView // of out
	for i := range v.Permissions {
		q := &v.Permissions[i]
		n := r.permission(q)
		attempt := attemptAt(thrown, began(q.of.Span))
		if len(thrown) > 0 {
			n.segs = append(n.segs, seg{fmt.Sprintf("%sattempt %d", separator, attempt), dim})
		}
		if q.of.Outcome == outcomeResolved {
			from := len(of)
			for from > 0 && gate(of[from-1].of, q.of) && attemptAt(thrown, began(of[from-1].of.Span)) == attempt {
				from--
			}
			for _, g := range of[from:] {
				n.wrapped("settled", dim, strings.TrimSuffix(decision(g.Action)+separator+permissionText(g), separator))
			}
			out, of = out[:from], of[:from]
		}
		out, of = append(out, timed{span: q.of.Span, node: n}), append(of, q)
	}
	return out
}

// gate reports whether g is the decision of one gate on the tools as a whole, which q may settle.
func gate(g, q *session.Permission) bool {
	return g.Source == q.Source && g.Outcome == "" && g.Tool == "" && g.CallID == "" && len(g.Defects) == 0
}
