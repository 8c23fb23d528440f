package export

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// This file writes the events that a row belongs to: lines of the dialect ndjson (docs/formats.md §7) in a list under
// extensionKey of metadata_json. A key that holds content there holds a reference here: the index of a part of the
// row, the indexes of the first part and of the one behind the last, or the digest of a system prompt or catalogue.

// event is one event of any type. A key that is absent is not known.
type event struct {
	Type string `json:"type"`
	Time int64  `json:"ts,omitempty"` // unix nanoseconds
	Run  string `json:"run"`

	Dialect          *string              `json:"dialect,omitempty"`
	Agent            string               `json:"agent,omitempty"`
	AgentID          string               `json:"agent_id,omitempty"`
	ParentID         string               `json:"parent_id,omitempty"`
	ParentSessionID  string               `json:"parent_session_id,omitempty"`
	ParentToolCallID string               `json:"parent_tool_call_id,omitempty"`
	Continuation     spans.Continuation   `json:"continuation,omitempty"`
	ContinuationTag  string               `json:"continuation_tag,omitempty"`
	ForkParentID     string               `json:"fork_parent_id,omitempty"`
	Copied           bool                 `json:"copied,omitempty"`
	GroupStart       int64                `json:"group_start,omitempty"`
	GroupRole        spans.GroupRole      `json:"group_role,omitempty"`
	ConfigID         string               `json:"config_id,omitempty"`
	ConfigAPI        string               `json:"config_api,omitempty"`
	Config           json.RawMessage      `json:"config,omitempty"`
	Metadata         json.RawMessage      `json:"metadata,omitempty"`
	Rules            json.RawMessage      `json:"rules,omitempty"`
	Status           spans.RunStatus      `json:"status,omitempty"`
	StatusWord       string               `json:"status_word,omitempty"`
	Rejected         bool                 `json:"rejected,omitempty"`
	Rejection        string               `json:"rejection,omitempty"`
	Index            *int64               `json:"index,omitempty"`
	Trigger          string               `json:"trigger,omitempty"`
	Model            string               `json:"model,omitempty"`
	Provider         string               `json:"provider,omitempty"`
	Variant          string               `json:"variant,omitempty"`
	At               *moment              `json:"at,omitempty"`
	Attempt          int64                `json:"attempt,omitempty"`
	ReasoningLevel   string               `json:"reasoning_level,omitempty"`
	Format           string               `json:"format,omitempty"`
	MaxTokens        *int64               `json:"max_tokens,omitempty"`
	Temperature      *float64             `json:"temperature,omitempty"`
	System           string               `json:"system,omitempty"`
	Tools            string               `json:"tools,omitempty"`
	Message          *reference           `json:"message,omitempty"`
	StopReason       string               `json:"stop_reason,omitempty"`
	Failed           bool                 `json:"failed,omitempty"`
	Usage            *reportedUsage       `json:"usage,omitempty"`
	Cost             *float64             `json:"cost,omitempty"`
	Currency         string               `json:"currency,omitempty"`
	ModelCallNS      int64                `json:"model_call_ns,omitempty"`
	FirstChunkNS     int64                `json:"first_chunk_ns,omitempty"`
	ResponseID       string               `json:"response_id,omitempty"`
	Output           *reference           `json:"output,omitempty"`
	CallID           string               `json:"call_id,omitempty"`
	Name             string               `json:"name,omitempty"`
	Start            *moment              `json:"start,omitempty"`
	End              *moment              `json:"end,omitempty"`
	Args             *int                 `json:"args,omitempty"`
	Result           *int                 `json:"result,omitempty"`
	Outcome          spans.Outcome        `json:"outcome,omitempty"`
	Error            string               `json:"error,omitempty"`
	Truncated        *bool                `json:"truncated,omitempty"`
	ChildRunID       string               `json:"child_run_id,omitempty"`
	ChildSessionID   string               `json:"child_session_id,omitempty"`
	Kind             spans.CompactionKind `json:"kind,omitempty"`
	Reason           string               `json:"reason,omitempty"`
	MessagesBefore   *int64               `json:"messages_before,omitempty"`
	MessagesAfter    *int64               `json:"messages_after,omitempty"`
	Summarized       *int64               `json:"messages_summarized,omitempty"`
	InputTokens      *int64               `json:"input_tokens,omitempty"`
	OutputTokens     *int64               `json:"output_tokens,omitempty"`
	RemovedTokens    *int64               `json:"removed_tokens,omitempty"`
	Summary          *int                 `json:"summary,omitempty"`
}

