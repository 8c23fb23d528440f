package export

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// acpDialect is the dialect of sessions that package dialects/acp read from the wire of ACP.
const acpDialect = "acp"

// ACP writes s as a trace of version 1 of the Agent Client Protocol: a line a message,
// {"ts":...,"direction":...,"message":{...}} (README.md has the mapping). The trace is a reconstruction, which the
// _meta of its first message states, and its times are those of the tree.
//
// ACP makes it of the rows of Guide, always from the tree. Messages that a session from ACP kept as they were come back
// at their times; ACP does not correct what was not valid there. It treats missing content and w as JSON does; the
// list that it returns counts as well what ACP has no place for.
func ACP(w io.Writer, s session.Tree, opts Options) ([]Missing, error) {
	g, err := newGuide(s, opts, false)
	if err != nil {
		return nil, err
	}
	t := &trace{
		Guide: g, unplaced: map[string]int{}, calls: map[string]bool{}, units: map[*session.Run][]*unit{},
		summaries: map[*session.Run][]*unit{},
		next:      map[direction]int64{}, waiting: map[direction]map[string]int64{toAgent: {}, toClient: {}},
	}
	t.begin(t.planTrace())
	for _, r := range s.Runs {
		t.run(r)
	}
	t.sendFacts(nil)
	if err := t.missed(); err != nil {
		return t.missing, err
	}
	missing := t.Missing()
	for _, what := range slices.Sorted(maps.Keys(t.unplaced)) {
		text := fmt.Sprintf("ACP has no place for %s (%d)", what, t.unplaced[what])
		missing = append(missing, Missing{Where: s.ID, What: text})
	}
	out := bufio.NewWriter(w)
	_, _ = out.Write(t.out)
	return missing, flushed(out, s.Session)
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
	out     []byte
	fromACP bool
	cwd     string

	next    map[direction]int64            // ids of requests
	waiting map[direction]map[string]int64 // requests without a response, by their name
	queue   []wire                         // of the current step
	facts   []wire                         // that facts keep, in their order
	calls   map[string]bool                // ids of tool calls that are in use
	units   map[*session.Run][]*unit       // those of the conversation as it is now
	replay  []byte                         // updates that came with a session/load
	opened  []byte                         // the latest initialize

	open      *prompt
	pending   [][]byte                 // content blocks that no prompt has yet
	pendingOf *unit                    // the first of the messages that they are from
	summaries map[*session.Run][]*unit // of compactions, not written yet

	unplaced map[string]int // what ACP has no place for, and how often
}

// planTrace finds the units of each run, and returns the facts to write. Rows that are rewound, that wait in a queue or
// were taken off it, and system messages are not part of the conversation.
func (t *trace) planTrace() (facts []*session.Fact) {
	queued := func(u *unit, key string) bool {
		at, known := t.timeFact(u, key)
		return known && at > 0
	}
	for _, u := range t.Guide.units {
		switch {
		case u.hidden > 0, queued(u, "queued_at"), queued(u, "queue_canceled_at"):
		case u.role == "system":
			t.lacks("messages of the role system")
		case u.kind == unitCompaction:
			t.summaries[u.run] = append(t.summaries[u.run], u)
		default:
			t.units[u.run] = append(t.units[u.run], u)
		}
	}
	for _, r := range t.s.Runs {
		t.fromACP = t.fromACP || r.Dialect == acpDialect
	}
	for i := range t.s.Facts {
		f := &t.s.Facts[i]
		_, isUpdate := factUpdates[f.Key]
		if fromACP := strings.HasPrefix(f.Key, "acp."); f.Subject == "session" && (fromACP || isUpdate) {
			t.fromACP = t.fromACP || fromACP
			facts = append(facts, f)
		}
	}
	slices.SortStableFunc(facts, func(a, b *session.Fact) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Seq, b.Seq), strings.Compare(a.Key, b.Key))
	})
	return facts
}

