package inspect

import (
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// barGap stands between the numbers of a line and its bar.
const barGap = 2

// barLegend explains the bars.
const barLegend = "█ model ▒ tools ━ the rest of the turn, of its run from left to right"

// What a cell of a bar shows. Of several in one cell the last of these is shown.
const (
	barNothing = iota
	barRest
	barModel
	barTools
	barMark
)

var barGlyphs = [...]seg{
	barNothing: {" ", plainText}, barRest: {"━", dim}, barModel: {"█", cyan}, barTools: {"▒", yellow}, barMark: {"◆", magenta},
}

// bar draws stretches of time onto cells.
type bar struct {
	from, to time.Time
	cells    []byte
}

// newBar returns an empty bar of the current run; nil where there is no room, and where the duration of the run is
// unknown.
func (r *renderer) newBar() *bar {
	if r.d.cols.bar <= 0 || !r.to.After(r.from) {
		return nil
	}
	return &bar{r.from, r.to, make([]byte, r.d.cols.bar)}
}

// cell returns where a time stands.
func (b *bar) cell(t time.Time) int {
	at := float64(t.Sub(b.from)) / float64(b.to.Sub(b.from)) * float64(len(b.cells))
	return max(0, min(int(at), len(b.cells)-1))
}

// add draws a stretch of time, one cell at least. It draws nothing without a start.
func (b *bar) add(what byte, from, to time.Time) {
	if b == nil || from.IsZero() {
		return
	}
	first := b.cell(from)
	last := first
	if to.After(from) {
		last = max(first, b.cell(to.Add(-1)))
	}
	for i := first; i <= last; i++ {
		b.cells[i] = max(b.cells[i], what)
	}
}

// segs returns the bar as text, alike cells together.
func (b *bar) segs() []seg {
	if b == nil {
		return nil
	}
	var out []seg
	for i := 0; i < len(b.cells); {
		n := i
		for n < len(b.cells) && b.cells[n] == b.cells[i] {
			n++
		}
		g := barGlyphs[b.cells[i]]
		out = append(out, seg{strings.Repeat(g.text, n-i), g.style})
		i = n
	}
	return out
}

// turnBar shows when in its run a turn was, and the time of its model call and tools. Where the time of the model
// call is unknown, it is part of the rest.
func (r *renderer) turnBar(t *session.Turn) []seg {
	b := r.newBar()
	end := t.End
	if end.IsZero() {
		end = r.to // it is running
	}
	b.add(barRest, toldStart(t.Span), end)
	if t.ModelCallNS > 0 && t.StartTold() {
		b.add(barModel, t.Start, t.Start.Add(time.Duration(t.ModelCallNS)))
	}
	for _, c := range t.ToolCalls {
		end := c.End
		if end.IsZero() {
			end = r.to
		}
		b.add(barTools, toldStart(c.Span), end)
	}
	return b.segs()
}

// spanBar shows when in its run a span was.
func (r *renderer) spanBar(what byte, s session.Span) []seg {
	b := r.newBar()
	end := s.End
	if end.IsZero() {
		end = s.Start
	}
	b.add(what, toldStart(s), end)
	return b.segs()
}

// scale is the head of the bars of a run: its duration, from left to right.
func (r *renderer) scale() []seg {
	if r.d.cols.bar <= 0 || !r.to.After(r.from) {
		return nil
	}
	took := Duration(r.to.Sub(r.from))
	room := r.d.cols.bar - width(took) - 2
	if room < 0 {
		return nil
	}
	return []seg{{"├" + strings.Repeat("┈", room) + took + "┤", dim}}
}

// inTools returns the time in tools, concurrent calls counted once; 0 where no call has times.
func inTools(calls []*session.ToolCall) time.Duration {
	type stretch struct{ from, to time.Time }
	var l []stretch
	for _, c := range calls {
		if c.StartTold() && c.EndTold() && c.End.After(c.Start) {
			l = append(l, stretch{c.Start, c.End})
		}
	}
	slices.SortFunc(l, func(a, b stretch) int { return a.from.Compare(b.from) })
	var sum time.Duration
	var until time.Time
	for _, s := range l {
		if s.from.Before(until) {
			s.from = until
		}
		if s.to.After(until) {
			sum, until = sum+s.to.Sub(s.from), s.to
		}
	}
	return sum
}
