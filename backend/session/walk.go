package session

import (
	"iter"
	"slices"

	"github.com/otelagent/otelagent/spans"
)

// Node is one span of the tree with its parents. Run is always set, Turn if the span is a turn or belongs to one.
// Call is the tool call itself, or that of a permission evaluation. The span is the Permission, Compaction, Call,
// Turn or Run, the first of these that is set.
type Node struct {
	Run        *Run
	Turn       *Turn
	Call       *ToolCall
	Compaction *Compaction
	Permission *Permission
}

// Kind returns which of its fields the node is.
func (n *Node) Kind() Kind {
	kind, _ := n.part()
	return kind
}

func (n *Node) part() (Kind, part) {
	switch {
	case n.Permission != nil:
		return KindPermission, n.Permission
	case n.Compaction != nil:
		return KindCompaction, n.Compaction
	case n.Call != nil:
		return KindToolCall, n.Call
	case n.Turn != nil:
		return KindTurn, n.Turn
	}
	return KindRun, n.Run
}

// Span returns the span of the node.
func (n *Node) Span() *Span {
	_, p := n.part()
	return p.span()
}

// Defects returns the defects of the node, to read or to add to.
func (n *Node) Defects() *[]Defect {
	_, p := n.part()
	return &p.remarks().Defects
}

// Walk yields every span of the session except groups, in the order of the tree: each run, its tool calls with their
// permission evaluations, its compactions and permission evaluations, then each of its turns in the same way.
func (s *Session) Walk() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		for _, r := range s.Runs {
			for n := range r.Walk() {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// Walk yields every span of the run, as Session.Walk does.
func (r *Run) Walk() iter.Seq[Node] {
	return func(yield func(Node) bool) {
		more := true
		put := func(n Node) { more = more && yield(n) }
		part := func(n Node, calls []*ToolCall, compactions []*Compaction, permissions []*Permission) {
			put(n)
			for _, c := range calls {
				put(Node{Run: n.Run, Turn: n.Turn, Call: c})
				for _, p := range c.Permissions {
					put(Node{Run: n.Run, Turn: n.Turn, Call: c, Permission: p})
				}
			}
			for _, c := range compactions {
				put(Node{Run: n.Run, Turn: n.Turn, Compaction: c})
			}
			for _, p := range permissions {
				put(Node{Run: n.Run, Turn: n.Turn, Permission: p})
			}
		}
		part(Node{Run: r}, r.ToolCalls, r.Compactions, r.Permissions)
		for _, t := range r.Turns {
			if more {
				part(Node{Run: r, Turn: t}, t.ToolCalls, t.Compactions, t.Permissions)
			}
		}
	}
}

// Foreign reports whether the run was made of records of another program.
func (r *Run) Foreign() bool {
	return !slices.Contains([]spans.Recording{"", spans.RecordingEvents, spans.RecordingLedger}, r.Recording)
}
