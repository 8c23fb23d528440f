package export

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// acpDialect is the dialect of sessions that package dialects/acp read from the wire of ACP.
const acpDialect = "acp"

// ACP writes s as a trace of version 1 of the Agent Client Protocol: a line a message,
// {"ts":...,"direction":...,"message":{...}} (README.md has the mapping). No such messages were exchanged, unless
// s came from ACP itself: the trace is a reconstruction, which the _meta of its first message states, and its times are
// those of the tree.
//
// ACP makes it of the rows of Guide, always from the tree, and takes from the tree itself what they lack. It treats
// missing content, ctx and w as JSON does; the list that it returns counts as well what ACP has no place for. A session
// that came from ACP gives back its messages; ACP does not correct what was not valid there.
func ACP(ctx context.Context, w io.Writer, s *session.Session, bodies Bodies, opts Options) ([]Missing, error) {
	g, err := newGuide(ctx, s, bodies, opts, false)
	if err != nil {
		return missingOf(err), err
	}
	t := &trace{
		Guide: g, w: bufio.NewWriterSize(w, 1<<16), unplaced: map[string]int{}, calls: map[string]bool{},
		written: map[*session.Compaction]bool{}, costs: map[string]float64{}, byRun: map[*session.Run][]*unit{},
		summaries: map[*session.Compaction]*unit{}, asked: map[factPlace]bool{}, next: map[direction]int64{},
		waiting: map[direction]map[string]int64{toAgent: {}, toClient: {}},
	}
	t.fromACP = slices.ContainsFunc(s.Runs, func(r *session.Run) bool { return r.Dialect == acpDialect })
	t.planTrace()
	if t.check(); t.missed() != nil {
		return t.missing, t.missed()
	}
	t.begin()
	for _, r := range s.Runs {
		t.run(r)
	}
	t.sendFacts(nil)
	return t.omitted(), flushed(t.w, s)
}

// direction is the side that receives a message.
type direction string

const (
	toAgent  direction = "client_to_agent"
	toClient direction = "agent_to_client"
)

func (d direction) back() direction {
	if d == toAgent {
		return toClient
	}
	return toAgent
}

// moment is when a message came. seq orders messages of one time, but only in sessions that came from ACP: the numbers
// of others may be of several inputs.
type moment struct {
	at  time.Time
	seq int64
}

func startOf(s *session.Span) moment { return moment{s.Start, s.Seq} }

func endOf(s *session.Span) moment { return moment{latest(s.Start, s.End), s.EndSeq} }

func (t *trace) compare(a, b moment) int {
	if c := a.at.Compare(b.at); c != 0 || !t.fromACP {
		return c
	}
	return cmp.Compare(a.seq, b.seq)
}

// wire is one message.
type wire struct {
	moment
	dir    direction
	method string // empty: a response
	params []byte
	// reply is the name under which a request waits for its response, which has it too. A notification has none.
	reply         string
	result, error []byte
}

// trace is one walk over the units of a guide.
type trace struct {
	*Guide
	w       *bufio.Writer
	fromACP bool
	cwd     string

	next    map[direction]int64            // ids of requests
	waiting map[direction]map[string]int64 // requests without a response, by their name
	queue   []wire                         // of the step at hand
	calls   map[string]bool                // ids of tool calls that are in use

	byRun     map[*session.Run][]*unit
	done      []*unit // that were passed
	summaries map[*session.Compaction]*unit
	written   map[*session.Compaction]bool

	facts  []*session.Fact
	asked  map[factPlace]bool // places of facts about a request, which states what it changed
	replay []byte             // updates that came with a session/load
	opened []byte             // the latest initialize

	open      *prompt
	pending   [][]byte // content blocks that no prompt has yet
	pendingOf *unit    // the first of the messages that they are from
	used      int64    // tokens in the model's context
	costs     map[string]float64
	// costless: a turn has no cost.
	costless bool

	unplaced map[string]int // what ACP has no place for, and how often
}

type factPlace struct{ at, seq int64 }

func placeOfFact(f *session.Fact) factPlace { return factPlace{f.At.UnixNano(), f.Seq} }

