package acp

import (
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Direction is the way that a message goes. The zero value is that it is not known.
type Direction uint8

// Directions.
const (
	Unknown  Direction = iota
	ToAgent            // from the client, which is the editor
	ToClient           // from the agent
)

// directions are the values of "direction" in a capture.
var directions = map[string]Direction{`"client_to_agent"`: ToAgent, `"agent_to_client"`: ToClient}

// Methods that the package takes apart.
const (
	mInitialize = "initialize"
	mNew        = "session/new"
	mLoad       = "session/load"
	mFork       = "session/fork"
	mClose      = "session/close"
	mPrompt     = "session/prompt"
	mUpdate     = "session/update"
	mPermission = "session/request_permission"
	mTermCreate = "terminal/create"
)

// frame is one JSON-RPC message and what its envelope states.
type frame struct {
	meta    event.Meta
	dir     Direction
	raw     []byte         // the message, or the line that stands for it
	o       *object.Object // the same
	payload string         // the key of the result

	response            bool
	method, id          string         // the id as it is spelled; empty of notifications
	in                  *object.Object // the params of a request
	params, result, err []byte
	more                []byte // members that a message does not have, as an object
}

// bad reports whether the line has a problem.
func (f *frame) bad() bool { return f.o.Failed() > 0 }

// answer returns the result of a response, which must be an object of a shape; nil when it is not.
func (f *frame) answer(shape string) *object.Object {
	f.o.Require(f.payload)
	result := f.o.Object(f.payload)
	if input.Check(result, shape); f.bad() {
		return nil
	}
	return result
}

// unwrap finds the message of a line. It reports false for a line that repeats a message.
func (d *Decoder) unwrap(f *frame) bool {
	o := f.o
	if f.dir == Unknown {
		if o.Has("from") && o.Has("to") && !o.Has("jsonrpc") {
			return d.hop(f)
		}
		f.meta.Time, _ = input.Time(o.Raw(input.Key))
		f.dir = directions[string(o.Raw("direction"))]
		if o.Has("message") && !o.Has("jsonrpc") && !o.Has("method") {
			m := o.Object("message")
			if m == nil {
				return false
			}
			f.raw, f.o = o.Raw("message"), m
		}
	}
	m := f.o
	m.Use("jsonrpc")
	if f.response = m.Spelled("method") == nil; !f.response {
		if input.Check(m, "method!"); !f.bad() {
			f.method = m.String("method")
		}
	}
	f.id = string(m.Spelled("id"))
	if f.id != "" && strings.IndexByte("{[tf", f.id[0]) >= 0 {
		m.Fail("id", "want a number, a string or null, got "+rawjson.KindOf([]byte(f.id)))
	}
	f.params, f.result, f.payload = m.Raw("params"), m.Spelled("result"), "result"
	if m.Object("error") != nil {
		f.err = m.Raw("error")
	}
	if f.response && !f.bad() && (f.id == "" || f.result == nil && f.err == nil) {
		m.Fail("method", "missing, and no response with id and result or error")
	}
	f.more = m.Rest()
	return true
}

// hop reads a line of the trace that the official Rust conductor writes. A message has a line for each hop from the
// client over proxies to the agent, with ids of its own. The hop at the client counts, or, of what goes to the client
// over proxies, the hop at the first proxy, since the trace has no other. It reports false for the rest.
func (d *Decoder) hop(f *frame) bool {
	o := f.o
	f.payload = "payload"
	f.meta.Time = d.sinceStart(o.Float(input.Key), f.meta.Arrived)
	f.method, f.id, f.params = o.String("method"), string(o.Spelled("id")), o.Raw("params")
	switch {
	case o.String("protocol") == "mcp":
		f.method = "mcp/" + f.method // MCP has methods of the same names
	case f.method == "_proxy/initialize":
		f.method = mInitialize // the conductor sends it to a proxy in its place
	}
	from, to := o.String("from"), o.String("to")
	if f.dir = ToClient; from == "Client" {
		f.dir = ToAgent
	}
	switch o.String("type") {
	case "response":
		f.response, f.dir = true, Unknown // the hop of its request counts, and ids are unique
		f.result = o.Spelled("payload")
		if failed := o.Bool("is_error"); failed != nil && *failed {
			f.result, f.err = nil, f.result
		}
		return true
	case "notification":
		f.id = ""
	case "request":
	default:
		o.Fail("type", "want request, response or notification")
	}
	return from == "Client" || to == "Client" || to == "Proxy(0)"
}

// sinceStart returns the time of seconds since an unknown start. Live the start follows from when the first line came.
// In a recording times count from the beginning of 1970, which nobody takes for a date: their distances are right.
func (d *Decoder) sinceStart(seconds *float64, arrived time.Time) time.Time {
	if seconds == nil || *seconds < 0 || *seconds > 1e9 {
		return time.Time{}
	}
	since := time.Duration(*seconds * float64(time.Second))
	if d.epoch.IsZero() {
		d.epoch = time.Unix(0, 1).UTC()
		if !arrived.IsZero() {
			d.epoch = arrived.Add(-since)
		}
	}
	return d.epoch.Add(since)
}

// Recognise returns why a line, which may be cut, is a message of ACP, without content of it; empty when it is none.
func Recognise(o input.Outline) (why string) {
	switch {
	case o.Has("", "jsonrpc"):
		return "lines with jsonrpc"
	case o.Has("message", "jsonrpc"):
		return "lines with a message of jsonrpc"
	case o.Has("", "from") && o.Has("", "to") && o.Has("", input.Key) && o.Has("", "method", "payload"):
		return "lines with from, to and a method or payload, as a conductor traces"
	}
	return ""
}

// loose reads an object whose problems are no problems of the line.
func loose(raw []byte) *object.Object { return object.Of("", raw) }

// elements reads an array of objects whose problems are no problems of the line.
func elements(raw []byte) []*object.Object { return loose(input.Members("list", raw)).Objects("list") }
