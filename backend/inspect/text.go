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
	r.footer(len(roots) > 0)
	return d.err
}

func newRenderer(t session.Tree, o Options) *renderer {
	o.Location = cmp.Or(o.Location, time.UTC)
	r := &renderer{index: newIndex(t, o.Related), o: o, placed: map[*session.Run]bool{}}
	if t.StartKnown() {
		r.zero = t.Start
	}
	return r
}

type renderer struct {
	*index
	o      Options
	d      *treeDrawer
	m      *docs // of the session that is being built
	placed map[*session.Run]bool
	model  string // of the run that is being built, which its turns need not repeat
	// system and shownRules were shown last and are not repeated.
	system, shownRules string
	zero               time.Time     // time 0 of the column "at"
	lasted             time.Duration // of the run that is being built; 0 where it is unknown
	bounds             bool          // some time shown is only a bound
	said               bool          // some content was shown
	hid                bool          // something that was rewound is not shown
	log                bool          // for a Follower
	over               bool          // the run that is being built gets no more data
	stopped            bool          // the run that is being built is not open
}

// roots builds the nodes of runs and groups that nothing spawned.
func (r *renderer) roots() (roots []*node) {
	for i, run := range r.main.Runs {
		switch g := r.group(run); {
		case r.o.Run != nil && run != r.o.Run, r.placed[run]:
		case r.o.Run == nil && r.spawned(run):
		case r.o.Run == nil && g != nil:
			roots = append(roots, r.groupNode(g))
		default:
			roots = append(roots, r.run(place{r.main, run, i + 1}))
		}
	}
	if r.o.Run == nil {
		for _, g := range r.main.Groups {
			if len(r.members(g)) == 0 {
				roots = append(roots, r.groupNode(g))
			}
		}
		for i, run := range r.main.Runs { // whatever claims each other
			if !r.placed[run] {
				roots = append(roots, r.run(place{r.main, run, i + 1}))
			}
		}
	}
	return roots
}

// footer explains signs of the output, and how to see what is not shown.
func (r *renderer) footer(shown bool) {
	var notes []string
	if r.bounds {
		notes = append(notes, "~ estimated from the times around it: the loop states none for this")
	}
	if shown && r.main.Blocks != nil && !r.said {
		notes = append(notes, r.unsaid())
	}
	if r.said && r.d.cutAt != "" && r.o.Turn == nil {
		notes = append(notes, "… cut here: a turn alone is whole, such as", r.d.cutAt)
	}
	notes = slices.DeleteFunc(notes, func(note string) bool { return note == "" })
	if len(notes) > 0 {
		r.d.line()
	}
	for _, note := range notes {
		for _, line := range wrap(note, r.d.width, maxWrap) {
			r.d.line(dim.of(line))
		}
	}
}

// unsaid returns why there is no content.
func (r *renderer) unsaid() string {
	captures, live := map[spans.Capture]bool{}, false
	for _, p := range r.runs {
		if r.o.Run != nil && p.run != r.o.Run {
			continue
		}
		captures[p.run.Capture] = true
		for _, t := range p.run.Turns {
			captures[t.Capture] = true
			live = live || t.Known == spans.KnownLive && p.run.StatusAt(r.o.AsOf) == spans.RunStatusOpen
		}
	}
	switch {
	case !captures[spans.CaptureContent] && (captures[spans.CaptureNone] || captures[spans.CaptureDigests]):
		return "No word of what was said is here: it was not captured. `send --capture content` and WithCapture do."
	case r.hid:
		return "What was said was rewound: --hidden shows it."
	case live:
		return "No reply yet."
	}
	return ""
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
	if s.StartKnown() && !r.zero.IsZero() {
		value["at"] = Duration(s.Start.Sub(r.zero))
		if !s.Start.Before(r.zero) {
			value["at"] = "+" + value["at"]
		}
	}
	t := ""
	if s.StartKnown() && s.EndKnown() {
		t = took(s.Start, s.End)
	}
	if s.StartSource == spans.TimeSourceBound || s.EndSource == spans.TimeSourceBound {
		if r.lasted > 0 && s.End.Sub(s.Start) > r.lasted {
			t = "" // the bounds are so wide that they say nothing
		}
		t = prefixed("~", t)
		r.bounds = r.bounds || t != ""
	}
	value["took"] = t
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
