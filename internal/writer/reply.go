package writer

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// ParseReply reads the reply of a model API; see otelagent.ParseReply.
func ParseReply(body []byte) (TurnResult, error) {
	body = bytes.TrimSpace(bytes.TrimPrefix(body, []byte("\uFEFF")))
	if bytes.HasPrefix(body, []byte("{")) {
		o, err := object.Parse(body)
		if first, _, more := bytes.Cut(body, []byte("\n")); err == nil && !streamed(o) {
			return readReply(o, body, nil)
		} else if err != nil && (!more || rawjson.Valid(first, object.MaxDepth) != nil) {
			return readReply(nil, nil, err)
		}
	}
	var r ReplyReader
	var err error
	switch {
	case len(body) == 0:
		err = fmt.Errorf("the body is empty: %w", io.ErrUnexpectedEOF)
	case body[0] == '[':
		for event := range array(body) {
			r.take(event)
		}
	default:
		r.Write(body, func([]byte) {})
		r.End()
	}
	if err == nil && r.events == 0 {
		err = errNoStream
	}
	return r.result(cmp.Or(err, r.first))
}

// readReply reads o, which is spelled whole, and may be nil; err is a problem of its events.
func readReply(o *object.Object, whole []byte, err error) (TurnResult, error) {
	var res TurnResult
	if o != nil {
		problem := errNoReply
		if res.reply(o, whole) {
			problem = firstProblem(o)
		}
		err = cmp.Or(err, problem)
	}
	if err != nil {
		var syntax *rawjson.SyntaxError
		if errors.As(err, &syntax) && syntax.Cut {
			err = fmt.Errorf("%w: %w", err, io.ErrUnexpectedEOF)
		}
		err = fmt.Errorf("otelagent: reply: %w", err)
	}
	return res, err
}

var errNoReply = errors.New("no reply of a known API: want one of the keys choices, candidates, output, error, " +
	"message with done, or content with type message or role assistant")

// firstProblem returns the first problem of o as an error; nil when there is none.
func firstProblem(o *object.Object) error {
	for _, p := range o.Problems() {
		return fmt.Errorf("%s: %s", cmp.Or(p.Path, "body"), p.Reason)
	}
	return nil
}

// reply reads o, which is spelled raw, and reports whether it is a whole reply.
func (res *TurnResult) reply(o *object.Object, raw []byte) bool {
	failed := o.Has("error")
	if failed {
		res.Failed, res.Error = true, errorText(o)
	}
	switch {
	case o.Has("choices"):
		res.openAIChat(o)
	case o.Has("candidates"), o.Has("promptFeedback"), o.Has("usageMetadata"):
		res.gemini(o)
	case o.Has("output"), o.Text("object") == "response":
		res.openAIResponse(o)
	case o.Has("message") && o.Has("done"):
		res.ollama(o)
	case o.Has("content") && o.Text("type") == "message":
		res.anthropic(o)
	case o.Has("content") && o.Text("role") == "assistant":
		res.phi(o, raw)
	default:
		return failed
	}
	return true
}

// errorText returns the message of the member error, after its type.
func errorText(o *object.Object) string {
	if text, ok := rawjson.String(o.Raw("error")); ok {
		return text
	}
	e := object.Of("", o.Raw("error")) // problems in it are none of the reply
	typ := e.String("type")
	if typ == "" || typ == "error" { // the type of an event of OpenAI's responses
		typ = cmp.Or(e.String("status"), e.String("code"))
	}
	return strings.TrimSuffix(strings.TrimPrefix(typ+": "+e.String("message"), ": "), ": ")
}

func (res *TurnResult) anthropic(o *object.Object) {
	res.Model, res.ResponseID, res.StopReason = o.String("model"), o.String("id"), o.String("stop_reason")
	res.Usage = UsageKeys{Input: "input_tokens", Output: "output_tokens",
		Reasoning: "output_tokens_details.thinking_tokens", CacheRead: "cache_read_input_tokens",
		CacheWrite: "cache_creation_input_tokens"}.Read(o.Object("usage"), spans.UsageRuleExcludesCache)
	raw := append([]byte(`{"role":`), cmp.Or(string(o.Raw("role")), `"assistant"`)...)
	raw = append(append(raw, `,"content":`...), o.Raw("content")...)
	res.output(append(raw, '}'))
}

func (res *TurnResult) openAIChat(o *object.Object) {
	res.Model, res.ResponseID = o.String("model"), o.String("id")
	res.Usage = UsageKeys{Input: "prompt_tokens", Output: "completion_tokens",
		Reasoning: "completion_tokens_details.reasoning_tokens", CacheRead: "prompt_tokens_details.cached_tokens",
		Total: "total_tokens"}.Read(o.Object("usage"), spans.UsageRuleIncludesCache)
	if choice := first(o, "choices"); choice != nil {
		res.StopReason = choice.String("finish_reason")
		choice.Object("message")
		res.output(choice.Raw("message"))
	}
}

