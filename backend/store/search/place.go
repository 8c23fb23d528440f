package search

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Places that are compared.
const (
	placeUser      = session.ByUser
	placeReply     = session.ByModel
	placeResult    = session.ByTool
	placeArguments = "arguments"
	placeSummary   = "summary"
	placeReason    = "reason of a permission"
)

// walker goes through a tree, in its order, and notes the first place of each block that was found.
type walker struct {
	tree    *session.Session
	history *session.History
	matcher *matcher // of content that is in no block
	blocks  map[spans.ShortID]found
	hits    []Hit
	at      map[spans.ShortID]int  // hits by their block
	inFacts map[spans.ShortID]bool // blocks that a fact refers to and that had no hit before it
	folded  map[int]bool           // hits that two blocks made
	further map[int]*session.Turn  // the last turn that a hit was counted in again

	// where it is
	run    *session.Run
	number int
	turn   *session.Turn
	seen   map[spans.ShortID]bool // in this turn
}

// session looks at everything.
func (w *walker) session() {
	for i, r := range w.tree.Runs {
		w.run, w.number = r, i+1
		for n := range r.Walk() {
			if n.Turn != w.turn {
				w.turn, w.seen = n.Turn, map[spans.ShortID]bool{}
			}
			w.events(w.node(&n))
			for _, name := range slices.Sorted(maps.Keys(n.Span().Lists)) { // of later versions
				w.list("list "+name, nil, n.Span().Lists[name])
			}
		}
		w.turn, w.seen = nil, nil
		w.list("", nil, r.Messages)
	}
	w.run = nil
	for _, g := range w.tree.Groups {
		w.events(g.Events)
	}
	for i := range w.tree.Facts {
		w.fact(&w.tree.Facts[i])
	}
}

// node looks at the lists of a span, and returns its events.
func (w *walker) node(n *session.Node) []session.Note {
	switch r, t, c := n.Run, n.Turn, n.Call; n.Kind() {
	case session.KindPermission:
		p := n.Permission
		if f, ok := w.matcher.find(p.Reason); ok {
			w.note(f, Hit{Place: placeReason, Call: p.CallID, Tool: p.Tool})
		}
		w.list("options of a question", nil, p.Options)
		return p.Events
	case session.KindCompaction:
		w.list(placeSummary, nil, n.Compaction.Summary)
		w.list("before a compaction", nil, n.Compaction.Before)
		w.list("after a compaction", nil, n.Compaction.After)
		return n.Compaction.Events
	case session.KindToolCall:
		w.list(placeArguments, c, c.Args)
		w.list(placeResult, c, c.Result)
		return c.Events
	case session.KindTurn:
		for _, q := range t.Requests {
			w.params(q.Params)
		}
		w.list("input", nil, t.Input)
		w.list(placeReply, nil, t.Output)
		w.list(placeResult, nil, t.Results)
		for _, q := range t.Requests {
			if q.Messages != nil {
				w.items("request", nil, q.Messages.From(q.Messages.Same)) // what it repeats was named before
			}
		}
		return t.Events
	default:
		w.list("run metadata", nil, r.Metadata)
		w.list("permission rules", nil, r.Rules)
		w.list("", nil, r.Outside)
		return r.Events
	}
}

func (w *walker) events(l []session.Note) {
	for i := range l {
		if l[i].Body != nil {
			w.items("event "+l[i].Type, nil, []session.Ref{*l[i].Body})
		}
	}
}

func (w *walker) params(l *session.Refs) {
	for _, ref := range l.Items() {
		place := "parameters"
		switch kind, _, _ := strings.Cut(ref.Provenance, ":"); spans.ProvenanceKind(kind) {
		case spans.ProvenanceSystem:
			place = "system prompt"
		case spans.ProvenanceTools:
			place = "tools"
		}
		w.items(place, nil, []session.Ref{ref})
	}
}

func (w *walker) list(place string, c *session.ToolCall, l *session.Refs) {
	if l != nil {
		w.items(place, c, l.Items())
	}
}

func (w *walker) items(place string, c *session.ToolCall, refs []session.Ref) {
	for i := range refs {
		id, err := spans.ParseShortID(refs[i].Block)
		if err != nil {
			continue
		}
		f, ok := w.blocks[id]
		if !ok || w.seen[f.same] {
			continue
		}
		if w.seen != nil {
			w.seen[f.same] = true
		}
		n, known := w.at[f.same]
		further := 0
		// what is in force names it
		if known && w.hits[n].Hidden && w.hidden().IsZero() && (w.turn != nil || w.hits[n].Turn == nil) {
			if further = w.hits[n].Further; w.hits[n].Turn != nil {
				further++
			}
			w.hits[n] = Hit{Hidden: true}
		} else if known {
			if w.turn != nil && w.further[n] != w.turn {
				w.hits[n].Further++
				w.further[n] = w.turn
			}
			continue
		}
		h := Hit{Place: place, Further: further}
		switch {
		case c != nil:
			h.Call, h.Tool = c.ID, c.Name
		case place == "" || place == "input" || place == "request":
			switch h.Place = "input"; f.by {
			case session.ByUser, session.BySystem, session.ByModel, session.ByTool:
				h.Place = f.by
			}
		}
		w.hit(id, h)
	}
}

