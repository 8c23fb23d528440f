package writer

import (
	"context"
	"slices"

	"github.com/otelagent/otelagent/spans"
)

// Group is one open parallel group: a session.run span of kind parallel, whose children are the runs among which one is
// selected, and the run that judges them. The nil Group does nothing. Safe for concurrent use.
type Group struct {
	handle
	own     origin
	scope   scope
	members []string
}

// StartGroup starts a parallel group and returns a context in which its members and its judge are to be started. The
// session is found as [Tracer.StartRun] finds it, and the parent too.
func (t *Tracer) StartGroup(ctx context.Context, info GroupInfo) (context.Context, *Group) {
	if t == nil {
		return ctx, nil
	}
	ctx = orBackground(ctx)
	at := info.Start.now()
	g := &Group{members: slices.Clone(info.Members)}
	asRun := RunInfo{SessionID: info.SessionID, Recording: info.Recording}
	in, address := g.own.outsideRun(ctx, t, &asRun)
	g.own.startNS = at.Time.UnixNano()
	g.origin, g.index = &g.own, noTurn
	g.own.address = append(address, spans.RunIDKey.String(""), spans.RunStartKey.Int64(g.own.startNS))

	a := startAttrs(&g.own)
	a.kv = append(a.kv, spans.RunKindKeyKey.String(string(spans.RunKindParallel)))
	a.name(spans.DialectKey, info.Dialect)
	a.yes(spans.RunInferredKey, info.Inferred)
	a.ids(spans.GroupMembersKey, info.Members, maxIDList)
	a.kv = append(a.kv, spans.CaptureLevelKey.String(string(g.own.capture)))
	ctx = g.begin(ctx, t.parentOf(ctx, in, &asRun, a), &kindRun, at, a, seed{})
	g.scope = scope{Context: ctx, span: &g.handle, group: g}
	if in != nil {
		g.scope.run, g.scope.tool = in.run, in.tool
	}
	g.opened(nil, nil)
	return &g.scope, g
}

// roleOf says what a run of that id is to the group.
func (g *Group) roleOf(run string) spans.GroupRole {
	if len(g.members) == 0 || slices.Contains(g.members, run) {
		return spans.GroupRoleMember
	}
	return spans.GroupRoleJudge
}

// Note records an event of the group that has no field of its own; see [Run.Note].
func (g *Group) Note(typ string, body []byte, at Moment) {
	if g != nil {
		g.note(typ, body, at)
	}
}

// End ends the group, once; later calls do nothing.
func (g *Group) End(res GroupResult) {
	if g == nil {
		return
	}
	a := endAttrs(g.origin, 14)
	if g.recording {
		a.kv = append(a.kv, spans.RunStatusKeyKey.String(string(spans.RunStatusCompleted)))
		a.id(spans.GroupSelectedIDKey, res.SelectedID)
		a.known(spans.GroupSelectedIndexKey, res.SelectedIndex)
		if res.Evaluation != nil {
			a.evaluationUsage(res.Evaluation)
		}
	}
	g.finish(res.End, spans.KnownObserved, &a, "")
}

// Close ends the group because no end was reported, as [Run.Close] does.
func (g *Group) Close(at Moment) {
	if g == nil {
		return
	}
	a := endAttrs(g.origin, 8)
	a.kv = append(a.kv, spans.RunStatusKeyKey.String(string(spans.RunStatusAborted)))
	g.finish(at, spans.KnownClosed, &a, spans.ErrorTypeAborted)
}
