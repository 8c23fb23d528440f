package otelllmhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"hash/maphash"
	"io"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/internal/genaijson"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/writer"
)

// modelPaths are the ends of the paths of requests that ask a model. Which API a body is of, its keys say.
var modelPaths = []string{"/messages", "/chat/completions", "/responses", ":generateContent", ":streamGenerateContent",
	":rawPredict", ":streamRawPredict", "/api/chat"}

// providers are the names of OpenTelemetry's conventions, by the end of the host. Another host has no known provider.
var providers = [][2]string{
	{"api.anthropic.com", "anthropic"}, {".openai.azure.com", "azure.ai.openai"}, {"api.openai.com", "openai"},
	{"generativelanguage.googleapis.com", "gcp.gemini"}, {"aiplatform.googleapis.com", "gcp.vertex_ai"},
	{"api.mistral.ai", "mistral_ai"}, {"api.groq.com", "groq"}, {"api.deepseek.com", "deepseek"}, {"api.x.ai", "x_ai"},
	{"api.perplexity.ai", "perplexity"}, {"api.cohere.com", "cohere"},
}

// asksModel reports whether the path of a request is one of a model call.
func asksModel(r *http.Request) bool {
	return r.Method == http.MethodPost && r.URL != nil && r.Body != nil && r.Body != http.NoBody &&
		r.ContentLength <= maxBody &&
		slices.ContainsFunc(modelPaths, func(end string) bool { return strings.HasSuffix(r.URL.Path, end) })
}

func providerOf(host string) string {
	for _, p := range providers {
		if strings.HasSuffix(host, p[0]) {
			return p[1]
		}
	}
	return ""
}

// takenKey is the key of the context of a request that a Transport took.
type takenKey struct{}

// readBody returns a copy of r with a body that can be read, and the bytes of it; nil where it is larger than maxBody.
// It closes the body of r, unless it passes that on.
func readBody(r *http.Request) (*http.Request, []byte, error) {
	var b bytes.Buffer
	b.Grow(int(max(r.ContentLength, 0)) + bytes.MinRead)
	_, err := b.ReadFrom(io.LimitReader(r.Body, maxBody+1))
	passed := r.WithContext(context.WithValue(r.Context(), takenKey{}, true))
	if err == nil && b.Len() > maxBody {
		passed.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(&b, r.Body), r.Body}
		return passed, nil, nil
	}
	_ = r.Body.Close() // it was read
	passed.Body = io.NopCloser(bytes.NewReader(b.Bytes()))
	return passed, b.Bytes(), err
}

// request is what a model call asks, as far as it says which conversation it belongs to.
type request struct {
	writer.Request
	provider string
	// prefixes are hashes of the first 0, 1, … of the messages.
	prefixes []uint64
	// previous is the response or the stored conversation that the request goes on with.
	previous string
	// answers are the results of tools among the messages after the last one of the model, user reports whether a user
	// speaks there.
	answers []genaijson.Part
	user    bool
}

// parse reads the body of a model call; nil for any other body.
func (t *Transport) parse(r *http.Request, body []byte) *request {
	q := &request{provider: providerOf(r.URL.Hostname())}
	q.Request, _ = writer.ParseRequest(body)
	if len(q.Messages) == 0 || q.Model == "" && strings.HasSuffix(r.URL.Path, "/api/chat") {
		return nil
	}
	for _, before := range []string{"/models/", "/deployments/"} { // where the body names no model
		if _, name, ok := strings.Cut(r.URL.Path, before); ok && q.Model == "" {
			q.Model = name[:strings.IndexAny(name+"/", "/:")]
		}
	}
	if strings.HasSuffix(r.URL.Path, "/responses") {
		o := object.Of("", body)
		q.previous = cmp.Or(o.Text("previous_response_id", "conversation"),
			object.Of("", o.Raw("conversation")).Text("id"))
	}
	var h maphash.Hash
	h.SetSeed(t.seed)
	_, _ = h.WriteString(q.previous)
	q.prefixes = append(make([]uint64, 0, len(q.Messages)+1), h.Sum64())
	for i := range q.Messages {
		_, _ = h.Write(withoutCacheControl(q.Messages[i].Raw))
		_ = h.WriteByte(0)
		q.prefixes = append(q.prefixes, h.Sum64())
	}
	end := len(q.Messages)
	for end > 0 && isModel(&q.Messages[end-1]) {
		end-- // the beginning of the reply, which the model is to continue
	}
	for i := end - 1; i >= 0 && !isModel(&q.Messages[i]); i-- {
		_, answers := callsIn(q.Messages[i].Raw)
		q.answers = append(answers, q.answers...)
		q.user = q.user || len(answers) == 0 && genaijson.Role(q.Messages[i].Role) != "system"
	}
	return q
}

// isModel reports whether the model said m.
func isModel(m *writer.Message) bool { return genaijson.Role(m.Role) == "assistant" }

