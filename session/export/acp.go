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
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
)

// acpDialect is the dialect of sessions that were told from the wire of ACP, by package otelagent/acp.
const acpDialect = "acp"

// ACP writes s as a trace of version 1 of the Agent Client Protocol: a line a message, {"ts":...,"direction":...,"message":{...}} (docs/formats.md
// says what becomes of what). No such messages were exchanged, unless s was told from ACP itself: the trace is a reconstruction, which the
// _meta of its first message says, and its times are those of the tree.
//
// It is made of the rows of Guide, always from the tree, and what they do not say from the tree itself. Of opts it heeds Partial and Progress. Content
// that is missing is treated as JSON does, and so are ctx and w. Besides, what is returned counts what ACP has no place for. In memory is a turn at
// a time, what Guide says, and the ids of tool calls. A session that came from ACP gives back what it held; what was not valid there is not
// made valid.
func ACP(ctx context.Context, w io.Writer, s *session.Session, bodies Bodies, opts Options) ([]Missing, error) {
	g, err := newGuide(ctx, s, bodies, opts, false)
	if err != nil {
		return missingOf(err), err
	}
	t := &trace{
		g: g, w: bufio.NewWriterSize(w, 1<<16), left: map[string]int{}, calls: map[string]bool{},
		written: map[*session.Compaction]bool{}, costs: map[string]float64{},
		waiting: map[direction]map[string]int64{toAgent: {}, toClient: {}}, next: map[direction]int64{},
	}
	t.fromACP = slices.ContainsFunc(s.Runs, func(r *session.Run) bool { return r.Dialect == acpDialect })
	if err := t.plan(); err != nil {
		return nil, err
	}
	if err := t.check(); err != nil {
		return missingOf(err), err
	}
	if err := t.all(); err != nil {
		return t.missing(), err
	}
	return t.missing(), flushed(t.w, s)
}

// direction is who a message goes to.
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

// wire is one message to be.
type wire struct {
	at time.Time
	// seq orders messages of one time; only those of sessions that came from ACP have one.
	seq    int64
	dir    direction
	method string // empty: a response
	params []byte
	// reply is the name under which a request waits for its response, which has it too. A notification has none.
	reply         string
	result, error []byte
}

// trace is one walk over the units of a guide.
type trace struct {
	g       *Guide
	w       *bufio.Writer
	fromACP bool
	cwd     string

	next    map[direction]int64            // ids of requests
	waiting map[direction]map[string]int64 // requests without a response, by their name
	queue   []wire                         // of the step that is put together
	calls   map[string]bool                // ids of tool calls that were given out
	decided []*session.Permission          // those of the turn of the step, that no call has

	skip    []bool               // by unit: it is not part of the conversation as it stands
	last    map[*session.Run]int // the last unit of each run
	byID    map[*session.Compaction]int
	written map[*session.Compaction]bool

	facts  []*session.Fact
	asked  map[factPlace]bool // where facts tell of a request, which says what it changed
	replay []byte             // updates that came with a session/load
	opened []byte             // what initialize said last

	open  *prompt
	said  []byte // content blocks that no prompt was made of yet, each behind a comma
	of    *unit  // the first of the messages that they are from
	now   int    // the unit that is written
	used  int64  // tokens in the model's context
	costs map[string]float64
	// costless says that a turn did not tell its cost.
	costless bool

	left map[string]int // what was left out, and how often
}

type factPlace struct {
	at  int64
	seq int64
}

// prompt is the request that a stretch of a run answers.
type prompt struct {
	run   *session.Run
	turn  *session.Turn // the last one that was written
	at    time.Time     // of the last thing
	seq   int64
	error []byte // the JSON-RPC error that ended it, where the session came from ACP
	meta  []byte // of its response, likewise
}

