package foreign

import (
	"slices"
)

// fold gives runs their turns and tool calls, and folds runs that only wrap another one.
func (m *mapper) fold() {
	for _, c := range m.calls {
		if c.role == roleTurn {
			c.run.turns = append(c.run.turns, c)
		} else {
			c.run.tools = append(c.run.tools, c)
		}
	}
	listed := map[*run]bool{nil: true}
	for _, r := range m.all {
		n := r.run
		if n == nil {
			continue
		}
		if !listed[n] {
			listed[n] = true
			if m.list = append(m.list, n); n.rec != nil {
				n.recs = append(n.recs, n.rec)
			}
		}
		switch r.role {
		case roleRun, roleStart:
			n.isRun = n.isRun || m.trace(r.row.Trace).own == 0 || r.log
			if r.role == roleStart {
				n.recs = append(n.recs, r)
			}
		case roleCompaction:
			n.isRun = true
			n.notes = append(n.notes, r)
		case roleNote:
			n.notes = append(n.notes, r)
		case rolePermission:
			if r.call == nil && r.action() != "" {
				n.notes = append(n.notes, r)
			}
		}
	}
	slices.Reverse(m.list)
	for _, n := range m.list { // the innermost first
		up, left, empty := n.parent(), n, len(n.turns)+len(n.tools) == 0
		if n.call != nil {
			up = nil
		}
		switch {
		case empty && n.rec != nil && len(n.recs) == 1 && len(n.under) == 1 && n.under[0].key == n.key:
			left = n.under[0]
			left.call, n.gone = n.call, true
			left.recs, left.notes = append(left.recs, n.recs...), append(left.notes, n.notes...)
		case empty && !n.isRun:
			n.gone = true
			continue
		}
		if up != nil {
			up.under = append(up.under, left)
		}
	}
	for _, n := range m.list {
		if n.gone {
			continue
		}
		if n.first = max(n.first, 1); n.rec != nil && n.rec.start > 0 {
			n.first = n.rec.start
		}
		slices.SortFunc(n.notes, compareRecords)
		if n.call != nil && n.call.call != nil {
			if c := n.call.call; c.child == nil || compareRuns(n, c.child) < 0 {
				c.child = n
			}
		}
		for i, t := range n.turns {
			t.index = int64(i)
		}
		for _, t := range n.tools {
			t.turn = n.turnOf(t)
		}
	}
}

// above returns the run that a run belongs to in the tree, nil if there is none.
func (n *run) above() *run {
	p := n.parent()
	for steps := 0; p != nil && p.gone && steps < 64; steps++ {
		p = p.parent()
	}
	return p
}

// turnOf returns the turn of a tool call: the one around it, else the last of its run that began before it.
func (n *run) turnOf(t *call) *call {
	for _, rec := range t.recs {
		if in := rec.inTurn; in != nil && in.call != nil && in.call.run == n {
			return in.call
		}
	}
	for _, turn := range slices.Backward(n.turns[:before(n.turns, t.start, func(t *call) int64 { return t.start })]) {
		if !turn.utility() {
			return turn
		}
	}
	return nil
}