// moment is a time in unix nanoseconds.
type moment struct {
	Time   int64            `json:"time,omitempty"`
	Source spans.TimeSource `json:"source,omitempty"`
}

// reference stands for a message: its envelope, or the indexes of its parts.
type reference struct {
	Raw any `json:"raw"`
}

// reportedUsage is usage as it was reported.
type reportedUsage struct {
	Input      int64           `json:"input"`
	Output     int64           `json:"output"`
	Reasoning  int64           `json:"reasoning"`
	CacheRead  int64           `json:"cache_read"`
	CacheWrite int64           `json:"cache_write"`
	Total      int64           `json:"total"`
	Rule       spans.UsageRule `json:"rule"`
}

func usageOf(u *session.ReportedUsage, rule spans.UsageRule) *reportedUsage {
	if u == nil {
		return nil
	}
	return &reportedUsage{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite, u.Total, rule}
}

// stamp returns a time in nanoseconds; 0 where it is not known.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// stepCall is a tool part of a step.
type stepCall struct {
	index          int               // among the parts of the step
	call           *session.ToolCall // nil where the span is not there; then the rest says what the part shows
	id, name       string
	outcome        spans.Outcome
	created, ended int64
}

// callsOf returns the tool parts among the parts of a step.
func callsOf(parts []builtPart) (calls []stepCall) {
	for i := range parts {
		switch p := &parts[i]; {
		case p.call != nil:
			calls = append(calls, stepCall{index: i, call: p.call})
		case p.callID != "" || p.state != "" && toolName(p.typ, p.data) != "":
			outcome := map[string]spans.Outcome{"output-available": spans.OutcomeOK, "output-error": spans.OutcomeError,
				"output-denied": spans.OutcomeDenied}[p.state]
			calls = append(calls, stepCall{index: i, id: p.callID, name: toolName(p.typ, p.data), outcome: outcome,
				created: p.created, ended: p.updated})
		}
	}
	return calls
}

// events is the value of extensionKey in the metadata of a message row.
type events struct {
	g    *Guide
	List []event `json:"events"`
	// Hidden names turns that a rewind abandoned.
	Hidden []hiddenTurn `json:"hidden,omitempty"`
}

// hiddenTurn is a turn of a row whose parts are rewound since a time in milliseconds.
type hiddenTurn struct {
	Run      string `json:"run"`
	Index    int64  `json:"index"`
	Parts    [2]int `json:"parts"` // the first, and the one behind the last
	HiddenAt int64  `json:"hidden_at"`
}

// eventsOf returns the events of a row.
func (g *Guide) eventsOf(u *unit) (*events, error) {
	e := &events{g: g, List: []event{}}
	if u.starts {
		if err := e.runStarted(u.run); err != nil {
			return nil, err
		}
	}
	switch u.kind {
	case unitMessage:
		if u.begins {
			e.turnStarted(u.run, u.turn)
		}
		envelope, err := g.envelope(u)
		if err != nil {
			return nil, err
		}
		e.add(event{Type: "message_added", Run: u.run.ID, Message: &reference{json.RawMessage(envelope)}})
	case unitReply:
		from := 0
		for k := range u.steps {
			st := &u.steps[k]
			e.step(u.run, st, from)
			from += st.parts
		}
	case unitCompaction:
		e.compaction(u.run, u.compaction)
	}
	for _, r := range u.ends {
		e.add(event{Type: "run_ended", Time: stamp(r.End), Run: r.ID, Status: r.Status, StatusWord: r.StatusWord,
			Rejected: r.Rejected, Rejection: r.Rejection, Error: r.Error, Usage: usageOf(r.Reported, r.Rule)})
	}
	return e, nil
}

