// Package otelagent turns what an agent loop does into OpenTelemetry spans: session.run, session.turn, tool.call,
// compaction.run and permission.evaluate.
//
// There are two ways in. A loop written in Go holds a [Tracer] and calls the handles: [Tracer.StartRun],
// [Run.StartTurn], [Turn.StartTool] and so on. A program that reads the events of another loop turns them into [Event]
// values (see the packages phi, …) and gives them to a [Recorder], which drives the same handles.
//
// The package never fails, never waits for the network and never panics on bad input: a nil Tracer, Recorder or handle
// does nothing, ending twice does nothing, a zero time means now. Handles and Recorders are safe for concurrent use.
// Byte slices are copied before a call returns. The process sends nothing that a model, user, tool or provider wrote
// unless [WithCapture] says so.
//
// It needs the OpenTelemetry API only. Without an SDK a run costs a few small allocations and its turns none; package
// otelsetup installs an SDK for programs that have none.
package otelagent