// need returns a body that only ACP needs; nil where it is not there, which it notes where content was captured.
func (t *trace) need(ref *session.Ref, where string, captured bool) []byte {
	if ref == nil {
		return nil
	}
	body, ok := t.body(*ref)
	switch {
	case ok:
		return []byte(body)
	case captured:
		t.miss(where, "block "+ref.Block)
	}
	return nil
}

// lacks counts content that ACP has no place for.
func (t *trace) lacks(what string) {
	const most = 64
	if len(t.unplaced) == most && t.unplaced[what] == 0 {
		what = "others"
	}
	t.unplaced[what]++
}

// push queues a session/update with those keys and values.
func (t *trace) push(m moment, kind string, keysAndValues ...any) {
	update := fields(append([]any{"sessionUpdate", kind}, keysAndValues...)...)
	t.queue = append(t.queue, t.update(m, update))
}

// update makes a session/update.
func (t *trace) update(m moment, update []byte) wire {
	return wire{moment: m, dir: toClient, method: "session/update",
		params: fields("sessionId", &t.s.ID, "update", update)}
}

// send writes the messages of the queue in the order of time, each after the facts that were true before it.
func (t *trace) send() {
	slices.SortStableFunc(t.queue, func(a, b wire) int { return t.compare(a.moment, b.moment) })
	for i := range t.queue {
		t.sendFacts(&t.queue[i].moment)
		t.write(t.queue[i])
	}
	t.queue = nil
}

// write writes a message and numbers requests. It omits a response whose request is not there.
func (t *trace) write(m wire) {
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
	if m.error != nil {
		m.result = nil
	}
	line := fields("ts", m.at.UTC().Format(time.RFC3339Nano), "direction", string(m.dir), "message", fields(
		"jsonrpc", "2.0", "id", id, "error", m.error, "result", m.result, "method", m.method, "params", m.params))
	var one bytes.Buffer
	if json.Compact(&one, line) != nil { // of a body that is not what its place demands
		t.lacks("a message that is no JSON")
		return
	}
	t.out = append(append(t.out, bytes.ToValidUTF8(one.Bytes(), []byte("\uFFFD"))...), '\n')
}

// exchange makes a request of the client and its response.
func (t *trace) exchange(m moment, method string, params, result, failed []byte) []wire {
	if params == nil || result == nil && failed == nil {
		t.lacks(method + ", of which no content is there")
		return nil
	}
	l := []wire{{moment: m, dir: toAgent, method: method, params: params, reply: method}}
	if method == "session/load" {
		for _, u := range elements(t.replay) {
			l = append(l, t.update(m, u))
		}
		t.replay = nil
	}
	return append(l, wire{moment: m, dir: toClient, result: result, error: failed, reply: method})
}

// begin writes the messages that open a connection, and makes those of the facts.
func (t *trace) begin(facts []*session.Fact) {
	s, at := t.s, t.s.Start
	var first *session.Fact
	opens := false
	for _, f := range facts {
		if at.IsZero() || f.At.Before(at) {
			at = f.At
		}
		switch f.Key {
		case "acp.initialize":
			first = cmp.Or(first, f)
		case "acp.session/new", "acp.session/load", "acp.session/resume":
			early := len(s.Runs) == 0 || !f.At.After(s.Runs[0].Start)
			opens = opens || early && parse(t.fact(f)).Spelled("result") != nil
		}
	}
	v := t.fact(first)
	params, result := parse(v).Spelled("params"), parse(v).Spelled("result")
	if params != nil && result != nil {
		at, t.opened = first.At, v
	} else {
		params, result = t.capabilities()
	}
	// The _meta of params states that the trace is a reconstruction.
	own := fields("reconstructed", true, "format", 1, "session", &s.ID, "dialect", s.Dialect)
	meta := edited(parse(params).Object("_meta"), []string{extensionKey}, extensionKey, own)
	params = edited(parse(params), []string{"_meta"}, "_meta", meta)
	opening := t.exchange(moment{at: at}, "initialize", params, result, nil)
	if !opens {
		roots := []string{parse(t.fact(s.Fact("session", factRow))).Text("workspace_root")}
		for _, r := range s.Runs {
			config := parse([]byte(r.Config))
			roots = append(roots, cmp.Or(config.Text("workspace_root"), config.Text("cwd")))
		}
		roots = append(roots, "/")
		t.cwd = roots[slices.IndexFunc(roots, path.IsAbs)]
		opening = append(opening, t.exchange(moment{at: at}, "session/new",
			fields("cwd", t.cwd, "mcpServers", []byte("[]")), fields("sessionId", &s.ID), nil)...)
	}
	for _, w := range opening {
		t.write(w)
	}
	var exchanged []moment // the updates of a request are in its response
	for _, f := range facts {
		if typ, _ := strings.CutPrefix(f.Key, "acp."); slices.Contains(exchanges, typ) {
			exchanged = append(exchanged, moment{f.At, f.Seq})
		}
	}
	for _, f := range facts {
		t.facts = append(t.facts, t.factWires(f, slices.Contains(exchanged, moment{f.At, f.Seq}))...)
	}
}