// planTrace finds the units of each run, and the facts to write.
func (t *trace) planTrace() {
	for _, u := range t.units {
		t.byRun[u.run] = append(t.byRun[u.run], u)
		if u.kind == unitCompaction {
			t.summaries[u.compaction] = u
		} else if u.role == "system" && u.hidden == 0 {
			t.lacks("messages of the role system")
		}
	}
	for _, r := range t.s.Runs {
		for _, x := range r.Permissions {
			if asked(x) && r.Dialect != acpDialect {
				t.lacks(noCall)
			}
		}
	}
	for i := range t.s.Facts {
		f := &t.s.Facts[i]
		key, fromACP := strings.CutPrefix(f.Key, "acp.")
		if _, isUpdate := factUpdates[key]; f.Subject != "session" || !fromACP && !isUpdate {
			continue
		}
		t.fromACP = t.fromACP || fromACP
		if fromACP && slices.Contains(exchanges, key) {
			t.asked[placeOfFact(f)] = true
		}
		t.facts = append(t.facts, f)
	}
	slices.SortStableFunc(t.facts, func(a, b *session.Fact) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Seq, b.Seq), strings.Compare(a.Key, b.Key))
	})
}

const noCall = "questions that are about no tool call"

// skips reports whether a row is not part of the conversation as it is now: rewound, queued or taken off the queue, a
// system message, or of a run that only compacts.
func (t *trace) skips(u *unit) bool {
	queued := func(key string) bool {
		at, known := t.timeFact(u, key)
		return known && at > 0
	}
	return u.hidden > 0 || t.compacts(u) || u.kind == unitMessage &&
		(u.role == "system" || queued("queued_at") || queued("queue_canceled_at"))
}

// compacts reports whether a row is that of a run that only compacts.
func (t *trace) compacts(u *unit) bool {
	return u.kind == unitReply && len(u.steps) == 0 &&
		(len(u.run.Compactions) > 0 || u.run.Continuation == spans.ContinuationCompaction)
}

// check looks for the content that only ACP needs, before anything is written.
func (t *trace) check() {
	t.noted = false
	for x := range references(t.s) {
		if r, turn := x.Run, x.Turn; x.isExtra && isCaptured(r.Capture) && (turn == nil || isCaptured(turn.Capture)) {
			if _, ok := t.body(x.ref); !ok {
				t.miss(whereTurn(r, turn), "block "+x.ref.Block)
			}
		}
	}
	captured := func(r *session.Run) bool { return isCaptured(r.Capture) }
	for _, f := range t.facts {
		if f.Value != nil && (len(t.s.Runs) == 0 || slices.ContainsFunc(t.s.Runs, captured)) {
			if _, ok := t.body(*f.Value); !ok {
				t.miss(f.Subject+" "+f.Key, "block "+f.Value.Block)
			}
		}
	}
	t.noted = true
}

// lacks counts content that ACP has no place for.
func (t *trace) lacks(what string) {
	const most = 64
	if len(t.unplaced) == most && t.unplaced[what] == 0 {
		what = "others"
	}
	t.unplaced[what]++
}

// omitted is what Guide.Missing names, and what ACP has no place for.
func (t *trace) omitted() []Missing {
	l := t.Missing()
	for _, what := range slices.Sorted(maps.Keys(t.unplaced)) {
		l = append(l, Missing{Where: t.s.ID, What: fmt.Sprintf("ACP has no place for %s (%d)", what, t.unplaced[what])})
	}
	return l
}

// send writes messages, each after the facts that were true before it.
func (t *trace) send(l ...wire) {
	for i := range l {
		t.sendFacts(&l[i].moment)
		t.write(l[i])
	}
}

// sendQueue writes the messages of the queue in the order of time.
func (t *trace) sendQueue() {
	slices.SortStableFunc(t.queue, func(a, b wire) int { return t.compare(a.moment, b.moment) })
	t.send(t.queue...)
	t.queue = nil
}

// write writes a message and numbers requests. It omits a response whose request is not there.
func (t *trace) write(m wire) {
	for _, v := range [][]byte{m.params, m.result, m.error} {
		if v != nil && !json.Valid(v) { // a body that is not what its place demands
			t.lacks("a message that is no JSON")
			return
		}
	}
	var id *int64
	switch {
	case m.method == "":
		n, ok := t.waiting[m.dir.back()][m.reply]
		if !ok {
			t.lacks("a response without its request")
			return
		}
		delete(t.waiting[m.dir.back()], m.reply)
		id = &n
	case m.reply != "":
		id = new(t.next[m.dir])
		t.next[m.dir]++
		t.waiting[m.dir][m.reply] = *id
	}
	result := m.result
	if m.error != nil {
		result = nil
	}
	line := fields("ts", m.at.UTC().Format(time.RFC3339Nano), "direction", string(m.dir), "message", fields(
		"jsonrpc", "2.0", "id", id, "error", m.error, "result", result, "method", m.method, "params", m.params))
	var one bytes.Buffer
	_ = json.Compact(&one, line) // which is JSON, since all its values are
	_, _ = t.w.Write(append(bytes.ToValidUTF8(one.Bytes(), []byte("\uFFFD")), '\n'))
}

