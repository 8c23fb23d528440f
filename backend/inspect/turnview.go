package inspect

import (
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Words of Body.State, and of TurnView.RulesState and CallView.PermissionState, besides StateMissing, StateCut and StateWithheld.
const (
	// StateNotCaptured: it was there, and was not captured.
	StateNotCaptured = "not captured"
	// StateNotRecorded: nothing says that it was there.
	StateNotRecorded = "not recorded"
)

// maxSaid bounds how many messages, events and findings of one thing a TurnView holds.
const maxSaid = 200

// Turns returns views of at most count turns, from a position of Outline.Turns on, with at most text bytes of each body, as of
// now. It is quicker than as many Turn. Whether their requests are exact is left out.
func (v *View) Turns(from, count, text int, now time.Time) []*TurnView {
	out := []*TurnView{}
	m := viewer{View: v, news: v.index, text: text, gone: v.gone(now)}
	for i := max(from, 0); i < len(v.turns) && len(out) < count; i++ {
		out = append(out, m.view(i))
	}
	return out
}

// Turn returns a view of the turn at a position of Outline.Turns, nil where there is none, with at most text bytes of each body, as of
// now.
func (v *View) Turn(i, text int, now time.Time) *TurnView {
	if i < 0 || i >= len(v.turns) {
		return nil
	}
	m := viewer{View: v, news: v.index, text: text, alone: true, gone: v.gone(now)}
	return m.view(i)
}

// viewer makes views of turns that follow one another.
type viewer struct {
	*View
	news  renderer // remembers what the request before had
	text  int      // bytes of a body
	alone bool
	gone  map[*session.Run]bool

	waiting []*session.Permission // those of the run asks
	asks    *session.Run
}

func (m *viewer) view(i int) *TurnView {
	t := m.turns[i]
	o := &TurnView{
		Format: session.TreeFormat, OutlineTurn: m.turn(i, m.gone), Variant: t.Variant, Level: t.Level, Temperature: t.Temperature, MaxTokens: t.MaxTokens,
		Provider: t.Provider, Discarded: t.Discarded, FirstChunk: t.FirstChunkNS, TraceID: t.TraceID, SpanID: t.SpanID,
		ErrorType: string(t.ErrorType), Error: t.Error, Capture: t.Capture, PromptDigest: t.PromptDigest, Partial: t.Partial && !t.Replied, Findings: findings(t.Defects),
	}
	var params []session.Ref
	from := map[string]string{} // what a message says to where it came from, as the request tells
	if n := len(t.Requests); n > 0 {
		last := t.Requests[n-1]
		params = last.Params.Items()
		if last.Messages != nil {
			_, same := earlier(t.Turn, last)
			for _, ref := range last.Messages.From(same) {
				msg := session.Message{Ref: ref}
				if msg.Source, _ = spans.ParseProvenance(ref.Provenance); ref.Provenance != "" {
					from[m.tree.Blocks.Same(ref)] = source(&msg)
				}
			}
		}
	}
	for _, ref := range params {
		if spans.ProvenanceKind(ref.Provenance) == spans.ProvenanceSystem {
			if t.first || t.prompt {
				if b := m.body(ref, t.Capture, func(body string) string { return valueText([]byte(body)) }); b.Text != "null" && (b.Text != "" || b.State != "") {
					o.System = b
				}
			}
		}
	}
	o.Offered, _ = offered(m.tree, t.Turn)
	o.Called = called(t.Turn)
	for _, c := range t.ToolCalls {
		o.ToolCalls = append(o.ToolCalls, m.call(&t, c))
	}
	m.rules(o, &t)
	o.Input = m.said(input(&t), t.Capture, from)
	if t.Input.Len() == 0 { // of a request: what stands at the turn before as its reply is not new
		o.Input = slices.DeleteFunc(o.Input, func(s Said) bool { return s.Label == session.ByModel || s.Label == string(session.SaidThinking) })
	}
	o.Output = m.said(t.Output.Items(), t.Capture, nil)
	for _, q := range t.Permissions {
		o.Permissions = append(o.Permissions, m.permission(t.run, q))
	}
	for _, c := range t.Compactions {
		o.Compactions = append(o.Compactions, m.compaction(&t, c))
	}
	o.Events = m.events(t.Events, t.Capture)
	for _, q := range t.Requests {
		o.Requests = append(o.Requests, m.request(&t, q))
	}
	return o
}

// rules says under which permission rules the turn ran.
func (m *viewer) rules(o *TurnView, t *viewTurn) {
	at := t.Start
	if at.IsZero() {
		at = t.run.Start
	}
	body, state := rulesOf(m.tree, t.run, at)
	if o.RulesState = state; state == "" {
		text, cut := atMost(body, m.text)
		o.Rules = &Body{Text: text, Cut: cut, Bytes: int64(len(body))}
	}
}

// said returns what a list of messages says, without tool results: those stand at their calls.
func (m *viewer) said(refs []session.Ref, capture spans.Capture, from map[string]string) []Said {
	var out []Said
	for _, ref := range refs {
		if len(out) >= maxSaid {
			out = append(out, Said{Label: "text", Text: Body{State: StateCut}})
			break
		}
		body, ok := m.tree.Blocks.Body(ref)
		if !ok {
			out = append(out, Said{Label: "text", Text: *m.body(ref, capture, nil), From: from[m.tree.Blocks.Same(ref)]})
			continue
		}
		for _, s := range sayings(body) {
			if s.label != session.ByTool {
				out = append(out, Said{Label: ellipsis(Clean(s.label), 32), Text: *m.part(s.text, ref), From: from[m.tree.Blocks.Same(ref)]})
			}
		}
	}
	return out
}

// body returns what a reference stands for, as read makes it for people, or why it is not there.
func (m *viewer) body(ref session.Ref, capture spans.Capture, read func(string) string) *Body {
	if body, ok := m.tree.Blocks.Body(ref); ok {
		return m.part(read(body), ref)
	}
	b := &Body{Block: ref.Block, State: StateMissing}
	if text, size, ok := m.tree.Blocks.Cut(ref); ok {
		b.State, b.Bytes = StateWithheld, size
		if text != "" {
			b.State, b.Cut = StateCut, true
			b.Text, _ = atMost(text, m.text)
		}
	} else if capture == spans.CaptureDigests {
		b.State = StateNotCaptured
	}
	return b
}

// part returns a text of a block, as much of it as is asked for.
func (m *viewer) part(text string, ref session.Ref) *Body {
	b := &Body{Bytes: int64(len(text)), Block: ref.Block}
	b.Text, b.Cut = atMost(text, m.text)
	return b
}

// atMost returns the first n bytes of s and whether it goes on; no character is parted.
func atMost(s string, n int) (string, bool) {
	if len(s) <= n {
		return s, false
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n]), true
}

