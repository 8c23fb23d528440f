package otelagent

import (
	"hash/maphash"
	"sync"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/spans"
)

// What views show that read nothing but the standard keys: bounded previews as attributes, and with the encoding full the whole
// request and reply as the standard event. The tree is never made of previews.

// previews reports whether previews are wanted.
func (h *handle) previews() bool {
	return h.capture == CaptureContent && h.tracer.config.preview > 0
}

// inputViews adds the preview of what is new in a request whose first same messages were in one before.
func (t *Turn) inputViews(req *Request, same int, a *attrs) {
	if window := t.tracer.config.window; window > 0 {
		same = max(same, len(req.Messages)-window)
	}
	if !t.previews() {
		return
	}
	if t.previewed { // by an earlier attempt: what was new then is new on the turn
		same = min(same, t.before)
	}
	t.previewed, t.before = true, same
	if t.run.shown.newSystem(req.System) {
		body, _ := t.tracer.config.redact(Piece{Body: req.System, JSON: true, Place: PlaceSystem})
		a.view(spans.SystemInstructionsKey, func(dst []byte) []byte {
			return genaijson.AppendSystem(dst, validBytes(body), t.tracer.config.preview)
		})
	}
	shown := 0
	if same < len(req.Messages) {
		preview, n := genaijson.AppendNew(nil, t.redacted(req.Messages[same:]), t.tracer.config.preview, t.run.shown.hasResult)
		if shown = n; n > 0 {
			a.add(spans.InputMessagesKey.String(string(preview)))
		}
	}
	a.count(spans.RequestMessagesOmittedKey, int64(len(req.Messages)-shown))
}

// shown is what previews of a run showed, so that no other span of it repeats it. Safe for concurrent use.
type shown struct {
	mu      sync.Mutex
	system  uint64              // hash of the last system prompt, or 0
	results map[string]struct{} // ids of the tool calls whose spans show their results
}

// maxShownResults bounds the ids that a run keeps. Beyond it forgets them all: their results are shown again.
const maxShownResults = 4096

var shownSeed = maphash.MakeSeed()

// newSystem reports whether a system prompt is there and is not that of the last request.
func (s *shown) newSystem(raw []byte) bool {
	if len(raw) == 0 {
		return false
	}
	hash := maphash.Bytes(shownSeed, raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.system
	s.system = hash
	return hash != before
}

// addResult records that the span of a call shows its result.
func (s *shown) addResult(callID string) {
	if callID == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.results == nil || len(s.results) >= maxShownResults {
		s.results = make(map[string]struct{})
	}
	s.results[callID] = struct{}{}
}

// hasResult reports whether the span of a call shows its result.
func (s *shown) hasResult(callID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.results[callID]
	return ok
}

var viewBuffers = sync.Pool{New: func() any { return new([]byte) }}

// view adds what write appends.
func (a *attrs) view(key attribute.Key, write func(dst []byte) []byte) {
	b := viewBuffers.Get().(*[]byte)
	*b = write((*b)[:0])
	a.kv = append(a.kv, key.String(string(*b)))
	viewBuffers.Put(b)
}

// replyViews adds the preview of the reply, and completes the standard event with it.
func (t *Turn) replyViews(res *TurnResult, a *attrs) {
	if t.capture != CaptureContent {
		return
	}
	raw := t.redacted([]Message{*res.Output})[0]
	if t.previews() {
		a.view(spans.OutputMessagesKey, func(dst []byte) []byte {
			return genaijson.AppendOutput(dst, raw, finishReason(res), t.tracer.config.preview)
		})
	}
	if len(t.content.details) > 0 {
		t.content.details = append(t.content.details, spans.OutputMessagesKey.String(string(
			genaijson.AppendOutput(nil, raw, finishReason(res), t.content.detailsLeft(t.origin)))))
	}
}

// detailsLeft is how many bytes more the standard event may take: it stands on one span.
func (c *content) detailsLeft(o *origin) int {
	left := o.tracer.config.maxSpan
	for _, kv := range c.details {
		left -= len(kv.Value.AsString()) + attributeRoom
	}
	return max(left, genaijson.Min)
}

// attributeRoom is kept for the name of an attribute.
const attributeRoom = 64

// askFull keeps the request as the standard event. Of several attempts the last one stays. System prompt and tools may take a quarter
// of a span each, and the messages leave one to the reply.
func (t *Turn) askFull(req *Request) {
	c, quarter := &t.content, t.tracer.config.maxSpan/4
	c.details = append(c.details[:0], spans.OperationNameKey.String(operationTurn))
	if req.Model != "" {
		c.details = append(c.details, spans.RequestModelKey.String(cleanName(req.Model)))
	}
	var system, tools []byte
	if req.System != nil {
		system = genaijson.AppendSystem(nil, c.redact(t.origin, Piece{Body: req.System, JSON: true, Place: PlaceSystem}), quarter)
	}
	if req.Tools != nil {
		tools = genaijson.AppendTools(nil, c.redact(t.origin, Piece{Body: req.Tools, JSON: true, Place: PlaceTools}), quarter)
	}
	put := func(key attribute.Key, value []byte) {
		if value != nil {
			c.bytes += len(value)
			c.details = append(c.details, key.String(string(value)))
		}
	}
	put(spans.InputMessagesKey, genaijson.AppendMessages(nil, t.redacted(req.Messages), c.detailsLeft(t.origin)-len(system)-len(tools)-quarter))
	put(spans.SystemInstructionsKey, system)
	put(spans.ToolDefinitionsKey, tools)
}

// redacted returns messages as they may leave. What the redactor changes is counted where they become blocks.
func (h *handle) redacted(messages []Message) [][]byte {
	list := make([][]byte, len(messages))
	for i := range messages {
		body, _ := h.tracer.config.redact(messages[i].piece())
		list[i] = validBytes(body)
	}
	return list
}

// valueView adds the preview of a JSON value of a tool call.
func (h *handle) valueView(key attribute.Key, place string, raw []byte, a *attrs) {
	if raw == nil || !h.previews() {
		return
	}
	body, _ := h.tracer.config.redact(Piece{Body: raw, JSON: true, Place: place})
	a.view(key, func(dst []byte) []byte { return genaijson.AppendValue(dst, validBytes(body), h.tracer.config.preview) })
}
