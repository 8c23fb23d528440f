package oteleino

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/instrumentation/net/http/otelllmhttp"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// modelCall is one call of a model: an attempt of a turn.
type modelCall struct {
	turn       *turn
	input      *model.CallbackInput
	start, end time.Time
	attempts   int // of the turn, with a request, before the call
	discarded  int
	again      *modelCall // the failed call that this one repeats
	err        error
	recorded   bool // the request
	bare       bool // by this package, since otelllmhttp has not
}

type utilityKey struct{}

func (h *Handler) startModel(ctx context.Context, info *callbacks.RunInfo, in *model.CallbackInput) context.Context {
	f := &frame{info: info, run: within(ctx)}
	if f.run == nil { // a call that is in no agent and no graph
		if otelagent.TurnFromContext(ctx) != nil && otelagent.ToolCallFromContext(ctx) == nil {
			return ctx // a turn that the program records itself
		}
		f.run, f.owner = h.newRun(ctx, info), true
	}
	r := f.run
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &modelCall{input: in, start: time.Now()}
	f.call = c
	for _, t := range r.open {
		if t.info == info && !t.answered { // the framework asks again
			c.turn, c.again, t.failed = t, t.failed, nil
			ctx = trace.ContextWithSpan(ctx, t.span)
			ctx = otelllmhttp.ContextWithTurn(ctx, t.Turn)
			break
		}
	}
	if c.turn == nil {
		ctx = r.startTurn(ctx, info, c)
	}
	c.turn.calling++
	c.turn.last = c
	c.attempts, c.discarded, _ = c.turn.tried()
	return context.WithValue(ctx, frameKey{}, f)
}

// startTurn starts a turn, after which earlier ones wait for nothing but what runs. The caller holds the lock.
func (r *run) startTurn(ctx context.Context, info *callbacks.RunInfo, c *modelCall) context.Context {
	asked := writer.TurnInfo{}
	if ctx.Value(utilityKey{}) != nil {
		asked.Purpose = spans.PurposeUtility
	} else {
		asked.Trigger = r.trigger()
	}
	if c.input != nil && c.input.Config != nil {
		asked.Model = c.input.Config.Model
	}
	for _, t := range slices.Clone(r.open) {
		t.past = true
		r.settle(t, false)
	}
	ctx, started := (*writer.Run)(r.started()).StartTurn(ctx, asked)
	c.turn = &turn{Turn: (*otelagent.Turn)(started), info: info, span: trace.SpanFromContext(ctx)}
	r.open = append(r.open, c.turn)
	return ctx
}

// reply is what a model said, or the pieces of it so far.
type reply struct {
	pieces []*schema.Message
	usage  *model.TokenUsage
	config *model.Config
}

func (l *reply) add(out *model.CallbackOutput) {
	if out == nil {
		return
	}
	if out.Message != nil {
		l.pieces = append(l.pieces, plain(out.Message))
	}
	if out.TokenUsage != nil {
		l.usage = out.TokenUsage
	}
	if out.Config != nil {
		l.config = out.Config
	}
}

// plain returns m without Extra, which Eino sets in messages that callbacks have already.
func plain(m *schema.Message) *schema.Message {
	return &schema.Message{Role: m.Role, Content: m.Content, MultiContent: m.MultiContent,
		UserInputMultiContent: m.UserInputMultiContent, AssistantGenMultiContent: m.AssistantGenMultiContent, Name: m.Name,
		ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, ToolName: m.ToolName, ResponseMeta: m.ResponseMeta,
		ReasoningContent: m.ReasoningContent}
}

func (l *reply) message() *schema.Message {
	switch len(l.pieces) {
	case 0:
		return nil
	case 1:
		return l.pieces[0]
	}
	m, err := schema.ConcatMessages(l.pieces)
	if err != nil {
		return nil
	}
	return m
}

// drain reads the stream that a component returned, records what it was, and returns how it failed.
func (f *frame) drain(ctx context.Context, out *schema.StreamReader[callbacks.CallbackOutput]) (err error) {
	defer f.run.reading.Done()
	defer writer.Guard(ScopeName)
	defer out.Close()
	for {
		piece, e := out.Recv()
		if e == nil {
			f.add(piece)
			continue
		}
		if !errors.Is(e, io.EOF) {
			err = e
		}
		f.returned(ctx, err)
		return err
	}
}

