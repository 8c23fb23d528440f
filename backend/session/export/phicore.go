package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// phiDialect is the dialect whose messages the ledger holds as they are. Those of others are converted.
const phiDialect = "phi-core"

// PhiCore writes s as the saved session that phi-core's own recorder would have written, in the form of phi-core 0.10.0
// which every later release reads too: `events` is always there and empty. phi-core's rules hold: a run without an end
// is Aborted and has neither messages nor usage, turns without an end are omitted, loops have the order of their ends,
// a run of which only the end was seen is omitted.
//
// Messages, requests and configuration of a session from phi-core are written as they came. Those of another loop are
// converted. PhiCore names what phi-core has no word or place for as missing, and with opts.Partial omits it or writes
// the nearest word.
//
// Without opts.Partial an error of type *MissingError names the missing content and PhiCore writes nothing; with it, it
// writes the file and returns the same list. A session without any run to write gives ErrEmpty. Memory holds the whole
// document.
func PhiCore(w io.Writer, s session.Tree, opts Options) ([]Missing, error) {
	p := &phiCore{content: &content{s: s.Session, blocks: s.Blocks, opts: opts}}
	doc, err := p.session()
	if err != nil {
		return nil, err
	}
	if err := p.missed(); err != nil {
		if p.uncaptured != "" {
			err = fmt.Errorf("export: session %s was captured with %q, and the phi-core ledger needs its content "+
				"(capture content): %w", s.ID, p.uncaptured, err)
		}
		return p.missing, err
	}
	var out bytes.Buffer
	_ = json.Indent(&out, doc, "", "  ") // all bodies in it are valid
	if _, err := w.Write(out.Bytes()); err != nil {
		return p.missing, fmt.Errorf("export: write session %s: %w", s.ID, err)
	}
	return p.missing, nil
}

type phiCore struct {
	*content
	uncaptured spans.Capture
	native     bool // the messages of the run that is written are phi-core's own
}

// captured notes what a run or a turn with an end was captured with.
func (p *phiCore) captured(c spans.Capture) {
	if !isCaptured(c) {
		p.uncaptured = c
	}
}

// ended reports whether the loop itself reported the end of the run.
func ended(r *session.Run) bool {
	return !r.Missing && r.Known == spans.KnownObserved && r.Status != spans.RunStatusOpen
}

func (p *phiCore) session() ([]byte, error) {
	runs := slices.Clone(p.s.Runs) // by start
	runs = slices.DeleteFunc(runs, func(r *session.Run) bool {
		return slices.ContainsFunc(r.Defects, func(d session.Defect) bool { return d.Code == spans.DefectStartNotSeen })
	})
	if len(runs) == 0 {
		return nil, fmt.Errorf("export: session %s: no run whose start was seen: %w", p.s.ID, ErrEmpty)
	}
	loops := slices.Clone(runs)
	slices.SortStableFunc(loops, func(a, b *session.Run) int {
		switch x, y := ended(a), ended(b); {
		case x && y:
			return cmp.Or(a.End.Compare(b.End), cmp.Compare(a.EndSeq, b.EndSeq))
		case x:
			return -1
		case y:
			return 1
		}
		return 0
	})
	children := childrenOf(p.s, loops)
	first := runs[0]
	spawned := p.spawnRef(runs)
	var l [][]byte
	for i, r := range loops {
		l = append(l, p.loop(r, children[i]))
	}
	return fields("session_id", &p.s.ID, "agent_id", new(cmp.Or(first.AgentID, first.Agent)),
		"created_at", rfc3339(first.Start), "last_active_at", rfc3339(runs[len(runs)-1].Start),
		"formation", fields("FirstLoop", fields("timestamp", rfc3339(first.Start))),
		"parent_spawn_ref", spawned, "scope", "ephemeral", "loops", list(l)), nil
}

// childrenOf returns the children_loop_ids of each loop. The recorder links a run, when it ends, to the first loop of
// the parent's id among those that ended before, else to one that is still open then.
func childrenOf(s *session.Session, loops []*session.Run) [][]string {
	children := make([][]string, len(loops))
	for i, r := range loops {
		if r.ParentID == "" || !ended(r) || r.ParentSessionID != "" && r.ParentSessionID != s.ID {
			continue
		}
		for j, c := range loops {
			if j == i || c.ID != r.ParentID || j > i && c.Start.After(r.End) {
				continue
			}
			if !slices.Contains(children[j], r.ID) {
				children[j] = append(children[j], r.ID)
			}
			break
		}
	}
	return children
}

