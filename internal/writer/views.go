package writer

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/spans"
)

// Previews are bounded attributes for views that read nothing but the standard keys. The tree is never made of them.

// previews reports whether previews are wanted.
func (o *origin) previews() bool {
	return o.capture == spans.CaptureContent && o.tracer.config.PreviewBytes > 0
}

// inputViews adds the preview of the messages of q that no earlier request of the run had. A retried attempt shows all
// messages that are new on its turn. Where the request goes on with a known history, its new messages of the assistant
// are replies, which the turns show that received them.
func (t *Turn) inputViews(q *outgoing, h *history, a *attrs) {
	if !t.previews() {
		return
	}
	same := min(q.begun, t.before)
	t.before = same
	if before := h.system; q.system != nil {
		if h.system = spans.BlockOf(q.system); h.system != before {
			a.view(spans.SystemInstructionsKey,
				genaijson.AppendSystem(nil, validBytes(q.system), t.tracer.config.PreviewBytes))
		}
	}
	shown := 0
	if same < q.count {
		fresh := make([]Message, 0, q.count-same)
		for i := same; i < q.count; i++ {
			if msg := q.message(i); same == 0 || genaijson.Role(msg.Role) != "assistant" {
				fresh = append(fresh, msg)
			}
		}
		preview, n := genaijson.AppendNew(nil, t.redacted(fresh), t.tracer.config.PreviewBytes, t.scope.run.hasResult)
		if shown = n; n > 0 {
			a.view(spans.InputMessagesKey, preview)
		}
	}
	a.count(spans.RequestMessagesOmittedKey, int64(q.count-shown))
}

// showsResult records that the span of a call shows its result, so that no preview of a request repeats it.
func (r *Run) showsResult(callID string) {
	r.shownMu.Lock()
	defer r.shownMu.Unlock()
	if callID != "" {
		r.shown.next(callID)
	}
}

// hasResult reports whether the span of a call shows its result.
func (r *Run) hasResult(callID string) bool {
	r.shownMu.Lock()
	defer r.shownMu.Unlock()
	return r.shown[callID] > 0
}

// view adds a preview.
func (a *attrs) view(key attribute.Key, preview []byte) { a.add(key.String(string(preview))) }

// replyViews adds the preview of the reply.
func (t *Turn) replyViews(res *TurnResult, a *attrs) {
	if t.previews() {
		raw := t.redacted([]Message{*res.Output})[0]
		a.view(spans.OutputMessagesKey,
			genaijson.AppendOutput(nil, raw, finishReason(res), t.tracer.config.PreviewBytes))
	}
}

// redacted returns messages as they may be sent. What the redactor changes is counted where they become blocks.
func (h *handle) redacted(messages []Message) [][]byte {
	list := make([][]byte, len(messages))
	for i := range messages {
		body, _ := h.tracer.config.redact(pieceOf(&messages[i]))
		list[i] = validBytes(body)
	}
	return list
}

// valueView adds the preview of a JSON value of a tool call.
func (h *handle) valueView(key attribute.Key, place string, raw []byte, a *attrs) {
	if raw == nil || !h.previews() {
		return
	}
	body, _ := h.tracer.config.redact(spans.Redactable{Body: raw, JSON: true, Place: place})
	a.view(key, genaijson.AppendValue(nil, validBytes(body), h.tracer.config.PreviewBytes))
}
