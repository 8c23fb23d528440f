package inspect

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// View makes the documents of one session that pages, the API and the terminal show. It reads the tree once and keeps
// it: the tree must not change meanwhile. It is safe for concurrent use.
type View struct {
	tree    session.Tree
	history *session.History
	index   *index
	turns   []viewTurn
	at      map[*session.Turn]int
	numbers map[*session.Run]int // of the runs of the tree, from 1
}

// viewTurn is a turn and its run.
type viewTurn struct {
	place
	*session.Turn
	before *session.Turn // the turn that it follows; an empty one where there is none
	first  bool          // it is the first of its run
	// defects are those of the turn, and of what belongs to it, as session.Summarize counts them.
	defects []session.Defect
}

// promptChanged and toolsChanged report that the turn before is known to have another system prompt or catalogue.
func (t *viewTurn) promptChanged() bool { return differ(t.PromptDigest, t.before.PromptDigest) }
func (t *viewTurn) toolsChanged() bool  { return differ(t.ToolsDigest(), t.before.ToolsDigest()) }

func differ(a, b string) bool { return a != "" && b != "" && a != b }

// NewView returns a view of t. Related are sessions whose runs t may have spawned.
func NewView(t session.Tree, related []session.Tree) *View {
	v := newIndex(t, related).view(t)
	v.findTurns()
	return v
}

// view returns the view of a session of the index; findTurns completes it.
func (x *index) view(t session.Tree) *View {
	v, ok := x.views[t.Session]
	if !ok {
		v = &View{tree: t, history: session.HistoryOf(t.Session, t.Blocks), index: x, numbers: map[*session.Run]int{}}
		for i, run := range t.Runs {
			v.numbers[run] = i + 1
		}
		x.views[t.Session] = v
	}
	return v
}

// findTurns finds the turns, and of each the one that it follows.
func (v *View) findTurns() {
	if v.at != nil {
		return
	}
	v.at = map[*session.Turn]int{}
	lasts := map[*session.Run]*session.Turn{}
	defects := map[*session.Turn][]session.Defect{}
	for n := range v.tree.Walk() {
		for _, d := range *n.Defects() {
			if n.Turn != nil && !finding(d).Observation {
				defects[n.Turn] = append(defects[n.Turn], d)
			}
		}
	}
	before := new(session.Turn) // the last of the runs that are not spawned
	for i, run := range v.tree.Runs {
		p := place{v.tree, run, i + 1}
		_, spawned := v.index.claims[run]
		h, last := v.history.Run(run), before
		if spawned = spawned || h.Relation == session.RelationSubAgent; spawned {
			last = new(session.Turn)
		} else if h.Parent != nil {
			last = cmp.Or(lasts[h.Parent], new(session.Turn))
		}
		for j, turn := range run.Turns {
			v.at[turn] = len(v.turns)
			v.turns = append(v.turns, viewTurn{p, turn, last, j == 0, defects[turn]})
			if !turn.Utility() {
				last = turn
			}
		}
		if lasts[run] = last; !spawned {
			before = last
		}
	}
}

// Tree returns the tree of the view.
func (v *View) Tree() session.Tree { return v.tree }

// Len returns the number of turns of all runs.
func (v *View) Len() int { return len(v.turns) }

func (t viewTurn) address() string { return t.turnAddress(t.Turn) }

// outlineText bounds OutlineTurn.Text, in characters.
const outlineText = 160

// outlineDefects bounds Outline.TurnDefects.
const outlineDefects = 100

