package inspect

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Values of Body.State, TurnView.RulesState and CallView.PermissionState, besides StateMissing, StateCut and
// StateWithheld.
const (
	// StateNotCaptured: it was there, and was not captured.
	StateNotCaptured = "not captured"
	// StateNotRecorded: nothing says that it was there.
	StateNotRecorded = "not recorded"
)

// maxTexts bounds how many messages and events of one list a TurnView has.
const maxTexts = 200

// Turns returns at most count turns from a position of Outline.turns on, with at most text bytes of each body, at a
// time. It omits whether their requests are exact.
func (v *View) Turns(from, count, text int, now time.Time) []*TurnView {
	out := []*TurnView{}
	m := v.docs(now)
	m.text = text
	for i := max(from, 0); i < len(v.turns) && len(out) < count; i++ {
		out = append(out, m.turn(i))
	}
	return out
}

// Turn returns a turn of the tree with at most text bytes of each body, at a time; nil for a turn of another tree.
func (v *View) Turn(t *session.Turn, text int, now time.Time) *TurnView {
	i, ok := v.at[t]
	if !ok {
		return nil
	}
	m := v.docs(now)
	m.text, m.alone = text, true
	return m.turn(i)
}

// docs makes documents of turns, and of what belongs to a run.
type docs struct {
	*View
	now   time.Time
	text  int  // bytes of a body
	most  int  // messages and events of one list
	alone bool // the turn is the only one
	drawn bool // for a terminal, which has neither provenance nor first words
	gone  map[*session.Run]bool
	// results says that results of tools are messages too, though they are at their calls.
	results bool

	waiting []*session.Permission // those of the run asks
	asks    *session.Run
	// catalogue is the block of the last tools, offered their names.
	catalogue string
	offered   []string
}

func (v *View) docs(now time.Time) *docs {
	v.findTurns()
	return &docs{View: v, now: now, most: maxTexts, gone: v.gone(now)}
}

func (m *docs) turn(i int) *TurnView {
	t := &m.turns[i]
	o := &TurnView{
		Format: session.TreeFormat, OutlineTurn: m.View.turn(i, m.gone),
		Variant: t.Variant, Level: t.Level, Temperature: t.Temperature, MaxTokens: t.MaxTokens, Provider: t.Provider,
		Discarded: t.Discarded, FirstChunk: t.FirstChunkNS, TraceID: t.TraceID, SpanID: t.SpanID,
		ErrorType: string(t.ErrorType), Error: t.Error, Capture: t.Capture, PromptDigest: t.PromptDigest,
		Partial: t.Partial && !t.Replied, Findings: findings(t.Defects), of: t,
	}
	m.children(o, t.place, t.address(), t.Capture, t.ToolCalls, t.Compactions, t.Permissions)
	for _, c := range t.ToolCalls {
		if c.Name != "" && !slices.Contains(o.Called, c.Name) {
			o.Called = append(o.Called, c.Name)
		}
	}
	if q := t.LastRequest(); q != nil {
		o.System, o.Offered = m.system(t, q), m.tools(q)
	}
	var from map[string]string
	if !m.drawn {
		o.Text, from = m.line(t), m.sources(t)
	}
	if !m.drawn || m.alone {
		o.Rules, o.RulesState = m.rules(t.run, t.Start)
	}
	o.Input = m.input(t, from)
	o.Output = m.said(t.Output.Items(), t.Capture, nil, nil)
	o.Events = m.events(t.Events, t.Capture)
	o.Requests = each(t.Requests, func(q *session.Request) RequestView { return m.request(t, q) })
	return o
}

// run returns a run, and what belongs to it outside its turns.
func (m *docs) run(p place) *runView {
	o := &runView{OutlineRun: m.View.run(p, m.now)}
	m.children(&o.own, p, p.address(), p.run.Capture, p.run.ToolCalls, p.run.Compactions, p.run.Permissions)
	o.own.Input = m.said(p.run.Outside.Items(), p.run.Capture, nil, nil)
	o.own.Events = m.events(p.run.Events, p.run.Capture)
	return o
}

// children sets the calls, compactions and decisions of a turn or a run with that address.
func (m *docs) children(o *TurnView, p place, of string, capture spans.Capture, calls []*session.ToolCall,
	compactions []*session.Compaction, permissions []*session.Permission) {
	o.ToolCalls = each(calls, func(c *session.ToolCall) CallView { return m.call(p, of, capture, c) })
	o.Compactions = each(compactions, func(c *session.Compaction) CompactionView { return m.compaction(capture, c) })
	o.Permissions = m.permissions(p.run, permissions)
}