func (res *TurnResult) openAIResponse(o *object.Object) {
	res.Model, res.ResponseID, res.StopReason = o.String("model"), o.String("id"), o.String("status")
	switch res.StopReason {
	case "in_progress", "queued":
		res.StopReason = ""
	case "incomplete":
		res.StopReason = cmp.Or(o.Object("incomplete_details").String("reason"), res.StopReason)
	case "failed":
		res.Failed = true
	case "cancelled":
		res.Failed, res.Cancelled = true, true
	}
	res.Usage = UsageKeys{Input: "input_tokens", Output: "output_tokens",
		Reasoning: "output_tokens_details.reasoning_tokens", CacheRead: "input_tokens_details.cached_tokens",
		Total: "total_tokens"}.Read(o.Object("usage"), spans.UsageRuleIncludesCache)
	if len(o.List("output")) > 0 {
		res.output(o.Raw("output"))
		res.Output.Role = "assistant"
	}
}

func (res *TurnResult) gemini(o *object.Object) {
	res.Model, res.ResponseID = o.String("modelVersion"), o.String("responseId")
	u := o.Object("usageMetadata")
	res.Usage = UsageKeys{Input: "promptTokenCount", Output: "candidatesTokenCount", Reasoning: "thoughtsTokenCount",
		CacheRead: "cachedContentTokenCount", Total: "totalTokenCount"}.Read(u, spans.UsageRuleExcludesReasoning)
	// Tokens of the prompt that tools of the API wrote are apart from those of the request.
	if n := u.Count("toolUsePromptTokenCount"); n != nil && res.Usage != nil {
		res.Usage.Input = spans.AddCounts(res.Usage.Input, *n)
	}
	res.StopReason = o.Object("promptFeedback").String("blockReason")
	if candidate := first(o, "candidates"); candidate != nil {
		res.StopReason = cmp.Or(candidate.String("finishReason"), res.StopReason)
		candidate.Object("content")
		res.output(candidate.Raw("content"))
	}
}

func (res *TurnResult) ollama(o *object.Object) {
	res.Model, res.StopReason = o.String("model"), o.String("done_reason")
	res.Usage = UsageKeys{Input: "prompt_eval_count", Output: "eval_count"}.Read(o, spans.UsageRuleIncludesCache)
	if res.Usage != nil { // a server states no count of a prompt that it finds in its cache
		res.Usage.LowerBound = !o.Has("prompt_eval_count")
	}
	o.Object("message")
	res.output(o.Raw("message"))
}

func (res *TurnResult) phi(o *object.Object, raw []byte) {
	res.Model, res.StopReason, res.Error = o.String("model"), o.String("stopReason"), o.String("error_message")
	if res.Provider = o.String("provider"); res.Provider == "unknown" { // of a call that failed before it began
		res.Provider = ""
	}
	res.Failed = res.StopReason == "error" || res.StopReason == "aborted"
	res.Cancelled = res.StopReason == "aborted" || res.Failed && res.Error == "Cancelled"
	rule := spans.UsageRuleIncludesCache
	if res.Provider == "anthropic" {
		rule = spans.UsageRuleExcludesCache
	}
	res.Usage = UsageKeys{Input: "input", Output: "output", Reasoning: "reasoning", CacheRead: "cache_read",
		CacheWrite: "cache_write", Total: "total_tokens"}.Read(o.Object("usage"), rule)
	res.output(raw)
	if ms := o.Count("timestamp"); ms != nil {
		if t := time.UnixMilli(*ms).UTC(); t.Year() >= 1678 && t.Year() < 2262 {
			res.Output.Time = t
		}
	}
}

// output sets the message of the reply, where there is one.
func (res *TurnResult) output(raw []byte) {
	if raw != nil {
		res.Output = &Message{Raw: raw}
		res.Output.Role, _ = genaijson.Heading(raw)
	}
}

// first returns the element of an array of objects whose index is 0 or not stated; nil when there is none.
func first(o *object.Object, key string) *object.Object {
	for i, raw := range o.List(key) {
		place := object.Element(key, i)
		if raw[0] != '{' {
			o.Fail(place, "want an object, got "+rawjson.KindOf(raw))
			continue
		}
		e := o.Inner(place, raw)
		if at := e.Count("index"); at == nil || *at == 0 {
			return e
		}
	}
	return nil
}