// capabilities are those that the two sides need for the messages that follow.
func (t *trace) capabilities() (params, result []byte) {
	var own, clientInfo []byte
	summary := func(u *unit) bool { return u.kind == unitCompaction }
	switch {
	case t.fromACP:
		own = []byte(`{"compaction":{},"notices":{}}`)
	case slices.ContainsFunc(t.Guide.units, summary):
		own = []byte(`{"compaction":{}}`)
	}
	agentInfo := fields("name", cmp.Or(sessionAgent(t.s), "unknown"), "version", "0")
	stated := func(r *session.Run) bool { return r.Dialect == acpDialect && r.Config != "" }
	if i := slices.IndexFunc(t.s.Runs, stated); i >= 0 {
		config := parse([]byte(t.s.Runs[i].Config))
		clientInfo = config.Raw("clientInfo")
		agentInfo = []byte(cmp.Or(string(config.Raw("agentInfo")), string(agentInfo)))
	}
	acp := &t.fromACP
	client := fields("fs", fields("readTextFile", acp, "writeTextFile", acp), "terminal", acp, "session", own)
	prompts := []byte(`{"image":true,"audio":true,"embeddedContext":true}`)
	return fields("protocolVersion", 1, "clientCapabilities", client, "clientInfo", clientInfo),
		fields("protocolVersion", 1, "agentCapabilities", fields("loadSession", acp, "promptCapabilities", prompts),
			"agentInfo", agentInfo, "authMethods", []byte("[]"))
}

// prompt is the request that a stretch of a run answers.
type prompt struct {
	moment // of the last message
	run    *session.Run
	turn   *session.Turn // the last one that was written
	error  []byte        // the JSON-RPC error that ended it, where the session came from ACP
}

// run writes the messages of a run. Messages that are not the model's become one prompt with those that follow them
// before a reply.
func (t *trace) run(r *session.Run) {
	for _, u := range t.units[r] {
		if u.kind == unitReply && len(u.steps) == 0 &&
			(len(r.Compactions) > 0 || r.Continuation == spans.ContinuationCompaction) {
			continue // it only compacts
		}
		if u.kind == unitMessage {
			if blocks := t.messageBlocks(u); len(blocks) > 0 {
				t.end(false)
				if t.pending == nil {
					t.pendingOf = u
				}
				t.pending = append(t.pending, blocks...)
			}
			continue
		}
		if t.open == nil {
			t.ask(r)
		}
		for _, st := range u.steps {
			if st.hidden == 0 {
				t.step(u, st)
			}
		}
	}
	if t.pending != nil {
		t.ask(r)
	}
	if r.Dialect == acpDialect && len(t.runs[r].turns) == 0 {
		t.keptNotes(r, whereRun(r), r.Events, "")
	}
	t.compact(r, time.Time{})
	t.end(true)
	t.send()
}

