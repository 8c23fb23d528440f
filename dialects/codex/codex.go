// Package codex reads the rollouts of OpenAI Codex (CODEX_HOME/sessions, archived_sessions) and turns them into events
// of package otelagent: rollout-*.jsonl of both history modes, legacy and paginated, also compressed.
//
// A rollout is one thread: a session of its own, also where a sub-agent wrote it. The reader goes through its lines
// once, in their order:
//
//   - A task is a run. In old rollouts, which state no tasks, a prompt after a reply that asked for no tool begins
//     one. Other prompts steer the open run.
//   - Items of the model are gathered as a call until its usage is known: a token_usage_record or, in rollouts that
//     have none, an advance of total_token_usage. The call is a turn as soon as something follows that only a turn has.
//     A record "compacted" makes it the call of a compaction instead.
//   - Order and content come from response_items, exit codes and times of tools from events.
//
// Forks and sub-agents copy the history of their parent. A line is the copy of one that was read before if all lines up
// to it are the same but for their times; so legacy rollouts are read after their parents. A copy has the time of the
// fork, so that it takes the place of what was read without the parent. What a sub-agent copied is left out.
//
// # Limits
//
//   - A line: MaxLine bytes (64 MiB unless input.Settings set another number).
//   - Lines by which copies are found, and ids: 2,097,152. When there are more, the Decoder forgets those before.
//   - Runs of a thread that a rollback can hide: the last 1,024, and 128 prompts of each.
package codex

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

const (
	maxRecent  = 1024     // runs of a thread that a rollback can hide
	maxPrompts = 128      // of each
	maxCall    = 32 << 20 // bytes of items that a call may hold before it is a turn
	maxTools   = 1024     // tool calls of a model call that are known
	maxRefusal = 2048     // length of the longest text of a call that was refused
)

// Agent says where Codex keeps its rollouts.
var Agent = transcript.Agent{Dialect: "codex", Env: "CODEX_HOME", Below: []string{"sessions", "archived_sessions"},
	Home: []string{".codex/sessions", ".codex/archived_sessions"}, Names: regexp.MustCompile(`\.jsonl(\.zst)?$`),
	Recognise: Recognise, Head: head, Open: open}

// parentKey finds the thread that a rollout goes on from, or that spawned it. The first line may be longer than the
// head of the file, and these keys are at several depths. No string of JSON holds a quote that is not escaped.
var parentKey = regexp.MustCompile(`"(?:parent_thread_id|forked_from_id)":"([^"\\]{1,256})"`)

func head(_ string, text []byte, o input.Outline) (h transcript.Head) {
	line, _, _ := bytes.Cut(text, []byte{'\n'})
	h.ID = o.Text("payload", "id")
	h.Started, _ = time.Parse(time.RFC3339Nano, o.Text("payload", "timestamp"))
	if m := parentKey.FindSubmatch(line); m != nil {
		h.Parent = string(m[1])
	}
	return h
}

func open(d *transcript.Decoder, _ transcript.File) (input.Reader, func() error) {
	t := &thread{e: d}
	return input.Reader{Line: d.Objects("timestamp:time! type! payload:object!", t.line), End: t.atEnd}, nil
}

// link makes the chain of the lines so far.
func (t *thread) link(parts ...[]byte) {
	sum := sha256.Sum256(bytes.Join(parts, nil))
	t.chain = sum[:16]
}

// line reads one line: {"timestamp":…,"ordinal":…,"type":…,"payload":{…}}.
func (t *thread) line(o *object.Object, _ []byte) string {
	typ, p, payload := o.String("type"), o.Object("payload"), o.Raw("payload")
	t.at, t.ended = o.Time("timestamp"), time.Time{}
	if typ == "session_meta" && t.Thread == nil { // a fork may copy that of its parent
		t.meta(p, payload)
	}
	switch {
	case t.Thread == nil:
		o.Fail("", "want a line of type session_meta with an id before it")
	case t.copied(typ, p, payload, o.Count("ordinal")):
		if p.String("type") == "token_count" {
			t.total = t.counts(p.Object("info").Object("total_token_usage"))
		}
	default:
		kind := p.String("type")
		if typ != "event_msg" && typ != "response_item" {
			kind = typ
		}
		if !t.record(typ, kind, p, payload) {
			t.Other(kind, payload, t.at)
		}
	}
	return ""
}

