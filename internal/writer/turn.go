package writer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Turn is one open turn: a session.turn span. The nil Turn does nothing. Safe for concurrent use.
type Turn struct {
	handle

	model string // that was asked for, for its metrics; guarded by handle.mu

	// guarded by handle.mu
	attempts  int64
	discarded int64
	wasted    normalUsage // of the discarded attempts
	asked     Moment      // when the last request was ready
	replied   Moment
	called    time.Duration // of the model call; zero where it is not known
	partial   *partial      // of the reply
	reply     *TurnResult   // of the last attempt; nil before it
	said      []byte        // of its output what may be sent, where copies have it already
	questions int           // to the user, without an answer
	before    int           // messages of its requests that are not new on the turn
}

// StartTurn starts a turn and returns a context in which its tool calls are to be started. The turn is a child of the
// run, whatever span ctx holds.
func (r *Run) StartTurn(ctx context.Context, info TurnInfo) (context.Context, *Turn) {
	if r == nil || r.off {
		return ctx, nil
	}
	t := &Turn{model: cmp.Or(info.Model, r.model), before: math.MaxInt}
	t.origin, t.place, t.scope.run, t.scope.turn = r.origin, &t.handle, r, t
	id := r.placeTurn(t, &info)
	a := startAttrs(r.origin)
	a.profileModel(operationTurn, cmp.Or(info.Provider, r.vendor), t.model)
	a.add(r.header...)
	a.kv = append(a.kv, spans.TurnIndexKey.Int64(t.index))
	a.name(spans.TurnTriggerKey, string(info.Trigger))
	a.name(spans.TurnPurposeKey, string(info.Purpose))
	a.name(spans.ModelVariantKey, info.Variant)
	t.begin(ctx, &r.handle, &kindTurn, info.Start, a, id)
	r.started(&t.handle, &kindTurn)
	if t.measured {
		t.tally.turns.Add(1)
		t.calls.Add(1)
	}
	t.changed(0)
	return &t.scope, t
}

// node is as that of [Handle].
func (t *Turn) node() *handle {
	if t == nil {
		return nil
	}
	return &t.handle
}

// placeTurn gives the turn its index, and with derived ids returns what its seed needs.
func (r *Run) placeTurn(t *Turn, info *TurnInfo) (id seed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.index = r.nextTurn
	if info.Index != nil && *info.Index >= 0 {
		t.index = *info.Index
	}
	r.nextTurn = max(r.nextTurn, t.index+1)
	if r.tracer.config.DerivedIDs {
		id.turn = strconv.FormatInt(t.index, 10)
		if r.turns.next(id.turn) > 0 {
			info.Start = info.Start.now()
			id.at = startText(info.Start.Time)
		}
	}
	return id
}

// maxAttempts is the number of attempts whose request is kept.
const maxAttempts = 16

// Request records what the model receives, once per attempt; the last request of an attempt counts. The standard keys
// of the turn are those of the last call. Limit: the content of the first 16 attempts is kept. Of a request without
// Payload, Messages, System and Tools only parameters are kept.
func (t *Turn) Request(req Request) {
	if t == nil || !t.recording && !t.measured {
		return
	}
	t.discardFailed(req.Attempt)
	if req.Bytes == 0 {
		req.Bytes = int64(len(req.Payload))
	}
	at := t.asks(&req)
	t.sendEarly(spans.ListRequest+"/"+strconv.Itoa(max(req.Attempt, 0)), at)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed(0)
}

// discardFailed discards the last attempt where its reply was reported as a failure and attempt n follows it.
func (t *Turn) discardFailed(n int) {
	t.mu.Lock()
	r := t.reply
	if r == nil || !r.Failed || int64(n) < t.attempts {
		t.mu.Unlock()
		return
	}
	t.discardLocked(DiscardedAttempt{At: r.End, Attempt: int(t.attempts - 1), Reason: r.StopReason, Error: r.Error,
		Usage: r.Usage, Reply: r.Output})
}

// asks takes note of a request and puts it on the span. It returns when that was ready.
func (t *Turn) asks(req *Request) (at Moment) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return at
	}
	t.attempted(req.Attempt)
	t.asked = req.At.now()
	a, n := endAttrs(t.origin, 14), max(req.Attempt, 0)
	switch capturing := t.capturing() && req.known(); {
	case capturing && n < maxAttempts: // the list has the number of messages
		t.record(n, req, &a)
	case capturing:
		t.drop(spans.DroppedKindRequest)
		fallthrough
	default:
		switch { // of what cannot be read nothing is said
		case req.Payload != nil && req.Messages == nil:
			l := readLayout(req.Payload, nil, nil)
			_ = req.parse(&l, func(*Message) {})
		case req.Model == "":
			_ = req.parameters(object.Of("", bytes.TrimSpace(req.Payload)))
		}
		if req.known() {
			a.int(spans.RequestMessagesKey, int64(len(req.Messages)))
		}
	}
	t.model = cmp.Or(req.Model, t.model)
	a.request(req)
	t.span.SetAttributes(a.kv...)
	return t.asked
}

