package writer

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Previews of what is no message: a decision, a compaction, an error. Views of GenAI spans show nothing of them
// otherwise.

// added returns the value of a key that was added, empty without one.
func (a *attrs) added(key attribute.Key) string {
	for i := len(a.kv) - 1; i >= 0; i-- {
		if a.kv[i].Key == key {
			return a.kv[i].Value.AsString()
		}
	}
	return ""
}

// decisionView adds the preview of a decision as the result of a tool call, made of what was added of it.
func (a *attrs) decisionView(wait time.Duration) {
	if !a.origin.previews() {
		return
	}
	raw := []byte{'{'}
	for _, f := range [...]struct {
		name string
		key  attribute.Key
	}{{"action", spans.PermissionActionKey}, {"pattern", spans.PermissionPatternKey},
		{"source", spans.PermissionSourceKeyKey}, {"reason", spans.PermissionReasonKey},
		{"decided_by", spans.PermissionDecidedByKey}, {"outcome", spans.PermissionOutcomeKey}} {
		if value := a.added(f.key); value != "" {
			raw = append(rawjson.Quote(append(rawjson.Quote(raw, f.name), ':'), value), ',')
		}
	}
	if wait > 0 {
		raw = fmt.Appendf(raw, `"wait":"%v",`, wait)
	}
	raw = append(bytes.TrimSuffix(raw, []byte{','}), '}')
	a.valueView(spans.ToolCallResultKey, raw)
}

// said is a message of the assistant with these texts.
func said(texts ...string) []byte {
	b := []byte(`{"role":"assistant","content":[`)
	for _, text := range texts {
		b = append(rawjson.Quote(append(b, `{"type":"text","text":`...), cleanText(text)), "},"...)
	}
	return append(b[:len(b)-1], "]}"...)
}

// compactionView adds the preview of a compaction as a message: how much it left of how much, and what replaced the
// messages, of which summary may be sent.
func (c *Compacting) compactionView(res *CompactionResult, summary []byte, a *attrs) {
	var figures []string
	figures = appendChange(figures, "messages", cmp.Or(res.MessagesBefore, c.messagesBefore), res.MessagesAfter)
	figures = appendChange(figures, "tokens", cmp.Or(res.InputTokens, c.inputTokens), res.OutputTokens)
	if reason := a.added(spans.CompactionReasonKey); reason != "" {
		figures = append(figures, reason)
	}
	texts := []string{c.kind + ": " + strings.Join(figures, ", ")}
	if summary != nil {
		text, ok := rawjson.String(bytes.TrimSpace(summary))
		if !ok {
			text = string(summary)
		}
		texts = append(texts, text)
	}
	a.replyView(said(texts...), "stop")
}

// appendChange appends what became of a count, as far as it is known.
func appendChange(figures []string, what string, before, after *int64) []string {
	switch {
	case before != nil && after != nil:
		return append(figures, fmt.Sprintf("%s %d → %d", what, *before, *after))
	case before != nil:
		return append(figures, fmt.Sprintf("%s before %d", what, *before))
	case after != nil:
		return append(figures, fmt.Sprintf("%s after %d", what, *after))
	}
	return figures
}

// errorView adds the error of a failed turn to the preview of its reply, unless that shows it.
func (t *Turn) errorView(a *attrs) {
	text := a.added(spans.ErrorMessageKey)
	if text == "" || !t.previews() {
		return
	}
	preview := a.added(spans.OutputMessagesKey)
	if quoted := rawjson.Quote(nil, text); strings.Contains(preview, string(quoted[1:len(quoted)-1])) {
		return
	}
	failure := string(genaijson.AppendOutput(nil, said(text), "error", t.tracer.config.PreviewBytes))
	if rest, ok := strings.CutSuffix(preview, "]"); ok && rest != "[" {
		failure = rest + "," + failure[1:]
	}
	a.kv = append(a.kv, spans.OutputMessagesKey.String(failure))
}

// maxDescription bounds the description of a status.
const maxDescription = 256

// description is that of the status of what failed: the error as far as it may be sent, else its class.
func (a *attrs) description(failed spans.ErrorType) string {
	for _, key := range [...]attribute.Key{spans.ErrorMessageKey, spans.RunRejectionKey} {
		if text := a.added(key); text != "" {
			return cutName(text, maxDescription)
		}
	}
	return string(failed)
}