// copied reports whether a line is one of the parent that a sub-agent inherited, and notes whether it is a copy.
func (t *thread) copied(typ string, p *object.Object, payload []byte, ordinal *int64) bool {
	switch {
	case t.Parent != "" && (ordinal != nil && t.own != nil && *ordinal < *t.own || t.at.Before(t.born) ||
		typ == "token_usage_record" && p.Has("thread_id") && p.String("thread_id") != t.Session):
		return true
	case ordinal != nil:
		t.link(strconv.AppendInt([]byte(t.Session+" "), *ordinal, 10))
		return false
	case typ == "response_item", typ == "event_msg", typ == "compacted", typ == "token_usage_record":
	default: // others are written anew
		return t.copying && t.Parent != ""
	}
	if p.String("type") == "token_count" { // a copy may have its members in another order
		payload = fmt.Append(nil, t.counts(object.Of("", p.Raw("info")).Object("total_token_usage")))
	}
	t.link(t.chain, []byte(typ), payload)
	owner, _ := t.e.First(t.Session, "line "+string(t.chain))
	was := t.copying
	if t.copying = owner != "" && owner != t.Session; was && !t.copying && t.Parent == "" {
		t.leave(t.Split) // a copy, from what the fork adds to it
	}
	return t.copying && t.Parent != ""
}

// meta begins a thread with its first line.
func (t *thread) meta(p *object.Object, payload []byte) {
	e, id := t.e, p.String("id")
	if !p.Require("id") || id == "" {
		return
	}
	spawn := object.Of("", object.Of("", object.Of("", p.Raw("source")).Raw("subagent")).Raw("thread_spawn"))
	t.Thread, t.born, t.forked = e.Thread(id, ""), p.Time("timestamp"), p.String("forked_from_id")
	t.provider, t.based = p.String("model_provider"), p.Has("history_base")
	t.own = p.Count("subagent_history_start_ordinal")
	t.Parent = cmp.Or(p.String("parent_thread_id"), spawn.String("parent_thread_id"))
	if role := spawn.String("agent_role"); slices.Contains([]string{"default", "explorer", "worker", "awaiter"}, role) {
		t.agent = role // users cannot name these
	}
	above := cmp.Or(t.Parent, t.forked, id)
	root, _ := e.Met("thread " + above)
	t.taken = t.forked != "" && root == "" && t.Parent == "" && !t.based
	root = cmp.Or(root, above)
	e.First(root, "thread "+id)
	t.link([]byte(root))
	e.Fact(id, "cwd", p.Raw("cwd"), t.at)
	e.Fact(id, "git_branch", object.Of("", p.Raw("git")).Raw("branch"), t.at)
	e.Fact(id, "version", p.Raw("cli_version"), t.at)
	e.Fact(id, "codex.session_meta", payload, t.at)
}

// short returns the id of a run or call that has none, from the lines up to it: a copy has the same.
func (t *thread) short(kind string) string { return kind + "-" + hex.EncodeToString(t.chain[:8]) }

// Recognise returns why a line, which may be cut, is the first of a rollout; empty when it is not.
func Recognise(o input.Outline) (why string) {
	if o.Text("", "type") == "session_meta" && o.First("", "payload") == '{' {
		return "lines with type session_meta and a payload"
	}
	return ""
}

// thread is one rollout.
type thread struct {
	*transcript.Thread // nil before session_meta

	e *transcript.Decoder

	forked    string    // the thread that it was forked from
	taken     bool      // that was not read
	own       *int64    // ordinal of its first own line; nil where it is not known
	born      time.Time // when the thread began
	chain     []byte    // a digest of the lines so far
	copying   bool      // the last line was a copy
	at, ended time.Time // of the current line, and of the item that it says was completed

	agent, provider, model, effort string
	context                        []byte // the last turn_context

	task     *transcript.Run // that has begun; it is emitted with its first call, when its settings are known
	open     bool            // a run was emitted
	stated   bool            // by task_started
	prompted bool            // a prompt came since the last call
	asked    time.Time       // when the model was asked last
	call     call            // that is gathered, or was last; without an id before the first one
	said     string          // id of the last message that is no reply
	recent   [][]string      // runs that a rollback may hide: their ids, and those of their prompts, which may be empty

	records bool         // there are records of usage: totals count nothing
	based   bool         // totals go on from those of another file
	total   *event.Usage // the last total_token_usage
}