// spawnRef names the spawner of the session: the first run that names a parent in another session, and the tool call of
// that session which names this one as its child.
func (p *phiCore) spawnRef(runs []*session.Run) []byte {
	for _, r := range runs {
		if r.ParentID == "" {
			continue
		}
		id := r.ParentSessionID
		isParent := func(o *session.Run) bool { return o.ID == r.ParentID }
		if id == "" && !slices.ContainsFunc(p.s.Runs, isParent) {
			id, _, _ = strings.Cut(r.ParentID, ".")
		}
		if id == "" || id == p.s.ID {
			continue
		}
		loop, call, tool := r.ParentID, "", ""
		if p.opts.Session != nil {
			if parent := p.opts.Session(id); parent != nil {
				if run, t := spawner(parent, p.s.ID); t != nil {
					loop, call, tool = run.ID, t.ID, t.Name
				}
			}
		}
		return fields("parent_session_id", id, "parent_loop_id", &loop, "tool_call_id", &call, "tool_name", &tool)
	}
	return null
}

// spawning returns the ended tool calls of a run that spawned a run, in the order of their ends.
func spawning(r *session.Run) []*session.ToolCall {
	var l []*session.ToolCall
	for t := range r.Calls() {
		if t.ChildRunID != "" && t.Known == spans.KnownObserved {
			l = append(l, t)
		}
	}
	slices.SortStableFunc(l, func(a, b *session.ToolCall) int {
		return cmp.Or(cmp.Compare(a.EndSeq, b.EndSeq), a.End.Compare(b.End))
	})
	return l
}

func childSession(t *session.ToolCall) string {
	id, _, _ := strings.Cut(t.ChildRunID, ".")
	return cmp.Or(t.ChildSessionID, id)
}

func (p *phiCore) loop(r *session.Run, children []string) []byte {
	where := whereRun(r)
	over := ended(r)
	end, rejection, usage := null, null, r.Reported
	if over {
		p.captured(r.Capture)
		end = quote(rfc3339(r.End))
	}
	if over && (r.Rejected || r.Rejection != "") {
		rejection = quote(r.Rejection)
	}
	continuation, status := p.continuation(where, r), p.status(where, r, over)
	var turns, replies, messages [][]byte
	p.native = p.isNative(r)
	for _, t := range byStart(r.Conversation()) {
		turn, reply, all := p.turn(r, t)
		if turn == nil {
			continue
		}
		turns, replies = append(turns, turn), append(replies, reply)
		if over {
			messages = append(messages, all...)
		}
	}
	refs := r.Messages
	if refs == nil {
		refs = r.Outside
	}
	switch {
	case !over:
		usage = &session.ReportedUsage{}
	case !p.native && (len(messages) > 0 || r.Outside != nil):
		before, after := p.outside(where, r)
		messages = slices.Concat(before, messages, after)
	case refs != nil:
		messages = p.messagesOf(where, "messages", refs)
	case p.uncaptured != "":
		p.miss(where, "messages: not captured")
	}
	config := p.config(where, r, slices.Concat(replies, messages))
	metadata := null
	if l := p.listOf(where, spans.ListMetadata, r.Metadata); len(l) == 1 {
		metadata = l[0].body
	}
	var spawned [][]byte
	for _, t := range spawning(r) {
		spawned = append(spawned, fields("tool_call_id", &t.ID, "tool_name", &t.Name, "child_loop_id", &t.ChildRunID,
			"child_session_id", new(childSession(t))))
	}
	return fields("loop_id", &r.ID, "session_id", &p.s.ID, "agent_id", new(cmp.Or(r.AgentID, r.Agent)),
		"parent_loop_id", optional(r.ParentID), "continuation_kind", continuation, "started_at", rfc3339(r.Start),
		"ended_at", end, "status", status, "rejection", rejection, "config", config, "messages", list(messages),
		"turns", list(turns), "usage", phiUsage(usage, r.Usage), "metadata", metadata, "events", []byte("[]"),
		"children_loop_ids", idList(children), "child_loop_refs", list(spawned), "parallel_group", p.group(r))
}

// optional returns null for an empty string.
func optional(s string) []byte {
	if s == "" {
		return null
	}
	return quote(s)
}

func idList(ids []string) []byte { return encode(append([]string{}, ids...)) }

