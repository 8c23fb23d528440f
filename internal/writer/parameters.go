package writer

import (
	"cmp"
	"fmt"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// parameters reads the members of a request that are no messages, system prompt or tools into the fields that are not
// set. The error is the first problem.
func (r *Request) parameters(o *object.Object) error {
	r.bounds(o, "max_tokens", "max_completion_tokens", "max_output_tokens")
	r.Model = cmp.Or(r.Model, o.String("model"), o.String("model_id"))
	r.Level = cmp.Or(r.Level, o.String("reasoning_effort"), o.String("thinking_level"),
		inner(o, "reasoning").String("effort"), inner(o, "output_config").String("effort"),
		o.Text("think"))
	r.bounds(inner(o, "options"), "num_predict") // of Ollama, as are think and format
	format := inner(o, "response_format")
	r.Format = cmp.Or(r.Format, o.Text("response_format"), format.String("type"), format.String("kind"),
		inner(inner(o, "text"), "format").String("type"), o.Text("format"))
	if inner(o, "format") != nil {
		r.Format = cmp.Or(r.Format, "json_schema")
	}
	for _, key := range []string{"generationConfig", "generation_config"} { // of Gemini, in its two spellings
		g := o.Object(key)
		r.bounds(g, "maxOutputTokens", "max_output_tokens")
		r.Level = cmp.Or(r.Level, inner(g, "thinkingConfig").String("thinkingLevel"),
			inner(g, "thinking_config").String("thinking_level"))
		r.Format = cmp.Or(r.Format, g.String("responseMimeType"), g.String("response_mime_type"))
	}
	if r.Format == "text/plain" {
		r.Format = "text"
	}
	for _, key := range []string{"messages", "input", "contents"} {
		switch value := o.Raw(key); {
		case value == nil || r.Messages != nil:
		case value[0] == '[':
			o.Fail(key, fmt.Sprintf("more than %d elements", maxRequestMessages))
		case value[0] == '"' && key == "input": // of OpenAI's responses
			r.Messages = []Message{{Raw: value, Role: "user"}}
		default:
			o.Fail(key, "want an array, got "+rawjson.KindOf(value))
		}
	}
	return firstProblem(o)
}

// bounds reads the temperature and the most tokens of the reply, which are under one of keys.
func (r *Request) bounds(o *object.Object, keys ...string) {
	if t := o.Float("temperature"); r.Temperature == nil {
		r.Temperature = t
	}
	for _, key := range keys {
		if n := o.Int(key); r.MaxTokens == nil {
			r.MaxTokens = n
		}
	}
}

// inner returns a member that is an object; nil when it is another value, which is no problem.
func inner(o *object.Object, key string) *object.Object {
	if value := o.Raw(key); value != nil && value[0] == '{' {
		return o.Object(key)
	}
	return nil
}
