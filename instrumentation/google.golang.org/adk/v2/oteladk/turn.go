package oteladk

import (
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/genai"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"

	"github.com/otelagent/otelagent/instrumentation/net/http/otelllmhttp"
)

// turn is one call of the model.
type turn struct {
	*otelagent.Turn
	asked   *model.LLMRequest // nil once it is recorded
	mark    string            // the value of header; empty where there is no client for it
	onWire  atomic.Bool       // the client saw the request, and records the reply
	began   time.Time
	first   time.Duration // until the first piece of a reply that is streamed
	replied bool
	err     error
	tasks   []*genai.FunctionCall // calls of agents that have not begun
}

// startTurn starts the next turn of the run. The caller holds the lock of the invocation.
func (r *run) startTurn(q *model.LLMRequest) {
	r.endTurn()
	_, w := (*writer.Run)(r.Run).StartTurn(r.ctx, writer.TurnInfo{Trigger: r.trigger, Model: q.Model})
	r.turn = &turn{Turn: (*otelagent.Turn)(w), asked: q, began: time.Now()}
	r.trigger = spans.TriggerContinuation
	if clients.Load() {
		r.turn.markRequest(q)
	} else {
		r.turn.request()
	}
}

// endTurn ends the last turn, if it is open.
func (r *run) endTurn() {
	if r.turn != nil {
		marked.Delete(r.turn.mark)
		r.turn.End(otelagent.TurnResult{Err: r.turn.err})
	}
}

// request records the request as the framework holds it, unless the bytes that left are recorded.
func (t *turn) request() {
	q := t.asked
	if t.asked = nil; q == nil || t.onWire.Load() {
		return
	}
	body := map[string]any{"contents": q.Contents}
	if c := q.Config; c != nil {
		body["systemInstruction"], body["tools"] = c.SystemInstruction, c.Tools
		body["generationConfig"] = map[string]any{"maxOutputTokens": c.MaxOutputTokens, "temperature": c.Temperature}
	}
	if req, err := otelagent.ParseRequest(raw(body)); err == nil {
		req.Payload, req.Parameters.Model = nil, q.Model
		t.Request(req)
	}
}

// reply records what the model said, or a piece of it.
func (t *turn) reply(res *model.LLMResponse) {
	t.request()
	t.replied = t.replied || !res.Partial
	if t.onWire.Load() {
		return
	}
	if res.Partial {
		if t.first == 0 {
			t.first = time.Since(t.began)
		}
		if res.Content != nil {
			for _, p := range res.Content.Parts {
				kind := writer.PartialText
				if p.Thought {
					kind = writer.PartialReasoning
				}
				t.Partial(string(kind), []byte(p.Text))
			}
		}
		return
	}
	candidate := map[string]any{"finishReason": res.FinishReason}
	if res.Content != nil {
		candidate["content"] = res.Content
	}
	said, err := otelagent.ParseReply(raw(map[string]any{"candidates": []any{candidate},
		"usageMetadata": res.UsageMetadata, "modelVersion": res.ModelVersion}))
	if err == nil {
		said.FirstChunk = t.first
		if res.Content == nil && res.ErrorCode != "" && said.Err == nil {
			said.Err = errors.New(res.ErrorCode + ": " + res.ErrorMessage)
		}
		t.err = said.Err
		t.Reply(said)
	}
}

// keepTasks keeps the calls of agents.
func (t *turn) keepTasks(i *invocation, res *model.LLMResponse) {
	if res.Partial || res.Content == nil {
		return
	}
	for _, p := range res.Content.Parts {
		if p != nil && p.FunctionCall != nil {
			if _, agents := i.above[p.FunctionCall.Name]; agents {
				t.tasks = append(t.tasks, p.FunctionCall)
			}
		}
	}
}

// answered records the reply of a turn in which no model was asked.
func (t *turn) answered(res *model.LLMResponse) {
	if !t.replied && t.err == nil {
		t.asked = nil
		t.reply(res)
	}
}

// fail records that the call of the model failed.
func (t *turn) fail(err error) {
	t.request()
	t.err = err
}

// header names the turn of a request on its way from the plugin to the client, which takes it off.
const header = "X-Otelagent-Turn"