// rfc3339 writes a time as serde and chrono do: UTC, and 0, 3, 6 or 9 digits, the fewest that are exact.
func rfc3339(t time.Time) string {
	s := t.UTC().Format("2006-01-02T15:04:05.000000000")
	for strings.HasSuffix(s, "000") {
		s = strings.TrimSuffix(s, "000")
	}
	return strings.TrimSuffix(s, ".") + "Z"
}

// config returns the configuration as the loop states it, of another loop without the words of its own, else the model
// and provider of the first reply.
func (p *phiCore) config(where string, r *session.Run, messages [][]byte) []byte {
	if c := parse([]byte(r.Config)); c != nil && json.Valid([]byte(r.Config)) {
		switch {
		case c.Literal("model") == nil || c.Literal("provider") == nil:
			p.miss(where, "config without model and provider")
			return null
		case r.Dialect == phiDialect:
			return []byte(r.Config)
		}
		return edited(c, []string{"api", "thinking_level"})
	}
	for _, raw := range messages {
		if m := parse(raw); m.Text("role") == "assistant" {
			return fields("model", new(m.Text("model")), "provider", new(m.Text("provider")),
				"config_id", optional(r.ConfigID))
		}
	}
	return null
}

// group returns the run's entry of the parallel group of which it was one of the candidates. The recorder knows a group
// only once it ended.
func (p *phiCore) group(r *session.Run) []byte {
	for _, g := range p.s.Groups {
		if r.GroupStart.IsZero() || !g.Start.Equal(r.GroupStart) || g.Missing || g.Known != spans.KnownObserved ||
			!slices.Contains(g.Members, r.ID) {
			continue
		}
		return fields("all_loop_ids", idList(g.Members), "selected_loop_id", &g.SelectedID,
			"selected_config_index", &g.SelectedIndex, "evaluation_usage", phiUsage(g.Evaluation, session.Usage{}),
			"is_selected", new(g.SelectedID == r.ID))
	}
	return null
}

// phiUsage returns usage as it was reported, else the tree's.
func phiUsage(u *session.ReportedUsage, of session.Usage) []byte {
	if u == nil {
		total := session.Usage{Input: of.Input, Output: of.Output}.All()
		u = &session.ReportedUsage{Input: of.Input, Output: of.Output, Reasoning: of.Reasoning, CacheRead: of.CacheRead,
			CacheWrite: of.CacheWrite, Total: total}
	}
	count := func(n int64) *int64 { return new(max(0, n)) } // phi-core's have no sign
	return fields("input", count(u.Input), "output", count(u.Output), "reasoning", count(u.Reasoning),
		"cache_read", count(u.CacheRead), "cache_write", count(u.CacheWrite), "total_tokens", count(u.Total))
}

// isNative reports whether the messages of a run are phi-core's own. Those of a run that came back from the guide's
// rows are not.
func (p *phiCore) isNative(r *session.Run) bool {
	return r.Dialect == phiDialect && p.s.Fact("session", factRow) == nil
}

// place returns the turnId that phi-core puts on messages of a turn, and the turn_id of the turn.
func placeOf(r *session.Run, t *session.Turn) []byte {
	return fields("loopId", &r.ID, "turnIndex", &t.Index)
}

// placed returns a message with its turnId, as phi-core writes it.
func placed(message, place []byte) []byte {
	members := maps.Collect(parse(message).All())
	members["turnId"] = place
	var pairs []any
	for _, key := range slices.Sorted(maps.Keys(members)) {
		pairs = append(pairs, key, members[key])
	}
	return fields(pairs...)
}

