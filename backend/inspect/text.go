package inspect

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store/stats"
	"github.com/otelagent/otelagent/spans"
)

// Options say how to render. The zero value is 80 columns without colour, in UTC.
type Options struct {
	// Width in columns; below 40 it is taken as 80.
	Width int
	// Color switches colour on.
	Color bool
	// Now is the time that "ago" counts from; zero omits it.
	Now time.Time
	// AsOf is the time of statuses: open runs without a sign of life for too long are aborted then. Zero is the time
	// of the last data of the session.
	AsOf time.Time
	// Location for times of day; nil is UTC.
	Location *time.Location
	// Related are other sessions. Their runs that the session spawned are below the calls.
	Related []session.Tree
	// Run and Turn narrow the output to one run, and to one turn of it, where they are not nil.
	Run  *session.Run
	Turn *session.Turn
	// Prices compute the costs of turns, in addition to those that loops report; nil computes none.
	Prices *stats.Prices
	// Hidden shows rewound history, with a mark; otherwise one line is in its place.
	Hidden bool
	// Forks are sessions that were forked from the one shown.
	Forks []session.Summary
	// Columns are additional columns of List in a narrow terminal: ListErrors, ListDenied, ListCost.
	Columns []string
}

// Text writes t as a tree: a header, then every run with its turns, tool calls, compactions, permissions and
// sub-agents in place. The tree must not change meanwhile. The error is that of the writer.
func Text(w io.Writer, t session.Tree, o Options) error {
	d, r := newTreeDrawer(w, o), newRenderer(t, o)
	r.d = d
	roots := r.roots()
	r.header()
	d.line()
	d.line(padLeft(d.numbers(dim.of), d.right))
	for i, n := range roots {
		if i > 0 {
			d.line()
		}
		d.node(n, "", "")
	}
	r.footer()
	return d.err
}

func newRenderer(t session.Tree, o Options) *renderer {
	o.Location = cmp.Or(o.Location, time.UTC)
	return &renderer{index: newIndex(t, o.Related), o: o,
		drawn: &drawn{placed: map[*session.Run]bool{}, shown: map[string]string{}}}
}

type renderer struct {
	*index
	*drawn
	o       Options
	d       *treeDrawer
	m       *docs  // of the session that is being built
	model   string // of the run that is being built, which its turns need not repeat
	log     bool   // for a Follower
	over    bool   // the run that is being built gets no more data
	stopped bool   // the run that is being built is not open
}

// drawn is what was drawn so far.
type drawn struct {
	placed map[*session.Run]bool
	shown  map[string]string // the last system prompt and rules of a session, which are not repeated
	bounds bool              // some time shown is only a bound
	said   bool              // some content was shown
}

// roots builds the nodes of runs that nothing spawned, then of those that claim each other.
func (r *renderer) roots() (roots []*node) {
	for _, all := range []bool{false, true} {
		for i, run := range r.main.Runs {
			wanted := run == r.o.Run || r.o.Run == nil && (all || !r.spawned(run))
			if wanted && !r.placed[run] {
				roots = append(roots, r.run(place{r.main, run, i + 1}))
			}
		}
	}
	return roots
}

// footer explains signs of the output, and how to see what is not shown.
func (r *renderer) footer() {
	var notes []string
	if r.bounds {
		notes = append(notes, "~ estimated from the times around it: the loop states none for this")
	}
	captured := func(p place) bool {
		return p.run.Capture != spans.CaptureNone && p.run.Capture != spans.CaptureDigests
	}
	if len(r.runs) > 0 && !r.said && !slices.ContainsFunc(r.runs, captured) {
		notes = append(notes,
			"No word of what was said is here: it was not captured. `send --capture content` and WithCapture do.")
	}
	if r.said && r.d.cut && r.o.Turn == nil {
		notes = append(notes, "… cut here: a turn alone is whole, such as")
		for _, p := range r.runs {
			if len(p.run.Turns) > 0 {
				notes = append(notes, Clean(p.turnAddress(p.run.Turns[0])))
				break
			}
		}
	}
	if len(notes) > 0 {
		r.d.line()
	}
	for _, note := range notes {
		for _, line := range wrap(note, r.d.width, maxWrap) {
			r.d.line(dim.of(line))
		}
	}
}

// ShellWords returns words for a shell, quoted where that needs it. Control characters stay as they are.
func ShellWords(words ...string) string {
	special := func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_./:@+=,%", r)
	}
	var out []string
	for _, w := range words {
		if w == "" || w[0] == '=' || strings.ContainsFunc(w, special) { // zsh expands =NAME to the path of a program
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// cols returns the times of a span by the names of columns.
func (r *renderer) cols(s session.Span) map[string]string {
	value := map[string]string{}
	if s.StartKnown() && r.main.StartKnown() {
		value["at"] = Duration(s.Start.Sub(r.main.Start))
		if !s.Start.Before(r.main.Start) {
			value["at"] = "+" + value["at"]
		}
	}
	if s.StartKnown() && s.EndKnown() {
		value["took"] = took(s.Start, s.End)
	}
	if s.StartSource == spans.TimeSourceBound || s.EndSource == spans.TimeSourceBound {
		value["took"] = prefixed("~", value["took"])
		r.bounds = r.bounds || value["took"] != ""
	}
	return value
}

// tokens adds the tokens of a span to its columns.
func tokens(cols map[string]string, reported bool, u *session.Usage) map[string]string {
	for name, n := range map[string]int64{
		"in": u.Input, "out": u.Output, "cached": u.CacheRead, "written": u.CacheWrite, "thought": u.Reasoning,
	} {
		if cols[name] = "-"; reported {
			cols[name] = tokenCount(u.LowerBound, n)
		}
	}
	return cols
}

func (r *renderer) clock(t time.Time) string {
	if !session.TimeKnown(t) {
		return "at no known time"
	}
	layout := "15:04:05.000 MST"
	if t.In(r.o.Location).Format(time.DateOnly) != r.main.Start.In(r.o.Location).Format(time.DateOnly) {
		layout = "2006-01-02 " + layout // not the day that the header names
	}
	return t.In(r.o.Location).Format(layout)
}

// since returns when something was done.
func (r *renderer) since(t time.Time) string { return "at " + strings.TrimPrefix(r.clock(t), "at ") }
