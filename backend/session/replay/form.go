package replay

import (
	"fmt"
	"net/url"
	"strings"
)

// Form is a wire form: how a request body is spelled.
type Form string

// The wire forms, as the providers' API references and official SDKs of November 2026 have them.
const (
	// Anthropic is the body of POST /v1/messages.
	Anthropic Form = "anthropic"
	// OpenAIChat is the body of POST /v1/chat/completions.
	OpenAIChat Form = "openai-chat"
	// OpenAIResponses is the body of POST /v1/responses.
	OpenAIResponses Form = "openai-responses"
	// AsSent is the request as the loop emitted it, whatever its spelling.
	AsSent Form = "as-sent"
)

// Forms lists all of them.
func Forms() []Form { return []Form{Anthropic, OpenAIChat, OpenAIResponses, AsSent} }

// ParseForm returns the form of that name. The error names those there are.
func ParseForm(name string) (Form, error) {
	var names []string
	for _, f := range Forms() {
		if string(f) == name {
			return f, nil
		}
		names = append(names, string(f))
	}
	return "", fmt.Errorf("no such form: want one of %s", strings.Join(names, ", "))
}

// paths are the ends of the addresses at which a form is taken.
var paths = map[Form]string{Anthropic: "/messages", OpenAIChat: "/chat/completions", OpenAIResponses: "/responses"}

// Endpoint returns the address to which a body of that form goes. base is that address in full, which ends with the form's own path (/messages,
// /chat/completions, /responses), or what stands before it, with or without a version (/v1, which is put in where the path is empty,
// and before /messages always: the official SDKs of both providers take their base addresses so). A query stays. That of AsSent is base itself.
func Endpoint(f Form, base *url.URL) *url.URL {
	u := *base
	end := paths[f]
	path := strings.TrimRight(u.Path, "/")
	if end == "" || strings.HasSuffix(path, end) {
		return &u
	}
	if path == "" || f == Anthropic && !strings.HasSuffix(path, "/v1") {
		path += "/v1"
	}
	u.Path, u.RawPath = path+end, ""
	return &u
}

// Suggest returns the form in which a request would be asked again: that in which it is spelled, else that of the provider of its turn, as
// gen_ai.provider.name or the loop names it, else OpenAIChat, which most servers take.
func Suggest(s Spelling, provider string) Form {
	switch s {
	case SpellAnthropic:
		return Anthropic
	case SpellChat:
		return OpenAIChat
	case SpellResponses:
		return OpenAIResponses
	}
	switch p := strings.ToLower(provider); {
	case strings.Contains(p, "anthropic"), strings.Contains(p, "claude"), strings.Contains(p, "bedrock"):
		return Anthropic
	case strings.Contains(p, "responses"):
		return OpenAIResponses
	}
	return OpenAIChat
}

// Spelling says whose words a captured request is in.
type Spelling string

// The spellings that are told apart.
const (
	SpellPhi       Spelling = "phi-core"
	SpellClark     Spelling = "clark-agent"
	SpellAnthropic Spelling = "anthropic"
	SpellChat      Spelling = "openai-chat"
	SpellResponses Spelling = "openai-responses"
	SpellAISDK     Spelling = "ai-sdk" // model messages and UI messages, which the agent guide has too
	SpellGenAI     Spelling = "genai"  // the GenAI convention of OpenTelemetry
	SpellGemini    Spelling = "gemini"
	// SpellPlain is a list of messages with role and text alone, which several forms share.
	SpellPlain Spelling = "plain"
)

// own returns the wire form of which s is the spelling; empty for those that no provider takes.
func (s Spelling) own() Form {
	switch s {
	case SpellAnthropic, SpellChat, SpellResponses:
		return Form(s)
	}
	return ""
}
