package event

import (
	"context"
	"slices"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// openGroup is a parallel group whose end was not seen yet.
type openGroup struct {
	session string
	members []string
	begun   bool // a member started
	judged  bool // its judge started
	ctx     context.Context
	group   *writer.Group
	clock   clock
}

func (r *Recorder) startGroup(ctx context.Context, m *Meta, info GroupInfo) (*openGroup, Moment) {
	g := &openGroup{session: info.SessionID, members: slices.Clone(info.Members)}
	g.clock.last, g.clock.assumed = r.floor(m)
	at := g.clock.at(m, time.Time{})
	info.Start = stated(info.Start, at)
	g.ctx, g.group = r.tracer.StartGroup(r.in(ctx, m), info)
	return g, at
}

// groupOf returns the group that a starting run belongs to, and says so in info: as a member by its id, or as the judge
// when it has no parent and exactly one group of its session waits for a judge.
func (r *Recorder) groupOf(info *RunInfo) *openGroup {
	var only *openGroup
	waiting := 0
	for _, g := range slices.Backward(r.groups) {
		// While a member is at work nothing can be judged.
		open := slices.ContainsFunc(r.open, func(o *openRun) bool { return o.group == g })
		switch {
		case g.session != info.SessionID:
		case slices.Contains(g.members, info.ID):
			info.GroupRole, g.begun = spans.GroupRoleMember, true
			return g
		case g.begun && !g.judged && !open:
			only = g
			waiting++
		}
	}
	if waiting != 1 || info.ParentID != "" {
		return nil
	}
	only.judged = true
	info.GroupRole = spans.GroupRoleJudge
	return only
}
