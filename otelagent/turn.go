package otelagent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// Turn is one open turn: a session.turn span. The nil Turn does nothing. Safe for concurrent use.
type Turn writer.Turn

// TurnInfo describes a turn when it starts.
type TurnInfo struct {
	// Trigger is why the model is asked; empty when that is not known.
	Trigger spans.Trigger
	// Purpose is utility for a model call that is no part of the conversation, such as one for a title.
	Purpose spans.Purpose
	// Model is the one asked for; empty takes the run's.
	Model string
	// Start is when the turn started.
	Start time.Time
}

// TurnResult says what the model replied, or how an attempt or a turn failed. The zero value says nothing.
type TurnResult struct {
	// Err is why the model call failed.
	Err error
	// Model is the one that answered.
	Model      string
	ResponseID string
	// StopReason is the provider's own value.
	StopReason string
	Usage      *Usage
	// Cost is money in Currency (ISO 4217); nil when it is not known.
	Cost     *float64
	Currency string
	// FirstChunk is the time to the first piece of the reply; zero when it is not known.
	FirstChunk time.Duration
	// Output is the reply; nil when there was none.
	Output *Message
	// End is when the reply was there, or the turn ended.
	End time.Time
}

func (r *TurnResult) full() writer.TurnResult {
	said, cancelled := describe(r.Err)
	return writer.TurnResult{End: moment(r.End), Model: r.Model, ResponseID: r.ResponseID, StopReason: r.StopReason,
		Usage: r.Usage, Cost: r.Cost, Currency: r.Currency, FirstChunk: r.FirstChunk, Output: r.Output,
		Failed: r.Err != nil, Cancelled: cancelled, Error: said}
}

// Request is what the model received in one attempt of a turn. The tracer finds system prompt, tools, messages and
// parameters in Payload.
type Request struct {
	// Attempt counts from 0.
	Attempt int
	// Payload is the request as the loop sends it. Readers give it back byte for byte.
	Payload []byte
	// Messages say where the messages of Payload came from, in its order. Without Payload they are the request.
	Messages []Message
	// Parameters are what the request asks for in addition. With a Payload its own System and Tools count, and its other
	// parameters where these are not stated.
	Parameters Parameters
}

// Parameters are the system prompt, the tools, the model, the reasoning effort (Level), the format of the output, the
// limit of output tokens, and the temperature that a request asks for. A zero field is not stated.
type Parameters = spans.Parameters

// ParseRequest reads the body of a request: Anthropic messages, OpenAI chat and responses, Gemini, Ollama, phi-core.
// Each message has its role and the tool call that it answers, so that the caller has to add provenance only. The
// result shares memory with payload. Limits: 131,072 messages, 200 levels of nesting. The error names the key and what
// is allowed there, or says that payload is no JSON object; the result then holds what could be read.
func ParseRequest(payload []byte) (Request, error) {
	r, err := writer.ParseRequest(payload)
	return Request{r.Attempt, r.Payload, r.Messages, r.Parameters}, err
}

// StartTool starts a tool call of the turn and returns a context in which runs that it spawns are to be started. It is
// a child of the turn, whatever span ctx holds.
func (t *Turn) StartTool(ctx context.Context, call ToolCall) (context.Context, *Tool) {
	ctx, tool := (*writer.Turn)(t).StartTool(ctx, writer.ToolCall{ID: call.ID, Name: call.Name, Args: call.Args,
		Start: moment(call.Start)})
	return ctx, (*Tool)(tool)
}

// StartPermission starts the evaluation whether a tool may run, which lasts until its End; somebody may be asked
// meanwhile. Call is the id of the tool call, empty where there is none. In the context of a tool call the evaluation
// is a child of that call, else of the turn.
func (t *Turn) StartPermission(ctx context.Context, tool, call string) *Permission {
	e := writer.PermissionEvaluation{Tool: tool, CallID: call, Action: spans.ActionAsk}
	if _, turn, in := writer.InContext(ctx); in != nil && turn == (*writer.Turn)(t) {
		return (*Permission)(writer.Ask(ctx, in, e))
	}
	return (*Permission)(writer.Ask(ctx, (*writer.Turn)(t), e))
}

// AddMessage records a message that came in during the turn, other than the reply: a prompt, a steering message, or,
// with ToolCallID, the result of a tool call. Limit: 4,096 messages of each; later ones are only counted.
func (t *Turn) AddMessage(m Message) {
	if m.ToolCallID != "" {
		(*writer.Turn)(t).AddResult(m)
	} else {
		(*writer.Turn)(t).AddInput(m)
	}
}

// Request records what the model receives, once per attempt; the last request of an attempt counts. The standard keys
// of the turn are those of the last call. Limit: the content of the first 16 attempts is kept.
func (t *Turn) Request(req Request) {
	(*writer.Turn)(t).Request(writer.Request{Attempt: req.Attempt, Payload: req.Payload, Messages: req.Messages,
		Parameters: req.Parameters})
}

// Partial records a piece of the reply as it comes in, without the pieces before: kind is text, reasoning or
// tool_input. It is content: nothing is kept unless the level is CaptureContent. The last 64 KiB are kept, for turns
// that end without a reply; with [WithLive] the copies of an open turn show them. A later attempt begins anew.
// With a redactor only the number of bytes is kept, since no rule finds half of a secret.
func (t *Turn) Partial(kind string, text []byte) {
	(*writer.Turn)(t).Partial(writer.PartialKind(kind), text)
}

// Reply reports the reply of the model while the turn goes on, or how the attempt failed. End keeps what its own result
// omits. A turn that is never ended keeps the reply too, and with [WithLive] copies show it from now on. Content that
// is the same is sent once. Calling Reply again replaces the reply; Discard removes it, and so does the request of a
// later attempt, which discards an attempt that failed.
func (t *Turn) Reply(res TurnResult) {
	(*writer.Turn)(t).Reply(res.full())
}

// Discard records an attempt whose reply the loop threw away, or whose call failed, to ask again: Err and StopReason
// say why. Its usage is summed up apart from that of the turn, and its reply and error are kept as a note. Attempt
// counts from 0.
func (t *Turn) Discard(attempt int, res TurnResult) {
	full := res.full()
	(*writer.Turn)(t).Discard(writer.DiscardedAttempt{At: full.End, Attempt: attempt, Reason: full.StopReason,
		Error: full.Error, Usage: full.Usage, Reply: full.Output})
}

// AskUser says that the loop asked the user something, other than for permission, and waits for an answer until it
// calls answered, or the turn ends. It shows on the copies of the open turn. Calling answered again does nothing.
func (t *Turn) AskUser() (answered func()) {
	(*writer.Turn)(t).AskUser()
	return sync.OnceFunc((*writer.Turn)(t).UserAnswered)
}

// End ends the turn, once; later calls do nothing.
func (t *Turn) End(res TurnResult) {
	(*writer.Turn)(t).End(res.full())
}

// turnResult returns what a caller needs of r.
func turnResult(r *writer.TurnResult) TurnResult {
	res := TurnResult{Model: r.Model, ResponseID: r.ResponseID, StopReason: r.StopReason, Usage: r.Usage, Cost: r.Cost,
		Currency: r.Currency, FirstChunk: r.FirstChunk, Output: r.Output, End: r.End.Time}
	switch text := cmp.Or(r.Error, r.StopReason, "the reply is an error"); {
	case r.Cancelled:
		res.Err = fmt.Errorf("%s: %w", text, context.Canceled)
	case r.Failed:
		res.Err = errors.New(text)
	}
	return res
}