// plan finds out what is part of the conversation, what is last of each run, and which facts there are to tell.
func (t *trace) plan() error {
	g := t.g
	t.last, t.byID, t.asked = map[*session.Run]int{}, map[*session.Compaction]int{}, map[factPlace]bool{}
	t.skip = make([]bool, len(g.units))
	for i := range g.units {
		u := &g.units[i]
		var err error
		if t.skip[i], err = t.skips(u); err != nil {
			return err
		}
		switch {
		case u.kind == unitCompaction:
			t.byID[u.compaction] = i
		case !t.skip[i]:
			t.last[u.run] = i
		case u.role == "system" && u.hidden == 0:
			t.lacks("messages of the role system")
		}
	}
	for _, r := range g.s.Runs {
		for _, x := range r.Permissions {
			if asked(x) && r.Dialect != acpDialect {
				t.lacks(noCall)
			}
		}
	}
	for i := range g.s.Facts {
		f := &g.s.Facts[i]
		if f.Subject != "session" {
			continue
		}
		switch _, fromACP := strings.CutPrefix(f.Key, "acp."); {
		case fromACP:
			t.fromACP = true
			if slices.Contains(exchanges, strings.TrimPrefix(f.Key, "acp.")) {
				t.asked[placeOfFact(f)] = true
			}
		case f.Key == "title", f.Key == "updated_at", f.Key == "mode", f.Key == "config_options", f.Key == "available_commands":
		default:
			continue
		}
		t.facts = append(t.facts, f)
	}
	slices.SortStableFunc(t.facts, func(a, b *session.Fact) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Seq, b.Seq), strings.Compare(a.Key, b.Key))
	})
	return nil
}

const noCall = "questions that are about no tool call"

func placeOfFact(f *session.Fact) factPlace { return factPlace{f.At.UnixNano(), f.Seq} }

// skips reports whether a row is not part of the conversation as it stands: rewound, queued or taken off the queue. Of a run that only compacts
// there is nothing else to tell.
func (t *trace) skips(u *unit) (bool, error) {
	switch {
	case u.hidden > 0, u.kind == unitMessage && u.role == "system", t.compacts(u):
		return true, nil
	case u.kind == unitMessage:
		for _, key := range []string{"queued_at", "queue_canceled_at"} {
			if at, known, err := t.g.timeFact(u, key); err != nil || known && at > 0 {
				return true, err
			}
		}
	}
	return false, nil
}

// compacts reports whether a row is that of a run that does nothing else.
func (t *trace) compacts(u *unit) bool {
	return u.kind == unitReply && len(u.steps) == 0 && (len(u.run.Compactions) > 0 || u.run.Continuation == spans.ContinuationCompaction)
}

// lacks counts something that ACP has no place for.
func (t *trace) lacks(what string) {
	const most = 64
	if len(t.left) == most && t.left[what] == 0 {
		what = "others"
	}
	t.left[what]++
}

// missing is what Guide.Missing names, and what was left out.
func (t *trace) missing() []Missing {
	l := t.g.Missing()
	for _, what := range slices.Sorted(maps.Keys(t.left)) {
		l = append(l, Missing{Where: t.g.s.ID, What: fmt.Sprintf("ACP has no place for %s (%d)", what, t.left[what])})
	}
	return l
}

func (t *trace) all() error {
	g := t.g
	if err := t.begin(); err != nil {
		return err
	}
	for i := range g.units {
		if err := g.ctx.Err(); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if err := t.unit(i); err != nil {
			return err
		}
		if _, err := t.w.Write(nil); err != nil { // one that sticks
			return fmt.Errorf("export: write session %s: %w", g.s.ID, err)
		}
		if f := g.opts.Progress; f != nil {
			f(i+1, len(g.units))
		}
	}
	if err := t.unanswered(false); err != nil {
		return err
	}
	if err := t.end(false); err != nil {
		return err
	}
	return t.tellFacts(nil)
}