// Outline returns the session at a glance. Mark is the revision in the store, children are sessions that name this
// one as their parent or as the source of their fork, and now is the time of Outline.Status. It reads the beginning
// of every reply, which takes seconds for ten thousands of turns.
func (v *View) Outline(mark int64, children []session.Summary, now time.Time) *Outline {
	s := v.tree.Session
	o := &Outline{
		Format: session.TreeFormat, Summary: session.Summarize(s), Origin: OriginOf(s), Status: s.StatusAt(now), Mark: mark,
		Defects: findings(s.Defects), Runs: []OutlineRun{}, Turns: make([]OutlineTurn, 0, len(v.turns)),
	}
	for i := range s.Facts {
		f, body := &s.Facts[i], ""
		if s.Fact(f.Subject, f.Key) != f || strings.HasPrefix(f.Key, "guide.") { // rows of the guide are no facts to people
			continue
		}
		if f.Value != nil {
			body, _ = v.tree.Blocks.Body(*f.Value)
		}
		o.Facts = append(o.Facts, OutlineFact{Subject: f.Subject, Key: f.Key, At: f.At, Value: session.RawJSON(body)})
	}
	tools := map[string]*OutlineTool{}
	for i, run := range s.Runs {
		p := place{v.tree, run, i + 1}
		o.Runs = append(o.Runs, v.run(p, now))
		for c := range run.Calls() {
			t := cmp.Or(tools[c.Name], &OutlineTool{Name: c.Name})
			tools[c.Name] = t
			t.Calls++
			switch c.Outcome {
			case spans.OutcomeError:
				t.Failed++
			case spans.OutcomeDenied:
				t.Denied++
			}
		}
		o.Marks = append(o.Marks, marks(p.n, run.Compactions, run.Permissions, run.ToolCalls)...)
		for _, c := range run.ToolCalls {
			text := joined(" ", Clean(c.Name), string(c.Outcome))
			o.Marks = append(o.Marks, OutlineMark{Kind: "tool_call", Run: p.n, At: c.Start, Text: text})
		}
	}
	gone := v.gone(now)
	for i := range v.turns {
		t := v.turn(i, gone)
		t.Text = v.line(&v.turns[i])
		o.Captured = o.Captured || v.turns[i].Capture == spans.CaptureContent
		o.Turns = append(o.Turns, t)
		for _, f := range findings(v.turns[i].defects) {
			if len(o.TurnDefects) < outlineDefects {
				o.TurnDefects = append(o.TurnDefects, OutlineDefect{i, f})
			}
		}
	}
	o.Summary.Title = s.Title(v.tree.Blocks)
	o.Tools = each(slices.Collect(maps.Values(tools)), func(t *OutlineTool) OutlineTool { return *t })
	slices.SortFunc(o.Tools, func(a, b OutlineTool) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Name, b.Name))
	})
	o.Children = v.children(children, now)
	if f := v.history.Fork; f != nil {
		o.Fork = &OutlineFork{Fork: *f, Run: v.numbers[f.Last]}
	}
	o.Messages = each(v.history.Messages, func(m session.MessageState) OutlineMessage {
		return OutlineMessage{m, m.Waiting(), v.numbers[m.Run]}
	})
	return o
}

// each returns what f makes of each element, nil of no elements.
func each[T, U any](list []T, f func(T) U) (out []U) {
	for _, e := range list {
		out = append(out, f(e))
	}
	return out
}

// run returns a run without its turns.
func (v *View) run(p place, now time.Time) OutlineRun {
	run := p.run
	o := OutlineRun{
		Number: p.n, ID: run.ID, Address: p.address(), Status: run.StatusAt(now), Word: run.StatusWord,
		Agent: cmp.Or(run.Agent, run.AgentID), Model: run.Model, Start: run.Start, End: run.End,
		Estimated: run.StartSource == spans.TimeSourceBound || run.EndSource == spans.TimeSourceBound,
		Usage:     run.Usage, UsageReported: run.UsageReported(), Turns: len(run.Turns), Copied: run.Copied,
		Group: string(run.GroupRole), Error: joined(" ", run.Error, run.Rejection), Defects: findings(run.Defects),
	}
	for _, g := range p.tree.Groups {
		if g.SelectedID != "" && g.SelectedID == run.ID && g.Start.Equal(run.GroupStart) {
			o.Group = "selected"
		}
	}
	h := v.history.Run(run)
	o.Relation, o.Parent, o.Hidden = string(h.Relation), v.numbers[h.Parent], !h.Hidden.IsZero()
	if from, ok := v.index.claims[run]; ok {
		o.Relation, o.SpawnedBy = string(session.RelationSubAgent), from.address
		if from.tree.Session == p.tree.Session {
			o.Parent = from.n
		}
	}
	return o
}

// gone returns the open runs whose process no longer exists at that time.
func (v *View) gone(now time.Time) map[*session.Run]bool {
	gone := map[*session.Run]bool{}
	for _, run := range v.tree.Runs {
		if run.Status == spans.RunStatusOpen && run.StatusAt(now) != run.Status {
			gone[run] = true
		}
	}
	return gone
}

