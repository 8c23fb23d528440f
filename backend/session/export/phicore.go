// Package export writes Session trees in the formats of others.
package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// ErrContent is wrapped when a session cannot be written because content that the format demands was not captured or did
// not arrive.
var ErrContent = errors.New("content missing")

// ErrEmpty is wrapped when a session holds nothing that the format can say.
var ErrEmpty = errors.New("nothing to export")

// Missing is one piece of content that a format demands and that is not there.
type Missing struct {
	// Where is an address: RUN@START, RUN@START/TURN. START is the start of the run, because loops reuse run ids.
	Where string
	// What names the list and the blocks, or says why there is nothing.
	What string
}

func (m Missing) String() string { return m.Where + ": " + m.What }

// MissingError says what of a session could not be written. It wraps ErrContent.
type MissingError struct {
	Session string
	Missing []Missing
}

func (e *MissingError) Error() string {
	const most = 3
	var b strings.Builder
	fmt.Fprintf(&b, "export: session %s: %d pieces of content are missing: ", e.Session, len(e.Missing))
	for i, m := range e.Missing {
		if i == most {
			b.WriteString("; ...")
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(m.String())
	}
	return b.String()
}

// Unwrap returns ErrContent.
func (e *MissingError) Unwrap() error { return ErrContent }

// PhiCoreOptions are the options of PhiCore. The zero value refuses to leave anything out and knows no other session.
type PhiCoreOptions struct {
	// Session returns the tree of another session, or nil. It is asked for the parent of a session that a tool call
	// spawned, which fills parent_spawn_ref.
	Session func(id string) *session.Session
	// Partial writes what is there: messages whose blocks are missing, or which phi-core could not read, are left out,
	// and so are turns whose reply is missing. What was left out is returned.
	Partial bool
}

// PhiCore writes s as the saved session that phi-core's own recorder would have left, in the form of phi-core 0.10.0 which
// every later release reads too: `events` is always there and empty. phi-core's rules hold: a run without an end is Aborted
// and has neither messages nor usage, turns without an end are left out, loops stand in the order of their ends, a run of
// which only the end was seen is not there.
//
// phi-core refuses a file for one word or shape that it does not know. What it would refuse counts as missing, is named, and
// is left out or replaced by the nearest word when opts.Partial allows it: whatever is written, phi-core loads.
//
// Nothing is guessed. Without opts.Partial an error of type *MissingError names what is missing and nothing is written; with
// it, the file is written and the same list is returned. A session without any run to write gives ErrEmpty.
func PhiCore(w io.Writer, s *session.Session, blocks *session.BlockSet, opts PhiCoreOptions) ([]Missing, error) {
	p := &phiCore{s: s, blocks: blocks, opts: opts}
	doc, err := p.session()
	if err != nil {
		return nil, err
	}
	if len(p.missing) > 0 && !opts.Partial {
		if p.uncaptured != "" {
			return p.missing, fmt.Errorf("export: session %s was captured with %q, and the phi-core ledger needs its content (capture content): %w",
				s.ID, p.uncaptured, &MissingError{Session: s.ID, Missing: p.missing})
		}
		return p.missing, &MissingError{Session: s.ID, Missing: p.missing}
	}
	var out bytes.Buffer
	if err := json.Indent(&out, doc, "", "  "); err != nil {
		return p.missing, fmt.Errorf("export: session %s: %w", s.ID, err)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return p.missing, fmt.Errorf("export: write session %s: %w", s.ID, err)
	}
	return p.missing, nil
}

type phiCore struct {
	s          *session.Session
	blocks     *session.BlockSet
	opts       PhiCoreOptions
	missing    []Missing
	uncaptured spans.Capture
}

func (p *phiCore) miss(where, what string) {
	p.missing = append(p.missing, Missing{Where: where, What: what})
}

// ended reports whether the loop itself reported the end of the run.
func ended(r *session.Run) bool {
	return !r.Missing && r.Known == spans.KnownObserved && r.Status != spans.RunStatusOpen
}

// unseen reports whether only the end of the run was seen; phi-core's recorder takes no notice of such a run.
func unseen(r *session.Run) bool {
	return slices.ContainsFunc(r.Defects, func(d session.Defect) bool { return d.Code == spans.DefectStartNotSeen })
}

func (p *phiCore) session() ([]byte, error) {
	var runs []*session.Run // by start
	for _, r := range p.s.Runs {
		if !unseen(r) {
			runs = append(runs, r)
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("export: session %s: no run whose start was seen: %w", p.s.ID, ErrEmpty)
	}
	loops := slices.Clone(runs)
	slices.SortStableFunc(loops, func(a, b *session.Run) int {
		switch x, y := ended(a), ended(b); {
		case x && y:
			return cmp.Or(a.End.Compare(b.End), cmp.Compare(a.EndSeq, b.EndSeq))
		case x != y:
			return cmp.Compare(boolInt(y), boolInt(x))
		}
		return 0
	})
	children := childrenOf(p.s, loops)

	o := object{}
	o.str("session_id", p.s.ID)
	o.str("agent_id", cmp.Or(runs[0].AgentID, runs[0].Agent))
	o.time("created_at", runs[0].Start)
	o.time("last_active_at", runs[len(runs)-1].Start)
	first := object{}
	first.time("timestamp", runs[0].Start)
	formation := object{}
	formation.raw("FirstLoop", first.bytes())
	o.raw("formation", formation.bytes())
	o.raw("parent_spawn_ref", p.spawnRef(runs))
	o.str("scope", "ephemeral")
	var l array
	for i, r := range loops {
		l.raw(p.loop(r, children[i]))
	}
	o.raw("loops", l.bytes())
	return o.bytes(), nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// childrenOf returns the children_loop_ids of each loop. The recorder links a run, when it ends, to the first loop of the
// parent's id among those that ended before, else to one that is still open then.
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

// spawnRef says what spawned the session: the first run that names a parent in another session, and the tool call of that
// session which names this one as its child.
func (p *phiCore) spawnRef(runs []*session.Run) []byte {
	for _, r := range runs {
		if r.ParentID == "" {
			continue
		}
		id := r.ParentSessionID
		if id == "" && p.s.Parent(r) == nil && !slices.ContainsFunc(runs, func(o *session.Run) bool { return o.ID == r.ParentID }) {
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
		o := object{}
		o.str("parent_session_id", id)
		o.str("parent_loop_id", loop)
		o.str("tool_call_id", call)
		o.str("tool_name", tool)
		return o.bytes()
	}
	return []byte("null")
}

// spawner returns the first ended tool call of parent that names child as its child session.
func spawner(parent *session.Session, child string) (*session.Run, *session.ToolCall) {
	var run *session.Run
	var call *session.ToolCall
	for _, r := range parent.Runs {
		for _, t := range spawning(r) {
			if childSession(t) == child && (call == nil || t.End.Before(call.End)) {
				run, call = r, t
			}
		}
	}
	return run, call
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
	if t.ChildSessionID != "" {
		return t.ChildSessionID
	}
	id, _, _ := strings.Cut(t.ChildRunID, ".")
	return id
}

func (p *phiCore) loop(r *session.Run, children []string) []byte {
	where := r.ID + "@" + r.Start.Format(time.RFC3339Nano)
	over := ended(r)
	if c := r.Capture; over && c != "" && c != spans.CaptureContent {
		p.uncaptured = c
	}

	o := object{}
	o.str("loop_id", r.ID)
	o.str("session_id", p.s.ID)
	o.str("agent_id", cmp.Or(r.AgentID, r.Agent))
	o.optional("parent_loop_id", r.ParentID)
	o.raw("continuation_kind", p.continuation(where, r))
	o.time("started_at", r.Start)
	if over {
		o.time("ended_at", r.End)
	} else {
		o.raw("ended_at", null)
	}
	o.str("status", p.status(where, r, over))
	if over && (r.Rejected || r.Rejection != "") {
		o.str("rejection", r.Rejection)
	} else {
		o.raw("rejection", null)
	}

	var turns array
	var replies, messages [][]byte
	for _, t := range byStart(r.Turns) {
		raw, reply, all := p.turn(where, r, t)
		if raw == nil {
			continue
		}
		turns.raw(raw)
		replies = append(replies, reply)
		if over {
			messages = append(messages, all...)
		}
	}
	switch {
	case !over:
	case !p.native(r) && (len(messages) > 0 || r.Outside != nil):
		before, after := p.outside(where, r)
		messages = slices.Concat(before, messages, after)
	case r.Messages != nil || r.Outside != nil:
		refs := r.Messages
		if refs == nil {
			refs = r.Outside
		}
		messages = p.messages(where, "messages", refs)
	case p.uncaptured != "":
		p.miss(where, "messages: not captured")
	}

	o.raw("config", p.config(where, r, append(replies[:len(replies):len(replies)], messages...)))
	o.raw("messages", list(messages))
	o.raw("turns", turns.bytes())
	switch {
	case !over:
		o.raw("usage", p.usage(where, &session.ReportedUsage{}))
	case r.Reported != nil:
		o.raw("usage", p.usage(where, r.Reported))
	default:
		o.raw("usage", p.usage(where, reported(r.Usage)))
	}
	o.raw("metadata", p.metadata(where, r))
	o.raw("events", []byte("[]"))
	var ids array
	for _, id := range children {
		ids.raw(quote(id))
	}
	o.raw("children_loop_ids", ids.bytes())
	var refs array
	for _, t := range spawning(r) {
		ref := object{}
		ref.str("tool_call_id", t.ID)
		ref.str("tool_name", t.Name)
		ref.str("child_loop_id", t.ChildRunID)
		ref.str("child_session_id", childSession(t))
		refs.raw(ref.bytes())
	}
	o.raw("child_loop_refs", refs.bytes())
	o.raw("parallel_group", p.group(where, r))
	return o.bytes()
}

// byStart returns turns in the order in which they ran; an index can be used twice.
func byStart(l []*session.Turn) []*session.Turn {
	l = slices.Clone(l)
	slices.SortStableFunc(l, func(a, b *session.Turn) int { return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.Seq, b.Seq)) })
	return l
}

// config returns the configuration as the loop gave it, else what the first reply tells of it.
func (p *phiCore) config(where string, r *session.Run, messages [][]byte) []byte {
	if r.Config != "" && loadable([]byte(r.Config)) {
		return p.knownConfig(where, []byte(r.Config))
	}
	for _, raw := range messages {
		var m struct {
			Role, Model, Provider string
		}
		if json.Unmarshal(raw, &m) == nil && m.Role == "assistant" {
			o := object{}
			o.str("model", m.Model)
			o.str("provider", m.Provider)
			o.optional("config_id", r.ConfigID)
			return o.bytes()
		}
	}
	return null
}

func (p *phiCore) metadata(where string, r *session.Run) []byte {
	if r.Metadata == nil {
		return null
	}
	if l := p.bodies(where, spans.ListMetadata, r.Metadata); len(l) == 1 {
		return l[0].body
	}
	return null
}

// group returns the run's entry of the parallel group of which it was one of the candidates. The recorder knows a group
// only once it ended.
func (p *phiCore) group(where string, r *session.Run) []byte {
	if r.GroupStart.IsZero() {
		return null
	}
	for _, g := range p.s.Groups {
		if !g.Start.Equal(r.GroupStart) || g.Missing || g.Known != spans.KnownObserved || !slices.Contains(g.Members, r.ID) {
			continue
		}
		if g.SelectedIndex < 0 {
			p.miss(where, "parallel_group: a negative index")
			return null
		}
		var ids array
		for _, id := range g.Members {
			ids.raw(quote(id))
		}
		o := object{}
		o.raw("all_loop_ids", ids.bytes())
		o.str("selected_loop_id", g.SelectedID)
		o.int("selected_config_index", g.SelectedIndex)
		evaluation := g.Evaluation
		if evaluation == nil {
			evaluation = &session.ReportedUsage{}
		}
		o.raw("evaluation_usage", p.usage(where, evaluation))
		o.bool("is_selected", g.SelectedID == r.ID)
		return o.bytes()
	}
	return null
}

func reported(u session.Usage) *session.ReportedUsage {
	return &session.ReportedUsage{
		Input: u.Input, Output: u.Output, Reasoning: u.Reasoning, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Total: session.Usage{Input: u.Input, Output: u.Output}.All(),
	}
}

func (p *phiCore) usage(where string, u *session.ReportedUsage) []byte {
	if min(u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite, u.Total) < 0 {
		p.miss(where, "usage: a negative count")
		u = &session.ReportedUsage{}
	}
	o := object{}
	o.int("input", u.Input)
	o.int("output", u.Output)
	o.int("reasoning", u.Reasoning)
	o.int("cache_read", u.CacheRead)
	o.int("cache_write", u.CacheWrite)
	o.int("total_tokens", u.Total)
	return o.bytes()
}

// native reports whether the messages of a run are phi-core's own. Those of a run that came back from the guide's rows are not.
func (p *phiCore) native(r *session.Run) bool {
	if r.Dialect != phiDialect {
		return false
	}
	lists := []*session.Refs{r.Messages, r.Outside}
	for _, t := range r.Turns {
		lists = append(lists, t.Output, t.Input)
	}
	for _, refs := range lists {
		if refs == nil {
			continue
		}
		for _, ref := range refs.Items() {
			if body, ok := p.blocks.Body(ref); ok {
				return find(members([]byte(body)), "parts") == nil
			}
		}
	}
	return true
}

// turn returns a turn and its reply; nil when it has no end, or no reply is known. Of a run of another dialect it returns the turn's
// messages too.
func (p *phiCore) turn(where string, r *session.Run, t *session.Turn) (raw, reply []byte, all [][]byte) {
	if t.Known != spans.KnownObserved && !t.Missing {
		return nil, nil, nil // phi-core cannot say it, and its recorder does not
	}
	where = fmt.Sprintf("%s/%d", where, t.Index)
	if c := t.Capture; c != "" && c != spans.CaptureContent {
		p.uncaptured = c
	}
	if t.Missing {
		p.miss(where, "the turn's span")
		return nil, nil, nil
	}
	if t.Index > math.MaxUint32 {
		p.miss(where, "turn_index: greater than phi-core's")
		return nil, nil, nil
	}
	var f turnMessages
	if p.native(r) {
		if output := p.messages(where, spans.ListOutput, t.Output); len(output) == 1 {
			f.reply = output[0]
		}
	} else {
		f = p.foreignTurn(where, r, t)
	}
	if f.reply == nil {
		if t.Output == nil || t.Output.Count == 0 {
			p.miss(where, "output: the reply was not captured")
		}
		return nil, nil, nil
	}
	if p.native(r) {
		f.input, f.results = p.messages(where, spans.ListInput, t.Input), p.messages(where, spans.ListResults, t.Results)
	}
	id := object{}
	id.str("loopId", r.ID)
	id.int("turnIndex", t.Index)

	o := object{}
	o.raw("turn_id", id.bytes())
	o.str("triggered_by", p.trigger(where, t))
	if t.Reported != nil {
		o.raw("usage", p.usage(where, t.Reported))
	} else {
		o.raw("usage", p.usage(where, reported(t.Usage)))
	}
	o.raw("input_messages", list(f.input))
	o.raw("output_message", f.reply)
	var results array
	for _, m := range f.results {
		// The recorder puts the place of the turn on each result.
		results.raw(merge(m, id.only("turnId")))
	}
	o.raw("tool_results", results.bytes())
	o.time("started_at", t.Start)
	o.time("ended_at", t.End)
	if p.native(r) { // phi-core's payload is its own form, which that of another loop is not
		if payload := p.payload(where, t); payload != nil {
			o.raw("request_payload", payload)
		}
	} else {
		all = f.all
	}
	return o.bytes(), f.reply, all
}

// payload returns the request of the last attempt, as the recorder keeps it.
func (p *phiCore) payload(where string, t *session.Turn) []byte {
	if len(t.Requests) == 0 {
		return nil
	}
	q := t.Requests[len(t.Requests)-1]
	if q.Messages == nil && q.Params == nil {
		return nil
	}
	parts := map[string][]byte{}
	for _, b := range p.bodies(where, spans.ListParams, q.Params) {
		parts[b.ref.Provenance] = b.body
	}
	rest := members(parts[string(spans.ProvenanceRest)])
	have := map[string]bool{"system_prompt": true, "messages": true, "provenance": true, "tools": true}

	var messages, provenance array
	known := 0
	for _, b := range p.bodies(where, spans.ListRequest, q.Messages) {
		m := b.body
		if why := unloadable(m, false); why != "" {
			p.miss(where, "request: "+why)
			return nil
		}
		messages.raw(m)
		raw, ok := blockProvenance(b.ref.Provenance)
		if !p.knownProvenance(where, raw) {
			return nil
		}
		if ok {
			known++
		}
		provenance.raw(raw)
	}
	o := object{}
	if system := parts[string(spans.ProvenanceSystem)]; system != nil {
		o.raw("system_prompt", system)
	} else {
		p.miss(where, "params: system")
		o.str("system_prompt", "")
	}
	o.raw("messages", messages.bytes())
	if own := find(rest, "provenance"); own != nil && known == 0 {
		if !p.knownRest(where, "provenance", own) {
			return nil
		}
		o.raw("provenance", own)
	} else {
		o.raw("provenance", provenance.bytes())
	}
	if tools := parts[string(spans.ProvenanceTools)]; tools != nil {
		o.raw("tools", tools)
	} else {
		o.raw("tools", []byte("[]"))
	}
	for _, key := range []string{"model_id", "thinking_level", "max_tokens", "temperature", "response_format"} {
		if v := find(rest, key); v != nil {
			if !p.knownRest(where, key, v) {
				return nil
			}
			o.raw(key, v)
			have[key] = true
		}
	}
	for _, m := range rest {
		if !have[m.key] {
			o.raw(m.key, m.value)
		}
	}
	return o.bytes()
}

// blockProvenance returns phi-core's BlockProvenance, and whether anything is known.
func blockProvenance(short string) ([]byte, bool) {
	o := object{}
	pv, err := spans.ParseProvenance(short)
	switch {
	case short == "" || err != nil:
		o.str("kind", string(spans.ProvenanceUnknown))
		return o.bytes(), false
	case pv.Raw != "":
		if json.Valid([]byte(pv.Raw)) {
			return []byte(pv.Raw), true
		}
		o.str("kind", string(spans.ProvenanceUnknown))
		return o.bytes(), false
	}
	o.str("kind", string(pv.Kind))
	switch pv.Kind {
	case spans.ProvenanceIdentityBlock:
		o.str("name", pv.Name)
		o.int("order", pv.Order)
	case spans.ProvenanceMemoryTier:
		o.str("tier", pv.Tier)
		o.str("record_id", pv.RecordID)
	case spans.ProvenanceLoopTurn:
		o.int("turn_index", pv.TurnIndex)
		o.str("role", pv.Role)
		o.int("message_index", pv.MessageIndex)
	}
	return o.bytes(), true
}

type body struct {
	ref  session.Ref
	body []byte
}

// bodies returns what a list refers to, as JSON; what is missing is noted and left out.
func (p *phiCore) bodies(where, name string, refs *session.Refs) []body {
	if refs == nil {
		return nil
	}
	c := p.blocks.Read(refs)
	if !refs.Complete {
		p.miss(where, fmt.Sprintf("%s: %d of %d items", name, refs.Len(), refs.Count))
	}
	var l []body
	var lost, withheld []string
	for i, ref := range refs.Items() {
		switch {
		case len(c.Missing) > len(lost) && c.Missing[len(lost)] == i:
			lost = append(lost, ref.Block)
		case len(c.Withheld) > len(withheld) && c.Withheld[len(withheld)] == i:
			withheld = append(withheld, ref.Block)
		case !loadable([]byte(c.Bodies[i])):
			p.miss(where, fmt.Sprintf("%s: block %s is no JSON that phi-core reads", name, ref.Block))
		default:
			l = append(l, body{ref, asMessage(name, c.Bodies[i])})
		}
	}
	if len(lost) > 0 {
		p.miss(where, name+": blocks "+strings.Join(lost, " "))
	}
	if len(withheld) > 0 {
		p.miss(where, name+": withheld at the source: blocks "+strings.Join(withheld, " "))
	}
	return l
}

// messages returns the messages of a list, each with its envelope put back.
func (p *phiCore) messages(where, name string, refs *session.Refs) [][]byte {
	var l [][]byte
	for _, b := range p.bodies(where, name, refs) {
		m := b.body
		if why := unloadable(m, name != spans.ListResults); why != "" {
			p.miss(where, name+": "+why)
			continue
		}
		l = append(l, m)
	}
	return l
}
