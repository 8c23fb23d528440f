package export

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// This file makes the session row and the metadata of message rows. Under extensionKey these hold the events that a row
// belongs to: lines of the dialect ndjson (dialects/ndjson/README.md). A key that holds content there holds a reference
// here: the index of a part of the row, the indexes of the first part and of the one after the last, or the digest of a
// system prompt or catalogue.

// extensionKey is the one key of otelagent in metadata_json.
const extensionKey = "otelagent"

// modelName returns the guide's name of the model of a turn, or of a run; nil where nothing is known.
func modelName(r *session.Run, t *session.Turn) []byte {
	provider, model, variant := r.Provider, r.Model, ""
	if t != nil {
		provider, model, variant = cmp.Or(t.Provider, provider), cmp.Or(t.Model, model, t.Answered), t.Variant
	}
	if provider+model+variant == "" {
		return nil
	}
	return fields("provider_id", &provider, "model_id", &model, "variant", variant)
}

// messageFacts are keys of a user's message that facts state.
var messageFacts = []string{"queued_at", "queue_enqueued_at", "queue_canceled_at", "snapshot_id", "trigger"}

// metadata returns metadata_json of a message row.
func (g *Guide) metadata(u *unit) string {
	var l []any
	switch u.kind {
	case unitMessage:
		if u.role == "user" {
			l = append(l, "schema_version", 1)
		}
		l = append(l, "model", modelName(u.run, u.turn))
		for _, key := range messageFacts {
			l = append(l, key, g.fact(g.messageFact(u, key)))
		}
	case unitCompaction:
		var usage []byte
		if n := u.compaction.OutputTokens; n != nil {
			usage = fields("input", n)
		}
		l = append(l, "usage", usage, "compaction", true)
	case unitReply:
		if usage, ok := g.usage(u, true); ok {
			l = append(l, "usage", encode(guideUsage(usage)))
		}
		var last *session.Turn
		digest := ""
		for _, t := range u.turns() {
			last, digest = t, cmp.Or(g.digestOf(t, spans.ProvenanceSystem), digest)
		}
		l = append(l, "model", modelName(u.run, last), "system_prompt_digest", digest)
		if agent := cmp.Or(u.run.Agent, u.run.AgentID); agent != sessionAgent(g.s) {
			l = append(l, "agent", agent)
		}
	}
	return string(fields(append(l, "hidden_at", u.hidden, extensionKey, g.events(u))...))
}

// turns returns the turns of a reply that are there.
func (u *unit) turns() (turns []*session.Turn) {
	for _, st := range u.steps {
		if st.turn != nil {
			turns = append(turns, st.turn)
		}
	}
	return turns
}

// usage sums up the usage of a reply, with or without turns that a rewind abandoned; known is false when the loop
// reported none.
func (g *Guide) usage(u *unit, abandoned bool) (sum session.Usage, known bool) {
	for _, st := range u.steps {
		if st.turn != nil && (abandoned || st.hidden == 0) {
			sum.Add(st.turn.Usage)
			known = known || st.turn.UsageReported()
		}
	}
	if rest := g.runs[u.run].rest; u.full {
		sum.Add(rest)
		known = known || rest != session.Usage{}
	}
	return sum, known
}

// guideUsage returns usage as the guide has it: input without what was cached, output without reasoning, so that the
// five add up.
func guideUsage(u session.Usage) session.Usage {
	u.Input = max(0, u.Input-u.CacheRead-u.CacheWrite)
	u.Output = max(0, u.Output-u.Reasoning)
	return u
}

func sessionAgent(s *session.Session) string { return cmp.Or(s.Agent, s.AgentID) }

