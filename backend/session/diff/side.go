package diff

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// side is one target with what is known of its runs.
type side struct {
	Target
	history *session.History
	runs    []*session.Run // that are compared
	numbers map[*session.Run]int
	// positions are those of turns in their runs.
	positions map[*session.Turn]int
	groups    map[int64]int           // numbers of parallel groups by their start
	asked     map[*session.Run]string // question caches its result
}

func newSide(t Target) *side {
	s := &side{
		Target: t, history: session.HistoryOf(t.Session, t.Blocks), runs: t.Session.Runs,
		numbers: map[*session.Run]int{}, positions: map[*session.Turn]int{}, groups: map[int64]int{},
		asked: map[*session.Run]string{},
	}
	for i, r := range t.Session.Runs {
		s.numbers[r] = i + 1
		for j, turn := range r.Turns {
			s.positions[turn] = j
		}
		if start := r.GroupStart.UnixNano(); !r.GroupStart.IsZero() && s.groups[start] == 0 {
			s.groups[start] = len(s.groups) + 1
		}
	}
	if t.Run != nil {
		s.runs = []*session.Run{t.Run}
	}
	return s
}

func (s *side) turns(r *session.Run) []*session.Turn {
	switch {
	case r == nil:
		return nil
	case s.Turn != nil:
		return []*session.Turn{s.Turn}
	}
	return r.Turns
}

func (s *side) address(r *session.Run) string { return session.RunAddress(s.Session.ID, s.numbers[r]) }

// describe returns the head of the side.
func (s *side) describe() Side {
	d := Side{
		Address: s.Session.ID, Source: s.Source, Tenant: s.Session.Tenant, Session: s.Session.ID, Runs: len(s.runs),
		Agent: cmp.Or(s.Session.Agent, s.Session.AgentID), Status: string(s.Session.Status), Start: s.Session.Start,
	}
	last := s.Session.Last
	var models []string
	for _, r := range s.runs {
		if !slices.Contains(models, r.Model) && r.Model != "" {
			models = append(models, r.Model)
		}
		if s.Turn == nil {
			d.Calls += len(r.ToolCalls)
		}
		for _, t := range s.turns(r) {
			d.Turns++
			d.Usage.Add(t.Usage)
			d.Calls += len(t.ToolCalls)
			if t.Cost != nil {
				if d.Cost == nil {
					d.Cost = map[string]float64{}
				}
				d.Cost[t.Currency] += *t.Cost
			}
		}
	}
	if len(models) == 1 {
		d.Model = models[0]
	}
	if r := s.Run; r != nil {
		d.Address, d.Agent, d.Status = s.address(r), cmp.Or(r.Agent, r.AgentID, d.Agent), string(r.Status)
		d.Start, last = r.Start, r.End
		if t := s.Turn; t != nil {
			p := s.turnPlace(r, t)
			d.Address, d.Model, d.Status, d.Start, last = p.Address, cmp.Or(p.Model, d.Model), "", t.Start, t.End
		}
	}
	if q := s.Request; q != nil {
		payload := q.Payload(s.Blocks)
		d.Bytes = cmp.Or(int64(len(payload.Bytes)), payload.Stated)
		if q.Messages != nil {
			d.Messages = q.Messages.Count
		}
	}
	d.TookNS = between(d.Start, last)
	return d
}

// between returns the time from one to the other in ns, 0 when one is not known.
func between(from, to time.Time) int64 {
	if from.IsZero() || to.IsZero() {
		return 0
	}
	return int64(to.Sub(from))
}

func (s *side) runPlace(r *session.Run) *Place {
	if r == nil {
		return nil
	}
	relation := string(s.history.Run(r).Relation)
	if relation == "" && !r.GroupStart.IsZero() {
		relation = "parallel"
	}
	return &Place{
		Address: s.address(r), ID: r.ID, Run: s.numbers[r], Relation: relation, Agent: cmp.Or(r.Agent, r.AgentID),
		Model: r.Model, Status: string(r.Status), Usage: &r.Usage,
	}
}

func (s *side) turnPlace(r *session.Run, t *session.Turn) *Place {
	if t == nil {
		return nil
	}
	return &Place{
		Address: session.TurnAddress(s.Session.ID, s.numbers[r], t.Index), Run: s.numbers[r], Index: &t.Index,
		Model: cmp.Or(t.Answered, t.Model), Status: t.StopReason, Start: t.Start, TookNS: between(t.Start, t.End),
		Usage: &t.Usage, Cost: t.Cost, Currency: t.Currency, Hidden: !s.history.Hidden(t).IsZero(),
	}
}

func (s *side) callPlace(c *call) *Place {
	if c == nil {
		return nil
	}
	p := &Place{ID: c.ID, Status: string(c.Outcome), TookNS: between(c.Start, c.End), Asked: c.asked}
	if c.ChildSessionID != "" && (c.ChildRunID == "" || c.ChildSessionID != s.Session.ID) {
		p.Children = []string{strings.TrimSuffix(c.ChildSessionID+"/"+c.ChildRunID, "/")}
		return p
	}
	for _, r := range s.Session.Runs {
		if c.ChildRunID != "" && r.ID == c.ChildRunID {
			p.Children = append(p.Children, s.address(r))
		}
	}
	return p
}

// messagesOf returns the messages of the request that was answered; nil where the loop reports none.
func messagesOf(t *session.Turn) *session.Refs {
	if q := t.LastRequest(); q != nil {
		return q.Messages
	}
	return nil
}

// before returns the messages of the last request of the run, or of the run that it continues, before a turn; nil where
// there is none.
func (s *side) before(r *session.Run, t *session.Turn) *session.Refs {
	lists := [][]*session.Turn{r.Turns[:s.positions[t]]}
	if st := s.history.Run(r); st.Parent != nil && st.Relation != session.RelationSubAgent {
		lists = append(lists, st.Parent.Turns)
	}
	for _, turns := range lists {
		for _, o := range slices.Backward(turns) {
			if m := messagesOf(o); m != nil && m.Complete {
				return m
			}
		}
	}
	return nil
}

// news returns the messages that were new for the model: those that the loop reports, else those that its request
// before did not have. Replies among the latter are at earlier turns; reported is false then.
func (s *side) news(r *session.Run, t *session.Turn) (refs *session.Refs, reported bool) {
	q := messagesOf(t)
	switch {
	case t.Input.Len() > 0 || q == nil:
		return t.Input, true
	case !q.Complete:
		return q, true
	}
	return session.NewRefs(q.Without(s.before(r, t))...), false
}
