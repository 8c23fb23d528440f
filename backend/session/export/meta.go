package export

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// This file makes the session row and the metadata of message rows.

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

// modelOf returns the name of the model that answered a turn.
func modelOf(r *session.Run, t *session.Turn) string {
	return cmp.Or(t.Answered, t.Model, r.Model)
}

// messageFacts are keys of a user's message that facts state.
var messageFacts = []string{"queued_at", "queue_enqueued_at", "queue_canceled_at", "snapshot_id", "trigger"}

// meta returns metadata_json of a row.
func (g *Guide) meta(u *unit) (string, error) {
	var l []any
	switch u.kind {
	case unitMessage:
		if u.role == "user" {
			l = append(l, "schema_version", 1)
		}
		l = append(l, "model", modelName(u.run, u.turn))
		for _, key := range messageFacts {
			v, err := g.fact(cmp.Or(g.s.Fact("message/"+u.id, key), g.s.Fact("message/"+u.own, key)))
			if err != nil {
				return "", err
			}
			l = append(l, key, v)
		}
	case unitCompaction:
		var usage []byte
		if n := u.compaction.OutputTokens; n != nil {
			usage = fields("input", n)
		}
		l = append(l, "usage", usage, "compaction", true)
	case unitReply:
		if usage, ok := g.replyUsage(u); ok {
			l = append(l, "usage", encode(guideUsage(usage)))
		}
		var last *session.Turn
		digest := ""
		for _, t := range g.turns(u) {
			last, digest = t, cmp.Or(g.prompts.digestOf(t, spans.ProvenanceSystem), digest)
		}
		l = append(l, "model", modelName(u.run, last), "system_prompt_digest", digest)
		if agent := cmp.Or(u.run.Agent, u.run.AgentID); agent != sessionAgent(g.s) {
			l = append(l, "agent", agent)
		}
	}
	l = append(l, "hidden_at", u.hidden)
	if !g.opts.Strict {
		events, err := g.eventsOf(u)
		if err != nil {
			return "", err
		}
		l = append(l, extensionKey, events)
	}
	return string(fields(l...)), nil
}

// turns returns the turns of a reply that are there.
func (g *Guide) turns(u *unit) (turns []*session.Turn) {
	for k := range u.steps {
		if st := &u.steps[k]; st.lone == nil {
			turns = append(turns, g.runs[u.run].turns[st.turn])
		}
	}
	return turns
}

// hasUsage reports whether the loop said what a turn used.
func hasUsage(t *session.Turn) bool { return t.Reported != nil || t.Usage != session.Usage{} }

// replyUsage sums up what a reply used; known is false when the loop does not say.
func (g *Guide) replyUsage(u *unit) (sum session.Usage, known bool) { return g.usage(u, true) }

// visibleUsage is replyUsage without turns that a rewind abandoned.
func (g *Guide) visibleUsage(u *unit) session.Usage {
	sum, _ := g.usage(u, false)
	return sum
}