func (e *events) add(ev event) {
	ev.Type = "otelagent." + ev.Type
	e.List = append(e.List, ev)
}

func (e *events) runStarted(r *session.Run) error {
	metadata, err := e.g.runValue(r, spans.ListMetadata, r.Metadata)
	if err != nil {
		return err
	}
	rules, err := e.g.runValue(r, spans.ListRules, r.Rules)
	if err != nil {
		return err
	}
	ev := event{Type: "run_started", Time: stamp(r.Start), Run: r.ID, Dialect: &r.Dialect, Agent: r.Agent,
		AgentID: r.AgentID, Model: r.Model, Provider: r.Provider, ParentID: r.ParentID, ParentSessionID: r.ParentSessionID,
		ParentToolCallID: r.ParentToolCallID, Continuation: r.Continuation, ContinuationTag: r.ContinuationTag,
		ForkParentID: r.ForkParentID, Copied: r.Copied, GroupStart: stamp(r.GroupStart), GroupRole: r.GroupRole,
		ConfigID: r.ConfigID, ConfigAPI: r.ConfigAPI, Metadata: metadata, Rules: rules}
	if json.Valid([]byte(r.Config)) {
		ev.Config = json.RawMessage(r.Config)
	}
	e.add(ev)
	return nil
}

// turnStarted adds the start of a turn and the parameters of its last request.
func (e *events) turnStarted(r *session.Run, t *session.Turn) {
	e.add(event{Type: "turn_started", Time: stamp(t.Start), Run: r.ID, Index: &t.Index, Trigger: string(t.Trigger),
		Model: t.Model, Provider: t.Provider, Variant: t.Variant})
	request := event{Type: "request_prepared", Time: stamp(t.Start), Run: r.ID, Model: t.Model,
		At: &moment{stamp(t.Start), spans.TimeSourceBound}, Attempt: max(t.Attempts, 1) - 1, ReasoningLevel: t.Level,
		Format: t.Format, MaxTokens: t.MaxTokens, Temperature: t.Temperature,
		System: e.g.prompts.digestOf(t, spans.ProvenanceSystem), Tools: e.g.catalogs.digestOf(t, spans.ProvenanceTools)}
	if t.Level+t.Format+request.System+request.Tools != "" || t.Attempts > 1 || t.MaxTokens != nil ||
		t.Temperature != nil {
		e.add(request)
	}
}

// step adds the events of a step whose first part has the index from.
func (e *events) step(r *session.Run, st *step, from int) {
	var t *session.Turn
	if st.lone == nil {
		t = e.g.runs[r].turns[st.turn]
		if st.begins {
			e.turnStarted(r, t)
		}
		for n := range t.DiscardedAttempts {
			ev := event{Type: "attempt_discarded", Time: stamp(t.Start), Run: r.ID, Attempt: n}
			if u := t.Discarded; n == 0 && u != nil {
				sum := session.ReportedUsage{Input: u.Input, Output: u.Output, Reasoning: u.Reasoning, CacheRead: u.CacheRead,
					CacheWrite: u.CacheWrite}
				ev.Usage = usageOf(&sum, spans.UsageRuleIncludesCache)
			}
			e.add(ev)
		}
	}
	if t != nil && st.hidden > 0 {
		e.Hidden = append(e.Hidden, hiddenTurn{r.ID, t.Index, [2]int{from, from + st.parts}, st.hidden})
	}
	for _, c := range st.calls {
		e.call(r, c, from+c.index)
	}
	if t == nil || t.Known == spans.KnownClosed {
		return
	}
	ev := event{Type: "turn_ended", Time: stamp(t.End), Run: r.ID, Model: t.Answered, StopReason: t.StopReason,
		Failed: t.Failed, Error: t.Error, Usage: usageOf(t.Reported, t.Rule), Cost: t.Cost, Currency: t.Currency,
		ModelCallNS: t.ModelCallNS, FirstChunkNS: t.FirstChunkNS, ResponseID: t.ResponseID}
	if st.parts > 0 {
		ev.Output = &reference{[2]int{from, from + st.parts}}
	}
	e.add(ev)
}

