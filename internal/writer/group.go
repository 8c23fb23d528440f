package writer

import (
	"context"
	"slices"

	"github.com/otelagent/otelagent/spans"
)

// Group is one open parallel group: a run of kind parallel, whose children are the runs among which one is selected,
// and the run that judges them. The nil Group does nothing. Safe for concurrent use.
type Group Run

// StartGroup starts a parallel group and returns a context in which its members and its judge are to be started. The
// session is found as [Tracer.StartRun] finds it, and the parent too.
func (t *Tracer) StartGroup(ctx context.Context, info GroupInfo) (context.Context, *Group) {
	ctx, r := t.startRun(ctx, &RunInfo{SessionID: info.SessionID, Dialect: info.Dialect, Start: info.Start,
		Recording: info.Recording, Inferred: info.Inferred}, &info)
	return ctx, (*Group)(r)
}

// roleOf says what a run of that id is to the group.
func (r *Run) roleOf(run string) spans.GroupRole {
	if len(r.members) == 0 || slices.Contains(r.members, run) {
		return spans.GroupRoleMember
	}
	return spans.GroupRoleJudge
}

// Note records an event of the group that has no field of its own; see [Run.Note].
func (g *Group) Note(typ string, body []byte, at Moment) { (*Run)(g).node().note(typ, body, at) }

// End ends the group, once; later calls do nothing.
func (g *Group) End(res GroupResult) {
	if g != nil {
		(*Run)(g).end(&RunResult{End: res.End}, &res)
	}
}

// Close ends the group because no end was reported, as [Run.Close] does.
func (g *Group) Close(at Moment) {
	if g != nil && g.closing() {
		g.End(GroupResult{End: at})
	}
}