// turn returns a turn in a line, by its position. Nothing of a run that is gone is open.
func (v *View) turn(i int, gone map[*session.Run]bool) OutlineTurn {
	t := &v.turns[i]
	o := OutlineTurn{
		Run: t.n, Index: t.Index, Address: t.address(), Start: t.Start, End: t.End, State: t.EndState(),
		Trigger: t.Trigger, Purpose: t.Purpose,
		Model: cmp.Or(t.Answered, t.Model), StopReason: t.StopReason, Failed: t.Failed, Attempts: t.Attempts,
		Usage: t.Usage, UsageReported: t.UsageReported(), Cost: t.Cost, Currency: t.Currency, ModelCallNS: t.ModelCallNS,
		Messages: t.RequestMessages, Bytes: t.RequestBytes,
		PromptChanged: t.promptChanged(), ToolsChanged: t.toolsChanged(), Live: t.Known == spans.KnownLive,
		Hidden: !v.history.Hidden(t.Turn).IsZero(), Defects: len(t.defects),
		Marks: marks(t.n, t.Compactions, t.Permissions, t.ToolCalls), Calls: each(t.ToolCalls, outlineCall),
	}
	if gone[t.run] {
		freeze(&o.State)
		for j := range o.Calls {
			freeze(&o.Calls[j].State)
		}
	}
	return o
}

// freeze turns the state open into closed: no end was seen.
func freeze(state *string) {
	if *state == session.EndOpen {
		*state = session.EndClosed
	}
}

func outlineCall(c *session.ToolCall) OutlineCall {
	return OutlineCall{
		ID: c.ID, Name: cmp.Or(c.Name, "tool call"), Outcome: c.Outcome, State: c.EndState(), Start: c.Start, End: c.End,
	}
}

// marks are compactions, then decisions, of a run by its number.
func marks(n int, compactions []*session.Compaction, permissions []*session.Permission,
	calls []*session.ToolCall) []OutlineMark {
	var out []OutlineMark
	for _, c := range compactions {
		text := joined(separator, compactionWords(c)...)
		out = append(out, OutlineMark{Kind: "compaction", Run: n, At: c.Start, Text: text})
	}
	permissions = slices.Clone(permissions)
	for _, c := range calls {
		permissions = append(permissions, c.Permissions...)
	}
	for _, q := range permissions {
		text := strings.TrimSpace(decision(q.Action) + " " + target(q))
		out = append(out, OutlineMark{Kind: "permission", Run: n, At: q.Start, Text: text, Action: q.Action})
	}
	return out
}

// line is the beginning of the reply of a turn, else of its input.
func (v *View) line(t *viewTurn) string {
	m := &docs{View: v, text: 4 * outlineText, most: maxLines, results: true}
	for _, list := range [][]MessageText{m.said(t.Output.Items(), t.Capture, nil, nil), m.input(t, nil)} {
		second := ""
		for _, s := range list {
			switch text := Clean(s.Text.Text); {
			case s.Text.State != "" || text == "" || t.Capture == spans.CaptureDigests:
			case s.Label == session.ByModel || s.Label == session.ByUser || s.Label == "error":
				return ellipsis(text, outlineText)
			default:
				second = cmp.Or(second, text)
			}
		}
		if second != "" {
			return ellipsis(second, outlineText)
		}
	}
	return ellipsis(Clean(t.Error), outlineText)
}

// input returns the messages that were new for the model on a turn: those that its loop states, else those of its
// request that the request before lacks, else, on the first turn of a run, those of the run.
func input(t *viewTurn) []session.Ref {
	if t.Input.Len() > 0 {
		return t.Input.Items()
	}
	for _, q := range t.Requests {
		if q.Messages.Len() > 0 && q.Messages.Complete {
			return q.New()
		}
	}
	if t.first {
		return t.run.Outside.Items()
	}
	return nil
}

// children returns runs of other sessions that this one spawned, then sessions that name it and are not among them.
func (v *View) children(named []session.Summary, now time.Time) (out []OutlineChild) {
	seen := map[string]bool{v.tree.ID: true}
	for _, p := range v.index.runs {
		from, ok := v.index.claims[p.run]
		isOurs := ok && from.tree.Session == v.tree.Session
		if p.tree.Session == v.tree.Session || !isOurs && (ok || p.run.ParentSessionID != v.tree.ID) {
			continue
		}
		seen[p.tree.ID] = true
		out = append(out, OutlineChild{
			Session: p.tree.ID, Run: p.address(), Kind: "sub-agent", Agent: cmp.Or(p.run.Agent, p.run.AgentID),
			Status: p.tree.StatusAt(now), From: from.address,
		})
	}
	for _, s := range named {
		if seen[s.ID] {
			continue
		}
		seen[s.ID] = true
		c := OutlineChild{Session: s.ID, Kind: "sub-agent", Agent: cmp.Or(s.Agent, s.AgentID), Status: s.StatusAt(now)}
		if s.ForkedFrom == v.tree.ID {
			c.Kind = "fork"
		}
		out = append(out, c)
	}
	return out
}
