package acp

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/otelagent"
)

// Direction says which way a message goes. The zero value is that it is not known.
type Direction uint8

// Directions.
const (
	Unknown  Direction = iota
	ToAgent            // from the client, which is the editor
	ToClient           // from the agent
)

func (d Direction) back() Direction {
	switch d {
	case ToAgent:
		return ToClient
	case ToClient:
		return ToAgent
	}
	return Unknown
}

// frame is one JSON-RPC message and what its envelope tells.
type frame struct {
	meta otelagent.Meta
	dir  Direction
	conn string // names the connection, where a capture holds several
	// hops says that the capture tells each message once for every hop and that its ids are unique: a response that answers
	// nothing belongs to another hop.
	hops bool
	raw  []byte // the message, or what stands for it

	hasMethod           bool
	method              string
	id                  []byte // as it is spelled; nil of notifications
	params, result, err []byte
	more                object // members that a message does not have
}

// name is what a problem with the message is told under.
func (f *frame) name() string {
	if knownMethod(f.method) {
		return f.method
	}
	return ""
}

// The keys under which envelopes have the message, its time and its direction.
var (
	messageKeys   = []string{"message", "json", "msg", "frame", "rpc", "payload", "data", "line", "raw"}
	timeKeys      = []string{input.Key, "timestamp", "time", "at"}
	directionKeys = []string{"direction", "dir"}
)

// sidecar is the member that VS Code's agent host adds to the messages that it logs.
const sidecar = "_ahpLog"

// unwrap finds the message of a line. Passed says that the line has none of its own: it is the same message on another hop.
func (d *Decoder) unwrap(f *frame, o object, text []byte) (passed bool, problem *input.LineError) {
	f.raw = text
	if from, to := o.word("from"), o.word("to"); from != "" && to != "" {
		switch kind := o.word("type"); kind {
		case "request", "response", "notification":
			return d.conductor(f, o, kind, from, to), nil
		}
	}
	if side := o.object(sidecar); side != nil {
		f.meta.Time, _ = input.Time(side.get(input.Key))
		f.dir, f.conn = directionOf(side.word("dir")), side.word("connectionId")
		return false, f.read(o, sidecar)
	}
	if isMessage(o) {
		if f.meta.Time.IsZero() {
			f.meta.Time = firstTime(o)
		}
		if f.dir == Unknown {
			f.dir = firstDirection(o)
		}
		return false, f.read(o, append(append([]string{"jsonrpc"}, timeKeys...), directionKeys...)...)
	}
	inner := firstMessage(o)
	dir := firstDirection(o)
	if inner == nil {
		for _, m := range o { // {"c2s": {…}}
			if way := directionOf(m.key); way != Unknown && m.value[0] == '{' {
				inner, dir = m.value, way
			}
		}
	}
	if inner == nil {
		return false, &input.LineError{Reason: "no JSON-RPC message in it: want jsonrpc or method, or an envelope with message"}
	}
	f.meta.Time, f.dir = firstTime(o), dir
	if inner[0] == '"' {
		d.arena = rawjson.AppendString(d.arena[:0], inner)
		inner = bytes.TrimSpace(d.arena)
		if len(inner) == 0 {
			return false, &input.LineError{Field: "message", Reason: "empty"}
		}
	}
	message, problem := parseLine(inner)
	if problem != nil {
		problem.Field = "message"
		return false, problem
	}
	if !isMessage(message) {
		return false, &input.LineError{Field: "message", Reason: "no JSON-RPC message"}
	}
	f.raw = inner
	return false, f.read(message, "jsonrpc")
}

// isMessage reports whether o is a JSON-RPC message, with jsonrpc or as sacp-tee writes it, without.
func isMessage(o object) bool {
	return o.raw("jsonrpc") != nil || o.word("method") != "" || o.raw("id") != nil && (o.raw("result") != nil || o.raw("error") != nil)
}

// read takes the members of a message. Those of the envelope are named by around.
func (f *frame) read(o object, around ...string) *input.LineError {
	var p fields
	if v := o.raw("method"); v != nil {
		f.hasMethod = true
		f.method = p.id("method", v)
	}
	f.id = o.raw("id")
	if f.id != nil && strings.IndexByte(`"n`+numbers, f.id[0]) < 0 {
		p.problem("id", "want a number, a string or null, got "+rawjson.KindOf(f.id))
	}
	f.params = o.get("params")
	f.result = o.raw("result")
	f.err = p.want("error", o.get("error"), "{", "an object")
	if !f.hasMethod && p.wrong == nil && (f.id == nil || f.result == nil && f.err == nil) {
		p.problem("method", "missing, and no response with id and result or error")
	}
	if body, more := o.without(append(around, "jsonrpc", "method", "id", "params", "result", "error")...); more {
		f.more, _ = members(body)
	}
	// sacp-tee writes the error of a response as text inside the result.
	if !f.hasMethod && f.err == nil && o.raw("jsonrpc") == nil {
		if inner, ok := members(f.result); ok && len(inner) == 1 && inner.word("error") != "" {
			f.err = append(append([]byte(`{"message":`), inner.get("error")...), '}')
		}
	}
	return p.wrong
}

