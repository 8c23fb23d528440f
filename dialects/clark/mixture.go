package clark

import (
	"bytes"
	"slices"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// mixture is what runs that go on side by side on one stream have in common: their lines do not say which is whose.
type mixture struct {
	parent *run            // nil when they have none in common
	runs   []*run          // open as far as is known
	told   bool            // the trajectory tells them apart
	ends   int             // agent_end lines that are of one of them
	calls  map[string]bool // ids of calls that began in one of them
}

// all are the runs of which a line may be.
func (m *mixture) all() []*run {
	if m.parent == nil {
		return m.runs
	}
	return append([]*run{m.parent}, m.runs...)
}

// admits reports whether r, which begins, is one more of them.
func (m *mixture) admits(r *run) bool {
	if m.parent == nil {
		return m.ends == 0
	}
	return r.parentID == m.parent.id
}

// keeper is the run that keeps what cannot be attributed.
func (m *mixture) keeper() *run { return m.all()[0] }

// mix says that lines of s from now on may be of any child of parent that is open.
func (d *Decoder) mix(s *stream, parent *run, l *line) {
	at := slices.Index(s.stack, parent)
	m := &mixture{parent: parent, calls: map[string]bool{}}
	m.runs = append(m.runs, s.stack[at+1:]...)
	s.stack = s.stack[:at+1]
	s.mixture = m
	for _, r := range m.runs {
		d.announceMixed(r)
	}
	if n := len(m.runs); n > 1 && d.goesOn(m.runs[n-2], m.runs[n-1]) {
		m.told = true
		return
	}
	d.mixedRuns(parent, parent.meta(l), "the lines of several of its children are mixed")
}

// unmix ends a mixture, whose parent's turn is over: so are its children.
func (d *Decoder) unmix(s *stream, l *line) {
	m := s.mixture
	s.mixture = nil
	if m.ends < len(m.runs) {
		return // which of them ended is not known
	}
	for _, r := range m.runs {
		d.announce(r, otelagent.Moment{})
		e := &otelagent.RunEnded{Meta: r.meta(l)}
		e.Status = spans.RunStatusCompleted
		if !l.time.IsZero() {
			e.End = otelagent.Moment{Time: l.time, Source: spans.TimeSourceBound}
		}
		r.ended = true
		d.emit(e)
	}
}

// sort returns the run that a line of a mixture certainly is of: as the trajectory says, by the id of its call, by the message that ends
// its turn. Else the line is kept on the parent, pieces and beginnings of messages excepted.
func (d *Decoder) sort(s *stream, l *line) *run {
	m := s.mixture
	all := m.all()
	if m.told {
		if r := d.takeOf(all, l); r != nil {
			return r
		}
	}
	var found []*run
	switch l.variant {
	case vToolStart, vToolUpdate, vToolEnd:
		id, name := stringOf(l.get(kToolCallID)), stringOf(l.get(kToolName))
		for _, r := range all {
			if c := r.call(id); c != nil && c.name == name && !m.calls[id] {
				found = append(found, r)
			}
		}
		if len(found) != 1 && len(m.calls) < maxCalls {
			m.calls[id] = true
		}
	case vTurnEnd:
		for _, r := range all {
			if l.msg.raw != nil && bytes.Equal(r.reply.raw, l.msg.raw) {
				found = append(found, r)
			}
		}
	case vMessageStart, vMessageUpdate:
		return nil
	case vAgentEnd:
		m.ends++
	}
	if len(found) == 1 {
		return found[0]
	}
	keeper := m.keeper()
	d.announce(keeper, otelagent.Moment{})
	d.mixedRuns(keeper, keeper.meta(l), "its lines are mixed with those of other runs")
	d.other(keeper.meta(l), l)
	return nil
}

// strange reports whether l cannot be of r, though the order of the lines says so: its record is of another run, it is a second reply to one
// request, or the end of a turn with another reply.
func (r *run) strange(l *line) bool {
	switch {
	case l.owner != "" && r.identified && l.owner != r.id:
		return true
	case l.matched && l.owner == "" || r.reply.raw == nil || r.thrown || r.attempt < 0:
		return false
	}
	switch l.variant {
	case vMessageEnd:
		return l.msg.assistant() && r.open
	case vTurnEnd:
		return l.msg.raw != nil && !sameMessage(messageOf(r.reply.raw), l.msg)
	}
	return false
}
