package export

import (
	"cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// This file writes rows of further types: system prompts, tool catalogues, permission evaluations, defects.

// textRow is a row of RowSystemPrompt or RowToolCatalog.
type textRow struct {
	Digest string `json:"digest"`
	Body   string `json:"body"`
}

// permissionRow is a row of RowPermission. Times are unix nanoseconds.
type permissionRow struct {
	Run struct {
		ID    string `json:"id"`
		Start int64  `json:"start,omitempty"`
	} `json:"run"`
	Turn        *int64                 `json:"turn,omitempty"`
	CallID      string                 `json:"call_id,omitempty"`
	Ordinal     int64                  `json:"ordinal,omitempty"`
	Start       int64                  `json:"start,omitempty"`
	End         int64                  `json:"end,omitempty"`
	Tool        string                 `json:"tool,omitempty"`
	Pattern     string                 `json:"pattern,omitempty"`
	Action      spans.Action           `json:"action,omitempty"`
	Source      spans.PermissionSource `json:"source,omitempty"`
	Target      spans.PermissionTarget `json:"target,omitempty"`
	Reason      string                 `json:"reason,omitempty"`
	DecidedBy   string                 `json:"decided_by,omitempty"`
	WaitNS      int64                  `json:"wait_ns,omitempty"`
	Option      string                 `json:"option,omitempty"`
	Outcome     string                 `json:"outcome,omitempty"`
	Derived     bool                   `json:"derived,omitempty"`
	RulesDigest string                 `json:"rules_digest,omitempty"`
}

// defectRow is a row of RowDefect. Where is empty for a defect of the session.
type defectRow struct {
	Where  string           `json:"where,omitempty"`
	Code   spans.DefectCode `json:"code"`
	Detail string           `json:"detail,omitempty"`
}

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
			row := textRow{x.digest[ref.Block], read(body)}
			e.put(Row{Type: typ, Digest: row.Digest, Body: row.Body, JSON: encode(row)})
		}
	}
}

func (e *emitter) permission(at place, p *session.Permission) {
	row := permissionRow{CallID: p.CallID, Ordinal: p.Ordinal, Start: stamp(p.Start), End: stamp(p.End), Tool: p.Tool,
		Pattern: p.Pattern, Action: p.Action, Source: p.Source, Target: p.Target, Reason: p.Reason, DecidedBy: p.DecidedBy,
		WaitNS: p.WaitNS, Option: p.Option, Outcome: p.Outcome, Derived: p.Derived, RulesDigest: p.RulesDigest}
	row.Run.ID, row.Run.Start = at.run.ID, stamp(at.run.Start)
	if at.turn != nil {
		row.Turn = &at.turn.Index
	}
	if at.call != nil {
		row.CallID = cmp.Or(row.CallID, at.call.ID)
	}
	e.put(Row{Type: RowPermission, JSON: encode(row)})
}

func (e *emitter) defects(at place, defects []session.Defect) {
	for _, d := range defects {
		e.put(Row{Type: RowDefect, JSON: encode(defectRow{at.where(), d.Code, d.Detail})})
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
