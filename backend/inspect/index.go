package inspect

import (
	"slices"

	"github.com/otelagent/otelagent/backend/session"
)

// place is a run of a session and its number there, from 1.
type place struct {
	tree session.Tree
	run  *session.Run
	n    int
}

func (p place) address() string { return session.RunAddress(p.tree.ID, p.n) }

func (p place) turnAddress(t *session.Turn) string {
	return session.TurnAddress(p.tree.ID, p.n, t.Index)
}

// claim is the tool call that spawned a run: its run, and its address.
type claim struct {
	place
	address string
}

// index finds the runs of several sessions, and which tool call or run spawned which.
type index struct {
	main   session.Tree
	runs   []place // of all sessions
	byID   map[string][]place
	kids   map[*session.ToolCall][]place
	claims map[*session.Run]claim
	// strays are spawned runs without a known tool call, by their parent and by start; isStray has all of them.
	strays  map[*session.Run][]place
	isStray map[*session.Run]bool
	views   map[*session.Session]*View
}

// newIndex reads the tree that is shown, and related ones whose runs it may have spawned.
func newIndex(main session.Tree, related []session.Tree) *index {
	x := &index{
		main: main, byID: map[string][]place{}, kids: map[*session.ToolCall][]place{}, claims: map[*session.Run]claim{},
		strays: map[*session.Run][]place{}, isStray: map[*session.Run]bool{}, views: map[*session.Session]*View{},
	}
	byCall := map[string][]place{} // by the tool call that spawned them, as the runs say
	for _, t := range append([]session.Tree{main}, related...) {
		for i, run := range t.Runs {
			p := place{t, run, i + 1}
			x.runs = append(x.runs, p)
			x.byID[run.ID] = append(x.byID[run.ID], p)
			if run.ParentToolCallID != "" {
				byCall[run.ParentToolCallID] = append(byCall[run.ParentToolCallID], p)
			}
		}
	}
	for _, p := range x.runs {
		for n := range p.run.Walk() {
			if n.Kind() != session.KindToolCall {
				continue
			}
			of := p.address()
			if n.Turn != nil {
				of = p.turnAddress(n.Turn)
			}
			for _, k := range x.spawnedBy(p, n.Call, byCall[n.Call.ID]) {
				x.kids[n.Call] = append(x.kids[n.Call], k)
				if _, ok := x.claims[k.run]; !ok {
					x.claims[k.run] = claim{p, callAddress(of, n.Call)}
				}
			}
		}
	}
	for _, p := range x.runs {
		x.findParent(p)
	}
	for _, l := range x.strays {
		slices.SortStableFunc(l, func(a, b place) int { return a.run.Start.Compare(b.run.Start) })
	}
	return x
}

// spawnedBy returns the runs that a call of p spawned: those that it names, and of named those that name it.
func (x *index) spawnedBy(p place, call *session.ToolCall, named []place) []place {
	var out []place
	add := func(k place) {
		if k.run != p.run && !slices.ContainsFunc(out, func(o place) bool { return o.run == k.run }) {
			out = append(out, k)
		}
	}
	if call.ChildRunID != "" {
		for _, k := range x.byID[call.ChildRunID] {
			if call.ChildSessionID == "" || call.ChildSessionID == k.tree.ID {
				add(k)
			}
		}
	}
	if len(out) > 1 { // loops reuse ids: the run that ran during the call is meant
		during := slices.DeleteFunc(slices.Clone(out), func(k place) bool {
			return k.run.Start.Before(call.Start) || !call.End.IsZero() && k.run.Start.After(call.End)
		})
		if len(during) > 0 {
			out = during
		}
	}
	if call.ID == "" {
		return out
	}
	for _, k := range named {
		if k.run.ParentID == p.run.ID && (k.run.ParentSessionID == "" || k.run.ParentSessionID == p.tree.ID) {
			add(k)
		}
	}
	return out
}

// findParent finds the parent of a run that no tool call claims.
func (x *index) findParent(k place) {
	if _, ok := x.claims[k.run]; ok {
		return
	}
	var parent *session.Run
	h := x.view(k.tree).history.Run(k.run)
	if h.Relation == session.RelationSubAgent {
		parent = h.Parent
	}
	if h.Parent == nil && k.run.ParentID != "" {
		for _, q := range x.byID[k.run.ParentID] { // loops reuse ids: the last one that began before is meant
			if q.tree.Session != k.tree.Session &&
				(k.run.ParentSessionID == "" || k.run.ParentSessionID == q.tree.ID) &&
				(parent == nil || !q.run.Start.After(k.run.Start)) {
				parent = q.run
			}
		}
	}
	if parent != nil {
		x.strays[parent] = append(x.strays[parent], k)
		x.isStray[k.run] = true
	}
}

// spawned reports whether a tool call or another run spawned a run.
func (x *index) spawned(run *session.Run) bool {
	_, claimed := x.claims[run]
	return claimed || x.isStray[run]
}

func callAddress(of string, c *session.ToolCall) string {
	if c.ID == "" {
		return of
	}
	return of + "#" + c.ID
}
