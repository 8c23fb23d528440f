package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// shownTurn is a turn of a run, or a line in place of turns that are not shown.
type shownTurn struct {
	turn *session.Turn
	span session.Span
	text string
}

// shown returns the turns of a run that are to be shown: those that are asked for, and turns that were rewound as one line in their place,
// unless hidden history is asked for.
func (r *renderer) shown(p place) []shownTurn {
	var out []shownTurn
	h := r.history(p.tree)
	var since time.Time
	var first, last *session.Turn
	flush := func() {
		if first == nil {
			return
		}
		what := fmt.Sprintf("turn %d", first.Index)
		if first != last {
			what = fmt.Sprintf("turns %d to %d", first.Index, last.Index)
		}
		out = append(out, shownTurn{span: first.Span, text: "↶ " + what + ": rewound " + r.since(since) + ", shown with --hidden"})
		r.hid = true
		first = nil
	}
	for _, t := range p.run.Turns {
		if r.o.Run == p.run && r.o.Turn != nil && r.o.Turn != t {
			continue
		}
		if at := h.Hidden(t); !at.IsZero() && !r.o.Hidden && r.o.Run == nil {
			if first == nil {
				first, since = t, at
			}
			last = t
			continue
		}
		flush()
		out = append(out, shownTurn{turn: t, span: t.Span})
	}
	flush()
	return out
}

// since says when something was done.
func (r *renderer) since(t time.Time) string { return "at " + strings.TrimPrefix(r.clock(t), "at ") }