// record reads one line. It reports false for one that is kept as it is.
func (t *thread) record(typ, kind string, p *object.Object, payload []byte) bool {
	if typ == "response_item" {
		return t.item(kind, p, payload)
	}
	switch kind {
	case "turn_context": // the settings of the model calls that follow
		t.model, t.effort = p.String("model"), p.String("effort")
		again := bytes.Equal(payload, t.context)
		t.context = bytes.Clone(payload)
		return again || !t.open
	case "token_usage_record":
		t.records = true
		t.usage(p.String("response_id"), t.counts(p.Object("usage")))
	case "compacted":
		t.compacted(p)
	case "task_started", "turn_started":
		t.end(time.Time{}, event.RunResult{Status: spans.RunStatusAborted})
		t.start(p.String("turn_id"), p.Object("turn_attribution").String("parent_turn_id"))
		t.stated = true
	case "task_complete", "turn_complete":
		t.end(t.at, event.RunResult{Error: object.Of("", p.Raw("error")).String("message")})
	case "turn_aborted":
		t.end(t.at, event.RunResult{Status: spans.RunStatusCancelled, Word: p.String("reason")})
	case "user_message", "UserMessage":
		t.prompt()
	case "token_count":
		t.advance(p.Object("info"))
	case "thread_name_updated":
		if p.String("thread_id") == t.Session {
			t.e.Fact(t.Session, "title", p.Raw("thread_name"), t.at)
		}
	case "item_completed":
		if millis := p.Count("completed_at_ms"); millis != nil {
			t.ended = time.UnixMilli(*millis).UTC()
		}
		item := p.Object("item")
		return t.record(typ, item.String("type"), item, nil)
	case "AgentMessage", "Reasoning", "ContextCompaction", "HookPrompt", "agent_message", "session_meta", "web_search_end",
		"agent_reasoning", "agent_reasoning_raw_content", "context_compacted", "thread_settings_applied": // are elsewhere
	case "error":
		if t.settle(); t.task != nil {
			t.begin()
		}
		t.Over(time.Time{}, event.RunResult{Status: spans.RunStatusError, Error: p.String("message")})
		return false
	case "thread_rolled_back":
		t.rollBack(p.Count("num_turns"))
		return false
	case "sub_agent_activity":
		t.spawned(p.String("event_id"), p)
		return false
	default:
		return typ == "event_msg" && t.completed(p)
	}
	return true
}

// start begins a task. Without an id it has one of the lines so far.
func (t *thread) start(id, parent string) {
	t.task = &transcript.Run{RunInfo: event.RunInfo{ID: cmp.Or(id, t.short("task")), ParentID: parent}, At: t.at}
	t.stated, t.prompted, t.asked = false, false, t.at
	t.recent = append(t.recent[max(0, len(t.recent)+1-maxRecent):], []string{t.task.ID})
}

// prompt says that the last message came from a user or another agent. It begins a run where none is open.
func (t *thread) prompt() {
	if !t.open && t.task == nil {
		t.start("", "")
	}
	if n := len(t.recent); n > 0 && len(t.recent[n-1]) < maxPrompts {
		t.recent[n-1] = append(t.recent[n-1], t.said)
	}
	t.prompted, t.said = true, ""
}

// begin emits the run that has begun. Where none has, it infers one.
func (t *thread) begin() {
	if t.open {
		return
	}
	if t.task == nil {
		t.start("", "")
		t.task.Inferred = true
	}
	r := t.task
	r.Model, r.Provider, r.Agent, r.ForkParentID, r.Taken = t.model, t.provider, t.agent, t.forked, t.taken
	if o := object.Of("", t.context); o != nil && (!o.Has("turn_id") || o.String("turn_id") == r.ID) {
		r.Config = t.context
		r.Rules = input.Members("approval_policy", o.Raw("approval_policy"), "approvals_reviewer",
			o.Raw("approvals_reviewer"), "sandbox_policy", o.Raw("sandbox_policy"), "permission_profile",
			o.Raw("permission_profile"))
	}
	if t.Parent != "" {
		r.Trigger = spans.TriggerSubAgent
	}
	t.Begin(*r)
	t.task, t.open = nil, true
}

