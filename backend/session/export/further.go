package export

import (
	"cmp"

	"github.com/otelagent/otelagent/backend/session"
)

// This file writes rows of further types: system prompts, tool catalogues, permission evaluations, defects.

// further puts the rows of further types.
func (e *emitter) further() {
	e.texts(&e.g.prompts, RowSystemPrompt, promptText)
	e.texts(&e.g.catalogs, RowToolCatalog, func(body string) string { return body })
	e.places(func(at place, permissions []*session.Permission, _ []session.Defect) {
		for _, p := range permissions {
			e.permission(at, p)
		}
	})
	e.defects(place{}, e.g.s.Defects)
	e.places(func(at place, permissions []*session.Permission, defects []session.Defect) {
		e.defects(at, defects)
		for _, p := range permissions {
			e.defects(at, p.Defects)
		}
	})
}

func (e *emitter) texts(x *texts, typ RowType, read func(string) string) {
	for _, ref := range x.refs {
		if !e.going() {
			return
		}
		if err := e.g.aside.load(e.g.ctx, appendID(nil, ref), nil); err != nil {
			e.fail(err)
			return
		}
		if body, ok := e.g.aside.set.Body(ref); ok {
			r := Row{Type: typ, Digest: x.digest[ref.Block], Body: read(body)}
			r.JSON = fields("digest", &r.Digest, "body", &r.Body)
			e.put(r)
		}
	}
}

// permission puts a permission evaluation. Times are unix nanoseconds.
func (e *emitter) permission(at place, p *session.Permission) {
	var turn *int64
	if at.turn != nil {
		turn = &at.turn.Index
	}
	call := p.CallID
	if at.call != nil {
		call = cmp.Or(call, at.call.ID)
	}
	e.put(Row{Type: RowPermission, JSON: fields("run", fields("id", &at.run.ID, "start", stamp(at.run.Start)),
		"turn", turn, "call_id", call, "ordinal", p.Ordinal, "start", stamp(p.Start), "end", stamp(p.End), "tool", p.Tool,
		"pattern", p.Pattern, "action", p.Action, "source", p.Source, "target", p.Target, "reason", p.Reason,
		"decided_by", p.DecidedBy, "wait_ns", p.WaitNS, "option", p.Option, "outcome", p.Outcome, "derived", p.Derived,
		"rules_digest", p.RulesDigest)})
}

func (e *emitter) defects(at place, defects []session.Defect) {
	for _, d := range defects {
		e.put(Row{Type: RowDefect, JSON: fields("where", at.where(), "code", &d.Code, "detail", d.Detail)})
	}
}

// place is where in the tree something stands.
type place struct {
	run  *session.Run
	turn *session.Turn
	call *session.ToolCall
}

func (p *place) where() string {
	switch {
	case p.run == nil:
		return ""
	case p.call != nil:
		return whereTurn(p.run, p.turn) + " " + p.call.ID
	}
	return whereTurn(p.run, p.turn)
}

// places calls visit with each place of the tree that has permission evaluations or defects.
func (e *emitter) places(visit func(place, []*session.Permission, []session.Defect)) {
	inside := func(at place, calls []*session.ToolCall, compactions []*session.Compaction) {
		for _, c := range calls {
			visit(place{at.run, at.turn, c}, c.Permissions, c.Defects)
		}
		for _, c := range compactions {
			visit(at, nil, c.Defects)
		}
	}
	for _, r := range e.g.s.Runs {
		at := place{run: r}
		visit(at, r.Permissions, r.Defects)
		inside(at, r.ToolCalls, r.Compactions)
		for _, t := range e.g.runs[r].turns {
			at.turn = t
			visit(at, t.Permissions, t.Defects)
			inside(at, t.ToolCalls, t.Compactions)
		}
	}
	for _, group := range e.g.s.Groups {
		visit(place{run: &session.Run{Span: group.Span}}, nil, group.Defects)
	}
}
