package export

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// What the guide's rows have no place for: keys under extensionKey, and rows of further types.

// stamp adds a time in nanoseconds, if it is known.
func (o *object) stamp(k string, t time.Time) {
	if !t.IsZero() {
		o.int(k, t.UnixNano())
	}
}

func (o *object) positive(k string, n int64) {
	if n > 0 {
		o.int(k, n)
	}
}

func (o *object) isTrue(k string, b bool) {
	if b {
		o.bool(k, true)
	}
}

// runObject says which run a row is of; whole adds what is known of it, and content what it was given.
func (g *Guide) runObject(r *session.Run, whole, content bool) ([]byte, error) {
	var o object
	o.str("id", r.ID)
	o.stamp("start", r.Start)
	if !whole {
		return o.bytes(), nil
	}
	o.stamp("end", r.End)
	o.notEmpty("known", string(r.Known))
	o.isTrue("missing", r.Missing)
	o.str("status", string(r.Status))
	o.notEmpty("word", r.StatusWord)
	o.isTrue("rejected", r.Rejected)
	o.notEmpty("rejection", r.Rejection)
	o.notEmpty("error_type", string(r.ErrorType))
	o.notEmpty("error", r.Error)
	o.notEmpty("parent_id", r.ParentID)
	o.notEmpty("parent_session_id", r.ParentSessionID)
	o.notEmpty("parent_tool_call_id", r.ParentToolCallID)
	o.notEmpty("continuation", string(r.Continuation))
	o.notEmpty("tag", r.ContinuationTag)
	o.notEmpty("fork_parent_id", r.ForkParentID)
	o.isTrue("copied", r.Copied)
	o.stamp("group_start", r.GroupStart)
	o.notEmpty("group_role", string(r.GroupRole))
	o.notEmpty("dialect", r.Dialect)
	o.notEmpty("agent", r.Agent)
	o.notEmpty("agent_id", r.AgentID)
	o.notEmpty("model", r.Model)
	o.notEmpty("provider", r.Provider)
	o.notEmpty("config_id", r.ConfigID)
	o.notEmpty("rules_digest", r.RulesDigest)
	o.notEmpty("api", r.ConfigAPI)
	if r.Reported != nil {
		o.raw("usage", reportedObject(r.Reported, r.Rule))
	}
	if !content {
		return o.bytes(), nil
	}
	if r.Config != "" && json.Valid([]byte(r.Config)) {
		o.raw("config", []byte(r.Config))
	}
	for _, l := range []struct {
		name string
		refs *session.Refs
	}{{spans.ListMetadata, r.Metadata}, {spans.ListRules, r.Rules}} {
		v, err := g.runValue(r, l.name, l.refs)
		if err != nil {
			return nil, err
		}
		if v != nil {
			o.raw(l.name, v)
		}
	}
	return o.bytes(), nil
}

// reportedObject is {"reported":{...},"rule":...}.
func reportedObject(u *session.ReportedUsage, rule spans.UsageRule) []byte {
	var n, o object
	n.int("input", u.Input)
	n.int("output", u.Output)
	n.int("reasoning", u.Reasoning)
	n.int("cache_read", u.CacheRead)
	n.int("cache_write", u.CacheWrite)
	n.int("total", u.Total)
	o.raw("reported", n.bytes())
	o.notEmpty("rule", string(rule))
	return o.bytes()
}

// turnObject says what a turn was; from is the index of its first part.
func (g *Guide) turnObject(t *session.Turn, st *step, from int) []byte {
	var o object
	o.int("index", t.Index)
	o.stamp("start", t.Start)
	o.stamp("end", t.End)
	o.notEmpty("known", string(t.Known))
	o.isTrue("missing", t.Missing)
	o.notEmpty("trigger", string(t.Trigger))
	o.notEmpty("model", t.Model)
	o.notEmpty("answered_model", t.Answered)
	o.notEmpty("provider", t.Provider)
	o.notEmpty("variant", t.Variant)
	o.notEmpty("stop_reason", t.StopReason)
	o.isTrue("failed", t.Failed)
	o.notEmpty("error_type", string(t.ErrorType))
	o.notEmpty("error", t.Error)
	if t.Temperature != nil {
		o.raw("temperature", number(*t.Temperature))
	}
	if t.MaxTokens != nil {
		o.int("max_tokens", *t.MaxTokens)
	}
	o.notEmpty("reasoning_level", t.Level)
	o.notEmpty("format", t.Format)
	o.notEmpty("prompt_digest", g.prompts.digestOf(t, spans.ProvenanceSystem))
	o.notEmpty("tools_digest", g.catalogs.digestOf(t, spans.ProvenanceTools))
	o.positive("attempts", t.Attempts)
	if t.Reported != nil {
		o.raw("usage", reportedObject(t.Reported, t.Rule))
	}
	if t.Discarded != nil {
		o.raw("discarded", usageObject(*t.Discarded))
	}
	o.positive("discarded_attempts", t.DiscardedAttempts)
	if t.Cost != nil {
		o.raw("cost", number(*t.Cost))
		o.notEmpty("currency", t.Currency)
	}
	o.positive("model_call_ns", t.ModelCallNS)
	o.positive("first_chunk_ns", t.FirstChunkNS)
	o.notEmpty("response_id", t.ResponseID)
	var steps array
	steps.raw(decimal(from))
	steps.raw(decimal(from + st.parts))
	o.raw("steps", steps.bytes())
	o.positive("hidden_at", st.hidden)
	var calls array
	for _, c := range t.ToolCalls {
		calls.raw(callObject(c))
	}
	if calls.buf != nil {
		o.raw("calls", calls.bytes())
	}
	return o.bytes()
}