// end ends the run that has begun, if one has; with the zero time at the last time seen.
func (t *thread) end(at time.Time, res event.RunResult) { t.leave(func() { t.End(at, res) }) }

// leave calls a function for the run that has begun, if one has, and forgets it.
func (t *thread) leave(end func()) {
	if t.settle(); t.open || t.task != nil {
		t.begin()
		end()
		t.open, t.call, t.stated = false, call{}, false
	}
}

// atEnd ends what is over at the end of the file, as far as that is known: a run that no task states, when its reply
// asks for no tool. A call that may have made a summary waits for what follows.
func (t *thread) atEnd() {
	c, live := &t.call, t.e.Settings.Live
	summary := t.stated && t.task != nil && !t.prompted
	if !summary && (!live || c.Usage != nil && (!t.stated || len(c.ends) > 0)) {
		t.settle()
	}
	switch {
	case !live && t.open && !t.stated && c.Usage != nil && len(c.ends) == 0:
		t.end(time.Time{}, event.RunResult{})
	case t.task != nil:
		t.begin()
	}
	t.e.Finish()
}

// rollBack hides the runs that a rollback took from the history: the last ones, until n with a prompt are hidden.
func (t *thread) rollBack(n *int64) {
	for ; n != nil && *n > 0 && len(t.recent) > 0; t.recent = t.recent[:len(t.recent)-1] {
		ids := t.recent[len(t.recent)-1]
		for _, id := range slices.Backward(ids) {
			if id != "" {
				t.e.Hide(t.Session, id, true, t.at)
			}
		}
		if len(ids) > 1 {
			*n--
		}
	}
}

// call is a model call that is gathered from its items while it is open. Then it is a turn.
type call struct {
	transcript.Call
	open bool
	size int
	ends map[string]*transcript.Result // of its tool calls, by their ids
}

// gather returns the call to which an item or its usage belongs; whole says that what comes is the usage. A call that
// has both is over, and so is one whose tools ran.
func (t *thread) gather(whole bool) *call {
	c := &t.call
	if !c.open || c.Usage != nil && (whole || len(c.Blocks) > 0) {
		t.settle()
		*c = call{open: true, ends: map[string]*transcript.Result{}}
		c.ID, c.Start = t.short("call"), event.Bound(t.asked)
	}
	return c
}

// settle emits the call that was gathered as a turn.
func (t *thread) settle() {
	c := &t.call
	if !c.open {
		return
	}
	c.open = false
	t.begin()
	c.Model, c.Provider, c.Variant = t.model, t.provider, t.effort
	if t.prompted && t.Parent == "" {
		c.Trigger = spans.TriggerUser
	}
	t.prompted, t.asked = false, t.at
	t.Call(c.Call)
	c.Blocks, c.Tools = nil, nil
}

// item reads an item of the conversation. A message that is no reply is input.
func (t *thread) item(kind string, p *object.Object, payload []byte) bool {
	role := p.String("role")
	switch {
	case kind == "message" && role != "assistant":
		if t.settle(); t.call.ID != "" && len(t.call.ends) == 0 && !t.stated { // nothing made the loop go on
			t.end(time.Time{}, event.RunResult{})
		}
		t.asked = t.at
		t.Message(event.Message{Raw: payload, Role: role, Time: t.at})
		t.said = p.String("id")
	case strings.HasSuffix(kind, "_output"):
		t.settle()
		t.asked = t.at
		return t.output(p, payload)
	case kind == "message", kind == "reasoning", strings.HasSuffix(kind, "_call"):
		c := t.gather(false)
		c.At = t.at
		blocks := [][]byte{payload}
		if kind == "message" {
			blocks = p.List("content")
		}
		for _, b := range blocks {
			if c.size += len(b); c.size <= maxCall {
				c.Blocks = append(c.Blocks, bytes.Clone(b))
			}
		}
		if strings.HasSuffix(kind, "_call") {
			c.tool(kind, p, t.at)
		}
	default:
		return false
	}
	return true
}

