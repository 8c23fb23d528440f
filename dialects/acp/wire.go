package acp

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/internal/object"
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

// directions are the values of "direction" in a capture.
var directions = map[string]Direction{`"client_to_agent"`: ToAgent, `"agent_to_client"`: ToClient}

// The methods of version 1 that are read, of the released protocol and of what SDK 2.4.0 has besides it.
const (
	mInitialize  = "initialize"
	mNew         = "session/new"
	mLoad        = "session/load"
	mResume      = "session/resume"
	mFork        = "session/fork"
	mClose       = "session/close"
	mSetMode     = "session/set_mode"
	mSetModel    = "session/set_model"
	mSetConfig   = "session/set_config_option"
	mPrompt      = "session/prompt"
	mCancel      = "session/cancel"
	mUpdate      = "session/update"
	mPermission  = "session/request_permission"
	mReadFile    = "fs/read_text_file"
	mWriteFile   = "fs/write_text_file"
	mTermCreate  = "terminal/create"
	mTermOutput  = "terminal/output"
	mTermWait    = "terminal/wait_for_exit"
	mTermKill    = "terminal/kill"
	mTermRelease = "terminal/release"
	mElicit      = "elicitation/create"
)

// methods are those whose messages are checked. Wants are members that a result of one always has: they tell a response
// apart from that to another request of the same id. Addressed are methods that must name a session, and work is the
// member that one about files or terminals must have.
var methods = map[string]struct {
	wants     []string
	addressed bool
	work      string
}{
	mInitialize:    {wants: []string{"protocolVersion"}},
	mNew:           {wants: []string{"sessionId"}},
	mLoad:          {addressed: true},
	mFork:          {wants: []string{"sessionId"}},
	"session/list": {wants: []string{"sessions"}},
	mSetConfig:     {wants: []string{"configOptions"}},
	mPrompt:        {wants: []string{"stopReason"}, addressed: true},
	mCancel:        {addressed: true},
	mUpdate:        {addressed: true},
	mPermission:    {wants: []string{"outcome"}, addressed: true},
	mReadFile:      {wants: []string{"content"}, addressed: true, work: "path"},
	mWriteFile:     {addressed: true, work: "path"},
	mTermCreate:    {wants: []string{"terminalId"}, addressed: true, work: "command"},
	mTermOutput:    {wants: []string{"output", "truncated"}, addressed: true, work: "terminalId"},
	mTermWait:      {addressed: true, work: "terminalId"},
	mTermKill:      {addressed: true, work: "terminalId"},
	mTermRelease:   {addressed: true, work: "terminalId"},
	mElicit:        {wants: []string{"action"}},
}

// frame is one JSON-RPC message and what its envelope says.
type frame struct {
	meta otelagent.Meta
	dir  Direction
	raw  []byte         // the message, or what stands for it
	o    *object.Object // the same
	// hops says that the capture has each message once for every hop and that its ids are unique: a response that answers
	// nothing belongs to another hop. Passed says that this line is such another hop.
	hops, passed bool

	response            bool
	method, id          string // the id as it is spelled; empty of notifications
	in                  *object.Object
	params, result, err []byte
	more                []byte // members that a message does not have, as an object
	resultKey           string
}

// bad reports whether the line has a problem.
func (f *frame) bad() bool { return f.o.Failed() > 0 }

// name is the type under which a problem with the message is reported.
func (f *frame) name() string {
	if _, known := methods[f.method]; known {
		return f.method
	}
	return ""
}

// unwrap finds the message of a line.
func (d *Decoder) unwrap(f *frame) {
	o := f.o
	if f.dir == Unknown {
		if o.Has("from") && o.Has("to") && !o.Has("jsonrpc") {
			d.conductor(f)
			return
		}
		f.meta.Time, _ = input.Time(o.Raw(input.Key))
		f.dir = directions[string(o.Raw("direction"))]
		if o.Has("message") && !o.Has("jsonrpc") && !o.Has("method") {
			if f.raw, f.o = o.Raw("message"), o.Object("message"); f.o == nil {
				f.o = o
				return
			}
		}
	}
	m := f.o
	if m.Use("jsonrpc"); m.Spelled("method") == nil {
		f.response = true
	} else {
		f.method = identifier(m, "method")
	}
	f.id = string(m.Spelled("id"))
	if f.id != "" && strings.IndexByte("{[tf", f.id[0]) >= 0 {
		m.Fail("id", "want a number, a string or null, got "+rawjson.KindOf([]byte(f.id)))
	}
	f.params, f.result, f.resultKey = m.Raw("params"), m.Spelled("result"), "result"
	if m.Object("error") != nil {
		f.err = m.Raw("error")
	}
	if f.response && !f.bad() && (f.id == "" || f.result == nil && f.err == nil) {
		m.Fail("method", "missing, and no response with id and result or error")
	}
	f.more = m.Rest()
}