// messageBlocks makes the content blocks of a message.
func (t *trace) messageBlocks(u *unit) (l [][]byte) {
	if u.run.Dialect == acpDialect {
		if content := elements(parse(t.message(u.ref)).Spelled("content")); content != nil {
			for _, block := range content {
				l = append(l, block)
			}
			return l
		}
	}
	for k := range u.parts {
		if b := t.block(&u.parts[k], true); b != nil {
			l = append(l, b)
		}
	}
	return l
}

// ask writes the request of a prompt of r with the messages that have none. Without any, something else began the
// stretch.
func (t *trace) ask(r *session.Run) {
	m := startOf(&r.Span)
	switch u := t.pendingOf; {
	case t.pending == nil:
	case u.turn != nil && u.turn.Index > 0:
		m = startOf(&u.turn.Span)
	case u.turn == nil && u.at > r.Start.UnixMilli():
		m.at = time.UnixMilli(u.at)
	}
	t.open = &prompt{run: r, moment: m}
	var meta []byte
	if r.Dialect == acpDialect {
		if meta = t.runValue(r, spans.ListMetadata, r.Metadata); parse(meta) == nil {
			meta = nil
		}
	} else if t.pending == nil {
		meta = fields(extensionKey, fields("no_message", true))
	}
	params := fields("sessionId", &t.s.ID, "prompt", list(t.pending), "_meta", meta)
	t.pending = nil
	t.send()
	t.queue = append(t.queue, wire{moment: m, dir: toAgent, method: "session/prompt", params: params,
		reply: "session/prompt"})
	t.send()
}

// end answers the open prompt; final: its run ends with it. A run of which no end was seen gets no answer.
func (t *trace) end(final bool) {
	p := t.open
	if p == nil {
		return
	}
	t.open = nil
	t.send()
	m := wire{moment: p.moment, dir: toClient, reply: "session/prompt"}
	if final {
		if p.run.End.IsZero() || p.run.Known != spans.KnownObserved {
			delete(t.waiting[toAgent], m.reply)
			return
		}
		m.moment = endOf(&p.run.Span)
	}
	fromACP := p.run.Dialect == acpDialect
	switch reason, failed := stopOf(p, final); {
	case p.error != nil:
		m.error = p.error
	case failed != "":
		code := int64(internalError)
		if n, err := strconv.ParseInt(p.run.StatusWord, 10, 32); err == nil && fromACP {
			code = n
		}
		m.error = fields("code", &code, "message", failed)
	default:
		m.result = fields("stopReason", reason)
	}
	if final && p.run.Status == spans.RunStatusCancelled && !fromACP {
		t.queue = append(t.queue, wire{moment: m.moment, dir: toAgent, method: "session/cancel",
			params: fields("sessionId", &t.s.ID)})
	}
	t.queue = append(t.queue, m)
	t.send()
}

// internalError is the code of an error that has none, and unknownError its message.
const (
	internalError = -32603
	unknownError  = "internal error"
)

// stopOf returns ACP's stop reason of a stretch. failed is the error, for which it has none.
func stopOf(p *prompt, final bool) (reason, failed string) {
	r, reasons, turnError := p.run, []string{}, ""
	if p.turn != nil {
		turnError = p.turn.Error
	}
	if final {
		switch r.Status {
		case spans.RunStatusCancelled, spans.RunStatusAborted:
			return "cancelled", ""
		case spans.RunStatusRejected, spans.RunStatusVetoed:
			return "refusal", ""
		case spans.RunStatusError:
			return "", cmp.Or(r.Error, turnError, unknownError)
		}
		reasons = append(reasons, r.StatusWord)
	}
	if p.turn != nil {
		reasons = append(reasons, p.turn.StopReason)
	}
	for _, w := range reasons {
		switch known := stopReasonOf(w); {
		case known.phi == "error":
			return "", cmp.Or(turnError, r.Error, unknownError)
		case known.acp != "":
			return known.acp, ""
		}
	}
	return "end_turn", ""
}