// hit notes that a block that was found is at the place where the walker is.
func (w *walker) hit(id spans.ShortID, h Hit) {
	h.Block = id.String()
	f := w.blocks[id]
	w.at[f.same] = w.note(f.snippet, h)
}

// note notes a hit at the place where the walker is, and returns which of the hits it is.
func (w *walker) note(f snippet, h Hit) int {
	h.Session = w.tree.ID
	h.Before, h.Match, h.After, h.Matches = f.before, f.match, f.after, f.matches
	if h.Address == "" {
		h.Address = w.tree.ID
	}
	if w.run != nil {
		h.Run, h.At = w.run.ID, w.run.Start
		h.Address = session.RunAddress(w.tree.ID, w.number)
		if w.turn != nil {
			index := w.turn.Index
			h.Turn, h.At = &index, w.turn.Start
			h.Address = session.TurnAddress(w.tree.ID, w.number, index)
		}
		h.Hidden = !w.hidden().IsZero()
	}
	if n, ok := w.fold(h); ok {
		return n
	}
	w.further[len(w.hits)] = w.turn
	w.hits = append(w.hits, h)
	return len(w.hits) - 1
}

// hidden is since when the place is rewound where the walker is; zero where it is not.
func (w *walker) hidden() time.Time {
	switch {
	case w.run == nil:
		return time.Time{}
	case w.turn == nil:
		return w.history.Run(w.run).Hidden
	}
	return w.history.Hidden(w.turn)
}

// fold makes one hit of what a turn holds twice: arguments and the reply that asks for the call, the result of a tool
// call and the message that carries it, a summary and the message that brings it to the model. The place that says
// more names the hit. It returns which of the hits that is, and whether there was such a hit.
func (w *walker) fold(h Hit) (int, bool) {
	if w.turn == nil {
		return 0, false
	}
	for n := len(w.hits) - 1; n >= 0 && w.hits[n].Address == h.Address; n-- {
		other := &w.hits[n]
		if w.folded[n] || !sameThing(other, &h) {
			continue
		}
		if h.Call != "" || h.Place == placeSummary {
			h.Further = other.Further
			*other = h
		}
		w.folded[n] = true
		return n, true
	}
	return 0, false
}

// sameThing says that two hits of one turn are the same text, kept twice.
func sameThing(a, b *Hit) bool {
	places := func(x, y string) bool { return a.Place == x && b.Place == y || a.Place == y && b.Place == x }
	switch {
	case a.Match != b.Match:
		return false
	case places(placeResult, placeResult):
		return (a.Call == "") != (b.Call == "")
	case places(placeSummary, placeUser), places(placeArguments, placeReply):
		return a.After == b.After && sameBefore(a.Before, b.Before)
	}
	return false
}

// sameBefore reports whether the text before two matches is the same but for a key of JSON.
func sameBefore(a, b string) bool {
	a, b = strings.TrimPrefix(a, "…"), strings.TrimPrefix(b, "…")
	if len(a) < len(b) {
		a, b = b, a
	}
	key, ok := strings.CutSuffix(a, b)
	return ok && (key == "" || len(b) > around/2 || strings.HasSuffix(key, ": ") &&
		!strings.Contains(strings.TrimSuffix(key, ": "), " "))
}

// fact looks at a fact about the session or about a part of it. Rows of the guide hold once more what messages do;
// only of those that are in no run, since they wait or were taken off the queue, they are all there is.
func (w *walker) fact(f *session.Fact) {
	if f.Value == nil {
		return
	}
	id, err := spans.ParseShortID(f.Value.Block)
	if err != nil {
		return
	}
	b, ok := w.blocks[id]
	if !ok {
		return
	}
	if _, known := w.at[w.blocks[id].same]; known {
		return
	}
	w.inFacts[id] = true
	kind, of, _ := strings.Cut(f.Subject, "/")
	switch {
	case f.Key == session.FactRow && kind == "session":
		return // title, rules and the rest of it are facts of their own
	case f.Key == session.FactRow:
		if kind == "message" {
			b.message = of
		}
		for i := range w.history.Messages {
			if m := &w.history.Messages[i]; m.ID == b.message && m.Run == nil && m.Hidden.IsZero() {
				place := "queued message"
				if !m.Canceled.IsZero() {
					place = "message taken off the queue"
				}
				w.hit(id, Hit{Place: place})
			}
		}
	case kind == "system_prompt":
		w.hit(id, Hit{Place: "system prompt"})
	case kind == "tool_catalog":
		w.hit(id, Hit{Place: "tools"})
	case kind == session.SubjectSession:
		w.hit(id, Hit{Place: f.Key})
	default:
		w.hit(id, Hit{Place: "fact " + f.Key + " of " + f.Subject})
	}
}
