package oteleino

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// Who asks for permission, and who answers.
const (
	byTool spans.PermissionSource = "tool"
	byUser spans.PermissionSource = "user"
)

// toolCall is one call of a tool.
type toolCall struct {
	*otelagent.Tool
	turn   *turn // nil in a run that was resumed
	id     string
	denied bool
	nested atomic.Bool // an agent ran in it, so an interrupt of it asks nothing new
}

func (h *Handler) startTool(ctx context.Context, info *callbacks.RunInfo, in *tool.CallbackInput) context.Context {
	r := within(ctx)
	if r == nil {
		return ctx // a tool that the program calls by itself
	}
	c := &toolCall{id: compose.GetToolCallID(ctx)}
	f := &frame{info: info, run: r, tool: c}
	var args []byte
	if in != nil {
		if args = []byte(in.ArgumentsInJSON); !json.Valid(args) {
			args = raw(in.ArgumentsInJSON)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.turn = r.turnOf(c.id); c.turn != nil {
		c.turn.running++
		ctx, c.Tool = c.turn.StartTool(ctx, otelagent.ToolCall{ID: c.id, Name: info.Name, Args: args})
	} else {
		var t *writer.Tool
		ctx, t = (*writer.Run)(r.started()).StartTool(ctx, writer.ToolCall{ID: c.id, Name: info.Name, Args: args})
		c.Tool = (*otelagent.Tool)(t)
	}
	r.tools = append(r.tools, c)
	if target, has, data := tool.GetResumeContext[any](ctx); target && has {
		if approved, known := decision(data); known {
			action := spans.ActionDeny
			if approved {
				action = spans.ActionAllow
			}
			c.denied = !approved
			c.permission(ctx, action, byUser, "")
		}
	}
	return context.WithValue(ctx, frameKey{}, f)
}

func (c *toolCall) permission(ctx context.Context, action spans.Action, source spans.PermissionSource, reason string) {
	writer.Decide(ctx, (*writer.Tool)(c.Tool), writer.PermissionEvaluation{Action: action, Source: source, Reason: reason})
}

// decision returns what the data of a resumption says about an approval.
func decision(data any) (approved, known bool) {
	v := reflect.ValueOf(data)
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.Struct:
		f, _ := v.Type().FieldByName("Approved")
		v, _ = v.FieldByIndexErr(f.Index) // an error where it is in an embedded struct that is nil
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return false, false
		}
		var found reflect.Value
		for _, key := range v.MapKeys() {
			if strings.EqualFold(key.String(), "approved") {
				found = v.MapIndex(key)
			}
		}
		if v = found; v.Kind() == reflect.Interface {
			v = v.Elem()
		}
	}
	if v.Kind() != reflect.Bool {
		return false, false
	}
	return v.Bool(), true
}

// result is what a tool returned, or the pieces of it so far.
type result struct {
	text  strings.Builder
	parts []schema.ToolOutputPart
}

func (l *result) add(out *tool.CallbackOutput) {
	if out == nil {
		return
	}
	l.text.WriteString(out.Response)
	if out.ToolOutput != nil {
		l.parts = append(l.parts, out.ToolOutput.Parts...)
	}
}

func (l *result) json() []byte {
	if len(l.parts) > 0 {
		return raw(l.parts)
	}
	return raw(l.text.String())
}

// returned records the end of a tool call.
func (r *run) returned(ctx context.Context, c *toolCall, l *result, err error) {
	res := otelagent.ToolResult{Err: err}
	switch {
	case interrupted(err):
		res = otelagent.ToolResult{Outcome: spans.OutcomeSkipped}
		if info, _ := compose.IsInterruptRerunError(err); !c.nested.Load() {
			reason := ""
			if info != nil {
				reason = fmt.Sprint(info)
			}
			c.permission(ctx, spans.ActionAsk, byTool, reason)
		}
	case err == nil:
		res.Result = l.json()
		if c.denied {
			res.Outcome = spans.OutcomeDenied
		}
	}
	c.End(res)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tools = slices.DeleteFunc(r.tools, func(x *toolCall) bool { return x == c })
	if c.turn == nil {
		return
	}
	c.turn.running--
	c.turn.wanted = slices.DeleteFunc(c.turn.wanted, func(id string) bool { return id == c.id })
	r.settle(c.turn, false)
}
