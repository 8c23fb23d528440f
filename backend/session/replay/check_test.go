package replay

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// states are the states of the inputs, in their order.
func states(c *Check) string {
	var out []string
	for _, in := range c.Inputs {
		out = append(out, string(in.State))
	}
	return strings.Join(out, " ")
}

func TestExamine(t *testing.T) {
	temperature := 0.2
	turn := func(capture spans.Capture) *session.Turn {
		return &session.Turn{Model: "claude-sonnet-4-5", Provider: "anthropic", Level: "high", Variant: "thinking", Temperature: &temperature, Capture: capture}
	}
	params := func(kinds ...spans.ProvenanceKind) *session.Refs {
		var refs []session.Ref
		for _, k := range kinds {
			refs = append(refs, session.Ref{Block: "b", Provenance: string(k)})
		}
		return session.NewRefs(refs...)
	}
	all := params(spans.ProvenanceSystem, spans.ProvenanceTools, spans.ProvenanceRest)
	ten := session.NewRefs(make([]session.Ref, 10)...)
	whole := &session.Request{Messages: ten, Params: all}
	all2 := requests(t)
	redacted := strings.Replace(string(all2["phi-steering"]), "careful", "[redacted:word]", 1)
	for _, tt := range []struct {
		name    string
		turn    *session.Turn
		q       *session.Request
		payload session.Payload
		verdict Verdict
		states  string // of messages, attachments, model, variant, system, tools, parameters
		form    Form
		detail  map[string]string
	}{
		{"whole", turn(spans.CaptureContent), whole, session.Payload{Bytes: all2["phi-steering"], Exact: true}, Eligible, "present none present present present present present", Anthropic,
			map[string]string{InputMessages: "3 user, 2 assistant, 3 tool results", InputVariant: "thinking, reasoning high", InputTools: "read_file, bash, researcher"}},
		{"attachments", turn(spans.CaptureContent), whole, session.Payload{Bytes: all2["genai"]}, Eligible, "present present present present present present none", Anthropic,
			map[string]string{InputAttachments: "1 image, 1 video by reference, 1 document by reference", InputModel: "m"}},
		{"nothing beside messages", turn(spans.CaptureContent), &session.Request{Messages: ten}, session.Payload{Bytes: []byte(`{"messages":[{"role":"user","content":"hi"}]}`)}, NotEligible,
			"present none present present missing missing missing", Anthropic, map[string]string{InputSystem: "the loop told the messages only"}},
		{"kept without parameters", turn(spans.CaptureContent), &session.Request{Messages: ten, Params: params(spans.ProvenanceSystem, spans.ProvenanceTools)},
			session.Payload{Bytes: []byte(`{"messages":[{"role":"user","content":"hi"}]}`)}, NotEligible, "present none present present none none missing", Anthropic,
			map[string]string{InputParameters: "the request was kept without them; the turn names temperature 0.2, reasoning high"}},
		{"no model", &session.Turn{Capture: spans.CaptureContent}, whole, session.Payload{Bytes: []byte(`{"messages":[{"role":"user","content":"hi"}]}`)}, NotEligible,
			"present none missing none none none none", OpenAIChat, nil},
		{"redacted with a mark", turn(spans.CaptureContent), whole, session.Payload{Bytes: []byte(redacted), Redacted: true}, Redacted, "present none present present redacted present present", Anthropic, nil},
		{"redacted without a mark", turn(spans.CaptureContent), whole, session.Payload{Bytes: all2["phi-steering"], Redacted: true}, Redacted, "redacted none present present present present present", Anthropic, nil},
		{"a mark that nobody made", turn(spans.CaptureContent), whole, session.Payload{Bytes: []byte(redacted)}, Eligible, "present none present present present present present", Anthropic, nil},
		{"a message is gone", turn(spans.CaptureContent), whole, session.Payload{Missing: []session.MissingPart{{Part: "message", Position: 3}}}, NotEligible,
			"missing missing present present present present present", Anthropic, map[string]string{InputMessages: "1 of 10 messages did not arrive, or not whole"}},
		{"the list is gone", turn(spans.CaptureContent), whole, session.Payload{Missing: []session.MissingPart{{Part: "message", Position: -1}}}, NotEligible,
			"missing missing present present present present present", Anthropic, nil},
		{"tools are withheld", turn(spans.CaptureContent), whole, session.Payload{Missing: []session.MissingPart{{Part: "tools", Withheld: true}}}, NotEligible,
			"present present present present present withheld present", Anthropic, nil},
		{"prompt and parameters are gone", turn(spans.CaptureContent), &session.Request{Messages: ten, Params: params(spans.ProvenanceSystem, spans.ProvenanceRest)},
			session.Payload{Missing: []session.MissingPart{{Part: "system"}, {Part: "rest"}}}, NotEligible, "present present present present missing none missing", Anthropic, nil},
		{"the frame is gone", turn(spans.CaptureContent), whole, session.Payload{Missing: []session.MissingPart{{Part: "frame"}}}, NotEligible,
			"present present present present present present missing", Anthropic, nil},
		{"a damaged list of messages", turn(spans.CaptureContent), whole, session.Payload{Defects: []session.Defect{{Code: spans.DefectListBroken, Detail: "request: digest"}}}, NotEligible,
			"missing missing present present present present present", Anthropic, nil},
		{"a damaged list of parameters", turn(spans.CaptureContent), whole, session.Payload{Defects: []session.Defect{{Code: spans.DefectListUnresolved, Detail: "params"}}}, NotEligible,
			"present present present present missing missing missing", Anthropic, nil},
		{"digests", turn(spans.CaptureDigests), whole, session.Payload{Missing: []session.MissingPart{{Part: "system", Withheld: true}}}, NotEligible,
			"withheld withheld present present withheld withheld withheld", Anthropic, nil},
		{"no request", turn(spans.CaptureContent), nil, session.Payload{}, NotEligible, "missing missing present present missing missing missing", Anthropic, nil},
		{"no content", turn(spans.CaptureNone), nil, session.Payload{}, NotEligible, "withheld withheld present present withheld withheld withheld", Anthropic, nil},
		{"no JSON", turn(spans.CaptureContent), whole, session.Payload{Bytes: []byte("prompt: hi")}, NotEligible, "missing missing present present missing missing missing", Anthropic, nil},
	} {
		c := Examine(tt.turn, tt.q, tt.payload)
		if c.Verdict != tt.verdict || c.Eligible != (tt.verdict == Eligible) || states(c) != tt.states || c.Suggested != tt.form {
			t.Errorf("%s: %s, %q, as %s; want %s, %q, as %s", tt.name, c.Verdict, states(c), c.Suggested, tt.verdict, tt.states, tt.form)
		}
		for name, want := range tt.detail {
			if got := c.Input(name).Detail; got != want {
				t.Errorf("%s: %s: %q, want %q", tt.name, name, got, want)
			}
		}
	}
}