// cacheControl matches the marks of Anthropic's prompt cache, which move from request to request. Inside a string they
// would have a backslash in front of the last quote.
var cacheControl = regexp.MustCompile(`,\s*"cache_control"\s*:\s*(\{[^{}]*\}|null)|` +
	`"cache_control"\s*:\s*(\{[^{}]*\}|null)\s*,?`)

func withoutCacheControl(raw []byte) []byte {
	for at := 0; ; at++ { // by the underscore, which is found faster than the whole
		next := bytes.IndexByte(raw[at:], '_')
		if next < 0 {
			return raw
		}
		at += next
		if bytes.HasPrefix(raw[at:], []byte(`_control"`)) && bytes.HasSuffix(raw[:at], []byte(`"cache`)) {
			return cacheControl.ReplaceAll(raw, nil)
		}
	}
}

// callsIn returns the calls of tools that a message makes and does not answer itself, and the answers in it.
func callsIn(message []byte) (calls, answers []genaijson.Part) {
	for _, p := range genaijson.Read(message).Parts {
		switch o := p.Block; {
		case p.Type == "tool_call":
			calls = append(calls, p)
		case p.Type == "tool_call_response":
			answers = append(answers, p)
		case o.Text("call_id") == "":
		case strings.HasSuffix(p.Type, "_call"): // of tools of OpenAI's responses that are no functions
			p.ID, p.Name, p.Content = o.Text("call_id"), cmp.Or(o.Text("name"), p.Type), o.Raw("input")
			calls = append(calls, p)
		case strings.HasSuffix(p.Type, "_call_output"):
			p.ID, p.Content = o.Text("call_id"), o.Raw("output")
			answers = append(answers, p)
		}
	}
	return slices.DeleteFunc(calls, func(c genaijson.Part) bool {
		return slices.ContainsFunc(answers, func(a genaijson.Part) bool { return c.ID != "" && a.ID == c.ID })
	}), answers
}

// compactionsIn returns the summaries in a message with which Anthropic's API replaces earlier messages.
func compactionsIn(message []byte) (summaries [][]byte) {
	for _, p := range genaijson.Read(message).Parts {
		if p.Type == "compaction" && p.Block.Has("content") {
			summaries = append(summaries, p.Block.Raw("content"))
		}
	}
	return summaries
}

// pieceOf returns the piece of the reply that an event of a stream adds.
func pieceOf(data []byte) (kind writer.PartialKind, text string) {
	o, err := object.Parse(data)
	if err != nil {
		return "", ""
	}
	switch o.Text("type") {
	case "content_block_delta":
		o = object.Of("", o.Raw("delta"))
		return pieceIn(o, "text", "thinking", "partial_json")
	case "response.output_text.delta":
		return writer.PartialText, o.Text("delta")
	case "response.reasoning_summary_text.delta":
		return writer.PartialReasoning, o.Text("delta")
	case "response.function_call_arguments.delta":
		return writer.PartialToolInput, o.Text("delta")
	}
	if choices := o.Objects("choices"); len(choices) > 0 {
		delta := object.Of("", choices[0].Raw("delta"))
		for _, call := range delta.Objects("tool_calls") {
			delta = object.Of("", call.Raw("function"))
		}
		return pieceIn(delta, "content", "reasoning_content", "arguments")
	}
	for _, candidate := range o.Objects("candidates") {
		parts := object.Of("", candidate.Raw("content")).Objects("parts")
		switch {
		case len(parts) == 0:
		case parts[0].Has("thought"):
			return writer.PartialReasoning, parts[0].Text("text")
		default:
			return writer.PartialText, parts[0].Text("text")
		}
	}
	return pieceIn(object.Of("", o.Raw("message")), "content", "thinking", "")
}

// pieceIn returns the first of three members of a delta that has a text.
func pieceIn(delta *object.Object, text, reasoning, input string) (writer.PartialKind, string) {
	for _, m := range []struct {
		kind writer.PartialKind
		key  string
	}{{writer.PartialText, text}, {writer.PartialReasoning, reasoning}, {writer.PartialToolInput, input}} {
		if piece := delta.Text(m.key); piece != "" {
			return m.kind, piece
		}
	}
	return "", ""
}

// said hashes what the model says in the messages from the first on until another speaks: its texts, and the calls of
// tools. It is 0 where the first is not of the model.
func (t *Transport) said(messages []writer.Message) uint64 {
	if len(messages) == 0 || !isModel(&messages[0]) {
		return 0
	}
	var h maphash.Hash
	h.SetSeed(t.seed)
	for i := range messages {
		if !isModel(&messages[i]) {
			break
		}
		for _, p := range genaijson.Read(messages[i].Raw).Parts {
			switch p.Type {
			case "text":
				text, _ := p.Text()
				_, _ = h.WriteString(text)
			case "tool_call":
				_, _ = h.WriteString("\x00" + p.ID + "\x00" + p.Name)
			}
		}
	}
	return h.Sum64() | 1
}

// sameJSON reports whether two texts are the same JSON value to a program that reads it into an any.
func sameJSON(a, b []byte) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}
