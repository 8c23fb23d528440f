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
	var fresh [][]byte
	for i := same; i < q.count; i++ {
		if same == 0 || genaijson.Role(q.message(i).Role) != "assistant" {
			fresh = append(fresh, q.text(i))
		}
	}
	preview, shown := genaijson.AppendNew(nil, fresh, t.tracer.config.PreviewBytes, t.scope.run.hasResult)
	if shown > 0 {
		a.view(spans.InputMessagesKey, preview)
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

// replyView adds the preview of a reply, of which text may be sent.
func (a *attrs) replyView(text []byte, finishReason string) {
	if a.origin.previews() {
		a.view(spans.OutputMessagesKey,
			genaijson.AppendOutput(nil, text, finishReason, a.origin.tracer.config.PreviewBytes))
	}
}

// valueView adds the preview of a JSON value, of which text may be sent; nothing of nil.
func (a *attrs) valueView(key attribute.Key, text []byte) {
	if text != nil && a.origin.previews() {
		a.view(key, genaijson.AppendValue(nil, text, a.origin.tracer.config.PreviewBytes))
	}
}
