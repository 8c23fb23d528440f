// Package otelmcp makes an agent that runs behind an MCP server the sub-agent of the tool call that called it. It
// carries W3C trace context and baggage in the _meta of MCP messages, over every transport, and starts no spans.
//
//	client.AddSendingMiddleware(otelmcp.Client())   // in the process of the agent that calls tools
//	server.AddReceivingMiddleware(otelmcp.Server()) // in the process of the tools
//
// The agent calls its tools in the context that StartTool of its turn returns. In the handler of the tool, StartRun of
// a tracer of that process then starts a run that is the child of that tool call, in the same session unless it names
// another one.
//
// The keys are traceparent, tracestate and baggage, as SEP-414 of MCP reserves them. The members of baggage are those
// of [otelagent.ContextWithBaggage], and whatever else the context has: add Client to clients of your own servers only.
// A server whose callers are strangers has a tracer [otelagent.WithoutBaggage].
//
// For requests that a server sends, such as those for sampling, both exist in the other direction:
//
//	server.AddSendingMiddleware(otelmcp.Client())
//	client.AddReceivingMiddleware(otelmcp.Server())
package otelmcp

import (
	"context"
	"maps"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

const (
	// ScopeName is the import path of this package, as instrumentation scopes are named. No span has it.
	ScopeName = "github.com/otelagent/otelagent/instrumentation/github.com/modelcontextprotocol/go-sdk/otelmcp"
	// Version is the version of this module.
	Version = "0.1.0"
)

// maxValue bounds each value that Server reads, in bytes: it is the most that baggage may have.
const maxValue = 8192

// w3c is what MCP's keys are defined for, whatever the global propagator is.
var w3c = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// Client returns a middleware for sending. It writes the span of the context, its baggage and the run and tool call
// that the context is in into the _meta of each message that has params. The values of the context replace those that
// are there; without a span, or without baggage, those stay. The caller's params are not changed.
func Client() mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			c := propagation.MapCarrier{}
			w3c.Inject(otelagent.ContextWithBaggage(ctx), c)
			if params := paramsOf(req); params != nil && len(c) > 0 {
				add(req, params, c)
			}
			return next(ctx, method, req)
		}
	}
}

// add gives req params of its own with the values of c: params, and the map in them, may be in use elsewhere.
func add(req mcp.Request, params mcp.Params, c propagation.MapCarrier) {
	own := reflect.New(reflect.TypeOf(params).Elem())
	own.Elem().Set(reflect.ValueOf(params).Elem())
	field := reflect.Indirect(reflect.ValueOf(req)).FieldByName("Params")
	if !field.CanSet() || !own.Type().AssignableTo(field.Type()) {
		return
	}
	meta := maps.Clone(params.GetMeta())
	if meta == nil {
		meta = make(map[string]any, len(c))
	}
	if _, ok := c["traceparent"]; ok {
		delete(meta, "tracestate") // that of another span
	}
	for key, value := range c {
		meta[key] = value
	}
	own.Interface().(mcp.Params).SetMeta(meta)
	field.Set(own)
}

// Server returns a middleware for receiving. The context of a handler gets the span and the baggage that the _meta of
// the message names. Where that baggage names a run, a run of this process in whose context the connection was made
// does not enclose what the handler starts. Values that are no text, are malformed or have more than 8,192 bytes are
// ignored.
func Server() mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if params := paramsOf(req); params != nil {
				ctx = extract(ctx, params.GetMeta())
			}
			return next(ctx, method, req)
		}
	}
}

func extract(ctx context.Context, meta map[string]any) context.Context {
	c := propagation.MapCarrier{}
	for _, key := range w3c.Fields() {
		if value, ok := meta[key].(string); ok && len(value) <= maxValue {
			c[key] = value
		}
	}
	ctx = propagation.TraceContext{}.Extract(ctx, c)
	bag, err := baggage.Parse(c["baggage"]) // the propagator logs what strangers send
	if err != nil || bag.Len() == 0 {
		return ctx
	}
	if bag.Member(string(spans.RunIDKey)).Value() != "" {
		ctx = writer.OutsideRuns(ctx)
	}
	return baggage.ContextWithBaggage(ctx, bag)
}

// paramsOf returns the params of req, nil without any.
func paramsOf(req mcp.Request) mcp.Params {
	params := req.GetParams()
	if v := reflect.ValueOf(params); v.Kind() != reflect.Pointer || v.IsNil() {
		return nil
	}
	return params
}
