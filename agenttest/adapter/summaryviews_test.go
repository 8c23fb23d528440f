package adapter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	api "go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// TestStatusDescription holds the description of a failed span: the error's text only where content is captured, redacted and bounded.
func TestStatusDescription(t *testing.T) {
	long := strings.Repeat("x", 300)
	play := func(tracer *writer.Tracer, _ api.Tracer) {
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		_, turn := run.StartTurn(ctx, writer.TurnInfo{})
		_, tool := turn.StartTool(ctx, writer.ToolCall{})
		tool.End(writer.ToolResult{Outcome: spans.OutcomeError, Error: "no SECRET here"})
		turn.End(writer.TurnResult{Failed: true, Error: long})
		run.End(writer.RunResult{Status: spans.RunStatusError})
		_, run = tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		run.End(writer.RunResult{Status: spans.RunStatusRejected, Rejection: "too rude"})
		ctx, run = tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		_, turn = run.StartTurn(ctx, writer.TurnInfo{})
		turn.End(writer.TurnResult{Failed: true})
		_, turn = run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(1))})
		turn.End(writer.TurnResult{})
		run.End(writer.RunResult{Status: spans.RunStatusError, Error: "out of budget"})
	}
	content := []otelagent.Option{otelagent.WithCapture(otelagent.CaptureContent), otelagent.WithRedactor(&shout{})}
	for _, tt := range []struct {
		name string
		opts []otelagent.Option
		want map[string][]string
	}{
		{"none", nil, map[string][]string{
			spans.SpanRun:  {"provider_error/provider_error", "rejected/rejected", "_OTHER/_OTHER"},
			spans.SpanTurn: {"provider_error/provider_error", "provider_error/provider_error", "/"}, spans.SpanToolCall: {"tool_error/tool_error"},
		}},
		{"digests", []otelagent.Option{otelagent.WithCapture(otelagent.CaptureDigests)}, map[string][]string{
			spans.SpanRun:  {"provider_error/provider_error", "rejected/rejected", "_OTHER/_OTHER"},
			spans.SpanTurn: {"provider_error/provider_error", "provider_error/provider_error", "/"}, spans.SpanToolCall: {"tool_error/tool_error"},
		}},
		{"content", content, map[string][]string{
			spans.SpanRun:  {"provider_error/provider_error", "rejected/too rude", "_OTHER/out of budget"},
			spans.SpanTurn: {"provider_error/" + long[:256], "provider_error/provider_error", "/"}, spans.SpanToolCall: {"tool_error/no [redacted:word] here"},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := map[string][]string{}
			for name, list := range traced(t, tt.opts, play) {
				for _, s := range list {
					got[name] = append(got[name], strOf(s, spans.ErrorTypeKeyKey)+"/"+s.Status.Description)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("error.type/description (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSummaryViews holds what GenAI views show of what is no message, and that none of it is sent without content or
// previews.
func TestSummaryViews(t *testing.T) {
	play := func(tracer *writer.Tracer, _ api.Tracer) {
		ctx, run := tracer.StartRun(t.Context(), writer.RunInfo{SessionID: "s"})
		_, turn := run.StartTurn(ctx, writer.TurnInfo{})
		turn.Permission(ctx, writer.PermissionEvaluation{Tool: "bash", Action: spans.ActionDeny, Pattern: "rm *", Source: spans.PermissionSourceProject,
			Reason: "SECRET", Wait: 1500 * time.Millisecond})
		_, c := turn.StartCompaction(ctx, writer.Compaction{MessagesBefore: new(int64(40)), InputTokens: new(int64(9000))})
		c.End(writer.CompactionResult{MessagesAfter: new(int64(6)), Reason: "full", Summary: []byte(`"The \"gist\""`)})
		turn.End(writer.TurnResult{Failed: true, Error: "overloaded", Output: &writer.Message{Raw: []byte(`{"role":"assistant","content":"Let me"}`)}})
		_, turn = run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(1))})
		turn.End(writer.TurnResult{Failed: true, Error: "overloaded"})
		_, turn = run.StartTurn(ctx, writer.TurnInfo{Index: new(int64(2))})
		turn.End(writer.TurnResult{Failed: true, Error: "it \"broke\"", Output: &writer.Message{
			Raw: []byte(`{"role":"assistant","content":"Sorry, it \"broke\"."}`)}})
		run.End(writer.RunResult{})
	}
	views := func(opts ...otelagent.Option) []string {
		var out []string
		got := traced(t, opts, play)
		for _, name := range []string{spans.SpanPermission, spans.SpanCompaction, spans.SpanTurn} {
			for _, s := range got[name] {
				out = append(out, strOf(s, spans.ToolCallResultKey)+strOf(s, spans.OutputMessagesKey))
			}
		}
		return out
	}
	say := func(texts, finish string) string {
		return `{"role":"assistant","parts":[` + texts + `],"finish_reason":"` + finish + `"}`
	}
	text := func(s string) string { return `{"type":"text","content":"` + s + `"}` }
	want := []string{
		`{"action":"deny","pattern":"rm *","source":"project","reason":"[redacted:word]","wait":"1.5s"}`,
		"[" + say(text("summary: messages 40 → 6, tokens before 9000, full")+","+text(`The \"gist\"`), "stop") + "]",
		"[" + say(text("Let me"), "error") + "," + say(text("overloaded"), "error") + "]",
		"[" + say(text("overloaded"), "error") + "]",
		"[" + say(text(`Sorry, it \"broke\".`), "error") + "]",
	}
	content, redacted := otelagent.WithCapture(otelagent.CaptureContent), otelagent.WithRedactor(&shout{})
	if diff := cmp.Diff(want, views(content, redacted)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, opts := range map[string][]otelagent.Option{
		"none": nil, "digests": {otelagent.WithCapture(otelagent.CaptureDigests)}, "no previews": {content, func(c *writer.Config) { c.PreviewBytes = -1 }},
	} {
		if got := views(opts...); strings.Join(got, "") != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
