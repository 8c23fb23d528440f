package replay

import (
	"net/url"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

func TestCheck(t *testing.T) {
	temperature := 0.2
	turn := func(capture spans.Capture) *session.Turn {
		return &session.Turn{Model: "claude-sonnet-4-5", Provider: "anthropic", Level: "high", Variant: "thinking",
			Temperature: &temperature, Capture: capture}
	}
	params := func(kinds ...spans.ProvenanceKind) *session.Refs {
		var refs []session.Ref
		for _, k := range kinds {
			refs = append(refs, session.Ref{Block: "b", Provenance: string(k)})
		}
		return session.NewRefs(refs...)
	}
	ten := session.NewRefs(make([]session.Ref, 10)...)
	whole := &session.Request{Messages: ten, Params: params(spans.ProvenanceSystem, spans.ProvenanceTools,
		spans.ProvenanceRest)}
	recorded := requests(t)
	hi := session.Payload{Bytes: []byte(`{"messages":[{"role":"user","content":"hi"}]}`)}
	content := turn(spans.CaptureContent)
	for _, tt := range []struct {
		name    string
		turn    *session.Turn
		q       *session.Request
		payload session.Payload
		reasons string
		api     message.API
		inputs  map[string]string
	}{
		{"whole", content, whole, session.Payload{Bytes: recorded["phi-steering"], Exact: true}, "", message.Anthropic,
			map[string]string{
				"messages": "2 assistant, 3 tool, 3 user", "model": "claude-sonnet-4-5",
				"variant": "thinking, reasoning high",
				"system":  "31 bytes", "tools": "read_file, bash, researcher",
				"params": "provenance, thinking_level, max_tokens, temperature, response_format",
			}},
		{"attachments", content, whole, session.Payload{Bytes: recorded["genai"]}, "", message.Anthropic,
			map[string]string{
				"messages": "1 assistant, 1 document by reference, 1 image, 1 tool, 1 user, 1 video by reference",
				"model":    "m",
			}},
		{"nothing but messages", content, &session.Request{Messages: ten},
			(&session.Request{Messages: ten}).Payload(&session.BlockSet{}), "the request is not whole", message.Anthropic, nil},
		{"composed", content, &session.Request{Messages: ten, Params: params(spans.ProvenanceSystem,
			spans.ProvenanceTools)}, hi,
			"the loop recorded no parameters", message.Anthropic, nil},
		{"no model", &session.Turn{Capture: spans.CaptureContent}, whole, hi, "no model is named", message.OpenAIChat,
			map[string]string{"model": "none"}},
		{"redacted", content, whole, session.Payload{Bytes: recorded["phi-steering"], Redacted: true},
			"a redactor changed the request", message.Anthropic, nil},
		{"a message is lost", content, whole, session.Payload{Missing: []session.MissingPart{{Part: "message",
			Position: 3}}},
			"the request is not whole", message.Anthropic, map[string]string{"model": "claude-sonnet-4-5"}},
		{"a damaged list", content, whole, session.Payload{Defects: []session.Defect{{Code: spans.DefectListBroken,
			Detail: "request: digest"}}},
			"the request is not whole", message.Anthropic, nil},
		{"digests", turn(spans.CaptureDigests), whole, session.Payload{Missing: []session.MissingPart{{Part: "system",
			Withheld: true}}},
			"captured as digests: only sizes and hashes are recorded", message.Anthropic, nil},
		{"no request", content, nil, session.Payload{}, "the loop recorded no request", message.Anthropic, nil},
		{"no content", turn(spans.CaptureNone), nil, session.Payload{}, "content was not captured", message.Anthropic,
			nil},
		{"no JSON", content, whole, session.Payload{Bytes: []byte("prompt: hi")},
			"the request is not a JSON object with messages", message.Anthropic, nil},
	} {
		c := Check(tt.turn, tt.q, tt.payload)
		if reasons := strings.Join(c.Reasons, "; "); reasons != tt.reasons || c.Eligible != (reasons == "") ||
			c.Suggested != tt.api {
			t.Errorf("%s: eligible %v, %q, as %s; want %q, as %s", tt.name, c.Eligible, reasons, c.Suggested,
				tt.reasons, tt.api)
		}
		got := map[string]string{}
		for _, in := range c.Inputs {
			got[in.Input] = in.Detail
		}
		for name, want := range tt.inputs {
			if got[name] != want {
				t.Errorf("%s: %s: %q, want %q", tt.name, name, got[name], want)
			}
		}
	}
}

func TestEndpoint(t *testing.T) {
	for _, tt := range []struct {
		form       message.API
		base, want string
	}{
		{message.Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"},
		{message.Anthropic, "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"},
		{message.Anthropic, "https://gw.example/anthropic?a=b", "https://gw.example/anthropic/v1/messages?a=b"},
		{message.Anthropic, "http://127.0.0.1:1/v1/messages", "http://127.0.0.1:1/v1/messages"},
		{message.OpenAIChat, "https://api.openai.com", "https://api.openai.com/v1/chat/completions"},
		{message.OpenAIChat, "https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"},
		{message.OpenAIChat, "https://x.example/openai/deployments/d/chat/completions?api-version=1",
			"https://x.example/openai/deployments/d/chat/completions?api-version=1"},
		{message.OpenAIChat, "https://x.example/api/v3/", "https://x.example/api/v3/chat/completions"},
		{message.OpenAIResponses, "https://api.openai.com/v1", "https://api.openai.com/v1/responses"},
		{AsSent, "https://x.example/any", "https://x.example/any"},
	} {
		u := must.Get(url.Parse(tt.base))(t)
		if got := Endpoint(tt.form, u).String(); got != tt.want {
			t.Errorf("%s at %s: %s, want %s", tt.form, tt.base, got, tt.want)
		}
		if u.String() != tt.base {
			t.Errorf("%s was changed to %s", tt.base, u)
		}
	}
}

func TestSuggest(t *testing.T) {
	for _, api := range wire {
		if r, err := message.ReadRequest(requests(t)[string(api)]); err != nil || Suggest(r, "some-gateway") != api {
			t.Errorf("%s: %v, %s", api, err, Suggest(r, "some-gateway"))
		}
	}
	for provider, want := range map[string]message.API{
		"anthropic": message.Anthropic, "aws.bedrock": message.Anthropic, "openai": message.OpenAIChat,
		"azure_open_ai_responses": message.OpenAIResponses, "": message.OpenAIChat,
	} {
		if got := Suggest(nil, provider); got != want {
			t.Errorf("for %s: %s", provider, got)
		}
	}
	for _, f := range APIs() {
		if got, err := ParseAPI(string(f)); err != nil || got != f {
			t.Errorf("%s: %v, %v", f, got, err)
		}
	}
	if _, err := ParseAPI("secret words"); err == nil || strings.Contains(err.Error(), "secret") ||
		!strings.Contains(err.Error(), "openai-chat") {
		t.Errorf("an unknown form: %v", err)
	}
}
