package otelagent

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/spans"
)

// What views show that read nothing but the standard keys: bounded previews as attributes, and with the encoding full the whole
// request and reply as the standard event. The tree is never made of previews.

// maxDetails bounds one value of the standard event: a request over gRPC takes 4 MiB in all.
const maxDetails = 1 << 20

// previews reports whether previews are wanted.
func (h *handle) previews() bool {
	return h.capture == CaptureContent && h.tracer.config.preview > 0
}

// inputViews adds the preview of what is new in a request whose first same messages were in one before.
func (t *Turn) inputViews(req *Request, same int, a *attrs) {
	if !t.previews() || same >= len(req.Messages) {
		return
	}
	a.view(spans.InputMessagesKey, func(dst []byte) []byte {
		return genaijson.AppendMessages(dst, t.redacted(req.Messages[same:]), t.tracer.config.preview)
	})
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
			genaijson.AppendOutput(nil, raw, finishReason(res), maxDetails))))
	}
}

// askFull keeps the request as the standard event. Of several attempts the last one stays.
func (t *Turn) askFull(req *Request) {
	c := &t.content
	put := func(key attribute.Key, value []byte) {
		c.bytes += len(value)
		c.details = append(c.details, key.String(string(value)))
	}
	c.details = append(c.details[:0], spans.OperationNameKey.String(operationTurn))
	if req.Model != "" {
		c.details = append(c.details, spans.RequestModelKey.String(cleanName(req.Model)))
	}
	put(spans.InputMessagesKey, genaijson.AppendMessages(nil, t.redacted(req.Messages), maxDetails))
	if req.System != nil {
		put(spans.SystemInstructionsKey, genaijson.AppendSystem(nil, c.redact(t.origin, Piece{Body: req.System, JSON: true, Place: placeSystem}), maxDetails))
	}
	if req.Tools != nil {
		put(spans.ToolDefinitionsKey, genaijson.AppendTools(nil, c.redact(t.origin, Piece{Body: req.Tools, JSON: true, Place: placeTools}), maxDetails))
	}
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