// turn returns a turn and its reply; nil when it has no end, or no reply is known. Of a run of another dialect it
// returns the turn's messages too.
func (p *phiCore) turn(r *session.Run, t *session.Turn) (turn, reply []byte, all [][]byte) {
	where := whereTurn(r, t)
	if t.Known != spans.KnownObserved && !t.Missing {
		return nil, nil, nil // phi-core has no place for it
	}
	p.captured(t.Capture)
	if t.Missing {
		p.miss(where, "the turn's span")
		return nil, nil, nil
	}
	var f turnMessages
	if !p.native {
		f = p.foreignTurn(where, r, t)
	} else if output := p.messagesOf(where, spans.ListOutput, t.Output); len(output) == 1 {
		f.reply = output[0]
	}
	if f.reply == nil {
		if t.Output == nil || t.Output.Count == 0 {
			p.miss(where, "output: the reply was not captured")
		}
		return nil, nil, nil
	}
	var payload []byte
	if p.native { // phi-core's payload has its own form, which that of another loop has not
		f.input = p.messagesOf(where, spans.ListInput, t.Input)
		f.results = p.messagesOf(where, spans.ListResults, t.Results)
		payload = p.payload(where, t)
	}
	id := placeOf(r, t)
	for i, m := range f.results {
		f.results[i] = placed(m, id) // as the recorder does
	}
	return fields("turn_id", id, "triggered_by", p.trigger(where, t), "usage", phiUsage(t.Reported, t.Usage),
		"input_messages", list(f.input), "output_message", f.reply, "tool_results", list(f.results),
		"started_at", rfc3339(t.Start), "ended_at", rfc3339(t.End), "request_payload", payload), f.reply, f.all
}

// payload returns the request of the last attempt, as the recorder keeps it.
func (p *phiCore) payload(where string, t *session.Turn) []byte {
	q := t.LastRequest()
	if q == nil || q.Messages == nil && q.Params == nil {
		return nil
	}
	parts := map[spans.ProvenanceKind][]byte{spans.ProvenanceTools: []byte("[]")}
	for _, b := range p.listOf(where, spans.ListParams, q.Params) {
		parts[spans.ProvenanceKind(b.ref.Provenance)] = b.body
	}
	system, rest := parts[spans.ProvenanceSystem], parse(parts[spans.ProvenanceRest])
	if system == nil {
		p.miss(where, "params: system")
		system = quote("")
	}
	var messages, sources [][]byte
	anyKnown := false
	for _, b := range p.listOf(where, spans.ListRequest, q.Messages) {
		raw, known := blockProvenance(b.ref.Provenance)
		if kind := parse(raw).Text("kind"); !slices.Contains(strings.Fields(phiProvenances), kind) {
			p.miss(where, fmt.Sprintf("request provenance %.64q is no word of phi-core", kind))
			return nil
		}
		messages, sources, anyKnown = append(messages, b.body), append(sources, raw), anyKnown || known
	}
	provenance := list(sources)
	if own := rest.Raw("provenance"); own != nil && !anyKnown {
		provenance = own
	}
	o := []any{"system_prompt", system, "messages", list(messages), "provenance", provenance,
		"tools", parts[spans.ProvenanceTools]}
	known := []string{"model_id", "thinking_level", "max_tokens", "temperature", "response_format"}
	for _, key := range known {
		o = append(o, key, rest.Spelled(key))
	}
	for key, value := range rest.All() {
		if !slices.Contains(slices.Concat(known, []string{"system_prompt", "messages", "provenance", "tools"}), key) {
			o = append(o, key, value)
		}
	}
	return fields(o...)
}

// blockProvenance returns phi-core's BlockProvenance, and whether anything is known.
func blockProvenance(short string) ([]byte, bool) {
	pv, err := spans.ParseProvenance(short)
	switch {
	case short == "" || err != nil || pv.Raw != "" && !json.Valid([]byte(pv.Raw)):
		return fields("kind", spans.ProvenanceUnknown), false
	case pv.Raw != "":
		return []byte(pv.Raw), true
	}
	switch pv.Kind {
	case spans.ProvenanceIdentityBlock:
		return fields("kind", &pv.Kind, "name", &pv.Name, "order", &pv.Order), true
	case spans.ProvenanceMemoryTier:
		return fields("kind", &pv.Kind, "tier", &pv.Tier, "record_id", &pv.RecordID), true
	case spans.ProvenanceLoopTurn:
		return fields("kind", &pv.Kind, "turn_index", &pv.TurnIndex, "role", &pv.Role,
			"message_index", &pv.MessageIndex), true
	}
	return fields("kind", &pv.Kind), true
}

// listOf returns the bodies of a list, as JSON; it notes and omits those that are missing. Of another loop a body may
// be a text.
func (p *phiCore) listOf(where, name string, refs *session.Refs) []body {
	l := p.list(name, refs, func(what string) { p.miss(where, what) })
	for i := range l {
		if !p.native && !json.Valid(l[i].body) {
			l[i].body = quote(string(l[i].body))
		}
	}
	return slices.DeleteFunc(l, func(b body) bool {
		if !loadable(b.body) {
			p.miss(where, fmt.Sprintf("%s: block %s is no JSON that phi-core reads", name, b.ref.Block))
			return true
		}
		return false
	})
}