// counts reads usage.
func (t *thread) counts(o *object.Object) *event.Usage {
	return keys.Read(o, cmp.Or(t.e.Settings.Rule, spans.UsageRuleIncludesCache))
}

var keys = event.UsageKeys{Input: "input_tokens", Output: "output_tokens", Reasoning: "reasoning_output_tokens",
	CacheRead: "cached_input_tokens", CacheWrite: "cache_write_input_tokens", Total: "total_tokens"}

// usage says what the call that was gathered took. Versions 0.140 to 0.142 say it after the outputs of its tools.
func (t *thread) usage(id string, u *event.Usage) {
	if c := &t.call; id == "" && !c.open && c.Usage == nil && len(c.ends) > 0 {
		c.Usage = u
		t.Call(c.Call)
		return
	}
	c := t.gather(true)
	if c.Usage, c.At = u, t.at; id != "" {
		c.ID, c.ResponseID = id, id
	}
}

// advance reads a token_count, which says how far the totals of the thread are. Many calls have two, and some
// have no call: what counts is how far the totals advanced.
func (t *thread) advance(info *object.Object) {
	total, last := t.counts(info.Object("total_token_usage")), t.counts(info.Object("last_token_usage"))
	if total == nil {
		return
	}
	before, known := cmp.Or(t.total, &event.Usage{Rule: total.Rule}), t.total != nil || !t.based
	t.total = total
	u, again := *total, last != nil && *last == *total && *total != *before // the totals began again
	for i, n := range transcript.Counts(&u) {
		*n -= *transcript.Counts(before)[i]
		again = again || *n < 0
	}
	switch {
	case t.records, u.Input == 0 && u.Output == 0 && !again:
	case !again && known:
		t.usage("", &u)
	case last != nil && last.Input|last.Output != 0 && // else the window is full, which is no call
		(again || t.call.ID != "" && t.call.Usage == nil):
		t.usage("", last)
	}
}

// compacted reads a compaction. The call before it made the summary, if the record names its response or nothing but
// its usage is known.
func (t *thread) compacted(p *object.Object) {
	id, c := p.String("compaction_response_id"), &t.call
	of := p.Object("latest_token_usage_record")
	res := event.CompactionResult{Summary: p.Raw("message")}
	comp := event.Compaction{Kind: spans.CompactionKindSummary, Trigger: "auto"}
	switch {
	case c.open && (c.ID == id || id == "" && len(c.Blocks) == 0):
		res.Usage, comp.Start, c.open = c.Usage, c.Start, false
	case id != "" && of.String("response_id") == id && c.ID != id:
		res.Usage = t.counts(of.Object("usage"))
	}
	t.settle()
	if t.task != nil && !t.prompted {
		comp.Trigger, t.task.Continuation = "manual", spans.ContinuationCompaction
	}
	if list := p.List("replacement_history"); list != nil {
		res.MessagesAfter = new(int64(len(list)))
		for _, raw := range list {
			res.After = append(res.After, event.Message{Raw: raw, Role: object.Of("", raw).String("role")})
		}
	}
	t.begin()
	t.Compact(cmp.Or(id, t.short("compaction")), t.at, comp, res)
	t.call, t.asked = call{}, t.at
}

// tool adds a tool call. Function_call has its arguments as a string of JSON. Web searches and images are made by the
// provider: their item is the whole call.
func (c *call) tool(kind string, p *object.Object, at time.Time) {
	u, r := transcript.Tool{At: at}, &transcript.Result{}
	u.ID, u.Type, u.Name = p.String("call_id"), "function", cmp.Or(p.String("name"), strings.TrimSuffix(kind, "_call"))
	u.Args = bytes.Clone(p.Raw("arguments", "input", "action"))
	if s := p.Text("arguments"); rawjson.Valid([]byte(s), rawjson.MaxDepth) == nil {
		u.Args = []byte(s)
	}
	if u.ID == "" {
		u.ID, u.Result, r.At = p.String("id"), r, at
		r.Result, r.Outcome = bytes.Clone(p.Raw("result")), outcomes[p.String("status")]
	}
	if r.CallID, r.Name = u.ID, u.Name; len(c.ends) < maxTools {
		c.Tools, c.ends[u.ID] = append(c.Tools, u), r
	}
}