func decimal(n int) []byte { return number(float64(n)) }

// callObject says of a tool call what its part cannot.
func callObject(c *session.ToolCall) []byte {
	var o object
	o.str("id", c.ID)
	o.notEmpty("name", c.Name)
	o.positive("ordinal", c.Ordinal)
	o.stamp("start", c.Start)
	o.stamp("end", c.End)
	o.notEmpty("outcome", string(c.Outcome))
	o.notEmpty("error_type", string(c.ErrorType))
	if c.Truncated != nil {
		o.bool("truncated", *c.Truncated)
	}
	o.notEmpty("child_run_id", c.ChildRunID)
	o.notEmpty("child_session_id", c.ChildSessionID)
	return o.bytes()
}

// further puts the rows of further types.
func (e *emitter) further() {
	e.texts(&e.g.prompts, RowSystemPrompt, promptText)
	e.texts(&e.g.catalogs, RowToolCatalog, func(body string) string { return body })
	e.permissions()
	e.defects()
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
		body, ok := e.g.aside.set.Body(ref)
		if !ok {
			continue
		}
		r := Row{Type: typ, Digest: x.digest[ref.Block], Body: read(body)}
		var o object
		o.str("digest", r.Digest)
		o.str("body", r.Body)
		r.JSON = o.bytes()
		e.put(r)
	}
}

func (e *emitter) permissions() {
	each(e.g, func(at *thing, l []*session.Permission) {
		for _, p := range l {
			if !e.going() {
				return
			}
			var o object
			var run object
			run.str("id", at.run.ID)
			run.stamp("start", at.run.Start)
			o.raw("run", run.bytes())
			if at.turn != nil {
				o.int("turn", at.turn.Index)
			}
			call := p.CallID
			if at.call != nil {
				call = cmp.Or(call, at.call.ID)
			}
			o.notEmpty("call_id", call)
			o.positive("ordinal", p.Ordinal)
			o.stamp("start", p.Start)
			o.stamp("end", p.End)
			o.notEmpty("tool", p.Tool)
			o.notEmpty("pattern", p.Pattern)
			o.notEmpty("action", string(p.Action))
			o.notEmpty("source", string(p.Source))
			o.notEmpty("target", string(p.Target))
			o.notEmpty("reason", p.Reason)
			o.notEmpty("decided_by", p.DecidedBy)
			o.positive("wait_ns", p.WaitNS)
			o.notEmpty("option", p.Option)
			o.notEmpty("outcome", p.Outcome)
			o.isTrue("derived", p.Derived)
			o.notEmpty("rules_digest", p.RulesDigest)
			e.put(Row{Type: RowPermission, JSON: o.bytes()})
		}
	}, nil)
}

func (e *emitter) defects() {
	put := func(where string, l []session.Defect) {
		for _, d := range l {
			if !e.going() {
				return
			}
			var o object
			o.notEmpty("where", where)
			o.str("code", string(d.Code))
			o.notEmpty("detail", d.Detail)
			e.put(Row{Type: RowDefect, JSON: o.bytes()})
		}
	}
	put("", e.g.s.Defects)
	each(e.g, nil, func(at *thing, l []session.Defect) { put(at.where(), l) })
}

// thing is where in the tree something stands.
type thing struct {
	run  *session.Run
	turn *session.Turn
	call *session.ToolCall
}

func (t *thing) where() string {
	where := whereTurn(t.run, t.turn)
	if t.call != nil {
		where += " " + t.call.ID
	}
	return where
}

// each walks over all runs and what is in them, and tells of permission evaluations and defects.
func each(g *Guide, permissions func(*thing, []*session.Permission), defects func(*thing, []session.Defect)) {
	visit := func(at thing, p []*session.Permission, d []session.Defect) {
		if permissions != nil && len(p) > 0 {
			permissions(&at, p)
		}
		if defects != nil {
			if len(d) > 0 {
				defects(&at, d)
			}
			for _, one := range p {
				if len(one.Defects) > 0 {
					defects(&at, one.Defects)
				}
			}
		}
	}
	inside := func(at thing, calls []*session.ToolCall, compactions []*session.Compaction) {
		for _, c := range calls {
			visit(thing{at.run, at.turn, c}, c.Permissions, c.Defects)
		}
		for _, c := range compactions {
			visit(at, nil, c.Defects)
		}
	}
	for _, r := range g.s.Runs {
		at := thing{run: r}
		visit(at, r.Permissions, r.Defects)
		inside(at, r.ToolCalls, r.Compactions)
		for _, t := range g.runs[r].turns {
			at.turn = t
			visit(at, t.Permissions, t.Defects)
			inside(at, t.ToolCalls, t.Compactions)
		}
	}
	for _, group := range g.s.Groups {
		visit(thing{run: &session.Run{Span: group.Span}}, nil, group.Defects)
	}
}