// request adds what a request asks for.
func (a *attrs) request(req *Request) {
	a.profileRequest(req)
	if req.Format != "text" && req.Format != "json" { // which are the standard's values too
		a.name(spans.RequestFormatKey, req.Format)
	}
	a.count(spans.RequestBytesKey, req.Bytes)
}

// known reports whether the request has content, and not only parameters.
func (r *Request) known() bool {
	return r.Payload != nil || r.Messages != nil || r.System != nil || r.Tools != nil
}

// Reply reports the reply of the model while the turn goes on. With the time of the request res.End gives the duration
// of the model call, unless TurnResult has it or one of the two times is only derived from others. End keeps what its
// own result omits: Model, Provider, ResponseID, StopReason, Usage, Cost, ModelCall, FirstChunk and Output; without an
// Output also that it failed. A turn that is closed without an end keeps them too, and with [WithLive] copies show them
// from now on. Content that is the same is sent once. Calling Reply again replaces the reply; Discard removes it, and
// so does the request of a later attempt, which discards an attempt that failed.
func (t *Turn) Reply(res TurnResult) {
	if t == nil || !t.recording && !t.measured {
		return
	}
	res.Usage, res.Cost, res.Results = clone(res.Usage), clone(res.Cost), nil
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.unanswer()
	t.reply, t.replied = &res, res.End.now()
	switch {
	case !t.capturing():
		res.Output = nil
	case res.Output != nil:
		t.partial, res.Output = nil, clone(res.Output)
		res.Output.Raw = bytes.Clone(res.Output.Raw)
		if t.live {
			t.said = t.content.setMessages(t.origin, spans.ListOutput, []Message{*res.Output})
		}
	}
	t.changed(0)
}

// clone returns a pointer to a copy of what p points to; nil for nil.
func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// unanswer takes back the reported reply. The caller holds the lock.
func (t *Turn) unanswer() {
	if t.reply != nil {
		t.content.drop(spans.ListOutput, 0)
		t.reply, t.said = nil, nil
	}
}

// noteDiscarded is the type of the note that keeps what is known of a discarded attempt.
const noteDiscarded = "attempt.discarded"

// Discard records an attempt whose reply the loop threw away to ask again. Its usage is summed up apart from that of
// the turn, and its reply is kept as a note.
func (t *Turn) Discard(d DiscardedAttempt) {
	if t == nil || !t.recording && !t.measured {
		return
	}
	t.mu.Lock()
	t.discardLocked(d)
}

// discardLocked is Discard for a caller that holds the lock, which it releases: what is discarded is no reply any more
// when another caller looks.
func (t *Turn) discardLocked(d DiscardedAttempt) {
	if !t.ended {
		t.discarded++
		t.attempted(d.Attempt)
		t.partial = nil
		if int64(d.Attempt)+1 >= t.attempts {
			t.unanswer()
		}
		if d.Usage != nil {
			t.wasted.add(normalised(d.Usage))
		}
	}
	t.mu.Unlock()
	if t.recording {
		Note(t, noteDiscarded, d.body(), d.At)
	}
}

// body is what is known of the attempt, as JSON.
func (d *DiscardedAttempt) body() []byte {
	b := strconv.AppendInt([]byte(`{"attempt":`), int64(d.Attempt), 10)
	if d.Reason != "" {
		reason, _ := json.Marshal(cleanName(d.Reason))
		b = append(append(b, `,"reason":`...), reason...)
	}
	if d.Error != "" {
		b = rawjson.Quote(append(b, `,"error":`...), d.Error)
	}
	if u := d.Usage; u != nil {
		b = fmt.Appendf(b, `,"usage":{"input":%d,"output":%d,"reasoning":%d,"cache_read":%d,"cache_write":%d,"total":%d}`,
			u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite, u.Total)
	}
	if d.Reply != nil && rawjson.Valid(d.Reply.Raw, rawjson.MaxDepth) == nil {
		b = append(append(b, `,"reply":`...), d.Reply.Raw...)
	}
	return append(b, '}')
}

// tries adds the number of attempts, where there was more than one, the duration of the model call, where it is known,
// and what is known of discarded attempts.
func (t *Turn) tries(a *attrs) {
	if t.attempts > 1 {
		a.int(spans.TurnAttemptsKey, t.attempts)
	}
	a.count(spans.TurnModelCallDurationKey, int64(t.called))
	if t.discarded > 0 {
		a.int(spans.AttemptsDiscardedKey, t.discarded)
		a.normalUsage(t.wasted, &discardedUsageKeys)
	}
}

