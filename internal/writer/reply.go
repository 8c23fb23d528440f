package writer

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// ParseReply reads the reply of a model API; see otelagent.ParseReply.
func ParseReply(body []byte) (TurnResult, error) {
	var res TurnResult
	o, whole, err := wholeReply(body)
	switch {
	case o == nil:
	case res.reply(o, whole):
		err = cmp.Or(err, firstProblem(o))
	default:
		err = cmp.Or(err, errNoReply)
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
	"or content with type message or role assistant")

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
	case o.Has("output"), isText(o, "object", "response"):
		res.openAIResponse(o)
	case o.Has("content") && isText(o, "type", "message"):
		res.anthropic(o)
	case o.Has("content") && isText(o, "role", "assistant"):
		res.phi(o, raw)
	default:
		return failed
	}
	return true
}

// isText reports whether a member is that string.
func isText(o *object.Object, key, want string) bool {
	s, ok := rawjson.String(o.Raw(key))
	return ok && s == want
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
	res.Usage = usageOf(o.Object("usage"), spans.UsageRuleExcludesCache, [...]string{"input_tokens", "output_tokens",
		"output_tokens_details.thinking_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", ""})
	raw := append([]byte(`{"role":`), cmp.Or(string(o.Raw("role")), `"assistant"`)...)
	raw = append(append(raw, `,"content":`...), o.Raw("content")...)
	res.output(append(raw, '}'))
}

func (res *TurnResult) openAIChat(o *object.Object) {
	res.Model, res.ResponseID = o.String("model"), o.String("id")
	res.Usage = usageOf(o.Object("usage"), spans.UsageRuleIncludesCache, [...]string{"prompt_tokens", "completion_tokens",
		"completion_tokens_details.reasoning_tokens", "prompt_tokens_details.cached_tokens", "", "total_tokens"})
	if choice := first(o, "choices"); choice != nil {
		res.StopReason = choice.String("finish_reason")
		choice.Object("message")
		res.output(choice.Raw("message"))
	}
}

func (res *TurnResult) openAIResponse(o *object.Object) {
	res.Model, res.ResponseID, res.StopReason = o.String("model"), o.String("id"), o.String("status")
	switch res.StopReason {
	case "incomplete":
		res.StopReason = cmp.Or(o.Object("incomplete_details").String("reason"), res.StopReason)
	case "failed":
		res.Failed = true
	case "cancelled":
		res.Failed, res.Cancelled = true, true
	}
	res.Usage = usageOf(o.Object("usage"), spans.UsageRuleIncludesCache, [...]string{"input_tokens", "output_tokens",
		"output_tokens_details.reasoning_tokens", "input_tokens_details.cached_tokens", "", "total_tokens"})
	if len(o.List("output")) > 0 {
		res.output(o.Raw("output"))
		res.Output.Role = "assistant"
	}
}

func (res *TurnResult) gemini(o *object.Object) {
	res.Model, res.ResponseID = o.String("modelVersion"), o.String("responseId")
	u := o.Object("usageMetadata")
	res.Usage = usageOf(u, spans.UsageRuleExcludesReasoning, [...]string{"promptTokenCount", "candidatesTokenCount",
		"thoughtsTokenCount", "cachedContentTokenCount", "", "totalTokenCount"})
	// Tokens of the prompt that tools of the API wrote stand apart from those of the request.
	if n := u.Count("toolUsePromptTokenCount"); n != nil && res.Usage != nil {
		res.Usage.Input = plus(res.Usage.Input, *n)
	}
	res.StopReason = o.Object("promptFeedback").String("blockReason")
	if candidate := first(o, "candidates"); candidate != nil {
		res.StopReason = cmp.Or(candidate.String("finishReason"), res.StopReason)
		candidate.Object("content")
		res.output(candidate.Raw("content"))
	}
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
	res.Usage = usageOf(o.Object("usage"), rule,
		[...]string{"input", "output", "reasoning", "cache_read", "cache_write", "total_tokens"})
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
		place := key + "[" + strconv.Itoa(i) + "]"
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

// usageOf returns the counts of a usage, whose keys are in the order of Usage. OBJECT.KEY is a count of an object in
// it, an empty key none. It is nil when none of the counts is stated, or one of them is no count.
func usageOf(o *object.Object, rule spans.UsageRule, keys [6]string) *Usage {
	var n [len(keys)]int64
	failed, found := o.Failed(), false
	for i, key := range keys {
		in := o
		if outer, inner, ok := strings.Cut(key, "."); ok {
			in, key = o.Object(outer), inner
		}
		if count := in.Count(key); count != nil {
			n[i], found = *count, true
		}
	}
	if !found || o.Failed() > failed {
		return nil
	}
	return &Usage{Input: n[0], Output: n[1], Reasoning: n[2], CacheRead: n[3], CacheWrite: n[4], Total: n[5], Rule: rule}
}
