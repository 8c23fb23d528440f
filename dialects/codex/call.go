package codex

import (
	"bytes"
	"cmp"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// call is a model call that is gathered from its items, until it is settled: then it is a turn.
type call struct {
	id        string    // of the response, where the record says it
	at, asked time.Time // of the last record; when the model was asked
	blocks    [][]byte
	size      int
	tools     []*tool
	usage     *event.Usage
	settled   bool
}

// maxCall is how many bytes of items a call may hold before it is a turn.
const maxCall = 32 << 20

// gather returns the call to which an item or its usage belongs; whole says that what comes is the usage. A call that
// has both is over, and so is one whose tools ran.
func (t *thread) gather(whole bool) *call {
	c := t.call
	if c == nil || c.settled || c.usage != nil && (whole || len(c.blocks) > 0) {
		t.settle()
		c = &call{asked: t.asked}
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
	call := transcript.Call{ID: c.id, At: c.at, Start: event.Bound(c.asked), Variant: t.effort, Blocks: c.blocks,
		TurnResult: event.TurnResult{Model: t.model, Provider: t.provider, Usage: c.usage}}
	if t.prompted && t.parent == "" {
		call.Trigger = spans.TriggerUser
	}
	t.prompted, t.asked, c.blocks = false, t.at, nil
	if !t.Call(call) {
		return
	}
	for _, u := range c.tools {
		t.Tool(event.ToolCall{ID: u.id, Name: u.name, Args: u.args, Type: "function"}, u.at)
		if u.args = nil; u.done {
			t.Result(transcript.Result{CallID: u.id, At: u.at, ToolResult: u.result})
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
	c.at = t.at
	blocks := [][]byte{payload}
	if kind == "message" {
		blocks = p.List("content")
	}
	for _, b := range blocks {
		if c.size += len(b); c.size <= maxCall {
			c.blocks = append(c.blocks, bytes.Clone(b))
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
	c.id, c.usage, c.at = id, u, t.at
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
	for _, n := range [][2]*int64{{&u.Input, &before.Input}, {&u.Output, &before.Output},
		{&u.Reasoning, &before.Reasoning}, {&u.CacheRead, &before.CacheRead}, {&u.CacheWrite, &before.CacheWrite},
		{&u.Total, &before.Total}} {
		*n[0] -= *n[1]
		again = again || *n[0] < 0
	}
	switch {
	case t.records, u.Input == 0 && u.Output == 0 && !again:
	case !again && known:
		t.usage("", &u)
	case last != nil && (again || t.call != nil && t.call.usage == nil):
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
	case c != nil && !c.settled && (id != "" && c.id == id || id == "" && len(c.blocks) == 0):
		res.Usage, comp.Start, t.call = c.usage, event.Bound(c.asked), nil
	case id != "" && of.String("response_id") == id && (c == nil || c.id != id):
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
