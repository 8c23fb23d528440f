// Package replay says whether a turn can be asked again, returns its request as the body of a provider's API, and
// compares a new answer with the recorded one. It sends nothing. Its callers bound its input.
package replay

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/message"
)

// AsSent is the request as the loop emitted it, in whichever spelling.
const AsSent message.API = "as-sent"

// APIs lists the APIs that a request can be converted to, and AsSent.
func APIs() []message.API {
	return []message.API{message.Anthropic, message.OpenAIChat, message.OpenAIResponses, AsSent}
}

// ParseAPI returns the API of that name.
func ParseAPI(name string) (message.API, error) {
	if !slices.Contains(APIs(), message.API(name)) {
		return "", errors.New("unknown API: want one of anthropic, openai-chat, openai-responses, as-sent")
	}
	return message.API(name), nil
}

// Endpoint returns the URL that takes a body for api. Base is that URL, or its beginning with or without the version
// /v1, as the official SDKs take it. A query stays. The endpoint of AsSent is base.
func Endpoint(api message.API, base *url.URL) *url.URL {
	u := *base
	end := map[message.API]string{
		message.Anthropic: "/messages", message.OpenAIChat: "/chat/completions", message.OpenAIResponses: "/responses",
	}[api]
	path := strings.TrimRight(u.Path, "/")
	if end == "" || strings.HasSuffix(path, end) {
		return &u
	}
	if path == "" || api == message.Anthropic && !strings.HasSuffix(path, "/v1") {
		path += "/v1"
	}
	u.Path, u.RawPath = path+end, ""
	return &u
}

// Suggest returns the API that takes r as it is, else that of the provider of its turn, else OpenAIChat, which most
// servers take. R may be nil.
func Suggest(r *message.Request, provider string) message.API {
	var native []message.API
	for _, api := range APIs() {
		if r != nil && api != AsSent && r.Native(api) {
			native = append(native, api)
		}
	}
	switch p := strings.ToLower(provider); {
	case len(native) == 1:
		return native[0]
	case strings.Contains(p, "anthropic"), strings.Contains(p, "claude"), strings.Contains(p, "bedrock"):
		return message.Anthropic
	case strings.Contains(p, "responses"):
		return message.OpenAIResponses
	}
	return message.OpenAIChat
}