// sessionRow makes the session row.
func (g *Guide) sessionRow() *SessionRow {
	s := g.s
	row := &SessionRow{ID: s.ID, Agent: sessionAgent(s), ModelJSON: "{}", PermissionsJSON: "[]", MetadataJSON: "{}",
		CreatedAt: s.Start.UnixMilli(), UpdatedAt: latest(s.Start, s.Last).UnixMilli()}
	costs := map[string]float64{} // as the loop reports them, by currency
	own := false
	for _, r := range s.Runs { // by start
		if !r.Copied && !own {
			own, row.CreatedAt = true, r.Start.UnixMilli()
		}
		var last *session.Turn
		for _, t := range r.Turns {
			if t.Cost != nil && !r.Copied {
				costs[cmp.Or(t.Currency, "unknown")] += *t.Cost
			}
		}
		for n := range r.Walk() {
			if c := n.Compaction; c != nil && c.Cost != nil && !r.Copied {
				costs[cmp.Or(c.Currency, "unknown")] += *c.Cost
			}
		}
		for _, t := range g.runs[r].turns {
			last = t
		}
		if model := modelName(r, last); model != nil {
			row.ModelJSON = string(model)
		}
	}
	row.CostUSD = costs["USD"]
	row.ParentID, row.ParentMessageID = g.parent()
	context := g.context()
	row.PromptTokens, row.CompletionTokens, row.ReasoningTokens = context.Input, context.Output, context.Reasoning
	row.CacheRead, row.CacheWrite, row.TotalTokens = context.CacheRead, context.CacheWrite, context.All()
	if rules := g.rules(); rules != nil {
		row.PermissionsJSON = string(rules)
	}
	archived := s.Fact("session", "archived_at")
	if v := g.fact(archived); v != nil {
		if at := factTime(v, archived.At); at > 0 {
			row.ArchivedAt = &at
		}
	}
	usage := struct {
		session.Usage
		Discarded   *session.Usage `json:"discarded,omitempty"`
		Compactions *session.Usage `json:"compactions,omitempty"`
	}{s.Usage, s.Discarded, s.CompactionUsage}
	var cost []byte
	if len(costs) > 0 {
		cost = encode(costs)
	}
	row.MetadataJSON = string(fields(extensionKey, fields("format", 1, "dialect", s.Dialect, "status", s.Status,
		"title", g.fact(s.Fact("session", "title")), "usage", &usage, "cost", cost)))
	return row
}

// parent returns the session that this one came from, and the message row there that holds the tool call which spawned
// it, where the call is known: the run names it, or the call names this session.
func (g *Guide) parent() (id, messageID *string) {
	for _, r := range g.s.Runs {
		parent := cmp.Or(r.ParentSessionID, r.ForkParentID)
		if parent == "" || parent == g.s.ID {
			continue
		}
		call := r.ParentToolCallID
		if call == "" && r.ParentSessionID != "" && g.opts.Session != nil {
			if other := g.opts.Session(parent); other != nil {
				if _, t := spawner(other, g.s.ID); t != nil {
					call = t.ID
				}
			}
		}
		if call != "" && r.ParentSessionID != "" && g.opts.CallMessage != nil {
			if found := g.opts.CallMessage(parent, call); found != "" {
				messageID = &found
			}
		}
		return &parent, messageID
	}
	return nil, nil
}

// spawner returns the first ended tool call of parent that names child as its child session.
func spawner(parent *session.Session, child string) (run *session.Run, call *session.ToolCall) {
	for _, r := range parent.Runs {
		for _, t := range spawning(r) {
			if childSession(t) == child && (call == nil || t.End.Before(call.End)) {
				run, call = r, t
			}
		}
	}
	return run, call
}

// context sums up the usage of what is in the model's context: replies that are not rewound, from where the last
// summary ends, and that summary.
func (g *Guide) context() session.Usage {
	var summary *unit
	for _, u := range g.units {
		if u.kind == unitCompaction && u.hidden == 0 {
			summary = u
		}
	}
	var sum session.Usage
	in, tail := summary == nil, ""
	if summary != nil {
		tail = g.tailStart(summary.compaction)
	}
	wentOn := func(t *session.Turn) bool { return latest(t.Start, t.End).UnixMilli() >= summary.at }
	for _, u := range g.units {
		in = in || u.id == tail
		switch {
		case u == summary && u.compaction.OutputTokens != nil:
			sum.Add(session.Usage{Input: *u.compaction.OutputTokens})
		case u.kind == unitReply && u.hidden == 0 && (in || slices.ContainsFunc(u.turns(), wentOn)):
			visible, _ := g.usage(u, false)
			sum.Add(guideUsage(visible))
		}
	}
	return sum
}

// rules returns the session's own rules that are in force at its end; nil where none are known.
func (g *Guide) rules() json.RawMessage {
	v := g.fact(g.s.Fact("session", "rules"))
	for _, r := range slices.Backward(g.s.Runs) {
		if v == nil {
			v = g.runValue(r, spans.ListRules, r.Rules)
		}
	}
	all := elements(v)
	if all == nil {
		return nil
	}
	return encode(slices.DeleteFunc(all, func(rule json.RawMessage) bool {
		source := parse(rule).Spelled("source")
		return source != nil && string(source) != `"session"`
	}))
}

// events are the events of one row.
type events struct {
	g      *Guide
	list   [][]byte
	hidden [][]byte // of turns that a rewind abandoned
}

// add adds an event of a run with its keys and values (see fields). at is when it happened, zero if that is not known.
func (e *events) add(typ string, at time.Time, r *session.Run, keysAndValues ...any) {
	head := []any{"type", "otelagent." + typ, "ts", stamp(at), "run", &r.ID}
	e.list = append(e.list, fields(append(head, keysAndValues...)...))
}