// sources returns where the new messages of a turn came from, as its last request states it.
func (m *docs) sources(t *viewTurn) map[string]string {
	out := map[string]string{}
	if q := t.LastRequest(); q != nil && q.Messages != nil {
		for _, ref := range q.New() {
			msg := session.Message{Ref: ref}
			if msg.Source, _ = spans.ParseProvenance(ref.Provenance); ref.Provenance != "" {
				out[m.tree.Blocks.Same(ref)] = source(&msg)
			}
		}
	}
	return out
}

// system returns the system prompt of a turn where it changed, where the turn is the first of its run, and where a turn
// is drawn alone.
func (m *docs) system(t *viewTurn, q *session.Request) *Body {
	ref := q.Param(spans.ProvenanceSystem)
	if ref.Block == "" || !t.first && !t.promptChanged() && !(m.drawn && m.alone) {
		return nil
	}
	b := m.body(ref, t.Capture, systemText)
	if b.Text == "null" || b.Text == "" && b.State == "" {
		return nil
	}
	return b
}

// tools returns the names of the tools of a request, nil where they are unknown. It reads a catalogue once.
func (m *docs) tools(q *session.Request) []string {
	ref := q.Param(spans.ProvenanceTools)
	if ref.Block == "" {
		return nil
	}
	if ref.Block != m.catalogue {
		m.catalogue, m.offered = ref.Block, nil
		body, there := m.tree.Blocks.Body(ref)
		if names, ok := message.ToolNames([]byte(body)); there && ok {
			m.offered = append([]string{}, names...) // not nil: they are known
		}
	}
	return m.offered
}

// rules returns the permission rules of a run at a time: those of its start, else the fact of the session at that time.
// state says why they are not there: not recorded, or not captured where only their digest is known.
func (m *docs) rules(run *session.Run, at time.Time) (rules *Body, state string) {
	at = cmp.Or(at, run.Start)
	ref, known := (*session.Ref)(nil), run.RulesDigest != ""
	if run.Rules.Len() > 0 {
		ref, known = &run.Rules.Items()[0], true
	} else {
		for i := range m.tree.Facts {
			f := &m.tree.Facts[i]
			if f.Subject == session.SubjectSession && f.Key == factRules && (at.IsZero() || !f.At.After(at)) {
				ref, known = f.Value, true
			}
		}
	}
	if !known {
		return nil, StateNotRecorded
	}
	if ref != nil {
		if body, ok := m.tree.Blocks.Body(*ref); ok {
			return m.part(body, session.Ref{}), ""
		}
	}
	return nil, StateNotCaptured
}

// input returns what was new for the model on a turn. Of a request it omits the reply of the turn before.
func (m *docs) input(t *viewTurn, from map[string]string) []MessageText {
	if t.Input.Len() > 0 {
		return m.said(t.Input.Items(), t.Capture, from, nil)
	}
	outside := map[string]bool{}
	for _, ref := range t.run.Outside.Items() {
		outside[m.tree.Blocks.Same(ref)] = true
	}
	list := m.said(input(t), t.Capture, from, func(s *shownPart) bool {
		return s.label == session.ByModel || s.label == string(session.PartThinking)
	})
	for i := range list {
		list[i].outside = len(outside) > 0 && outside[m.tree.Blocks.Same(session.Ref{Block: list[i].Text.Block})]
	}
	return list
}

// said returns the texts of a list of messages. It omits tool results, which are at their calls, and what skip
// reports.
func (m *docs) said(refs []session.Ref, capture spans.Capture, from map[string]string, skip func(*shownPart) bool,
) []MessageText {
	var out []MessageText
	for i, ref := range refs {
		if len(out) >= m.most {
			return append(out, MessageText{Label: "text", Text: Body{State: StateCut}, more: len(refs) - i})
		}
		source := ""
		if len(from) > 0 {
			source = from[m.tree.Blocks.Same(ref)]
		}
		body, ok := m.tree.Blocks.Body(ref)
		if !ok {
			out = append(out, MessageText{Label: "text", Text: *m.body(ref, capture, nil), From: source, message: i})
			continue
		}
		for j, s := range shownParts(body) {
			if (m.results || s.label != session.ByTool) && (skip == nil || !skip(&s)) {
				label := ellipsis(Clean(s.label), 32)
				out = append(out, MessageText{Label: label, Text: *m.part(s.text, ref), From: source, message: i, part: j})
			}
		}
	}
	return out
}