func (g *Guide) usage(u *unit, abandoned bool) (sum session.Usage, known bool) {
	p := g.runs[u.run]
	for k := range u.steps {
		if st := &u.steps[k]; st.lone == nil && (abandoned || st.hidden == 0) {
			sum.Add(p.turns[st.turn].Usage)
			known = known || hasUsage(p.turns[st.turn])
		}
	}
	if u.full {
		sum.Add(p.rest)
		known = known || p.rest != session.Usage{}
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
func (g *Guide) sessionRow() (*SessionRow, error) {
	s := g.s
	row := &SessionRow{ID: s.ID, Agent: sessionAgent(s), ModelJSON: "{}", PermissionsJSON: "[]", MetadataJSON: "{}",
		CreatedAt: s.Start.UnixMilli(), UpdatedAt: latest(s.Start, s.Last).UnixMilli()}
	costs := map[string]float64{} // as the loop reports them, by currency
	own := false
	for _, r := range s.Runs { // by start
		if !r.Copied && !own {
			own, row.CreatedAt = true, r.Start.UnixMilli()
		}
		if parent := cmp.Or(r.ParentSessionID, r.ForkParentID); parent != "" && parent != s.ID && row.ParentID == nil {
			row.ParentID = &parent
		}
		var last *session.Turn
		for _, t := range g.runs[r].turns {
			if last = t; t.Cost != nil && !r.Copied {
				costs[cmp.Or(t.Currency, "unknown")] += *t.Cost
			}
		}
		if model := modelName(r, last); model != nil {
			row.ModelJSON = string(model)
		}
	}
	row.CostUSD = costs["USD"]
	context := g.context()
	row.PromptTokens, row.CompletionTokens, row.ReasoningTokens = context.Input, context.Output, context.Reasoning
	row.CacheRead, row.CacheWrite, row.TotalTokens = context.CacheRead, context.CacheWrite, context.All()
	rules, err := g.rules()
	if err != nil {
		return nil, err
	}
	if rules != nil {
		row.PermissionsJSON = string(rules)
	}
	archived := s.Fact("session", "archived_at")
	if v, err := g.fact(archived); err != nil {
		return nil, err
	} else if v != nil {
		if at := factTime(v, archived.At); at > 0 {
			row.ArchivedAt = &at
		}
	}
	if g.opts.Strict {
		return row, nil
	}
	title, err := g.fact(s.Fact("session", "title"))
	if err != nil {
		return nil, err
	}
	usage := struct {
		session.Usage
		Discarded *session.Usage `json:"discarded,omitempty"`
	}{s.Usage, s.Discarded}
	var cost []byte
	if len(costs) > 0 {
		cost = encode(costs)
	}
	row.MetadataJSON = string(fields(extensionKey, fields("format", 1, "dialect", s.Dialect, "status", s.Status,
		"title", title, "usage", &usage, "cost", cost)))
	return row, nil
}

// context sums up what is in the model's context: replies that are not rewound, from where the last summary left off,
// and that summary.
func (g *Guide) context() session.Usage {
	var summary *unit
	for i := range g.units {
		if u := &g.units[i]; u.kind == unitCompaction && u.hidden == 0 {
			summary = u
		}
	}
	var sum session.Usage
	in := summary == nil
	tail := ""
	if summary != nil {
		tail = g.tailStart(summary.compaction)
	}
	wentOn := func(t *session.Turn) bool { return latest(t.Start, t.End).UnixMilli() >= summary.at }
	for i := range g.units {
		u := &g.units[i]
		in = in || u.id == tail
		switch {
		case u == summary && u.compaction.OutputTokens != nil:
			sum.Add(session.Usage{Input: *u.compaction.OutputTokens})
		case u.kind == unitReply && u.hidden == 0 && (in || slices.ContainsFunc(g.turns(u), wentOn)):
			sum.Add(guideUsage(g.visibleUsage(u)))
		}
	}
	return sum
}

// rules returns the rules of the session that are in force at its end; nil where none are known.
func (g *Guide) rules() (json.RawMessage, error) {
	if v, err := g.fact(g.s.Fact("session", "rules")); err != nil || v != nil {
		return sessionRules(v), err
	}
	for _, r := range slices.Backward(g.s.Runs) {
		if v, err := g.runValue(r, spans.ListRules, r.Rules); err != nil || v != nil {
			return sessionRules(v), err
		}
	}
	return nil, nil
}

// sessionRules returns those of an array of rules that are the session's own; nil for anything but an array.
func sessionRules(raw []byte) json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(raw, &all) != nil || all == nil {
		return nil
	}
	own := slices.DeleteFunc(all, func(rule json.RawMessage) bool {
		source := find(members(rule), "source")
		return source != nil && string(source) != `"session"`
	})
	return encode(own)
}

// runValue returns the one body of a list of a run; nil where it is not there or no JSON.
func (g *Guide) runValue(r *session.Run, name string, refs *session.Refs) (json.RawMessage, error) {
	if refs.Len() != 1 || r.Capture != "" && r.Capture != spans.CaptureContent {
		return nil, nil
	}
	l, err := g.readAside(r, name, refs)
	if err != nil || len(l) == 0 || !json.Valid(l[0].body) {
		return nil, err
	}
	return l[0].body, nil
}
