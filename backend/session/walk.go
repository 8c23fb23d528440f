package session

import "iter"

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
	switch {
	case n.Permission != nil:
		return KindPermission
	case n.Compaction != nil:
		return KindCompaction
	case n.Call != nil:
		return KindToolCall
	case n.Turn != nil:
		return KindTurn
	}
	return KindRun
}

func (n *Node) part() part {
	switch n.Kind() {
	case KindPermission:
		return n.Permission
	case KindCompaction:
		return n.Compaction
	case KindToolCall:
		return n.Call
	case KindTurn:
		return n.Turn
	}
	return n.Run
}

// Span returns the span of the node.
func (n *Node) Span() *Span { return n.part().span() }

// Defects returns the defects of the node, to read or to add to.
func (n *Node) Defects() *[]Defect { return &n.part().remarks().Defects }

// Events returns the events of the node that the five kinds of spans do not model.
func (n *Node) Events() []Note { return n.part().remarks().Events }

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
		children := func(n Node, calls []*ToolCall, compactions []*Compaction, permissions []*Permission) bool {
			if !yield(n) {
				return false
			}
			for _, c := range calls {
				n := n
				n.Call = c
				if !yield(n) {
					return false
				}
				for _, p := range c.Permissions {
					if n.Permission = p; !yield(n) {
						return false
					}
				}
			}
			for _, c := range compactions {
				if !yield(Node{Run: n.Run, Turn: n.Turn, Compaction: c}) {
					return false
				}
			}
			for _, p := range permissions {
				if !yield(Node{Run: n.Run, Turn: n.Turn, Permission: p}) {
					return false
				}
			}
			return true
		}
		if !children(Node{Run: r}, r.ToolCalls, r.Compactions, r.Permissions) {
			return
		}
		for _, t := range r.Turns {
			if !children(Node{Run: r, Turn: t}, t.ToolCalls, t.Compactions, t.Permissions) {
				return
			}
		}
	}
}