// stamp returns a time in unix nanoseconds; 0 where it is not known.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// bound is a moment that is not exactly known.
func bound(t time.Time) []byte { return fields("time", stamp(t), "source", spans.TimeSourceBound) }

// usageOf returns usage as it was reported; nil where it was not.
func usageOf(u *session.ReportedUsage, rule spans.UsageRule, lowerBound bool) []byte {
	if u == nil {
		return nil
	}
	return encode(struct {
		*session.ReportedUsage
		Rule       spans.UsageRule `json:"rule"`
		LowerBound bool            `json:"lower_bound,omitempty"`
	}{u, rule, lowerBound})
}

// sumOf returns normalised usage; nil where it is not known.
func sumOf(u *session.Usage) []byte {
	if u == nil {
		return nil
	}
	return usageOf(&session.ReportedUsage{Input: u.Input, Output: u.Output, Reasoning: u.Reasoning,
		CacheRead: u.CacheRead, CacheWrite: u.CacheWrite}, spans.UsageRuleIncludesCache, u.LowerBound)
}

// stateOutcomes are the outcomes of calls by the state of their part.
var stateOutcomes = map[string]spans.Outcome{"output-available": spans.OutcomeOK, "output-error": spans.OutcomeError,
	"output-denied": spans.OutcomeDenied}

// events returns the value of extensionKey in the metadata of a message row.
func (g *Guide) events(u *unit) []byte {
	e := events{g: g, list: [][]byte{}}
	if u.starts {
		e.runStarted(u.run)
	}
	switch u.kind {
	case unitMessage:
		if u.begins {
			e.turnStarted(u.run, u.turn)
		}
		e.add("message_added", time.Time{}, u.run, "message", fields("raw", g.envelope(u)))
	case unitReply:
		from := 0
		for _, st := range u.steps {
			e.step(u.run, st, from)
			from += len(st.parts)
		}
	case unitCompaction:
		e.compaction(u.run, u.compaction)
	}
	for _, r := range u.ends {
		e.add("run_ended", r.End, r, "status", r.Status, "status_word", r.StatusWord, "rejected", r.Rejected,
			"rejection", r.Rejection, "usage", usageOf(r.Reported, r.Rule, r.RollUp != nil && r.RollUp.LowerBound),
			"error", r.Error)
	}
	var hidden []byte
	if e.hidden != nil {
		hidden = list(e.hidden)
	}
	return fields("events", list(e.list), "hidden", hidden)
}

func (e *events) runStarted(r *session.Run) {
	metadata := e.g.runValue(r, spans.ListMetadata, r.Metadata)
	rules := e.g.runValue(r, spans.ListRules, r.Rules)
	var config json.RawMessage
	if json.Valid([]byte(r.Config)) {
		config = json.RawMessage(r.Config)
	}
	e.add("run_started", r.Start, r, "dialect", &r.Dialect, "agent", r.Agent, "agent_id", r.AgentID,
		"parent_id", r.ParentID, "parent_session_id", r.ParentSessionID, "parent_tool_call_id", r.ParentToolCallID,
		"continuation", r.Continuation, "continuation_tag", r.ContinuationTag, "fork_parent_id", r.ForkParentID,
		"copied", r.Copied, "group_start", stamp(r.GroupStart), "group_role", r.GroupRole, "config_id", r.ConfigID,
		"config_api", r.ConfigAPI, "config", config, "metadata", metadata, "rules", rules, "model", r.Model,
		"provider", r.Provider)
}

// turnStarted adds the start of a turn, and the facts about its last request.
func (e *events) turnStarted(r *session.Run, t *session.Turn) {
	e.add("turn_started", t.Start, r, "index", &t.Index, "trigger", t.Trigger, "model", t.Model, "provider", t.Provider,
		"variant", t.Variant)
	system := e.g.digestOf(t, spans.ProvenanceSystem)
	tools := e.g.digestOf(t, spans.ProvenanceTools)
	if t.Level+t.Format+system+tools != "" || t.Attempts > 1 || t.MaxTokens != nil || t.Temperature != nil {
		e.add("request_prepared", t.Start, r, "model", t.Model, "at", bound(t.Start),
			"attempt", max(t.Attempts, 1)-1, "reasoning_level", t.Level, "format", t.Format, "max_tokens", t.MaxTokens,
			"temperature", t.Temperature, "system", system, "tools", tools)
	}
}