// call adds a tool call whose part has an index.
func (e *events) call(r *session.Run, c stepCall, index int) {
	start := event{Type: "tool_started", Run: r.ID, CallID: c.id, Name: c.name, Args: &index}
	end := event{Type: "tool_ended", Run: r.ID, CallID: c.id, Name: c.name, Result: &index, Outcome: c.outcome}
	if s := c.call; s != nil {
		start.CallID, start.Name, start.Time = s.ID, s.Name, stamp(s.Start)
		end.CallID, end.Name, end.Time = s.ID, s.Name, stamp(s.End)
		end.Outcome, end.Truncated = s.Outcome, s.Truncated
		end.ChildRunID, end.ChildSessionID = s.ChildRunID, s.ChildSessionID
	} else {
		start.Start = &moment{c.created * int64(time.Millisecond), spans.TimeSourceBound}
		end.End = &moment{c.ended * int64(time.Millisecond), spans.TimeSourceBound}
		start.Time, end.Time = start.Start.Time, end.End.Time
	}
	if e.add(start); end.Outcome != "" {
		e.add(end)
	}
}

func (e *events) compaction(r *session.Run, c *session.Compaction) {
	first := 0
	e.add(event{Type: "compaction_ended", Time: stamp(c.Start), Run: r.ID, Start: &moment{Time: stamp(c.Start)},
		End: &moment{Time: stamp(c.End)}, Kind: c.Kind, Trigger: c.Trigger, Reason: c.Reason, Summary: &first,
		MessagesBefore: c.MessagesBefore, MessagesAfter: c.MessagesAfter, Summarized: c.MessagesSummarized,
		InputTokens: c.InputTokens, OutputTokens: c.OutputTokens, RemovedTokens: c.RemovedTokens})
}

// placeEvents says in which rows runs and turns begin, and in which runs end: the last row that was made before their
// end, so that what they caused stands between.
func (g *Guide) placeEvents() {
	begun := map[*session.Turn]bool{}
	last := map[*session.Run]int{}
	for i := range g.units {
		u := &g.units[i]
		_, started := last[u.run]
		u.starts, last[u.run] = !started, i
		if t := u.turn; u.kind == unitMessage && t != nil && !begun[t] {
			begun[t], u.begins = true, true
		}
		for k := range u.steps {
			if st := &u.steps[k]; st.lone == nil {
				t := g.runs[u.run].turns[st.turn]
				st.begins, begun[t] = !begun[t], true
			}
		}
	}
	for _, r := range g.s.Runs {
		if r.Known == spans.KnownClosed || r.End.IsZero() {
			continue
		}
		i := last[r]
		for i+1 < len(g.units) && g.units[i+1].at <= r.End.UnixMilli() && g.units[i+1].run.ID != r.ID {
			i++
		}
		g.units[i].ends = append(g.units[i].ends, r)
	}
}

// placeKeys are the members of a message that say where it stands, and not what it says. The first five are phi-core's.
var placeKeys = []string{"turnId", "nodeId", "parentId", "tags", "provenanceHint", "messageId", "id", "timestamp",
	"created_at", "createdAt"}

// envelope returns the members of a message that say where it stands, as an object.
func (g *Guide) envelope(u *unit) ([]byte, error) {
	if err := g.window.load(g.ctx, appendID(nil, u.ref), nil); err != nil {
		return nil, err
	}
	body, ok := g.window.set.Body(u.ref)
	if !ok {
		return []byte("{}"), nil
	}
	keys := placeKeys
	if u.run != nil && (u.run.Dialect == "phi-core" || u.run.Dialect == "clark-agent" || u.run.Dialect == "acp") {
		keys = keys[:6] // their messages have a time of their own
	}
	var l []member
	for _, m := range members([]byte(body)) {
		if slices.Contains(keys, m.key) {
			l = append(l, m)
		}
	}
	slices.SortFunc(l, func(a, b member) int { return strings.Compare(a.key, b.key) })
	var o object
	for _, m := range l {
		o.raw(m.key, sorted(m.value))
	}
	return o.bytes(), nil
}