// conductor reads a line of the trace that the official Rust conductor writes. A message stands there once for each hop from client over
// proxies to agent, with ids of its own: read is the hop at the client. Of what goes to the client that hop is not written where there
// are proxies, and the one before it counts.
func (d *Decoder) conductor(f *frame, o object, kind, from, to string) (passed bool) {
	f.hops = true
	f.meta.Time = d.sinceStart(o.get(input.Key), f.meta.Arrived)
	f.method, f.hasMethod = o.word("method"), kind != "response"
	if o.word("protocol") == "mcp" {
		f.method = "mcp/" + f.method // it has methods of the same names
	}
	f.id = o.raw("id")
	f.params = o.get("params")
	switch {
	case kind == "response" && string(o.get("is_error")) == "true":
		f.err = o.raw("payload")
	case kind == "response":
		f.result = o.raw("payload")
	}
	if kind == "notification" {
		f.id = nil
	}
	from, to = strings.ToLower(from), strings.ToLower(to)
	f.dir = ToClient
	if from == "client" {
		f.dir = ToAgent
	}
	if kind == "response" {
		f.dir = Unknown // the hop of its request counts, and ids are unique
		return false
	}
	return from != "client" && to != "client" && to != "proxy(0)" && to != "proxy:0"
}

// sinceStart turns seconds since an unknown start into a time. Live the start follows from when the first line came. In a recording it
// stays unknown: times then count from the beginning of 1970, which nobody takes for a date, so that distances are right.
func (d *Decoder) sinceStart(seconds []byte, arrived time.Time) time.Time {
	s, err := strconv.ParseFloat(string(seconds), 64)
	if err != nil || s < 0 || s > 1e9 {
		return time.Time{}
	}
	since := time.Duration(s * float64(time.Second))
	if d.epoch.IsZero() {
		d.epoch = time.Unix(0, 1).UTC()
		if !arrived.IsZero() {
			d.epoch = arrived.Add(-since)
		}
	}
	return d.epoch.Add(since)
}

func firstTime(o object) time.Time {
	for _, k := range timeKeys {
		if t, ok := input.Time(o.get(k)); ok {
			return t
		}
	}
	return time.Time{}
}

func firstDirection(o object) Direction {
	for _, k := range directionKeys {
		if dir := directionOf(o.word(k)); dir != Unknown {
			return dir
		}
	}
	return Unknown
}

func firstMessage(o object) []byte {
	for _, k := range messageKeys {
		if v := o.get(k); v != nil && (v[0] == '{' || v[0] == '"') {
			return v
		}
	}
	return nil
}

// directionOf reads a direction in the words of the captures. Words that say only that something comes or goes (downstream, incoming) say
// nothing here: sacp-tee calls every request downstream.
func directionOf(word string) Direction {
	if len(word) > 32 {
		return Unknown
	}
	letters := strings.Map(func(r rune) rune {
		switch {
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		}
		return -1
	}, word)
	switch letters {
	case "clienttoagent", "fromclient", "toagent", "c2a", "c2s", "clienttoserver", "client", "stdin", "editortoagent":
		return ToAgent
	case "agenttoclient", "fromagent", "toclient", "a2c", "s2c", "servertoclient", "agent", "stdout", "agenttoeditor":
		return ToClient
	}
	return Unknown
}

// debugLog reads lines of text that hold a message: those of the conductor's debug log, and any log that says c2s or s2c before it.
type debugLog struct {
	on      bool
	started time.Time
	label   string // of the first component, which is the one next to the client
}

const debugLogHead = "=== Conductor Debug Log ==="

// line returns the message in a line of text, or the line as it is. Passed says that the line has none.
func (l *debugLog) line(f *frame, text []byte) (message []byte, passed bool) {
	if string(text) == debugLogHead {
		*l = debugLog{on: true}
		return nil, true
	}
	if !l.on {
		at := bytes.IndexByte(text, '{')
		if at < 0 {
			return text, false
		}
		for word := range bytes.FieldsFuncSeq(text[:at], func(r rune) bool { return strings.ContainsRune(" \t:[]()|<>-=,", r) }) {
			if len(word) == 3 {
				if dir := directionOf(string(word)); dir != Unknown {
					f.dir = dir
					if first, _, _ := bytes.Cut(text, []byte(" ")); len(first) < 64 {
						if t, err := time.Parse(time.RFC3339Nano, string(bytes.Trim(first, "[]"))); err == nil {
							f.meta.Time = t.UTC()
						}
					}
					return text[at:], false
				}
			}
		}
		return text, false
	}
	if started, ok := bytes.CutPrefix(text, []byte("Started: ")); ok && l.started.IsZero() {
		if t, err := time.Parse(time.RFC3339Nano, string(started)); err == nil {
			l.started = t.UTC()
		}
		return nil, true
	}
	label, rest, _ := bytes.Cut(text, []byte(" "))
	arrow, rest, _ := bytes.Cut(rest, []byte(" "))
	since, rest, _ := bytes.Cut(rest, []byte(" "))
	ms, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimPrefix(string(since), "+"), "ms"), 10, 48)
	switch string(arrow) {
	case "→":
		f.dir = ToAgent
	case "←":
		f.dir = ToClient
	}
	if rest = bytes.TrimSpace(rest); err != nil || ms < 0 || f.dir == Unknown || len(rest) == 0 || rest[0] != '{' {
		return nil, true // the head of the log, what a component wrote to its standard error
	}
	if l.label == "" {
		l.label = string(label)
	}
	if l.label != string(label) {
		return nil, true // the same message on another hop
	}
	if !l.started.IsZero() {
		f.meta.Time = l.started.Add(time.Duration(ms) * time.Millisecond)
	}
	return rest, false
}
