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

// messageMeta is metadata_json of a message row.
type messageMeta struct {
	SchemaVersion int             `json:"schema_version,omitempty"` // of a user's message
	Usage         any             `json:"usage,omitempty"`
	Compaction    bool            `json:"compaction,omitempty"`
	Model         *modelName      `json:"model,omitempty"`
	QueuedAt      json.RawMessage `json:"queued_at,omitempty"`
	EnqueuedAt    json.RawMessage `json:"queue_enqueued_at,omitempty"`
	CanceledAt    json.RawMessage `json:"queue_canceled_at,omitempty"`
	SnapshotID    json.RawMessage `json:"snapshot_id,omitempty"`
	Trigger       json.RawMessage `json:"trigger,omitempty"`
	PromptDigest  string          `json:"system_prompt_digest,omitempty"`
	Agent         string          `json:"agent,omitempty"` // where it is not that of the session
	HiddenAt      int64           `json:"hidden_at,omitempty"`
	Extension     *events         `json:"otelagent,omitempty"`
}

// modelName is the guide's name of a model.
type modelName struct {
	Provider string `json:"provider_id"`
	Model    string `json:"model_id"`
	Variant  string `json:"variant,omitempty"`
}

// modelName returns the model of a turn, or of a run; nil where nothing is known.
func modelNameOf(r *session.Run, t *session.Turn) *modelName {
	m := modelName{r.Provider, r.Model, ""}
	if t != nil {
		m = modelName{cmp.Or(t.Provider, m.Provider), cmp.Or(t.Model, m.Model, t.Answered), t.Variant}
	}
	if m == (modelName{}) {
		return nil
	}
	return &m
}

// modelOf returns the name of the model that answered a turn.
func modelOf(r *session.Run, t *session.Turn) string {
	return cmp.Or(t.Answered, t.Model, r.Model)
}

// meta returns metadata_json of a row.
func (g *Guide) meta(u *unit) (string, error) {
	m := messageMeta{HiddenAt: u.hidden}
	var err error
	switch u.kind {
	case unitMessage:
		if u.role == "user" {
			m.SchemaVersion = 1
		}
		m.Model = modelNameOf(u.run, u.turn)
		err = g.messageFacts(u, &m)
	case unitCompaction:
		m.Compaction = true
		if n := u.compaction.OutputTokens; n != nil {
			m.Usage = map[string]int64{"input": *n}
		}
	case unitReply:
		if usage, ok := g.replyUsage(u); ok {
			m.Usage = guideUsage(usage)
		}
		var last *session.Turn
		for _, t := range g.turns(u) {
			last, m.PromptDigest = t, cmp.Or(g.prompts.digestOf(t, spans.ProvenanceSystem), m.PromptDigest)
		}
		m.Model = modelNameOf(u.run, last)
		if agent := cmp.Or(u.run.Agent, u.run.AgentID); agent != sessionAgent(g.s) {
			m.Agent = agent
		}
	}
	if err == nil && !g.opts.Strict {
		m.Extension, err = g.eventsOf(u)
	}
	return string(encode(m)), err
}

// messageFacts sets the keys that facts state of a user's message.
func (g *Guide) messageFacts(u *unit, m *messageMeta) error {
	if len(g.s.Facts) == 0 {
		return nil
	}
	for key, value := range map[string]*json.RawMessage{"queued_at": &m.QueuedAt, "queue_enqueued_at": &m.EnqueuedAt,
		"queue_canceled_at": &m.CanceledAt, "snapshot_id": &m.SnapshotID, "trigger": &m.Trigger} {
		f := cmp.Or(g.s.Fact("message/"+u.id, key), g.s.Fact("message/"+u.own, key))
		v, err := g.fact(f)
		if err != nil {
			return err
		}
		*value = v
	}
	return nil
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

// sessionMeta is the value of extensionKey in metadata_json of the session.
type sessionMeta struct {
	Format  int                 `json:"format"`
	Dialect string              `json:"dialect,omitempty"`
	Status  spans.SessionStatus `json:"status,omitempty"`
	Title   json.RawMessage     `json:"title,omitempty"`
	Usage   struct {
		session.Usage
		Discarded *session.Usage `json:"discarded,omitempty"`
	} `json:"usage"`
	Cost map[string]float64 `json:"cost,omitempty"` // as the loop reports it, by currency
}

// sessionRow makes the session row.
func (g *Guide) sessionRow() (*SessionRow, error) {
	s := g.s
	row := &SessionRow{ID: s.ID, Agent: sessionAgent(s), ModelJSON: "{}", PermissionsJSON: "[]", MetadataJSON: "{}",
		CreatedAt: s.Start.UnixMilli(), UpdatedAt: latest(s.Start, s.Last).UnixMilli()}
	meta := sessionMeta{Format: 1, Dialect: s.Dialect, Status: s.Status, Cost: map[string]float64{}}
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
				meta.Cost[cmp.Or(t.Currency, "unknown")] += *t.Cost
			}
		}
		if model := modelNameOf(r, last); model != nil {
			row.ModelJSON = string(encode(model))
		}
	}
	row.CostUSD = meta.Cost["USD"]
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
	if meta.Title, err = g.fact(s.Fact("session", "title")); err != nil {
		return nil, err
	}
	meta.Usage.Usage, meta.Usage.Discarded = s.Usage, s.Discarded
	row.MetadataJSON = string(encode(map[string]any{extensionKey: meta}))
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
