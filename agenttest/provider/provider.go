// Package provider is a model API for tests: a server on loopback that speaks the wire of Anthropic messages, OpenAI
// chat completions and responses, Gemini generateContent, and Ollama chat, each whole and streamed, says what a script
// says, and keeps the exact bytes of every request.
//
//	s := provider.New(t,
//		provider.Reply{Text: "I look.", Calls: []provider.Call{{ID: "c1", Name: "weather", Args: `{"city":"Bonn"}`}}},
//		provider.Reply{Status: 529},
//		provider.Reply{Text: "It rains."})
//	client := anthropic.NewClient(option.WithBaseURL(s.URL), option.WithAPIKey("none"))
//
// The path of a request says which API it is for, so the base URL is s.URL, with OpenAI s.URL + "/v1".
package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// API is the wire of one model API.
type API string

// The APIs.
const (
	Anthropic       API = "anthropic"
	OpenAIChat      API = "openai-chat"
	OpenAIResponses API = "openai-responses"
	Gemini          API = "gemini"
	Ollama          API = "ollama"
)

// APIs are all of them.
var APIs = []API{Anthropic, OpenAIChat, OpenAIResponses, Gemini, Ollama}

// Reply is what the model says to one request. The zero Reply is an empty text.
type Reply struct {
	// Thinking, Text and Calls are said in this order.
	Thinking, Text string
	Calls          []Call
	// Blocks are further blocks, items or parts as the API spells them, in front of the others. OpenAI chat and Ollama
	// have none.
	Blocks []string
	// Usage is what the reply cost; zero is DefaultUsage.
	Usage Usage
	// Stop is the stop reason in the spelling of the API. Empty: that of a reply with or without calls.
	Stop string

	// Status refuses the request with that HTTP status. A header asks to retry after a millisecond where retrying helps.
	Status int
	// Error is the message of the error. Without Status it is an error in the middle of the stream.
	Error string
	// Header is added to the response.
	Header http.Header
	// Cut breaks the connection in the middle of the response.
	Cut bool
	// Pause is called in the middle of a streamed response, with what is before it sent, and before anything of a whole
	// one. Its context ends when the client is gone.
	Pause func(context.Context)
}

// Call is a tool call of a reply.
type Call struct {
	// ID may be empty with Gemini and Ollama.
	ID, Name string
	// Args is a JSON object; empty is {}.
	Args string
}

// Usage are normalised counts: Input has what was read from and written to a cache, Output has the reasoning. The
// server spells them by the rules of each API. OpenAI and Gemini count no cache writes, Ollama
// only Input and Output.
type Usage struct {
	Input, Output, Reasoning, CacheRead, CacheWrite int64
}

// DefaultUsage is that of a Reply without one.
var DefaultUsage = Usage{Input: 15, Output: 5, CacheRead: 3}

// Request is one request as the server received it.
type Request struct {
	API    API
	Stream bool
	Path   string
	Header http.Header
	Body   []byte
}

// Server is a model API. Safe for concurrent use.
type Server struct {
	// URL is http://127.0.0.1:PORT.
	URL string

	t      testing.TB
	reply  func(n int, r Request) Reply
	mu     sync.Mutex
	served []Request
}

// New starts a server that gives the replies in the order of the requests. It ends with the test, which fails when
// there are more requests than replies.
func New(t testing.TB, replies ...Reply) *Server {
	var s *Server
	s = NewFunc(t, func(n int, _ Request) Reply {
		if n < len(replies) {
			return replies[n]
		}
		s.t.Errorf("provider: request %d, and only %d replies", n+1, len(replies))
		return Reply{Status: http.StatusBadRequest, Error: "the script has ended"}
	})
	return s
}

// NewFunc is New with replies that a function chooses: n counts requests from 0 in the order of their arrival. It is
// called by several goroutines.
func NewFunc(t testing.TB, reply func(n int, r Request) Reply) *Server {
	s := &Server{t: t, reply: reply}
	h := httptest.NewServer(s)
	s.URL = h.URL
	t.Cleanup(h.Close)
	return s
}

// Requests returns what the server received so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.served...)
}

// Bodies returns the bodies of Requests.
func (s *Server) Bodies() (l [][]byte) {
	for _, r := range s.Requests() {
		l = append(l, r.Body)
	}
	return l
}

