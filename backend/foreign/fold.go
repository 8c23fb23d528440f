package foreign

import (
	"slices"
)

// fold gives runs their turns and tool calls, and removes runs that only wrap others: these are then in what is around
// it, and the only one gets its records.
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
		}
	}
	slices.Reverse(m.list)
	under := map[*run][]*run{} // those right below a run that no tool call began
	all := m.list
	m.list = nil
	for _, n := range all { // the innermost first
		up, left, below, empty := n.parent(), n, under[n], len(n.turns)+len(n.tools) == 0
		if n.call != nil {
			up = nil
		}
		switch {
		case empty && n.rec != nil && len(n.recs) == 1 && len(below) == 1 && below[0].key == n.key:
			left = below[0]
			left.call, left.rec.in = n.call, n.rec.in
			left.recs, left.notes = append(left.recs, n.recs...), append(left.notes, n.notes...)
		case empty && !n.isRun:
			for _, u := range below {
				u.rec.in = n.rec.in
			}
			continue
		default:
			m.list = append(m.list, n)
		}
		if up != nil {
			under[up] = append(under[up], left)
		}
	}
	for _, n := range m.list {
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