// escapes are escapes in JSON strings but for those of one half of a surrogate pair, which halfPair finds.
var (
	escapes  = regexp.MustCompile(`\\[^u]|\\u[dD][89abAB]..\\u[dD][c-fC-F]..`)
	halfPair = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
)

// loadable reports whether raw is JSON that serde_json reads: without half a surrogate pair.
func loadable(raw []byte) bool {
	return json.Valid(raw) && (!halfPair.Match(raw) || !halfPair.Match(escapes.ReplaceAll(raw, nil)))
}

// phiKeys are the members that phi-core demands of a message, by its role.
var phiKeys = map[string]string{
	"user": "content timestamp", "assistant": "content timestamp stopReason model provider usage",
	"toolResult": "content timestamp toolCallId toolName isError",
}

// The stop reasons and the kinds of provenances that phi-core knows.
const (
	phiStops       = "stop length toolUse error aborted maxTurns userStop handoff guardRail contextCompacted paused"
	phiProvenances = "system-prompt steering follow-up unknown identity-block memory-tier loop-turn"
)

// messagesOf returns the messages of a list that phi-core reads: it refuses a whole file for one that it does not.
func (p *phiCore) messagesOf(where, name string, refs *session.Refs) (l [][]byte) {
	for _, b := range p.listOf(where, name, refs) {
		o := parse(b.body)
		keys := strings.Fields(cmp.Or(phiKeys[o.Text("role")], "role kind data")) // else an extension message
		switch stop := o.Text("stopReason"); {
		case slices.ContainsFunc(keys, func(key string) bool { return o.Spelled(key) == nil }):
			p.miss(where, name+": a message without all keys that phi-core demands")
		case stop != "" && !slices.Contains(strings.Fields(phiStops), stop):
			p.miss(where, fmt.Sprintf("%s: stopReason %.64q is no word of phi-core", name, stop))
		default:
			l = append(l, b.body)
		}
	}
	return l
}

// known returns phi-core's name for a value, "" where it has none. It notes a value that has none, unless that is
// empty.
func known[T ~string](p *phiCore, where, what string, value T, names map[T]string) string {
	name := names[value]
	if name == "" && value != "" {
		p.miss(where, fmt.Sprintf("%s %.64q is no word of phi-core", what, value))
	}
	return name
}

var phiContinuations = map[spans.Continuation]string{
	"": "Initial", spans.ContinuationInitial: "Initial", spans.ContinuationDefault: "Default",
	spans.ContinuationCompaction: "Compaction", spans.ContinuationRerun: "Rerun", spans.ContinuationBranch: "Branch",
}

func (p *phiCore) continuation(where string, r *session.Run) []byte {
	name := known(p, where, "continuation_kind", r.Continuation, phiContinuations)
	switch {
	case name == "Rerun" || name == "Branch":
		return fields(name, fields("tag", &r.ContinuationTag))
	case name == "" && r.ParentID == "":
		name = "Initial"
	}
	return quote(cmp.Or(name, "Default"))
}

// phiRunStatuses: phi-core's loops end as Completed where it has no other status.
var phiRunStatuses = map[spans.RunStatus]string{
	spans.RunStatusRejected: "Rejected", spans.RunStatusAborted: "Aborted", spans.RunStatusCompleted: "Completed",
	spans.RunStatusError: "Completed", spans.RunStatusCancelled: "Completed", spans.RunStatusVetoed: "Completed",
}

func (p *phiCore) status(where string, r *session.Run, over bool) string {
	switch {
	case !over:
		return "Aborted"
	case slices.Contains([]string{"Pending", "Running", "Completed", "Rejected", "Aborted"}, r.StatusWord):
		return r.StatusWord
	}
	return cmp.Or(known(p, where, "status", r.Status, phiRunStatuses), "Completed")
}

var phiTriggers = map[spans.Trigger]string{
	spans.TriggerUser: "User", spans.TriggerSubAgent: "SubAgent", spans.TriggerBranch: "Branch",
	spans.TriggerContinuation: "Continuation",
}

func (p *phiCore) trigger(where string, t *session.Turn) string {
	name := known(p, where, "triggered_by", t.Trigger, phiTriggers)
	if name == "" && t.Index == 0 {
		name = "User"
	}
	return cmp.Or(name, "Continuation")
}