// begin writes what a connection begins with.
func (t *trace) begin() error {
	s := t.g.s
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
		if f.Key == "acp.initialize" && first == nil {
			first = f
		}
		switch f.Key {
		case "acp.session/new", "acp.session/load", "acp.session/resume":
			if v, err := t.g.fact(f); err != nil {
				return err
			} else if find(members(v), "result") != nil && (len(s.Runs) == 0 || !f.At.After(s.Runs[0].Start)) {
				opens = true
			}
		}
	}
	var params, result []byte
	if first != nil {
		v, err := t.g.fact(first)
		if err != nil {
			return err
		}
		o := members(v)
		params, result = find(o, "params"), find(o, "result")
		if params != nil && result != nil {
			at, t.opened = first.At, v
		}
	}
	if params == nil || result == nil {
		params, result = t.capabilities()
	}
	t.write(&wire{at: at, dir: toAgent, method: "initialize", params: t.mark(params), reply: "initialize"})
	t.write(&wire{at: at, dir: toClient, result: result, reply: "initialize"})
	if opens {
		return nil
	}
	if err := t.findCWD(); err != nil {
		return err
	}
	var p, r object
	p.str("cwd", t.cwd)
	p.raw("mcpServers", []byte("[]"))
	r.str("sessionId", s.ID)
	t.write(&wire{at: at, dir: toAgent, method: "session/new", params: p.bytes(), reply: "session/new"})
	t.write(&wire{at: at, dir: toClient, result: r.bytes(), reply: "session/new"})
	return nil
}

// capabilities are what the two sides would have had to say of themselves for the messages that follow.
func (t *trace) capabilities() (params, result []byte) {
	var p, client, fs, of, r, agent, prompts, info object
	fs.bool("readTextFile", t.fromACP)
	fs.bool("writeTextFile", t.fromACP)
	client.raw("fs", fs.bytes())
	client.bool("terminal", t.fromACP)
	if t.fromACP || len(t.byID) > 0 {
		of.raw("compaction", []byte("{}"))
		if t.fromACP {
			of.raw("notices", []byte("{}"))
		}
		client.raw("session", of.bytes())
	}
	info.str("name", cmp.Or(sessionAgent(t.g.s), "unknown"))
	info.str("version", "0")
	agentInfo, clientInfo := info.bytes(), []byte(nil)
	for _, run := range t.g.s.Runs {
		if config := members([]byte(run.Config)); run.Dialect == acpDialect && config != nil {
			clientInfo = find(config, "clientInfo")
			if v := find(config, "agentInfo"); v != nil {
				agentInfo = v
			}
			break
		}
	}
	p.int("protocolVersion", 1)
	p.raw("clientCapabilities", client.bytes())
	if clientInfo != nil {
		p.raw("clientInfo", clientInfo)
	}
	for _, what := range []string{"image", "audio", "embeddedContext"} {
		prompts.bool(what, true)
	}
	agent.bool("loadSession", t.fromACP)
	agent.raw("promptCapabilities", prompts.bytes())
	r.int("protocolVersion", 1)
	r.raw("agentCapabilities", agent.bytes())
	r.raw("agentInfo", agentInfo)
	r.raw("authMethods", []byte("[]"))
	return p.bytes(), r.bytes()
}

// mark says in the _meta of params that the trace is a reconstruction.
func (t *trace) mark(params []byte) []byte {
	s := t.g.s
	var o, meta, own object
	own.bool("reconstructed", true)
	own.int("format", 1)
	own.str("session", s.ID)
	own.notEmpty("dialect", s.Dialect)
	for _, m := range members(params) {
		if m.key != "_meta" {
			o.raw(m.key, m.value)
			continue
		}
		for _, m := range members(m.value) {
			if m.key != extensionKey {
				meta.raw(m.key, m.value)
			}
		}
	}
	meta.raw(extensionKey, own.bytes())
	o.raw("_meta", meta.bytes())
	return o.bytes()
}

// findCWD finds the folder that the session was about, "/" where that is not known.
func (t *trace) findCWD() error {
	t.cwd = "/"
	row, err := t.g.fact(t.g.s.Fact("session", factRow))
	if err != nil {
		return err
	}
	if root := columns(members(row)).text("workspace_root"); path.IsAbs(root) {
		t.cwd = root
		return nil
	}
	for _, r := range t.g.s.Runs {
		config := columns(members([]byte(r.Config)))
		if cwd := cmp.Or(config.text("workspace_root"), config.text("cwd")); path.IsAbs(cwd) {
			t.cwd = cwd
			return nil
		}
	}
	return nil
}