// AddInput records a message that arrived during the turn and is not its reply: prompts, steering, tool results,
// extension messages, in the order of arrival. Limit: 4,096 messages; later ones are only counted, and the span has
// their number.
func (t *Turn) AddInput(m Message) { t.node().addMessage(spans.ListInput, &m) }

// AddResult records a tool result of the turn, in the order of the calls. TurnResult.Results replaces all of them.
// Limits are those of AddInput.
func (t *Turn) AddResult(m Message) { t.node().addMessage(spans.ListResults, &m) }

// Tried returns how many attempts the turn has, how many of them were discarded, and whether the last has a reply.
func (t *Turn) Tried() (attempts, discarded int, replied bool) {
	if t == nil {
		return 0, 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return int(t.attempts), int(t.discarded), t.reply != nil
}

// End ends the turn, once; later calls do nothing.
func (t *Turn) End(res TurnResult) {
	if t == nil || !t.ends() {
		return
	}
	t.settle(&res)
	a := endAttrs(t.origin, 27)
	var failed spans.ErrorType
	switch {
	case res.End.Closed:
		res.Error = ""
	case !res.Failed:
	case res.Cancelled:
		failed = spans.ErrorTypeCancelled
	default:
		failed = spans.ErrorTypeProvider
	}
	t.figures(&res, &a)
	if t.recording {
		a.text(spans.ErrorMessageKey, res.Error)
		t.result(&res, &a)
		if failed != "" {
			t.errorView(&a)
		}
	}
	if end := t.finish(res.End, &a, failed); t.measured {
		t.measureEnd(&res, failed != "", end)
	}
}

// figures adds what a reply has in addition to its content.
func (t *Turn) figures(res *TurnResult, a *attrs) {
	a.profileReply(res)
	a.name(spans.TurnStopReasonKey, res.StopReason)
	a.name(spans.ProviderNameKey, res.Provider)
	if res.Usage != nil {
		keys := copiedUsageKeys
		if !t.scope.run.copied {
			keys = profileUsageKeys(t.tracer.config.Profile)
		}
		a.usage(res.Usage, &keys, spans.UsageReportedTotalKey)
	}
	if res.Cost != nil {
		a.kv = append(a.kv, spans.TurnCostKey.Float64(*res.Cost))
		a.name(spans.TurnCostCurrencyKey, res.Currency)
	}
}

// attempted takes note of an attempt, which counts from 0. The caller holds the lock.
func (t *Turn) attempted(n int) {
	if made := int64(n) + 1; made > t.attempts {
		t.partial = nil
		t.unanswer()
		if t.measured && made <= maxAttemptNumber {
			t.calls.Add(made - max(t.attempts, 1))
		}
		t.attempts = made
	}
}

// result adds what the turn knows of its model call, and the content of the result.
func (t *Turn) result(res *TurnResult, a *attrs) {
	t.tries(a)
	if !t.capturing() {
		return
	}
	if res.Output != nil {
		if t.said == nil || res.Output != t.reply.Output {
			t.said = t.content.setMessages(t.origin, spans.ListOutput, []Message{*res.Output})
		}
		a.replyView(t.said, finishReason(res))
		a.yes(spans.PartialKey, res.Partial)
	} else if said := t.partial.message(); said != nil {
		t.content.setMessages(t.origin, spans.ListOutput, []Message{*said})
		a.yes(spans.PartialKey, true)
	}
	t.content.setMessages(t.origin, spans.ListResults, res.Results)
}

// settle sets what res omits from the reply that was reported before, and learns how long the model call took: from
// what the loop knows of it, else from the times of request and reply.
func (t *Turn) settle(res *TurnResult) {
	if r := t.reply; r != nil {
		res.Model, res.Provider = cmp.Or(res.Model, r.Model), cmp.Or(res.Provider, r.Provider)
		res.ResponseID, res.StopReason = cmp.Or(res.ResponseID, r.ResponseID), cmp.Or(res.StopReason, r.StopReason)
		res.Usage = cmp.Or(res.Usage, r.Usage)
		if res.Cost == nil {
			res.Cost, res.Currency = r.Cost, r.Currency
		}
		res.ModelCall, res.FirstChunk = cmp.Or(res.ModelCall, r.ModelCall), cmp.Or(res.FirstChunk, r.FirstChunk)
		if res.Output == nil {
			res.Output, res.Partial = r.Output, r.Partial
			if r.Failed && !res.Failed {
				res.Failed, res.Cancelled, res.Error = true, r.Cancelled, r.Error
			}
		}
	}
	t.called = res.ModelCall
	if t.called == 0 && measured(t.asked) && measured(t.replied) {
		t.called = t.replied.Time.Sub(t.asked.Time)
	}
	t.called = max(t.called, 0)
}

// measured reports whether a duration may be computed from at.
func measured(at Moment) bool {
	return !at.Time.IsZero() &&
		(at.Source == "" || at.Source == spans.TimeSourceEvent || at.Source == spans.TimeSourceArrival)
}