// requested records the request unless otelllmhttp has.
func (c *modelCall) requested() {
	if c.recorded {
		return
	}
	c.recorded = true
	if c.again != nil {
		if _, discarded, _ := c.turn.tried(); discarded == c.discarded { // nobody else has
			c.turn.Discard(max(c.attempts-1, 0), otelagent.TurnResult{Err: c.again.err, End: c.again.end})
		}
	}
	if attempts, _, _ := c.turn.tried(); attempts == c.attempts {
		c.bare = true
		(*writer.Turn)(c.turn.Turn).Request(c.request())
	}
}

// partial records a piece of a reply. Only the reader of the stream calls it.
func (c *modelCall) partial(out *model.CallbackOutput) {
	if out == nil || out.Message == nil || !c.bare {
		return
	}
	if text := out.Message.ReasoningContent; text != "" {
		c.turn.Partial("reasoning", []byte(text))
	}
	if text := out.Message.Content; text != "" {
		c.turn.Partial("text", []byte(text))
	}
}

// streams is called when a stream was returned, before it is read.
func (r *run) streams(c *modelCall) {
	defer writer.Guard(ScopeName)
	r.mu.Lock()
	defer r.mu.Unlock()
	c.requested()
}

// replied records the end of a model call.
func (r *run) replied(c *modelCall, l *reply, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := c.turn
	c.end, c.err = time.Now(), err
	t.calling--
	c.requested()
	if err != nil {
		switch {
		case t.last == c:
			t.failed = c
		case c.bare: // it was repeated before its stream was read; otelllmhttp has discarded its own
			t.Discard(c.attempts, otelagent.TurnResult{Err: err, End: c.end})
		}
		r.settle(t, false)
		return
	}
	t.answered = true
	m := l.message()
	res := otelagent.TurnResult{End: c.end, Usage: l.tokens(m)}
	if l.config != nil {
		res.Model = l.config.Model
	}
	if m != nil {
		for i := range m.ToolCalls {
			if id := m.ToolCalls[i].ID; id != "" {
				t.wanted = append(t.wanted, id)
			}
		}
		if m.ResponseMeta != nil {
			res.StopReason = m.ResponseMeta.FinishReason
		}
		res.Output = &otelagent.Message{Role: string(m.Role), Raw: raw(m)}
	}
	if _, _, done := t.tried(); !done || c.bare {
		t.Reply(res)
	}
	r.settle(t, false)
}

// request is what Eino gave the model.
func (c *modelCall) request() writer.Request {
	q := writer.Request{Attempt: c.attempts, At: writer.Moment{Time: c.start}}
	if c.input == nil {
		return q
	}
	q.Messages = make([]writer.Message, 0, len(c.input.Messages))
	for _, m := range c.input.Messages {
		if m != nil {
			q.Messages = append(q.Messages,
				writer.Message{Role: string(m.Role), ToolCallID: m.ToolCallID, Raw: raw(plain(m))})
		}
	}
	if c.input.Config != nil {
		q.Model = c.input.Config.Model
	}
	return q
}

// tokens returns the usage of the reply m; nil where nothing states it.
func (l *reply) tokens(m *schema.Message) *otelagent.Usage {
	u := l.usage
	if u == nil || u.PromptTokens == 0 && u.CompletionTokens == 0 {
		if m == nil || m.ResponseMeta == nil || m.ResponseMeta.Usage == nil {
			return nil
		}
		in := m.ResponseMeta.Usage
		u = &model.TokenUsage{PromptTokens: in.PromptTokens, CompletionTokens: in.CompletionTokens,
			TotalTokens: in.TotalTokens, PromptTokenDetails: model.PromptTokenDetails(in.PromptTokenDetails),
			CompletionTokensDetails: model.CompletionTokensDetails(in.CompletionTokensDetails)}
	}
	return &otelagent.Usage{Input: int64(u.PromptTokens), Output: int64(u.CompletionTokens),
		CacheRead: int64(u.PromptTokenDetails.CachedTokens), Reasoning: int64(u.CompletionTokensDetails.ReasoningTokens),
		Total: int64(u.TotalTokens)}
}

// raw is v as JSON; a text where that is not possible.
func raw(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		b, _ = json.Marshal(err.Error()) // never fails for a string
	}
	return b
}