// unit writes what a row comes to.
func (t *trace) unit(i int) error {
	t.now = i
	u := &t.g.units[i]
	if u.kind == unitCompaction {
		if u.hidden > 0 {
			return nil
		}
		return t.compactions(u.run, []*session.Compaction{u.compaction}, time.Time{})
	}
	switch {
	case t.compacts(u) && u.hidden == 0:
		return t.compactions(u.run, u.run.Compactions, time.Time{})
	case t.skip[i]:
		return nil
	case u.kind == unitMessage:
		return t.message(i)
	}
	return t.reply(i)
}

// message takes a message of somebody else than the model. With those that follow it before a reply it becomes one prompt.
func (t *trace) message(i int) error {
	u := &t.g.units[i]
	blocks, err := t.messageBlocks(i)
	if err != nil {
		return err
	}
	last := t.last[u.run] == i
	if len(blocks) == 0 { // nothing of it is sent
		if last && t.said != nil && t.of.run == u.run {
			return t.unanswered(true)
		}
		if last && t.open != nil && t.open.run == u.run {
			return t.end(true)
		}
		return nil
	}
	if err := t.end(false); err != nil {
		return err
	}
	if t.said != nil && t.of.run != u.run {
		if err := t.unanswered(false); err != nil {
			return err
		}
	}
	if t.said == nil {
		t.of = u
	}
	for _, b := range blocks {
		t.said = append(append(t.said, ','), b...)
	}
	if last {
		return t.unanswered(true)
	}
	return nil
}

// unanswered makes a prompt of what was said and ends it, since no reply follows; final says that its run is over with it.
func (t *trace) unanswered(final bool) error {
	if t.said == nil {
		return nil
	}
	if err := t.ask(t.of.run); err != nil {
		return err
	}
	return t.end(final)
}

// messageBlocks makes the content blocks of a message.
func (t *trace) messageBlocks(i int) ([][]byte, error) {
	u := &t.g.units[i]
	parts, err := t.g.messageParts(i)
	if err != nil {
		return nil, err
	}
	if u.run.Dialect == acpDialect {
		if body, ok := t.g.window.set.Body(u.ref); ok {
			var content []json.RawMessage
			if json.Unmarshal(find(members([]byte(body)), "content"), &content) == nil {
				l := make([][]byte, len(content))
				for k := range content {
					l[k] = content[k]
				}
				if len(l) == 0 {
					l = nil
				}
				return l, nil
			}
		}
	}
	var l [][]byte
	for k := range parts {
		if b := t.block(&parts[k], true); b != nil {
			l = append(l, b)
		}
	}
	return l, nil
}

// ask writes the request of a prompt of r with what was said, which may be nothing: then something else began the stretch.
func (t *trace) ask(r *session.Run) error {
	at, seq := r.Start, r.Seq
	if t.said != nil && t.of.turn != nil && t.of.turn.Index > 0 {
		at, seq = t.of.turn.Start, t.of.turn.Seq
	} else if t.said != nil && t.of.turn == nil && t.of.at > r.Start.UnixMilli() {
		at = time.UnixMilli(t.of.at)
	}
	t.open = &prompt{run: r, at: at, seq: seq}
	var o object
	o.str("sessionId", t.g.s.ID)
	if t.said == nil {
		o.raw("prompt", []byte("[]"))
	} else {
		t.said[0] = '['
		o.raw("prompt", append(t.said, ']'))
	}
	fromACP := r.Dialect == acpDialect
	if fromACP {
		meta, err := t.g.runValue(r, spans.ListMetadata, r.Metadata)
		if err != nil {
			return err
		}
		if members(meta) != nil {
			o.raw("_meta", meta)
		}
	} else if t.said == nil {
		var own object
		own.bool("no_message", true)
		o.raw("_meta", own.only(extensionKey))
	}
	t.said = nil
	return t.tell(wire{at: at, seq: t.seqOf(seq), dir: toAgent, method: "session/prompt", params: o.bytes(), reply: "session/prompt"})
}

// seqOf leaves numbers out that order nothing: those of sessions that did not come from ACP may be of several inputs.
func (t *trace) seqOf(seq int64) int64 {
	if t.fromACP {
		return seq
	}
	return 0
}

