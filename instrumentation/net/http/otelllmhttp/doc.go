// Package otelllmhttp records the model calls that go over an HTTP client as runs, turns and tool calls, with the exact
// bytes of every request.
//
//	client := &http.Client{Transport: otelllmhttp.NewTransport(tracer)} // any SDK over HTTP
//	option.WithMiddleware(otelllmhttp.Middleware(tracer))               // the Anthropic and OpenAI SDKs
//
// It reads Anthropic messages (also on Vertex AI), OpenAI chat completions and responses, Gemini generateContent, and
// Ollama chat, whole and streamed. The end of the path says what may be a model call, the keys of the body say what it
// is. Every other request passes untouched and is not recorded. Content follows the capture level and redactor of the
// tracer.
//
// # What the program says
//
// The context of a request decides first:
//   - the context of a turn, or [ContextWithTurn]: the request is an attempt of that turn, and nothing is inferred. The
//     program ends the turn; End keeps the reply.
//   - the context of a run: the request is the next turn of that run, whose tool calls are inferred. In the context of
//     a compaction it is a utility turn.
//   - the context of a tool call: an inferred run is a sub-agent of that call.
//   - none of these: an inferred run, in a trace of its own that is linked to the span in the context.
//
// # What is inferred
//
//   - Conversation: a request belongs to the one that made the tool calls that it answers; else to that of
//     previous_response_id or of conversation; else to the one that sent the longest beginning of its messages and
//     replied what follows there. Marks of Anthropic's prompt cache do not count. A history that begins with a
//     compaction of Anthropic's API belongs to the one that received it. Else it begins a new session; so does a
//     history that the program rewrites.
//   - Run: begins with a message of the user that answers no open call, and ends with a reply without calls. Its
//     dialect is http, and the source of its times is bound. A run that begins in the middle has a defect,
//     start_not_seen.
//   - Tool call: lasts from the reply to the request that has its result; both times have the source bound, unless
//     [Transport.StartTool] is called. A result without an id is that of the first open call of its name. Its outcome
//     is ok unless the result says that it is an error, which only Anthropic's API does.
//   - Attempt: the same messages again after a failure or a redirect.
//   - Turn: one whose tool calls have results ends with the request that has them.
//
// It cannot see permission evaluations, the end of a loop that stops with calls open or after a failure that may be
// retried (which the next question shows, or Close), WebSockets, and whose sub-agent a run is without a context. It
// cannot read a reply in a Content-Encoding that the program itself asks for.
//
// # Limits
//
//   - 4,096 conversations; the oldest is forgotten for a new one, and its open run ends
//   - 256 requests, replies and calls of a conversation by which a later request finds it
//   - an hour without a request, after which a conversation is forgotten
//   - 64 MiB of a request; a larger one is not recorded. 64 MiB of a reply; the end of a larger one is not recorded
//
// While a request is under way its bytes are held, and the reply so far: a streamed one without its events, another as
// its bytes. At its end it is read, with a copy of it for that time.
package otelllmhttp

// Version is the version of this package.
const Version = "0.1.0"

// ScopeName is the import path of this package. Its spans have the scope of the tracer.
const ScopeName = "github.com/otelagent/otelagent/instrumentation/net/http/otelllmhttp"
