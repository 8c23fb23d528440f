package codex

import (
	"bytes"
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// call is a model call that is gathered from its items, until it is settled: then it is a turn.
type call struct {
	transcript.Call
	size    int
	tools   []*tool
	settled bool
}

// maxCall is how many bytes of items a call may hold before it is a turn.
const maxCall = 32 << 20

// gather returns the call to which an item or its usage belongs; whole says that what comes is the usage. A call that
// has both is over, and so is one whose tools ran.
func (t *thread) gather(whole bool) *call {
	c := t.call
	if c == nil || c.settled || c.Usage != nil && (whole || len(c.Blocks) > 0) {
		t.settle()
		c = &call{Call: transcript.Call{Start: event.Bound(t.asked)}}
		t.call = c
	}
	return c
}

// settle hands out the call that was gathered as a turn.
func (t *thread) settle() {
	c := t.call
	if c == nil || c.settled {
		return
	}
	c.settled = true
	t.begin()
	c.Model, c.Provider, c.Variant = t.model, t.provider, t.effort
	if t.prompted && t.parent == "" {
		c.Trigger = spans.TriggerUser
	}
	t.prompted, t.asked = false, t.at
	taken := t.Call(c.Call)
	c.Blocks = nil
	for _, u := range c.tools {
		if taken {
			t.Tool(u.ToolCall, u.At)
		}
		if u.Args = nil; u.done {
			t.Result(u.Result)
		}
	}
}

// item reads an item of the conversation.
func (t *thread) item(kind string, p *object.Object, payload []byte) {
	switch {
	case kind == "message" && p.String("role") != "assistant":
		t.input(p, payload)
		return
	case strings.HasSuffix(kind, "_output"):
		t.settle()
		if t.asked = t.at; !t.output(p, payload) {
			t.Other(kind, payload, t.at)
		}
		return
	case kind != "message" && kind != "reasoning" && !strings.HasSuffix(kind, "_call"):
		t.Other(kind, payload, t.at)
		return
	}
	c := t.gather(false)
	c.At = t.at
	blocks := [][]byte{payload}
	if kind == "message" {
		blocks = p.List("content")
	}
	for _, b := range blocks {
		if c.size += len(b); c.size <= maxCall {
			c.Blocks = append(c.Blocks, bytes.Clone(b))
		}
	}
	if strings.HasSuffix(kind, "_call") {
		c.tool(kind, p, t.at)
	}
}

// counts reads usage.
func (t *thread) counts(o *object.Object) *event.Usage {
	return keys.Read(o, cmp.Or(t.d.Settings.Rule, spans.UsageRuleIncludesCache))
}

var keys = input.UsageKeys{Input: "input_tokens", Output: "output_tokens", Reasoning: "reasoning_output_tokens",
	CacheRead: "cached_input_tokens", CacheWrite: "cache_write_input_tokens", Total: "total_tokens"}

// usage says what the call that was gathered took.
func (t *thread) usage(id string, u *event.Usage) {
	c := t.gather(true)
	c.ID, c.Usage, c.At = id, u, t.at
}

// advance reads a token_count, which says how far the totals of the thread are. It stands twice for many calls, and
// without one: what counts is how far the totals advanced.
func (t *thread) advance(info *object.Object) {
	total, last := t.counts(info.Object("total_token_usage")), t.counts(info.Object("last_token_usage"))
	if total == nil {
		return
	}
	before := cmp.Or(t.total, &event.Usage{Rule: total.Rule})
	known := t.total != nil || !t.based
	t.total = total
	u := *total
	again := false // the totals began again
	for i, n := range transcript.Counts(&u) {
		*n -= *transcript.Counts(before)[i]
		again = again || *n < 0
	}
	switch {
	case t.records, u.Input == 0 && u.Output == 0 && !again:
	case !again && known:
		t.usage("", &u)
	case last != nil && (again || t.call != nil && t.call.Usage == nil):
		t.usage("", last)
	}
}

// compacted reads a compaction. The call before it made the summary, if the record names its response or nothing but
// its usage is known.
func (t *thread) compacted(p *object.Object) {
	id, c := p.String("compaction_response_id"), t.call
	of := p.Object("latest_token_usage_record")
	res := event.CompactionResult{Summary: p.Raw("message")}
	comp := event.Compaction{Kind: spans.CompactionKindSummary, Trigger: "auto"}
	switch {
	case c != nil && !c.settled && (id != "" && c.ID == id || id == "" && len(c.Blocks) == 0):
		res.Usage, comp.Start, t.call = c.Usage, c.Start, nil
	case id != "" && of.String("response_id") == id && (c == nil || c.ID != id):
		res.Usage = t.counts(of.Object("usage"))
	}
	t.settle()
	if t.task != nil && !t.prompted {
		comp.Trigger, t.task.Continuation = "manual", spans.ContinuationCompaction
	}
	if list := p.List("replacement_history"); list != nil {
		res.MessagesAfter = new(int64(len(list)))
		for _, raw := range list {
			res.After = append(res.After, event.Message{Raw: raw, Role: object.Of("", raw).String("role")})
		}
	}
	t.begin()
	t.Compact(cmp.Or(id, t.chain.short("compaction")), t.at, comp, res)
	t.call, t.asked = nil, t.at
}

// tool is a tool call of the last model call, and what is known of its end. Done says that the provider ran it.
type tool struct {
	event.ToolCall
	transcript.Result
	ended time.Time
	done  bool
}

// maxTools is how many tool calls of a model call are known.
const maxTools = 1024

// tool adds a tool call. Function_call has its arguments as a string of JSON. Web searches and images are made by the
// provider: their item is the whole call.
func (c *call) tool(kind string, p *object.Object, at time.Time) {
	u := &tool{}
	u.ID, u.Type, u.At = p.String("call_id"), "function", at
	u.ToolCall.Name = cmp.Or(p.String("name"), strings.TrimSuffix(kind, "_call"))
	for _, key := range []string{"arguments", "input", "action"} {
		if raw := p.Raw(key); raw != nil {
			u.Args = bytes.Clone(raw)
			if s, ok := rawjson.String(raw); ok && key == "arguments" && rawjson.Valid([]byte(s), rawjson.MaxDepth) == nil {
				u.Args = []byte(s)
			}
			break
		}
	}
	if u.ID == "" {
		u.ID, u.done = p.String("id"), true
		u.ToolResult.Result, u.Outcome = bytes.Clone(p.Raw("result")), outcomes[p.String("status")]
	}
	u.CallID = u.ID
	if len(c.tools) < maxTools {
		c.tools = append(c.tools, u)
	}
}

// outcomes are those of states of items; others are unknown.
var outcomes = map[string]spans.Outcome{"failed": spans.OutcomeError, "declined": spans.OutcomeDenied,
	"incomplete": spans.OutcomeCancelled, "cancelled": spans.OutcomeCancelled}

// called returns the tool call of that id; nil without one.
func (t *thread) called(id string) *tool {
	if t.call == nil || id == "" {
		return nil
	}
	for _, u := range t.call.tools {
		if u.ID == id {
			return u
		}
	}
	return nil
}

// echoes are events and items that response_items and turn_context have too.
var echoes = map[string]bool{"AgentMessage": true, "Reasoning": true, "ContextCompaction": true, "HookPrompt": true,
	"agent_message": true, "agent_reasoning": true, "agent_reasoning_raw_content": true, "context_compacted": true,
	"thread_settings_applied": true}

// completed reads an item that was completed, or an event that says the same: how a tool call ended. It reports false
// for one that has no tool call.
func (t *thread) completed(p *object.Object, millis *int64) bool {
	switch kind := p.String("type"); {
	case kind == "UserMessage":
		t.prompt()
		return true
	case echoes[kind]:
		return true
	}
	id := cmp.Or(p.String("call_id"), p.String("id"))
	u := t.called(id)
	if u == nil {
		return false
	}
	u.Outcome = cmp.Or(outcomes[p.String("status")], u.Outcome)
	code := p.Int("exit_code")
	if success := p.Bool("success"); code != nil && *code != 0 || success != nil && !*success || p.Has("error") {
		u.Outcome = cmp.Or(u.Outcome, spans.OutcomeError)
	}
	u.ended = t.at
	if at := t.at; millis != nil {
		if at = time.UnixMilli(*millis).UTC(); at.Before(t.at) && at.After(u.At) {
			u.ended = at
		}
	}
	t.spawned(id, p)
	return true
}

// spawned remembers which thread a tool call spawned. Later calls may be about it too.
func (t *thread) spawned(call string, p *object.Object) {
	children := p.List("receiver_thread_ids")
	for _, key := range []string{"new_thread_id", "agent_thread_id", "agent_id"} {
		if raw := p.Raw(key); raw != nil {
			children = append(children, raw)
		}
	}
	for _, raw := range children {
		id, _ := rawjson.String(raw)
		if id == "" || t.d.Spawned("", id) != (transcript.Link{}) {
			continue
		}
		t.settle() // it spawned the run that is open
		t.d.Spawn("", id, transcript.Link{Session: t.Session, Run: t.Run(), Call: call})
		if u := t.called(call); u != nil {
			u.ChildSessionID = id
		}
	}
}

// exit finds the exit code in the lines that Codex writes before an output.
var exit = regexp.MustCompile(`(?m)^(?:Exit code: |Process exited with code )(-?\d+)$`)

// refusals are texts of calls that did not run.
var refusals = transcript.Refusals{
	{Text: regexp.MustCompile(`AskForApproval|rejected: blocked by policy|approval policy is|` +
		`rejected by user approval settings|due to unacceptable risk`), Source: "permission-rule"},
	{Text: regexp.MustCompile(`rejected by user|user rejected`), Source: "user-rejected"},
}

// maxRefusal is the length of the longest text of a call that was refused.
const maxRefusal = 2048

// output reads the output of a tool call. It reports false where no such call is open.
func (t *thread) output(p *object.Object, payload []byte) bool {
	u := t.called(p.String("call_id"))
	if u == nil {
		return false
	}
	raw, r := p.Raw("output"), u.Result
	r.At, r.Message, r.ToolResult.Result = cmp.Or(u.ended, t.at), payload, raw
	said, isText := rawjson.String(raw)
	inner := object.Of("", raw)
	if isText && strings.HasPrefix(said, "{") && rawjson.Valid([]byte(said), object.MaxDepth) == nil {
		inner = object.Of("", []byte(said))
	}
	head, _, _ := strings.Cut(said[:min(len(said), 512)], "\nOutput:")
	code := exit.FindStringSubmatch(head)
	meta := inner.Object("metadata").Int("exit_code")
	success := inner.Bool("success")
	switch {
	case code != nil && code[1] != "0", meta != nil && *meta != 0, success != nil && !*success:
		r.Outcome = cmp.Or(r.Outcome, spans.OutcomeError)
	case code == nil && inner == nil && len(said) <= maxRefusal && u.Outcome != spans.OutcomeError,
		r.Outcome == spans.OutcomeDenied:
		if r.Denied = refusals.Find(said); r.Denied == nil && r.Outcome == spans.OutcomeDenied {
			r.Denied = &event.PermissionEvaluation{Reason: said}
		}
	}
	if u.ToolCall.Name == "spawn_agent" {
		t.spawned(u.ID, inner)
		r.ChildSessionID = u.ChildSessionID
	}
	return t.Result(r)
}