// conductor reads a line of the trace that the official Rust conductor writes. A message stands there once for each hop
// from client over proxies to agent, with ids of its own: the hop at the client is read. Of what goes to the client
// that hop is not written where there are proxies, and the one before it counts.
func (d *Decoder) conductor(f *frame) {
	o := f.o
	f.hops = true
	f.meta.Time = d.sinceStart(o.Float(input.Key), f.meta.Arrived)
	f.method, f.id, f.params, f.resultKey = o.String("method"), string(o.Spelled("id")), o.Raw("params"), "payload"
	if o.String("protocol") == "mcp" {
		f.method = "mcp/" + f.method // it has methods of the same names
	}
	from, to := strings.ToLower(o.String("from")), strings.ToLower(o.String("to"))
	f.dir = ToClient
	if from == "client" {
		f.dir = ToAgent
	}
	switch kind := o.String("type"); kind {
	case "response":
		f.response, f.dir = true, Unknown // the hop of its request counts, and ids are unique
		if failed := o.Bool("is_error"); failed != nil && *failed {
			f.err = o.Spelled("payload")
		} else {
			f.result = o.Spelled("payload")
		}
		return
	case "notification":
		f.id = ""
	case "request":
	default:
		o.Fail("type", "want request, response or notification")
	}
	if f.method == "_proxy/initialize" {
		f.method = mInitialize // a conductor sends it to a proxy in its place
	}
	f.passed = from != "client" && to != "client" && to != "proxy(0)" && to != "proxy:0"
}

// sinceStart turns seconds since an unknown start into a time. Live the start follows from when the first line came. In
// a recording it stays unknown: times then count from the beginning of 1970, which nobody takes for a date, so that
// distances are right.
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

// identifier reads a string that has to be there and must not be empty.
func identifier(o *object.Object, key string) string {
	o.Require(key)
	s := o.String(key)
	if s == "" && string(o.Raw(key)) == `""` {
		o.Fail(key, "want a string that is not empty")
	}
	return s
}

// need reads an object that has to be there.
func need(o *object.Object, key string) *object.Object {
	o.Require(key)
	return o.Object(key)
}

// array reads an array as it is spelled; nil when it is absent.
func array(o *object.Object, key string) []byte {
	if o.List(key) == nil {
		return nil
	}
	return o.Raw(key)
}

// loose reads an object of which nothing is a problem of the line.
func loose(raw []byte) *object.Object { return object.Of("", raw) }

// part is a member of an object that is written.
type part struct {
	key   string
	value []byte
}

// joined returns the parts that have a value as one object; nil when none has.
func joined(parts ...part) []byte {
	var members [][]byte
	for _, p := range parts {
		if len(p.value) > 0 {
			members = append(members, slices.Concat(quoted(p.key), []byte{':'}, p.value))
		}
	}
	if members == nil {
		return nil
	}
	return slices.Concat([]byte{'{'}, bytes.Join(members, []byte{','}), []byte{'}'})
}

// listed returns values as an array; nil without any.
func listed(values [][]byte) []byte {
	if len(values) == 0 {
		return nil
	}
	return slices.Concat([]byte{'['}, bytes.Join(values, []byte{','}), []byte{']'})
}

// quoted returns text as JSON.
func quoted(text string) []byte { return rawjson.Quote(nil, text) }

// str is a part that is a string, and some one that is left out when it is empty.
func str(key, value string) part { return part{key, quoted(value)} }

func some(key, value string) part {
	if value == "" {
		return part{}
	}
	return str(key, value)
}

// Recognise reports whether head, the beginning of an input of up to 64 KiB that may be cut anywhere, is a capture of
// ACP, and why in a few words that hold nothing of it. The first line that is none of our own dialect decides.
func Recognise(head []byte) (why string, ok bool) {
	var text []byte
	for in := input.NewScanner(bytes.NewReader(head), input.SettingsOf()); text == nil && in.Scan(); {
		if line := in.Line().Text; !ndjson.Own(line) {
			text = line
		}
	}
	keys, kind := map[string]bool{}, ""
	c := rawjson.NewCursor(text, object.MaxDepth)
	for c.Open('{'); c.More('}'); {
		key := string(c.Key())
		keys[key] = true
		if value := c.Value(); key == "type" {
			kind = string(value)
		}
	}
	switch {
	case keys["jsonrpc"]:
		return "lines with jsonrpc", true
	case keys["message"] && bytes.Contains(text, []byte(`"jsonrpc"`)):
		return "lines with a message of jsonrpc", true
	case keys["from"] && keys["to"] && keys[input.Key]:
		if kind == `"request"` || kind == `"notification"` || kind == `"response"` {
			return "lines with type, from and to, as a conductor traces", true
		}
	}
	return "", false
}
