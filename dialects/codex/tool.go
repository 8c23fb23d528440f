package codex

import (
	"bytes"
	"cmp"
	"regexp"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// tool is a tool call of the last model call.
type tool struct {
	id, name string
	args     []byte
	at       time.Time
	// done says that the provider ran it, result what events say of its end, ended when that was.
	done   bool
	result event.ToolResult
	ended  time.Time
}

// maxTools is how many tool calls of a model call are known.
const maxTools = 1024

// tool adds a tool call. Function_call has its arguments as a string of JSON. Web searches and images are made by the
// provider: their item is the whole call.
func (c *call) tool(kind string, p *object.Object, at time.Time) {
	u := &tool{id: p.String("call_id"), at: at}
	if u.name = p.String("name"); u.name == "" {
		u.name = strings.TrimSuffix(kind, "_call")
	}
	for _, key := range []string{"arguments", "input", "action"} {
		if raw := p.Raw(key); raw != nil {
			u.args = bytes.Clone(raw)
			if s, ok := rawjson.String(raw); ok && key == "arguments" && rawjson.Valid([]byte(s), rawjson.MaxDepth) == nil {
				u.args = []byte(s)
			}
			break
		}
	}
	if u.id == "" {
		u.id, u.done = p.String("id"), true
		u.result.Result = bytes.Clone(p.Raw("result"))
		u.result.Outcome = outcomes[p.String("status")]
	}
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
		if u.id == id {
			return u
		}
	}
	return nil
}

// messages are types of items that response_items have too.
var messages = map[string]bool{"AgentMessage": true, "Reasoning": true, "ContextCompaction": true, "HookPrompt": true}

// completed reads an item that was completed, or an event that says the same: how a tool call ended. It reports false
// for one that has no tool call.
func (t *thread) completed(p *object.Object, millis *int64) bool {
	switch kind := p.String("type"); {
	case kind == "UserMessage":
		t.prompt()
		return true
	case messages[kind]:
		return true
	}
	id := cmp.Or(p.String("call_id"), p.String("id"))
	u := t.called(id)
	if u == nil {
		return false
	}
	u.result.Outcome = cmp.Or(outcomes[p.String("status")], u.result.Outcome)
	code := p.Int("exit_code")
	if success := p.Bool("success"); code != nil && *code != 0 || success != nil && !*success || p.Has("error") {
		u.result.Outcome = cmp.Or(u.result.Outcome, spans.OutcomeError)
	}
	if u.ended = t.at; millis != nil && *millis > 0 {
		if at := time.UnixMilli(*millis).UTC(); at.Before(t.at) && at.After(u.at) {
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
			u.result.ChildSessionID = id
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
	raw := p.Raw("output")
	r := transcript.Result{CallID: u.id, Name: u.name, At: t.at, Message: payload, ToolResult: u.result}
	r.Result = raw
	if !u.ended.IsZero() {
		r.At = u.ended
	}
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
	case code == nil && inner == nil && len(said) <= maxRefusal && u.result.Outcome != spans.OutcomeError,
		r.Outcome == spans.OutcomeDenied:
		if r.Denied = refusals.Find(said); r.Denied == nil && r.Outcome == spans.OutcomeDenied {
			r.Denied = &event.PermissionEvaluation{Reason: said}
		}
	}
	if u.name == "spawn_agent" {
		t.spawned(u.id, inner)
		r.ChildSessionID = u.result.ChildSessionID
	}
	return t.Result(r)
}
