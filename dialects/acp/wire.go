package acp

import (
	"strings"

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
	meta event.Meta
	dir  Direction
	raw  []byte         // the message
	o    *object.Object // the same

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
	f.o.Require("result")
	result := f.o.Object("result")
	if input.Check(result, shape); f.bad() {
		return nil
	}
	return result
}

// unwrap finds the message of a line. It reports false for a line without one.
func unwrap(f *frame) bool {
	o := f.o
	if f.dir == Unknown {
		f.meta.Time = input.Time(o.Raw(input.Key))
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
	shape := "jsonrpc:any id:any params:any result:any error:any"
	if f.response = m.Spelled("method") == nil; !f.response {
		shape += " method!"
	}
	input.Check(m, shape)
	f.method, f.id = m.Text("method"), string(m.Spelled("id"))
	if f.id != "" && strings.IndexByte("{[tf", f.id[0]) >= 0 {
		m.Fail("id", "want a number, a string or null, got "+rawjson.KindOf([]byte(f.id)))
	}
	f.params, f.result = m.Raw("params"), m.Spelled("result")
	if m.Object("error") != nil {
		f.err = m.Raw("error")
	}
	if f.response && !f.bad() && (f.id == "" || f.result == nil && f.err == nil) {
		m.Fail("method", "missing, and no response with id and result or error")
	}
	f.more = m.Rest()
	return true
}

// Recognise returns why a line, which may be cut, is a message of ACP, without content of it; empty when it is not.
func Recognise(o input.Outline) (why string) {
	switch {
	case o.Has("", "jsonrpc"):
		return "lines with jsonrpc"
	case o.Has("message", "jsonrpc"):
		return "lines with a message of jsonrpc"
	}
	return ""
}

// loose reads an object whose problems are no problems of the line.
func loose(raw []byte) *object.Object { return object.Of("", raw) }

// elements reads an array of objects whose problems are no problems of the line.
func elements(raw []byte) []*object.Object { return loose(input.Members("list", raw)).Objects("list") }