func TestEndpoint(t *testing.T) {
	for _, tt := range []struct {
		form       Form
		base, want string
	}{
		{Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"},
		{Anthropic, "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"},
		{Anthropic, "https://gw.example/anthropic?a=b", "https://gw.example/anthropic/v1/messages?a=b"},
		{Anthropic, "http://127.0.0.1:1/v1/messages", "http://127.0.0.1:1/v1/messages"},
		{OpenAIChat, "https://api.openai.com", "https://api.openai.com/v1/chat/completions"},
		{OpenAIChat, "https://api.openai.com/v1", "https://api.openai.com/v1/chat/completions"},
		{OpenAIChat, "https://x.example/openai/deployments/d/chat/completions?api-version=1", "https://x.example/openai/deployments/d/chat/completions?api-version=1"},
		{OpenAIChat, "https://x.example/api/v3/", "https://x.example/api/v3/chat/completions"},
		{OpenAIResponses, "https://api.openai.com/v1", "https://api.openai.com/v1/responses"},
		{AsSent, "https://x.example/any", "https://x.example/any"},
	} {
		u, err := url.Parse(tt.base)
		if err != nil {
			t.Fatal(err)
		}
		if got := Endpoint(tt.form, u).String(); got != tt.want {
			t.Errorf("%s at %s: %s, want %s", tt.form, tt.base, got, tt.want)
		}
		if u.String() != tt.base {
			t.Errorf("%s was changed to %s", tt.base, u)
		}
	}
}

func TestSuggest(t *testing.T) {
	got := map[string]Form{}
	for _, s := range []Spelling{SpellAnthropic, SpellChat, SpellResponses} {
		got[string(s)] = Suggest(s, "some-gateway")
	}
	for _, p := range []string{"anthropic", "aws.bedrock", "openai", "azure_open_ai_responses", ""} {
		got["phi-core for "+p] = Suggest(SpellPhi, p)
	}
	want := map[string]Form{
		"anthropic": Anthropic, "openai-chat": OpenAIChat, "openai-responses": OpenAIResponses, "phi-core for anthropic": Anthropic, "phi-core for aws.bedrock": Anthropic,
		"phi-core for openai": OpenAIChat, "phi-core for azure_open_ai_responses": OpenAIResponses, "phi-core for ": OpenAIChat,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	for _, f := range Forms() {
		if got, err := ParseForm(string(f)); err != nil || got != f {
			t.Errorf("%s: %v, %v", f, got, err)
		}
	}
	if _, err := ParseForm("secret words"); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "openai-chat") {
		t.Errorf("an unknown form: %v", err)
	}
}
