package replay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Answer is what a model answered, in whichever form it came.
type Answer struct {
	Form  Form   `json:"form,omitempty"` // empty of one that was recorded
	ID    string `json:"id,omitempty"`
	Model string `json:"model,omitempty"`
	// Text is all that it said, with a line feed between two blocks; Reasoning likewise.
	Text      string `json:"text"`
	Reasoning string `json:"reasoning,omitempty"`
	Calls     []Call `json:"calls,omitempty"`
	// Other names kinds of blocks that are none of these.
	Other      []string `json:"other,omitempty"`
	StopReason string   `json:"stop_reason,omitempty"`
	// Usage is normalised as everywhere: input includes cached tokens, output includes reasoning. Nil where none was told.
	Usage *session.Usage `json:"usage,omitempty"`
}

// Call is one tool call that a model asked for.
type Call struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args session.RawJSON `json:"args"`
}

// ErrNoAnswer is the error about a body that is no answer of any of the three forms.
var ErrNoAnswer = errors.New("replay: the body is no answer of a form that is known")

// A ProviderError is an answer that says what went wrong. Its text is the provider's.
type ProviderError struct {
	Type, Message string
}

func (e *ProviderError) Error() string {
	return strings.TrimSuffix(strings.TrimPrefix(e.Type+": "+e.Message, ": "), ": ")
}

// ParseAnswer reads the body of an answer that came in one piece, told apart by its words. The error is ErrNoAnswer or a *ProviderError.
func ParseAnswer(body []byte) (*Answer, error) {
	if rawjson.Valid(body, rawjson.MaxDepth) != nil {
		return nil, ErrNoAnswer
	}
	o := asObject(body)
	if e := asObject(o["error"]); e != nil {
		return nil, &ProviderError{Type: e.str("type", "code", "status"), Message: e.str("message")}
	}
	if s := o.str("error"); s != "" { // of servers that speak the form by half
		return nil, &ProviderError{Message: s}
	}
	a := &Answer{ID: o.str("id"), Model: o.str("model")}
	var r reader
	u := asObject(o["usage"])
	switch {
	case isArray(o["choices"]) && len(elements(o["choices"])) > 0:
		a.Form = OpenAIChat
		choices := elements(o["choices"])
		first := asObject(choices[0])
		a.StopReason = first.str("finish_reason")
		if m := first["message"]; m != nil {
			r.message(0, m)
		}
		if len(choices) > 1 {
			a.Other = append(a.Other, count(len(choices)-1, "more choice"))
		}
		if u != nil {
			a.Usage = &session.Usage{Input: number(u["prompt_tokens"]), Output: number(u["completion_tokens"]),
				Reasoning: number(asObject(u["completion_tokens_details"])["reasoning_tokens"]), CacheRead: number(asObject(u["prompt_tokens_details"])["cached_tokens"])}
		}
	case isArray(o["output"]):
		a.Form = OpenAIResponses
		a.StopReason = o.str("status")
		if s := asObject(o["incomplete_details"]).str("reason"); s != "" {
			a.StopReason = s
		}
		for i, item := range elements(o["output"]) {
			r.message(i, item)
		}
		if u != nil {
			a.Usage = &session.Usage{Input: number(u["input_tokens"]), Output: number(u["output_tokens"]),
				Reasoning: number(asObject(u["output_tokens_details"])["reasoning_tokens"]), CacheRead: number(asObject(u["input_tokens_details"])["cached_tokens"])}
		}
	case isArray(o["content"]) && o.str("type") == "message":
		a.Form = Anthropic
		a.StopReason = o.str("stop_reason")
		r.message(0, body)
		if u != nil {
			a.Usage = &session.Usage{Output: number(u["output_tokens"]), CacheRead: number(u["cache_read_input_tokens"]), CacheWrite: number(u["cache_creation_input_tokens"])}
			a.Usage.Input = number(u["input_tokens"])
			a.Usage.Add(session.Usage{Input: a.Usage.CacheRead})
			a.Usage.Add(session.Usage{Input: a.Usage.CacheWrite})
			a.Usage.Reasoning = number(asObject(u["output_tokens_details"])["thinking_tokens"])
		}
	default:
		return nil, ErrNoAnswer
	}
	a.take(r.out.messages)
	return a, nil
}

// number returns a count of tokens; 0 for what is none.
func number(raw []byte) int64 {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// take takes what messages say.
func (a *Answer) take(messages []message) {
	var texts, thoughts []string
	for _, m := range messages {
		for _, p := range m.parts {
			switch p.kind {
			case text:
				texts = append(texts, p.text)
			case thinking:
				if p.text != "" {
					thoughts = append(thoughts, p.text)
				}
			case call:
				args := p.args
				if args == nil {
					args = []byte("{}")
				}
				a.Calls = append(a.Calls, Call{ID: p.id, Name: p.name, Args: session.RawJSON(args)})
			case result: // another message's
			default:
				a.Other = append(a.Other, p.what())
			}
		}
	}
	a.Text, a.Reasoning = strings.Join(texts, "\n"), strings.Join(thoughts, "\n")
}

// Recorded returns what was answered on a turn, as far as it was captured; whole is false when a piece of it is not there. It is nil where
// nothing of it is.
func Recorded(turn *session.Turn, blocks *session.BlockSet) (a *Answer, whole bool) {
	if turn.Output.Len() == 0 {
		return nil, false
	}
	a = &Answer{Model: turn.Answered, ID: turn.ResponseID, StopReason: turn.StopReason}
	if turn.Usage != (session.Usage{}) {
		u := turn.Usage
		a.Usage = &u
	}
	c := blocks.Read(turn.Output)
	var r reader
	found := false
	for i, body := range c.Bodies {
		if rawjson.Valid([]byte(body), rawjson.MaxDepth) == nil {
			r.message(i, []byte(body))
			found = true
		}
	}
	if !found {
		return nil, false
	}
	a.take(r.out.messages)
	return a, c.Whole() && turn.Output.Complete
}

// ResultText returns what a model sees of a tool result, in whichever spelling, with a line feed between two blocks, and whether it is an error.
// What has no content in it is its own text. ok is false for what is no JSON.
func ResultText(body []byte) (s string, isError, ok bool) {
	if rawjson.Valid(body, rawjson.MaxDepth) != nil {
		return "", false, false
	}
	var r reader
	o := asObject(body)
	var parts []part
	switch {
	case o.has("content", "output", "response"):
		p := r.result(o, body)
		parts, isError = p.parts, p.isError
	case isArray(body) && blockList(body):
		parts = r.contents(body)
	default:
		parts = outputOf(body)
	}
	var out []string
	for _, p := range parts {
		if p.kind == text {
			out = append(out, p.text)
		} else {
			out = append(out, fmt.Sprintf("[%s]", p.what()))
		}
	}
	return strings.Join(out, "\n"), isError, true
}