// reply writes a stretch of turns.
func (t *trace) reply(i int) error {
	g, u := t.g, &t.g.units[i]
	if t.said != nil && t.of.run != u.run {
		if err := t.unanswered(false); err != nil {
			return err
		}
	}
	if t.open != nil && t.open.run != u.run {
		if err := t.end(false); err != nil {
			return err
		}
	}
	if t.open == nil {
		if err := t.ask(u.run); err != nil {
			return err
		}
	}
	p := g.runs[u.run]
	for k := range u.steps {
		if st := &u.steps[k]; st.hidden == 0 {
			if err := t.step(u, p, st); err != nil {
				return err
			}
		}
	}
	if err := t.usage(u, p); err != nil {
		return err
	}
	if t.last[u.run] != i {
		return nil
	}
	if err := t.compactions(u.run, u.run.Compactions, t.open.at); err != nil {
		return err
	}
	return t.end(true)
}

// usage writes how full the model's context is after a reply, where the size of its window is known.
func (t *trace) usage(u *unit, p *runPlan) error {
	if u.run.Dialect == acpDialect {
		return nil // it told
	}
	sum := guideUsage(t.g.visibleUsage(u))
	t.used += sum.Input + sum.Output + sum.Reasoning + sum.CacheRead + sum.CacheWrite
	for k := range u.steps {
		if st := &u.steps[k]; st.lone == nil && !u.run.Copied {
			turn := p.turns[st.turn]
			switch {
			case turn.Cost != nil && turn.Currency != "":
				t.costs[turn.Currency] += *turn.Cost
			case turn.Usage != (session.Usage{}):
				t.costless = true
			}
		}
	}
	window := columns(members([]byte(u.run.Config))).int("context_window")
	if _, known := t.g.replyUsage(u); window <= 0 || !known {
		return nil
	}
	var o object
	o.str("sessionUpdate", "usage_update")
	o.int("used", max(t.used, 0))
	o.int("size", window)
	if len(t.costs) == 1 && !t.costless {
		for currency, amount := range t.costs {
			var cost object
			cost.raw("amount", number(amount))
			cost.str("currency", currency)
			o.raw("cost", cost.bytes())
		}
	}
	m := t.update(t.open.at, 0, o.bytes())
	return t.tell(m)
}

// update makes a session/update.
func (t *trace) update(at time.Time, seq int64, update []byte) wire {
	var o object
	o.str("sessionId", t.g.s.ID)
	o.raw("update", update)
	return wire{at: at, seq: seq, dir: toClient, method: "session/update", params: o.bytes()}
}

// end answers the open prompt; final says that its run is over with it. A run of which no end was seen is not answered.
func (t *trace) end(final bool) error {
	p := t.open
	if p == nil {
		return nil
	}
	t.open = nil
	m := wire{at: p.at, seq: t.seqOf(p.seq), dir: toClient, reply: "session/prompt"}
	if final {
		if p.run.End.IsZero() || p.run.Known != spans.KnownObserved {
			delete(t.waiting[toAgent], m.reply)
			return nil
		}
		m.at, m.seq = latest(p.run.End, p.run.Start), t.seqOf(p.run.EndSeq)
	}
	word, failed := stopReason(p, final)
	switch {
	case p.error != nil:
		m.error = p.error
	case failed != "":
		code := int64(-32603)
		if n, err := strconv.ParseInt(p.run.StatusWord, 10, 32); err == nil && p.run.Dialect == acpDialect {
			code = n // its word is the code
		}
		var e object
		e.int("code", code)
		e.str("message", failed)
		m.error = e.bytes()
	default:
		var o object
		o.str("stopReason", word)
		if p.meta != nil {
			o.raw("_meta", p.meta)
		}
		m.result = o.bytes()
	}
	if final && p.run.Status == spans.RunStatusCancelled && p.run.Dialect != acpDialect {
		var o object
		o.str("sessionId", t.g.s.ID)
		if err := t.tell(wire{at: m.at, dir: toAgent, method: "session/cancel", params: o.bytes()}); err != nil {
			return err
		}
	}
	return t.tell(m)
}

