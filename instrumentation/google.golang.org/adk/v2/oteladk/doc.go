// Package oteladk records the invocations of Google's Agent Development Kit for Go as sessions: runs, turns, tool
// calls, confirmations and sub-agents, and with its HTTP client the exact bytes of every request to Gemini.
//
//	r, err := runner.New(runner.Config{ // …
//		PluginConfig: runner.PluginConfig{Plugins: oteladk.Plugins(tracer)}, // first: one that answers hides others
//	})
//	m, err := gemini.NewModel(ctx, "gemini-2.5-flash", &genai.ClientConfig{HTTPClient: oteladk.HTTPClient(tracer)})
//
// Each invocation is a run of the session that the framework names. An invocation that goes on after a confirmation or
// the answer to a long-running tool is a further run, which continues the first; a confirmed call runs there before any
// turn. An agent below the first one is a run of its own while it works, and a sub-agent where a tool call started it.
// A session id that several users share is one session.
//
// A call that needs a confirmation is skipped, with the evaluation ask. The answer is an evaluation of the call that
// runs after it, or is denied.
//
// Without the HTTP client, requests are recorded as the framework holds them, without the bytes that left, and replies
// as it reads them. With one in the process the plugin marks each request with a header, a number, which the client
// takes off: give it to all models that send the headers of requests, or their provider gets it. Requests of models
// that ignore headers are recorded as without it.
//
// # Limits
//
//   - The framework has spans of its own (scope gcp.vertex.agent) and no switch for them. They have the arguments and
//     results of all tool calls, whatever is captured and redacted here, and count tokens a second time for backends
//     that add up spans: otelsetup.WithoutScopes("gcp.vertex.agent") drops them, or leave the global provider unset.
//   - agenttool runs its agent without the plugins of the runner (google/adk-go issue 669): the HTTP client alone sees
//     such an agent, and its run is inferred.
//   - A tool that runs after its confirmation gets no context of its call, so that agents in it are runs of their own.
//   - Live connections (WebSocket) pass every hook: of RunLive the run is recorded without turns.
//   - The framework takes an error in a stream for the end of a whole reply, and with old versions of genai also a cut
//     stream: the run is completed. With the HTTP client the turn is failed, and has the error.
//   - The newest release, v2.2.0, compiles with otel/log v0.20 (OpenTelemetry 1.44) and older, as otelsetup does. Newer
//     ones lack names that the framework uses.
package oteladk

// Version is the version of this module.
const Version = "0.1.0"

// ScopeName is the import path of this package, as instrumentation scopes are named. Its spans are the tracer's.
const ScopeName = "github.com/otelagent/otelagent/instrumentation/google.golang.org/adk/v2/oteladk"
