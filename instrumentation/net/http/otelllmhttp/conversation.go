package otelllmhttp

import (
	"container/list"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// conversation is a chain of requests, each of which goes on with the one before.
type conversation struct {
	t       *Transport
	utility bool // one model call of a compaction

	// guarded by Transport.mu
	at     *list.Element // in Transport.recent; nil when it was forgotten
	last   time.Time     // of the last request
	busy   bool          // a request is under way
	failed bool          // the last attempt did, and may be repeated
	keys   []uint64      // in Transport.index
	asked  []asked

	mu      sync.Mutex
	session string
	run     *writer.Run
	ctx     context.Context // of run
	own     bool            // run was inferred, and ends here
	turn    *writer.Turn    // nil between turns
	failure writer.TurnResult
	calls   []*call
	seen    time.Time // of the last request or reply
}

// asked is one request: a hash of its messages, and of the reply.
type asked struct{ messages, reply uint64 }

// call is a call of a tool that has no result.
type call struct {
	genaijson.Part
	since time.Time
	tool  *writer.Tool // nil while its start is not known
}

// key hashes an id.
func (t *Transport) key(kind, id string) uint64 { return maphash.String(t.seed, kind+"\x00"+id) }

// enter returns the conversation that a request belongs to, as one with a request under way, and whether it repeats the
// last request of it. Where it goes on with one that is busy, that is from.
func (t *Transport) enter(q *request) (c, from *conversation, again bool) {
	var gone []*conversation
	defer func() { closeAll(gone) }()
	t.mu.Lock()
	defer t.mu.Unlock()
	c, again = t.find(q)
	if c == nil || c.busy {
		from, c = c, &conversation{t: t}
		c.at = t.recent.PushBack(c)
	}
	t.recent.MoveToBack(c.at)
	c.last, c.busy, c.failed = time.Now(), true, false
	if !again {
		messages := q.prefixes[len(q.prefixes)-1]
		c.asked = append(c.asked, asked{messages: messages})
		c.asked = c.asked[max(0, len(c.asked)-maxKeys):]
		t.add(c, messages)
		if q.previous != "" {
			t.add(c, t.key("response", q.previous))
		}
	}
	gone = t.forget(func(*conversation) bool { return t.recent.Len() > maxConversations })
	if t.timer == nil {
		t.timer = time.AfterFunc(maxIdle, t.idle)
	}
	return c, from, again
}

// find returns the conversation that a request goes on with, or repeats the last request of; nil where it begins a new
// one. The caller holds the lock.
func (t *Transport) find(q *request) (c *conversation, again bool) {
	n := len(q.Messages)
	for _, c := range slices.Backward(t.index[q.prefixes[n]]) {
		if c.failed && c.asked[len(c.asked)-1].messages == q.prefixes[n] {
			return c, true
		}
	}
	known := t.known(q)
	for _, a := range q.answers {
		if a.ID == "" {
			continue
		}
		list := t.index[t.key("call", a.ID)]
		if slices.Contains(list, known) {
			return known, false
		}
		if len(list) > 0 {
			return list[len(list)-1], false
		}
	}
	if list := t.index[t.key("response", q.previous)]; q.previous != "" && len(list) > 0 {
		return list[len(list)-1], false
	}
	if known == nil && isModel(&q.Messages[0]) { // what a compaction replaced is left out
		for _, summary := range compactionsIn(q.Messages[0].Raw) {
			if list := t.index[t.key("compaction", string(summary))]; len(list) > 0 {
				return list[len(list)-1], false
			}
		}
	}
	return known, false
}

// known returns the conversation that had the longest beginning of the messages as its request: best one with the reply
// that follows there, else one that has no later request. The caller holds the lock.
func (t *Transport) known(q *request) (idle *conversation) {
	for n := len(q.Messages) - 1; n > 0; n-- {
		list := t.index[q.prefixes[n]]
		if len(list) == 0 {
			continue
		}
		reply := t.said(q.Messages[n:])
		for _, c := range slices.Backward(list) {
			last := c.asked[len(c.asked)-1]
			switch {
			case reply != 0 && slices.Contains(c.asked, asked{q.prefixes[n], reply}):
				return c
			case idle == nil && !c.busy && last.messages == q.prefixes[n]:
				idle = c
			}
		}
		if idle != nil {
			return idle
		}
	}
	return nil
}

// add makes c one that is found by key. The caller holds the lock.
func (t *Transport) add(c *conversation, key uint64) {
	if c.at == nil {
		return // it was forgotten meanwhile
	}
	if i := slices.Index(c.keys, key); i >= 0 || len(c.keys) == maxKeys {
		i = max(i, 0) // the oldest
		t.remove(c, c.keys[i])
		c.keys = slices.Delete(c.keys, i, i+1)
	}
	c.keys, t.index[key] = append(c.keys, key), append(t.index[key], c)
}

func (t *Transport) remove(c *conversation, key uint64) {
	list := t.index[key]
	if i := slices.Index(list, c); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if t.index[key] = list; len(list) == 0 {
		delete(t.index, key)
	}
}

// forget removes the oldest conversations, as long as they are to go, and returns them. The caller holds the lock.
func (t *Transport) forget(goes func(*conversation) bool) (gone []*conversation) {
	for at := t.recent.Front(); at != nil && goes(at.Value.(*conversation)); at = t.recent.Front() {
		c := t.recent.Remove(at).(*conversation)
		for _, key := range c.keys {
			t.remove(c, key)
		}
		c.at, c.keys, gone = nil, nil, append(gone, c)
	}
	if t.recent.Len() == 0 && t.timer != nil {
		t.timer.Stop()
		t.timer = nil
	}
	return gone
}

// idle forgets the conversations without a request for maxIdle.
func (t *Transport) idle() {
	t.mu.Lock()
	now := time.Now()
	gone := t.forget(func(c *conversation) bool { return now.Sub(c.last) >= maxIdle })
	if at := t.recent.Front(); at != nil {
		t.timer.Reset(maxIdle - now.Sub(at.Value.(*conversation).last))
	}
	t.mu.Unlock()
	closeAll(gone)
}

// closeAll ends what is open in conversations that were forgotten.
func closeAll(list []*conversation) {
	for _, c := range list {
		func() {
			defer writer.Guard(ScopeName)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.close()
		}()
	}
}

// bound is a time that is only bounded by what was seen.
func bound(at time.Time) writer.Moment { return writer.Moment{Time: at, Source: spans.TimeSourceBound} }

// unreported is the end of what the loop did not end.
func unreported(at time.Time) writer.Moment {
	return writer.Moment{Time: at, Source: spans.TimeSourceBound, Closed: true}
}

// ask records a request of the conversation. in is the run that the program says it is in, from the conversation that a
// new one goes on with.
func (c *conversation) ask(e *exchange, q *request, in *writer.Run, from *conversation, again bool) {
	if from != nil {
		from.mu.Lock()
		c.session = from.session
		from.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = e.sent
	if !again || c.turn == nil {
		c.startTurn(e, q, in)
	}
	c.failure = writer.TurnResult{}
	e.turn = c.turn
	e.request(q)
}

// startTurn ends the turn before, and starts the next one in its run.
func (c *conversation) startTurn(e *exchange, q *request, in *writer.Run) {
	paused, answered := len(c.calls) == 0, false
	for _, a := range q.answers {
		answered = c.answered(a, e.sent) || answered
	}
	goesOn := answered || c.turn != nil && !c.failure.Failed && (paused || !q.user)
	if goesOn && (in == nil) == c.own {
		c.endCalls()
		c.turn.End(writer.TurnResult{End: bound(e.sent)})
		c.turn = nil
	} else {
		c.close()
	}
	trigger := spans.TriggerContinuation
	if q.user && len(q.answers) == 0 {
		trigger = spans.TriggerUser
	}
	info := writer.TurnInfo{Trigger: trigger, Model: q.Model, Provider: q.provider, Start: writer.Moment{Time: e.sent}}
	switch {
	case in != nil:
		c.ctx, c.run, c.own = e.ctx, in, false
		if c.utility {
			info.Trigger, info.Purpose = "", spans.PurposeUtility
		}
	case c.run == nil:
		ctx := writer.WithSource(e.ctx, &writer.Source{NewRoot: true})
		run := writer.RunInfo{SessionID: c.session, Agent: c.t.agent, Model: q.Model, Provider: q.provider,
			Dialect: "http", Start: bound(e.sent), Inferred: trigger == spans.TriggerContinuation && c.session == ""}
		if _, _, call := writer.InContext(e.ctx); call != nil {
			run.SessionID = "" // that of the tool call
			if trigger == spans.TriggerUser {
				info.Trigger = spans.TriggerSubAgent
			}
		}
		c.ctx, c.run = c.t.tracer.StartRun(ctx, run)
		c.own = true
	}
	c.session = c.run.SessionID()
	_, c.turn = c.run.StartTurn(c.ctx, info)
}

// answered ends the call that a result is of, and reports whether there is one.
func (c *conversation) answered(result genaijson.Part, now time.Time) bool {
	i := slices.IndexFunc(c.calls, func(x *call) bool {
		return x.ID == result.ID && x.ID != "" || result.ID == "" && (x.Name == result.Name || result.Name == "")
	})
	if i < 0 {
		return false
	}
	x := c.calls[i]
	c.calls = slices.Delete(c.calls, i, i+1)
	c.start(x)
	end := writer.ToolResult{Result: result.Content, End: bound(now)}
	if result.IsError {
		end.Outcome, end.Error = spans.OutcomeError, string(result.Content)
		if text, ok := result.Text(); ok {
			end.Error = text
		}
	}
	x.tool.End(end)
	return true
}

// start starts a call whose start is only bounded, unless it was started.
func (c *conversation) start(x *call) {
	if x.tool == nil {
		_, x.tool = c.turn.StartTool(c.ctx, writer.ToolCall{ID: x.ID, Name: x.Name, Args: x.Content, Start: bound(x.since)})
	}
}

// startTool starts the first open call of that name with these arguments. Without start it only reports whether there
// is one.
func (c *conversation) startTool(ctx context.Context, name string, args []byte, start bool) (
	context.Context, *writer.Tool, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.calls, func(x *call) bool {
		return x.tool == nil && x.Name == name && sameJSON(x.Content, args)
	})
	if i < 0 || !start {
		return ctx, nil, i >= 0
	}
	x := c.calls[i]
	ctx, x.tool = c.turn.StartTool(ctx, writer.ToolCall{ID: x.ID, Name: x.Name, Args: x.Content})
	return ctx, x.tool, true
}

// answer records the reply to a request.
func (c *conversation) answer(e *exchange, res writer.TurnResult, again bool) {
	keys := c.replied(e, &res, again)
	t := c.t
	reply := uint64(0)
	if res.Output != nil && !res.Failed {
		reply = t.said([]writer.Message{{Role: "assistant", Raw: res.Output.Raw}})
	}
	t.mu.Lock()
	c.busy, c.failed = false, res.Failed && again
	if n := len(c.asked); n > 0 {
		c.asked[n-1].reply = reply
	}
	for _, key := range keys {
		t.add(c, key)
	}
	forgotten := c.at == nil
	t.mu.Unlock()
	if forgotten { // no later request finds it
		closeAll([]*conversation{c})
	}
}

// replied is answer for the handles. It returns the keys by which a later request finds c.
func (c *conversation) replied(e *exchange, res *writer.TurnResult, again bool) (keys []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != e.turn || c.run == nil {
		return nil // it was closed meanwhile
	}
	c.seen = time.Now()
	c.turn.Reply(*res)
	if res.ResponseID != "" {
		keys = append(keys, c.t.key("response", res.ResponseID))
	}
	if res.Failed {
		c.failure = writer.TurnResult{Failed: true, Error: res.Error, Cancelled: res.Cancelled} // and no reply to hold
		if !again || c.utility {
			c.close()
		}
		return keys
	}
	var calls []genaijson.Part
	if res.Output != nil {
		calls, _ = callsIn(res.Output.Raw)
		for _, summary := range compactionsIn(res.Output.Raw) {
			_, done := c.turn.StartCompaction(c.ctx, writer.Compaction{Kind: spans.CompactionKindSummary})
			done.End(writer.CompactionResult{Summary: summary})
			keys = append(keys, c.t.key("compaction", string(summary)))
		}
	}
	for _, p := range calls {
		p.Content, p.Block = slices.Clone(p.Content), nil // of the reply, whose memory is used again
		c.calls = append(c.calls, &call{Part: p, since: c.seen})
		keys = append(keys, c.t.key("call", p.ID), c.t.key("tool", p.Name))
	}
	again = res.StopReason == "pause_turn" || res.StopReason == "compaction" // with which Anthropic's API asks for more
	if c.utility || len(calls) == 0 && !again {
		c.turn.End(writer.TurnResult{})
		c.turn = nil
		if c.own {
			c.run.End(writer.RunResult{End: bound(c.seen)})
			c.run, c.ctx = nil, nil
		}
	}
	return keys
}

// endCalls closes the calls that have no result.
func (c *conversation) endCalls() {
	for _, x := range c.calls {
		c.start(x)
		x.tool.End(writer.ToolResult{End: unreported(c.seen)})
	}
	c.calls = nil
}

// close ends what is open: the loop stopped, or its last attempt failed.
func (c *conversation) close() {
	c.endCalls()
	end := bound(c.seen)
	res := writer.RunResult{End: end, Status: spans.RunStatusError, Error: c.failure.Error}
	if c.failure.Cancelled {
		res.Status = spans.RunStatusCancelled
	}
	if c.failure.Failed {
		c.turn.End(writer.TurnResult{End: writer.Moment{Time: c.seen}})
	} else {
		c.turn.End(writer.TurnResult{End: unreported(c.seen)})
	}
	switch {
	case !c.own:
	case c.failure.Failed:
		c.run.End(res)
	default:
		c.run.End(writer.RunResult{End: unreported(c.seen)})
	}
	c.run, c.turn, c.ctx, c.failure = nil, nil, nil, writer.TurnResult{}
}
