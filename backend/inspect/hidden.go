package inspect

import (
	"fmt"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// shownTurn is a turn of a run, or a line in place of hidden turns.
type shownTurn struct {
	turn *session.Turn
	span session.Span
	text string
}

// shown returns the turns of a run that are drawn. Rewound turns are one line, unless Options.Hidden is set.
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
		text := "↶ " + what + ": rewound " + r.since(since) + ", shown with --hidden"
		out = append(out, shownTurn{span: first.Span, text: text})
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

// since returns when something was done.
func (r *renderer) since(t time.Time) string { return "at " + strings.TrimPrefix(r.clock(t), "at ") }