// tell writes a message, behind the facts that were true before it.
func (t *trace) tell(m wire) error {
	if err := t.tellFacts(&m); err != nil {
		return err
	}
	t.write(&m)
	return nil
}

// tellQueue writes the messages of the queue in the order of time.
func (t *trace) tellQueue() error {
	slices.SortStableFunc(t.queue, func(a, b wire) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.seq, b.seq)) })
	for i := range t.queue {
		if err := t.tell(t.queue[i]); err != nil {
			return err
		}
	}
	clear(t.queue)
	t.queue = t.queue[:0]
	return nil
}

// stopReasons are those of ACP by the words that loops have for them, spelled in small letters alone.
var stopReasons = map[string]string{
	"maxtokens": "max_tokens", "length": "max_tokens", "maxoutputtokens": "max_tokens",
	"refusal": "refusal", "contentfilter": "refusal", "contentfiltered": "refusal", "safety": "refusal", "guardrail": "refusal",
	"maxturnrequests": "max_turn_requests", "maxturns": "max_turn_requests", "maxsteps": "max_turn_requests", "steplimit": "max_turn_requests",
	"executionlimit": "max_turn_requests",
	"cancelled":      "cancelled", "canceled": "cancelled", "aborted": "cancelled", "abort": "cancelled", "userstop": "cancelled",
}

const unknownError = "internal error"

// stopReason returns how a stretch ended in the words of ACP. failed is what went wrong, for which it has no word.
func stopReason(p *prompt, final bool) (word, failed string) {
	r, words := p.run, []string{}
	if final {
		switch r.Status {
		case spans.RunStatusCancelled, spans.RunStatusAborted:
			return "cancelled", ""
		case spans.RunStatusRejected, spans.RunStatusVetoed:
			return "refusal", ""
		case spans.RunStatusError:
			failed = r.Error
			if p.turn != nil {
				failed = cmp.Or(failed, p.turn.Error)
			}
			return "", cmp.Or(failed, unknownError)
		}
		words = append(words, r.StatusWord)
	}
	if p.turn != nil {
		words = append(words, p.turn.StopReason)
	}
	for _, w := range words {
		plain := strings.Map(func(c rune) rune {
			switch {
			case c >= 'a' && c <= 'z':
				return c
			case c >= 'A' && c <= 'Z':
				return c - 'A' + 'a'
			}
			return -1
		}, w)
		if plain == "error" {
			if p.turn != nil {
				failed = p.turn.Error
			}
			return "", cmp.Or(failed, r.Error, unknownError)
		}
		if known := stopReasons[plain]; known != "" {
			return known, ""
		}
	}
	return "end_turn", ""
}

// write writes a message and numbers requests. A response whose request is not there is left out.
func (t *trace) write(m *wire) {
	for _, v := range [][]byte{m.params, m.result, m.error} {
		if v != nil && !json.Valid(v) { // a body that is not what its place says
			t.lacks("a message that is no JSON")
			return
		}
	}
	var o object
	o.str("jsonrpc", "2.0")
	switch {
	case m.method == "":
		id, ok := t.waiting[m.dir.back()][m.reply]
		if !ok {
			t.lacks("a response without its request")
			return
		}
		delete(t.waiting[m.dir.back()], m.reply)
		o.int("id", id)
		if m.error != nil {
			o.raw("error", m.error)
		} else {
			o.raw("result", m.result)
		}
	default:
		if m.reply != "" {
			id := t.next[m.dir]
			t.next[m.dir]++
			t.waiting[m.dir][m.reply] = id
			o.int("id", id)
		}
		o.str("method", m.method)
		if m.params != nil {
			o.raw("params", m.params)
		}
	}
	var line object
	line.str("ts", m.at.UTC().Format(time.RFC3339Nano))
	line.str("direction", string(m.dir))
	line.raw("message", o.bytes())
	var one bytes.Buffer
	_ = json.Compact(&one, line.bytes()) // which is JSON, since all that is put in was
	_, _ = t.w.Write(bytes.ToValidUTF8(one.Bytes(), []byte("\uFFFD")))
	_ = t.w.WriteByte('\n')
}
