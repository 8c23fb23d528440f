// Package otelagent turns what an agent loop does into OpenTelemetry spans: session.run, session.turn, tool.call,
// compaction.run and permission.evaluate.
//
// A loop makes one [Tracer] and calls the handles: [Tracer.StartRun], [Run.StartTurn], [Turn.StartTool] and so on. Each
// handle has an End, which reports the result. A program that reads the events of another loop uses package
// dialects/event instead.
//
// Contract of all handles:
//   - They never fail, never wait for the network and never panic on bad input.
//   - The nil Tracer and nil handles do nothing. Only the first End has an effect. A zero time means now.
//   - They are safe for concurrent use. Byte slices are copied before a call returns.
//   - An Err in a result is a failure, and its text is content. The span of a run, turn or tool call then has status
//     Error, unless the result states another outcome. An Err that wraps context.Canceled is a cancellation.
//   - The process sends nothing that a model, user, tool or provider wrote unless [WithCapture] says so.
//
// The package needs the OpenTelemetry API only. Without an SDK a run costs a few small allocations and its turns none;
// package otelsetup installs an SDK for programs that have none.
package otelagent