var (
	clients atomic.Bool  // there is a client that takes the header off
	marks   atomic.Int64 // counts marked turns
	marked  sync.Map     // the open turns by their marks: string to *turn
)

// markRequest sets the header of a request. The options of a request may be those of its agent, and are not changed.
func (t *turn) markRequest(q *model.LLMRequest) {
	t.mark = strconv.FormatInt(marks.Add(1), 10)
	marked.Store(t.mark, t)
	if q.Config == nil {
		q.Config = &genai.GenerateContentConfig{}
	}
	var options genai.HTTPOptions
	if q.Config.HTTPOptions != nil {
		options = *q.Config.HTTPOptions
	}
	if options.Headers = maps.Clone(options.Headers); options.Headers == nil {
		options.Headers = http.Header{}
	}
	options.Headers.Set(header, t.mark)
	q.Config.HTTPOptions = &options
}

// HTTPClient returns a client for genai.ClientConfig, with the transport of [NewTransport] over http.DefaultTransport.
// It has no credentials: for Vertex AI make one with NewTransport.
func HTTPClient(tracer *otelagent.Tracer) *http.Client {
	return &http.Client{Transport: NewTransport(tracer, nil)}
}

// NewTransport returns a transport that records the exact bytes of the requests of the plugin's turns, and their
// replies. Other requests to a model are recorded as [otelllmhttp] does. Base sends the requests; nil is
// http.DefaultTransport.
func NewTransport(tracer *otelagent.Tracer, base http.RoundTripper) http.RoundTripper {
	clients.Store(true)
	if base == nil {
		base = http.DefaultTransport
	}
	return &transport{base: base, records: otelllmhttp.NewTransport(tracer, otelllmhttp.WithBase(base))}
}

type transport struct {
	base    http.RoundTripper
	records *otelllmhttp.Transport
}

// RoundTrip sends a request without the header.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	mark := req.Header.Get(header)
	if mark == "" {
		return t.records.RoundTrip(req)
	}
	ctx, of := req.Context(), (*turn)(nil)
	if v, ok := marked.Load(mark); ok {
		of = v.(*turn)
		of.onWire.Store(true)
		ctx = otelllmhttp.ContextWithTurn(ctx, of.Turn)
	}
	req = req.Clone(ctx)
	req.Header.Del(header)
	if of == nil {
		return t.base.RoundTrip(req) // its turn has ended
	}
	return t.records.RoundTrip(req)
}

// CloseIdleConnections does that of the base, if it has it.
func (t *transport) CloseIdleConnections() { t.records.CloseIdleConnections() }

// runnable is a tool that the framework runs with a context.
type runnable interface {
	tool.Tool
	Declaration() *genai.FunctionDeclaration
	Run(ctx agent.Context, args any) (map[string]any, error)
}

// toolInContext is a tool that runs in the context of its call, so that agents in it are sub-agents.
type toolInContext struct {
	runnable
	in *invocation
	at place
}

// withContext returns v as a toolInContext; nil where it is a tool that the framework does not run as such.
func withContext(v any, i *invocation, p place) tool.Tool {
	_, streams := v.(interface {
		RunStream(agent.Context, any) iter.Seq2[string, error]
	})
	if t, ok := v.(runnable); ok && !streams && !deferred(v) {
		return &toolInContext{t, i, p}
	}
	return nil
}

// deferred reports whether the result of a tool comes from elsewhere than its Run.
func deferred(v any) bool {
	d, ok := v.(interface{ DefersResponse() bool })
	return ok && d.DefersResponse()
}

// Run runs the tool in the context of its call.
func (t *toolInContext) Run(ctx agent.Context, args any) (map[string]any, error) {
	t.in.mu.Lock()
	c := t.in.calls[callAt(t.at, ctx.FunctionCallID())]
	t.in.mu.Unlock()
	if c != nil {
		ctx = ctx.WithDelta(&agent.CommonContextDelta{
			InvocationContextDelta: &agent.InvocationContextDelta{Context: &c.ctx}})
	}
	return t.runnable.Run(ctx, args)
}

// raw returns v as JSON; nil where it has none.
func raw(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return b
}
