package export

import (
	"context"

	"fmt"

	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Options are those of JSON, JSONL, CSV and Guide. The zero value refuses to leave anything out and writes all there
// is.
type Options struct {
	// Partial writes what is there: content that is missing is left out and named in what is returned.
	Partial bool
	// Strict writes the guide's rows alone: no key of otelagent in metadata_json and no further lines.
	Strict bool
	// Progress, if set, is called after each message with how many of all are written, from the goroutine that writes.
	Progress func(done, total int)
}

// Guide are the rows of one session in the form of the agent guide: chat_sessions, chat_messages and chat_parts, and
// what these cannot hold. docs/formats.md says what each of them holds; JSON, JSONL, CSV and the tables of package
// sqlitestore are made of them.
//
// Rows are made one at a time from the tree and from bodies that are loaded a stretch at a time, so that their memory
// does not grow with the session, but for some hundred bytes a turn. Not safe for concurrent use.
type Guide struct {
	s      *session.Session
	opts   Options
	ctx    context.Context //nolint:containedctx // of the one call of NewGuide or step of Rows that is going on
	window window          // what goes with turns and messages
	aside  window          // single values, which must not take its place

	firsts   map[string]string // by block: the one that stands for all that say the same
	runs     map[*session.Run]*runPlan
	units    []unit
	planned  bool
	prompts  texts
	catalogs texts
	sources  *sources // of a session that came in the guide's form; then there are no units

	missing    []Missing
	uncaptured map[*session.Run]spans.Capture
}

// NewGuide looks at all content of s once, to know what there is, and returns its rows to be. What is not there is an
// error of type *MissingError unless opts.Partial is set; content that was never captured is no error. Guide.Missing
// names both. A session without runs and facts gives ErrEmpty. bodies are those of the session; nil has none.
//
// The rows of a session that came in the form of the guide are those that came.
func NewGuide(ctx context.Context, s *session.Session, bodies Bodies, opts Options) (*Guide, error) {
	return newGuide(ctx, s, bodies, opts, true)
}

// newGuide is NewGuide; without sources all rows are made from the tree.
func newGuide(ctx context.Context, s *session.Session, bodies Bodies, opts Options, sources bool) (*Guide, error) {
	if bodies == nil {
		bodies = Held(nil)
	}
	if len(s.Runs) == 0 && len(s.Facts) == 0 {
		return nil, fmt.Errorf("export: session %s: no run: %w", s.ID, ErrEmpty)
	}
	g := &Guide{
		s: s, opts: opts, ctx: ctx, window: window{bodies: bodies}, aside: window{bodies: bodies},
		runs: map[*session.Run]*runPlan{}, uncaptured: map[*session.Run]spans.Capture{},
	}
	if sources {
		if err := g.readSources(); err != nil {
			return nil, err
		}
	}
	if g.sources == nil {
		if err := g.identify(); err != nil {
			return nil, err
		}
		if err := g.plan(); err != nil {
			return nil, err
		}
	}
	g.planned = true
	if len(g.missing) > 0 && !opts.Partial {
		return nil, &MissingError{Session: s.ID, Missing: g.missing}
	}
	return g, nil
}

// Missing names content that is not there: first what should be, then, a run each, what was not captured.
func (g *Guide) Missing() []Missing {
	l := slices.Clip(g.missing)
	for _, r := range g.s.Runs {
		if c, ok := g.uncaptured[r]; ok {
			l = append(l, Missing{Where: whereRun(r), What: fmt.Sprintf("texts: captured with %q", c)})
		}
	}
	return l
}

// Messages returns how many message rows there are.
func (g *Guide) Messages() int {
	if g.sources != nil {
		return len(g.sources.messages)
	}
	return len(g.units)
}

func whereRun(r *session.Run) string { return r.ID + "@" + r.Start.Format(time.RFC3339Nano) }

func whereTurn(r *session.Run, t *session.Turn) string {
	if t == nil {
		return whereRun(r)
	}
	return fmt.Sprintf("%s/%d", whereRun(r), t.Index)
}

func (g *Guide) miss(where, what string) {
	g.missing = append(g.missing, Missing{Where: where, What: what})
}

// read returns the bodies of a list that are there with their references. What is not there is noted, while the plan is
// made.
func (g *Guide) read(r *session.Run, t *session.Turn, name string, refs *session.Refs) []body {
	return g.readIn(&g.window, r, t, name, refs)
}

// readAside is read for what is not loaded yet.
func (g *Guide) readAside(r *session.Run, name string, refs *session.Refs) ([]body, error) {
	if err := g.aside.load(g.ctx, appendIDs(nil, refs), nil); err != nil {
		return nil, err
	}
	return g.readIn(&g.aside, r, nil, name, refs), nil
}

func (g *Guide) readIn(w *window, r *session.Run, t *session.Turn, name string, refs *session.Refs) []body {
	if refs == nil {
		return nil
	}
	capture := r.Capture
	if t != nil {
		capture = t.Capture
	}
	c := w.set.Read(refs)
	note := func(what string) {
		switch {
		case g.planned: // noted already
		case capture == spans.CaptureContent || capture == "":
			g.miss(whereTurn(r, t), name+": "+what)
		default:
			g.uncaptured[r] = capture
		}
	}
	if !refs.Complete {
		note(fmt.Sprintf("%d of %d items", refs.Len(), refs.Count))
	}
	items := refs.Items()
	l := make([]body, 0, len(items))
	var lost, withheld []string
	for i, ref := range items {
		switch {
		case len(c.Missing) > len(lost) && c.Missing[len(lost)] == i:
			lost = append(lost, ref.Block)
		case len(c.Withheld) > len(withheld) && c.Withheld[len(withheld)] == i:
			withheld = append(withheld, ref.Block)
		default:
			l = append(l, body{ref, asMessage(name, c.Bodies[i])})
		}
	}
	if len(lost) > 0 {
		note("blocks " + strings.Join(lost, " "))
	}
	if len(withheld) > 0 {
		note("withheld at the source: blocks " + strings.Join(withheld, " "))
	}
	return l
}