// Path returns the path of an API's requests: what an SDK adds to its base URL.
func (a API) Path(stream bool) string {
	switch a {
	case Anthropic:
		return "/v1/messages"
	case OpenAIChat:
		return "/v1/chat/completions"
	case OpenAIResponses:
		return "/v1/responses"
	case Ollama:
		return "/api/chat"
	}
	if stream {
		return "/v1beta/models/fake-1:streamGenerateContent"
	}
	return "/v1beta/models/fake-1:generateContent"
}

// apiOf returns the API of a request and whether it asks for a stream.
func apiOf(path string, body []byte) (a API, stream bool) {
	var asked struct{ Stream *bool }
	_ = json.Unmarshal(body, &asked)
	switch {
	case strings.HasSuffix(path, "/messages"):
		a = Anthropic
	case strings.HasSuffix(path, "/chat/completions"):
		a = OpenAIChat
	case strings.HasSuffix(path, "/responses"):
		a = OpenAIResponses
	case strings.HasSuffix(path, ":generateContent"), strings.HasSuffix(path, ":streamGenerateContent"):
		return Gemini, strings.HasSuffix(path, ":streamGenerateContent")
	case strings.HasSuffix(path, "/api/chat"):
		return Ollama, asked.Stream == nil || *asked.Stream
	}
	return a, asked.Stream != nil && *asked.Stream
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	q := Request{Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	if q.API, q.Stream = apiOf(q.Path, body); q.API == "" {
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	n := len(s.served)
	s.served = append(s.served, q)
	s.mu.Unlock()

	p := s.reply(n, q)
	for key, values := range p.Header {
		w.Header()[key] = values
	}
	if p.Usage == (Usage{}) {
		p.Usage = DefaultUsage
	}
	said := answer{Reply: p, api: q.API, n: n, request: body}
	switch {
	case p.Status != 0:
		said.refuse(w)
	case q.Stream:
		said.stream(w, r)
	default:
		said.whole(w, r)
	}
}

// answer is a reply to one request.
type answer struct {
	Reply
	api     API
	n       int
	request []byte
}

func (a *answer) id() string { return "resp_" + strconv.Itoa(a.n) }

func (a *answer) refuse(w http.ResponseWriter) {
	switch a.Status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		w.Header().Set("Retry-After-Ms", "1")
	default:
		if a.Status >= 500 {
			w.Header().Set("Retry-After-Ms", "1")
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	_, _ = w.Write(encode(a.failure()))
}

func (a *answer) whole(w http.ResponseWriter, r *http.Request) {
	if a.Pause != nil {
		a.Pause(r.Context())
	}
	text := encode(a.message())
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	if a.Cut {
		_, _ = w.Write(text[:len(text)/2])
		abort(w)
	}
	_, _ = w.Write(text)
}

func (a *answer) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if a.api == Ollama {
		w.Header().Set("Content-Type", "application/x-ndjson")
	}
	list := a.events()
	for i, e := range list {
		if i == (len(list)+1)/2 && !a.middle(w, r) {
			return
		}
		_, _ = w.Write(e)
		_ = http.NewResponseController(w).Flush()
	}
}

// middle does what the script says for the middle of a stream, and reports whether the stream goes on.
func (a *answer) middle(w http.ResponseWriter, r *http.Request) bool {
	if a.Pause != nil {
		a.Pause(r.Context())
	}
	if a.Error != "" {
		typ := ""
		if a.api == Anthropic {
			typ = "error"
		}
		failure := a.failure()
		if a.api == OpenAIResponses {
			failure = object{"type": "error", "code": "server_error", "message": a.Error, "sequence_number": 99}
		}
		if a.api == Ollama {
			_, _ = w.Write(line(failure))
		} else {
			_, _ = w.Write(event(typ, failure))
		}
		return false
	}
	if a.Cut {
		abort(w)
	}
	return true
}

// abort breaks the connection after what was written.
func abort(w http.ResponseWriter) {
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

type object = map[string]any

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // a call or block of the script is no JSON
	}
	return b
}

// event is one server-sent event.
func event(typ string, v any) []byte {
	if typ == "" {
		return fmt.Appendf(nil, "data: %s\n\n", encode(v))
	}
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", typ, encode(v))
}

// line is one object of a stream of them.
func line(v any) []byte { return append(encode(v), '\n') }

// halves cuts a text in two, between runes.
func halves(text string) []string {
	runes := []rune(text)
	if len(runes) < 2 {
		return []string{text}
	}
	return []string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])}
}

func (c *Call) args() string {
	if c.Args == "" {
		return "{}"
	}
	return c.Args
}
