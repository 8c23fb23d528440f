package writer

import (
	"context"
	"slices"

	"github.com/otelagent/otelagent/spans"
)

// StartGroup starts a parallel group: a run of kind parallel, whose children are the runs among which one is selected,
// and the run that judges them, which are to be started in the returned context. The session is found as
// [Tracer.StartRun] finds it, and the parent too. The group ends with [Run.EndGroup].
func (t *Tracer) StartGroup(ctx context.Context, info GroupInfo) (context.Context, *Run) {
	return t.startRun(ctx, &RunInfo{SessionID: info.SessionID, Dialect: info.Dialect, Start: info.Start,
		Recording: info.Recording, Inferred: info.Inferred}, &info)
}

// roleOf says what a run of that id is to the group.
func (r *Run) roleOf(run string) spans.GroupRole {
	if len(r.members) == 0 || slices.Contains(r.members, run) {
		return spans.GroupRoleMember
	}
	return spans.GroupRoleJudge
}

// EndGroup is End of a group.
func (r *Run) EndGroup(res GroupResult) { r.end(&RunResult{End: res.End}, &res) }