// step adds the events of a step whose first part has the index from.
func (e *events) step(r *session.Run, st *step, from int) {
	t := st.turn
	parts := []int{from, from + len(st.parts)}
	if t != nil {
		if st.begins {
			e.turnStarted(r, t)
		}
		for n := range t.DiscardedAttempts {
			var usage []byte
			if n == 0 {
				usage = sumOf(t.Discarded)
			}
			e.add("attempt_discarded", t.Start, r, "attempt", n, "usage", usage)
		}
		if st.hidden > 0 {
			hidden := fields("run", &r.ID, "index", &t.Index, "parts", parts, "hidden_at", st.hidden)
			e.hidden = append(e.hidden, hidden)
		}
	}
	for i := range st.parts {
		p := &st.parts[i]
		if name := toolName(p.typ, p.data); p.call != nil || p.callID != "" || p.state != "" && name != "" {
			e.call(r, p, name, from+i)
		}
	}
	if t == nil {
		return
	}
	var output []byte
	if len(st.parts) > 0 {
		output = fields("raw", parts)
	}
	if t.Known == spans.KnownClosed {
		// The reply arrived, and the end of the turn did not.
		if !t.Partial && (t.Reported != nil || t.StopReason != "") {
			e.add("reply_received", t.End, r, "model", t.Answered, "stop_reason", t.StopReason,
				"usage", usageOf(t.Reported, t.Rule, t.Usage.LowerBound), "response_id", t.ResponseID, "message", output)
		}
		return
	}
	e.add("turn_ended", t.End, r, "model", t.Answered, "stop_reason", t.StopReason, "failed", t.Failed,
		"usage", usageOf(t.Reported, t.Rule, t.Usage.LowerBound), "cost", t.Cost, "currency", t.Currency,
		"model_call_ns", t.ModelCallNS, "first_chunk_ns", t.FirstChunkNS, "response_id", t.ResponseID, "output", output,
		"error", t.Error)
}

// call adds a tool call whose part has an index.
func (e *events) call(r *session.Run, p *builtPart, name string, index int) {
	s := p.call
	if s == nil { // the part is all there is
		started, ended := time.UnixMilli(p.created), time.UnixMilli(p.updated)
		e.add("tool_started", started, r, "call_id", p.callID, "name", name, "start", bound(started), "args", &index)
		if outcome := stateOutcomes[p.state]; outcome != "" {
			e.add("tool_ended", ended, r, "call_id", p.callID, "name", name, "end", bound(ended), "result", &index,
				"outcome", outcome)
		}
		return
	}
	e.add("tool_started", s.Start, r, "call_id", s.ID, "name", s.Name, "args", &index)
	if s.Outcome != "" {
		e.add("tool_ended", s.End, r, "call_id", s.ID, "name", s.Name, "result", &index, "outcome", s.Outcome,
			"truncated", s.Truncated, "child_run_id", s.ChildRunID, "child_session_id", s.ChildSessionID)
	}
}

func (e *events) compaction(r *session.Run, c *session.Compaction) {
	e.add("compaction_ended", c.Start, r, "trigger", c.Trigger, "start", fields("time", stamp(c.Start)),
		"end", fields("time", stamp(c.End)), "kind", c.Kind, "reason", c.Reason, "messages_before", c.MessagesBefore,
		"messages_after", c.MessagesAfter, "messages_summarized", c.MessagesSummarized, "input_tokens", c.InputTokens,
		"output_tokens", c.OutputTokens, "usage", sumOf(c.Usage), "cost", c.Cost, "currency", c.Currency,
		"removed_tokens", c.RemovedTokens, "summary", new(int))
}

// placeEvents finds the rows in which runs and turns begin, and those in which runs end: the last row that was made
// before their end, so that the rows that they caused come before it.
func (g *Guide) placeEvents() {
	begun := map[*session.Turn]bool{}
	last := map[*session.Run]int{}
	for i, u := range g.units {
		_, started := last[u.run]
		u.starts, last[u.run] = !started, i
		if t := u.turn; u.kind == unitMessage && t != nil && !begun[t] {
			begun[t], u.begins = true, true
		}
		for _, st := range u.steps {
			if st.turn != nil {
				st.begins, begun[st.turn] = !begun[st.turn], true
			}
		}
	}
	for _, r := range g.s.Runs {
		i, ok := last[r]
		if !ok || r.Known == spans.KnownClosed || r.End.IsZero() {
			continue
		}
		for i+1 < len(g.units) && g.units[i+1].at <= r.End.UnixMilli() && g.units[i+1].run.ID != r.ID {
			i++
		}
		g.units[i].ends = append(g.units[i].ends, r)
	}
}

// envelope returns the members of a message that state its place, as an object.
func (g *Guide) envelope(u *unit) []byte {
	keys := session.PlaceKeys
	if slices.Contains([]string{"phi-core", "clark-agent", acpDialect}, u.run.Dialect) {
		keys = keys[:6] // their messages have a time of their own
	}
	var place []any
	for key, value := range parse(g.message(u.ref)).All() {
		if slices.Contains(keys, key) {
			place = append(place, key, value)
		}
	}
	return fields(place...)
}