// body returns the content of a reference as read makes it for people, or why it is not there.
func (m *docs) body(ref session.Ref, capture spans.Capture, read func(string) string) *Body {
	text, size, state := Content(m.tree.Blocks, ref)
	if state == "" {
		return m.part(read(text), ref)
	}
	b := &Body{Block: ref.Block, State: state, Bytes: size, Cut: state == StateCut, have: int64(len(text))}
	if b.Text, _ = atMost(text, m.text); state == StateMissing && capture == spans.CaptureDigests {
		b.State = StateNotCaptured
	}
	return b
}

// part returns as much of a text of a block as the document takes.
func (m *docs) part(text string, ref session.Ref) *Body {
	b := &Body{Bytes: int64(len(text)), Block: ref.Block}
	b.Text, b.Cut = atMost(text, m.text)
	return b
}

// only returns the one body of a list, nil where there is no list.
func (m *docs) only(refs *session.Refs, capture spans.Capture, read func(string) string) *Body {
	if refs.Len() == 0 {
		return nil
	}
	return m.body(refs.Items()[0], capture, read)
}

// call returns a tool call of a turn or a run, with the address of that.
func (m *docs) call(p place, of string, capture spans.Capture, c *session.ToolCall) CallView {
	o := CallView{
		OutlineCall: outlineCall(c), Address: callAddress(of, c), Error: c.Error,
		Input:     m.only(c.Args, capture, func(body string) string { return body }),
		Output:    m.only(c.Result, capture, resultText),
		Truncated: c.Truncated != nil && *c.Truncated, Permissions: m.permissions(p.run, c.Permissions),
		Events: m.events(c.Events, capture), Findings: findings(c.Defects), of: c, kids: m.index.kids[c],
		Children: each(m.index.kids[c], place.address),
	}
	if m.gone[p.run] {
		freeze(&o.State)
	}
	if len(o.Permissions) == 0 {
		o.PermissionState = StateNotRecorded
	}
	return o
}

func (m *docs) permissions(run *session.Run, list []*session.Permission) []PermissionView {
	return each(list, func(q *session.Permission) PermissionView {
		if m.asks != run {
			m.asks, m.waiting = run, run.Waiting()
		}
		return PermissionView{
			At: q.Start, Action: q.Action, Tool: q.Tool, Rule: q.Pattern, Source: string(q.Source), DecidedBy: q.DecidedBy,
			Reason: q.Reason, Answer: strings.TrimSpace(q.Outcome + " " + q.Option), WaitNS: q.WaitNS,
			Waiting: slices.Contains(m.waiting, q), Inferred: q.Derived, of: q,
		}
	})
}

func (m *docs) compaction(capture spans.Capture, c *session.Compaction) CompactionView {
	return CompactionView{
		At: c.Start, Kind: c.Kind, Trigger: c.Trigger, Reason: c.Reason,
		MessagesBefore: c.MessagesBefore, MessagesAfter: c.MessagesAfter,
		TokensBefore: c.InputTokens, TokensAfter: c.OutputTokens, Applied: c.Applied, Usage: c.Usage, of: c,
		Summary: m.only(c.Summary, capture, func(body string) string {
			if said := shownParts(body); len(said) > 0 {
				return said[0].text
			}
			return valueText([]byte(body))
		}),
	}
}

func (m *docs) events(notes []session.Note, capture spans.Capture) []EventView {
	var out []EventView
	for i, e := range notes {
		if i == m.most {
			out = append(out, EventView{Type: "and " + plural(len(notes)-i, "more event")})
			break
		}
		v := EventView{At: e.Time, Type: e.Type, of: e}
		if e.Body != nil {
			v.Text = m.body(*e.Body, capture, eventText)
		}
		out = append(out, v)
	}
	return out
}

func (m *docs) request(t *viewTurn, q *session.Request) RequestView {
	o := RequestView{Address: t.address(), Attempt: q.Attempt}
	if len(t.Requests) > 1 {
		o.Address += "/" + strconv.FormatInt(q.Attempt, 10)
	}
	if q == t.LastRequest() {
		o.Bytes = t.RequestBytes
	}
	if q.Messages != nil {
		if o.Messages = q.Messages.Count; q.Messages.Complete {
			o.New = len(q.New())
		}
	}
	if m.alone && !m.drawn && t.Capture == spans.CaptureContent {
		p := q.Payload(m.tree.Blocks)
		o.Exact, o.Missing = &p.Exact, len(p.Missing)
		if p.Bytes != nil {
			o.Bytes = int64(len(p.Bytes))
		}
	}
	return o
}