// only returns the body of a list's one item, nil where there is no list.
func (m *viewer) only(refs *session.Refs, capture spans.Capture, read func(string) string) *Body {
	if refs.Len() == 0 {
		return nil
	}
	return m.body(refs.Items()[0], capture, read)
}

func (m *viewer) call(t *viewTurn, c *session.ToolCall) CallView {
	o := CallView{
		OutlineCall: outlineCall(c), Address: callAddress(t.address(), c), Error: c.Error,
		Input:     m.only(c.Args, t.Capture, func(body string) string { return body }),
		Output:    m.only(c.Result, t.Capture, resultText),
		Truncated: c.Truncated != nil && *c.Truncated,
		Events:    m.events(c.Events, t.Capture), Findings: findings(c.Defects),
	}
	if m.gone[t.run] {
		freeze(&o.State)
	}
	for _, k := range m.index.kids(t.place, c) {
		o.Children = append(o.Children, k.address())
	}
	for _, q := range c.Permissions {
		o.Permissions = append(o.Permissions, m.permission(t.run, q))
	}
	if len(o.Permissions) == 0 {
		o.PermissionState = StateNotRecorded
	}
	return o
}

func (m *viewer) permission(run *session.Run, q *session.Permission) PermissionView {
	if m.asks != run {
		m.asks, m.waiting = run, run.Waiting()
	}
	return PermissionView{
		At: q.Start, Action: q.Action, Tool: q.Tool, Rule: q.Pattern, Source: string(q.Source), DecidedBy: q.DecidedBy, Reason: q.Reason,
		Answer: strings.TrimSpace(q.Outcome + " " + q.Option), WaitNS: q.WaitNS,
		Waiting: slices.Contains(m.waiting, q), Inferred: q.Derived,
	}
}

func (m *viewer) compaction(t *viewTurn, c *session.Compaction) CompactionView {
	return CompactionView{
		At: c.Start, Kind: c.Kind, Trigger: c.Trigger, Reason: c.Reason, MessagesBefore: c.MessagesBefore, MessagesAfter: c.MessagesAfter,
		TokensBefore: c.InputTokens, TokensAfter: c.OutputTokens, Applied: c.Applied,
		Summary: m.only(c.Summary, t.Capture, func(body string) string {
			if said := sayings(body); len(said) > 0 {
				return said[0].text
			}
			return valueText([]byte(body))
		}),
	}
}

func (m *viewer) events(notes []session.Note, capture spans.Capture) []EventView {
	var out []EventView
	for i, e := range notes {
		if i == maxSaid {
			out = append(out, EventView{Type: "and " + plural(len(notes)-i, "more event")})
			break
		}
		v := EventView{At: e.Time, Type: e.Type}
		if e.Body != nil {
			v.Text = m.body(*e.Body, capture, eventText)
		}
		out = append(out, v)
	}
	return out
}

func (m *viewer) request(t *viewTurn, q *session.Request) RequestView {
	o := RequestView{Address: t.address(), Attempt: q.Attempt}
	if len(t.Requests) > 1 {
		o.Address += "/" + strconv.FormatInt(q.Attempt, 10)
	}
	if q == t.Requests[len(t.Requests)-1] {
		o.Bytes = t.RequestBytes
	}
	if q.Messages != nil {
		if o.Messages = q.Messages.Count; q.Messages.Complete {
			o.New = m.news.news(t.Turn, q)
		}
	}
	if m.alone && t.Capture == spans.CaptureContent {
		p := q.Payload(m.tree.Blocks)
		o.Exact, o.Missing = &p.Exact, len(p.Missing)
		if p.Bytes != nil {
			o.Bytes = int64(len(p.Bytes))
		}
	}
	return o
}