// outcomes are those of states of items; others are unknown.
var outcomes = map[string]spans.Outcome{"failed": spans.OutcomeError, "declined": spans.OutcomeDenied,
	"incomplete": spans.OutcomeCancelled, "cancelled": spans.OutcomeCancelled}

// completed reads an item that was completed, or an event that says the same: how a tool call ended. It reports false
// for one that has no tool call.
func (t *thread) completed(p *object.Object) bool {
	id := cmp.Or(p.String("call_id"), p.String("id"))
	u := t.call.ends[id]
	if u == nil {
		return false
	}
	u.Outcome = cmp.Or(outcomes[p.String("status")], u.Outcome)
	code, mcp := p.Int("exit_code"), object.Of("", p.Raw("result"))
	if success := p.Bool("success"); code != nil && *code != 0 || success != nil && !*success || p.Has("error") ||
		mcp.Has("Err") || object.Of("", mcp.Raw("Ok")).True("isError") {
		u.Outcome = cmp.Or(u.Outcome, spans.OutcomeError)
	}
	if u.At = t.at; t.ended.Before(t.at) && t.ended.After(t.born) { // a fork has times of its own, but for this one
		u.At = t.ended
	}
	t.spawned(id, p)
	return true
}

// spawned remembers which thread a tool call spawned. Later calls may be about it too.
func (t *thread) spawned(call string, p *object.Object) {
	for _, raw := range append(p.List("receiver_thread_ids"), p.Raw("new_thread_id"), p.Raw("agent_thread_id"),
		p.Raw("agent_id")) {
		id, _ := rawjson.String(raw)
		if id == "" || t.e.Spawned("", id) != (transcript.Link{}) {
			continue
		}
		t.settle() // it spawned the run that is open
		t.e.Spawn("", id, transcript.Link{Session: t.Session, Run: t.Run(), Call: call})
		if u := t.call.ends[call]; u != nil {
			u.ChildSessionID = id
		}
	}
}

// exit finds the exit code in the lines that Codex writes before an output.
var exit = regexp.MustCompile(`(?m)^(?:Exit code: |Process exited with code )(-?\d+)$`)

// refusals are texts of calls that did not run.
var refusals = transcript.Refusals{
	{Text: regexp.MustCompile(`AskForApproval|rejected: blocked by policy|approval policy is|` +
		`rejected by user approval settings|due to unacceptable risk`), Source: "permission-rule"},
	{Text: regexp.MustCompile(`rejected by user|user rejected`), Source: "user-rejected"},
}

// output reads the output of a tool call. It reports false where no such call is open.
func (t *thread) output(p *object.Object, payload []byte) bool {
	u := t.call.ends[p.String("call_id")]
	if u == nil {
		return false
	}
	raw, r := p.Raw("output"), *u
	r.At, r.Message, r.Result = cmp.Or(u.At, t.at), payload, raw
	said, isText := rawjson.String(raw)
	inner := object.Of("", raw)
	if isText && strings.HasPrefix(said, "{") && rawjson.Valid([]byte(said), object.MaxDepth) == nil {
		inner = object.Of("", []byte(said))
	}
	head, _, _ := strings.Cut(said[:min(len(said), 512)], "\nOutput:")
	code := exit.FindStringSubmatch(head)
	meta, success := inner.Object("metadata").Int("exit_code"), inner.Bool("success")
	switch {
	case code != nil && code[1] != "0", meta != nil && *meta != 0, success != nil && !*success:
		r.Outcome = cmp.Or(r.Outcome, spans.OutcomeError)
	case code == nil && inner == nil && len(said) <= maxRefusal && u.Outcome != spans.OutcomeError,
		r.Outcome == spans.OutcomeDenied:
		if r.Denied = refusals.Find(said); r.Denied == nil && r.Outcome == spans.OutcomeDenied {
			r.Denied = &event.PermissionEvaluation{Reason: said}
		}
	}
	if u.Name == "spawn_agent" {
		t.spawned(u.CallID, inner)
		r.ChildSessionID = u.ChildSessionID
	}
	return t.Result(r)
}