// update makes a session/update.
func (t *trace) update(m moment, update []byte) wire {
	return wire{moment: m, dir: toClient, method: "session/update",
		params: fields("sessionId", &t.s.ID, "update", update)}
}

// push queues a session/update with those keys and values.
func (t *trace) push(m moment, kind string, keysAndValues ...any) {
	update := fields(append([]any{"sessionUpdate", kind}, keysAndValues...)...)
	t.queue = append(t.queue, t.update(m, update))
}

// exchange writes a request of the client and its response.
func (t *trace) exchange(at time.Time, method string, params, result, failed []byte) {
	m := moment{at: at}
	t.write(wire{moment: m, dir: toAgent, method: method, params: params, reply: method})
	if method == "session/load" {
		for _, u := range elements(t.replay) {
			t.write(t.update(m, u))
		}
		t.replay = nil
	}
	t.write(wire{moment: m, dir: toClient, result: result, error: failed, reply: method})
}

// begin writes the messages that open a connection.
func (t *trace) begin() {
	s := t.s
	at := s.Start
	if len(s.Runs) > 0 && s.Runs[0].Start.Before(at) {
		at = s.Runs[0].Start // it was taken over from another session
	}
	var first *session.Fact
	opens := false
	for _, f := range t.facts {
		if at.IsZero() || f.At.Before(at) {
			at = f.At
		}
		switch f.Key {
		case "acp.initialize":
			first = cmp.Or(first, f)
		case "acp.session/new", "acp.session/load", "acp.session/resume":
			early := len(s.Runs) == 0 || !f.At.After(s.Runs[0].Start)
			opens = opens || early && parse(t.fact(f)).get("result") != nil
		}
	}
	v := t.fact(first)
	params, result := parse(v).get("params"), parse(v).get("result")
	if params != nil && result != nil {
		at, t.opened = first.At, v
	} else {
		params, result = t.capabilities()
	}
	t.exchange(at, "initialize", t.mark(params), result, nil)
	if opens {
		return
	}
	t.findCWD()
	t.exchange(at, "session/new", fields("cwd", t.cwd, "mcpServers", []byte("[]")), fields("sessionId", &s.ID), nil)
}

// capabilities are those that the two sides need for the messages that follow.
func (t *trace) capabilities() (params, result []byte) {
	var own, clientInfo []byte
	switch {
	case t.fromACP:
		own = []byte(`{"compaction":{},"notices":{}}`)
	case len(t.summaries) > 0:
		own = []byte(`{"compaction":{}}`)
	}
	agentInfo := fields("name", cmp.Or(sessionAgent(t.s), "unknown"), "version", "0")
	for _, r := range t.s.Runs {
		if config := parse([]byte(r.Config)); r.Dialect == acpDialect && config != nil {
			clientInfo = config.get("clientInfo")
			if v := config.get("agentInfo"); v != nil {
				agentInfo = v
			}
			break
		}
	}
	acp := &t.fromACP
	client := fields("fs", fields("readTextFile", acp, "writeTextFile", acp), "terminal", acp, "session", own)
	prompts := []byte(`{"image":true,"audio":true,"embeddedContext":true}`)
	return fields("protocolVersion", 1, "clientCapabilities", client, "clientInfo", clientInfo),
		fields("protocolVersion", 1, "agentCapabilities", fields("loadSession", acp, "promptCapabilities", prompts),
			"agentInfo", agentInfo, "authMethods", []byte("[]"))
}

// mark states in the _meta of params that the trace is a reconstruction.
func (t *trace) mark(params []byte) []byte {
	own := fields("reconstructed", true, "format", 1, "session", &t.s.ID, "dialect", t.s.Dialect)
	o := parse(params)
	meta := o.object("_meta").with(member{extensionKey, own})
	return o.with(member{"_meta", meta.bytes()}).bytes()
}

// findCWD finds the folder that the session is about, "/" where that is not known.
func (t *trace) findCWD() {
	roots := []string{parse(t.fact(t.s.Fact("session", factRow))).text("workspace_root")}
	for _, r := range t.s.Runs {
		config := parse([]byte(r.Config))
		roots = append(roots, cmp.Or(config.text("workspace_root"), config.text("cwd")))
	}
	t.cwd = "/"
	if i := slices.IndexFunc(roots, path.IsAbs); i >= 0 {
		t.cwd = roots[i]
	}
}
