package inspect

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/session"
	"github.com/otelagent/otelagent/spans"
)

// Tree is a session with what it takes to show its content.
type Tree struct {
	*session.Session
	// Blocks are the session's; nil shows no content.
	Blocks *session.BlockSet
}

// Options say how to render. The zero value is 80 columns without colour, in UTC.
type Options struct {
	// Width in columns; below 40 it is taken as 80.
	Width int
	// Color switches colour on.
	Color bool
	// Now is the time that "ago" counts from; zero leaves such words out.
	Now time.Time
	// Location for times of day; nil is UTC.
	Location *time.Location
	// Related are other sessions. Runs of theirs that were spawned by what is shown are shown in place.
	Related []Tree
	// Run and Turn, when Run is not nil, narrow what is shown to one run, and Turn, when not nil, to one turn of it.
	Run  *session.Run
	Turn *session.Turn
}

// Text writes t as a tree: a header, then every run with its turns, tool calls, compactions, permissions and sub-agents
// in place. The tree must not be changed meanwhile. The error is the writer's.
func Text(w io.Writer, t Tree, o Options) error {
	if o.Width < 40 {
		o.Width = 80
	}
	if o.Location == nil {
		o.Location = time.UTC
	}
	r := &renderer{o: o, main: t, placed: map[*session.Run]bool{}}
	r.d = &drawer{w: w, width: o.Width, color: o.Color, cols: columnsFor(o.Width)}
	r.index()
	r.text()
	return r.d.err
}

// place is a run and where it lives.
type place struct {
	tree Tree
	run  *session.Run
	n    int // number in its session, from 1
}

type renderer struct {
	o      Options
	main   Tree
	d      *drawer
	runs   []place // of all sessions
	byID   map[string][]place
	byCall map[string][]place // by the tool call that spawned them, as they say
	placed map[*session.Run]bool
	// spawned are the runs that some other run's tool call, or a run of another session, claims.
	spawned map[*session.Run]bool
	// lead is the model of the run that is being built, which its turns need not repeat.
	lead string
	// system is the system prompt last shown of the session that is being built.
	system string
	zero   time.Time // what "at" counts from
	bounds bool      // some time shown is only a bound
	said   bool      // some content was shown
}

func (r *renderer) index() {
	r.byID, r.byCall = map[string][]place{}, map[string][]place{}
	for _, t := range append([]Tree{r.main}, r.o.Related...) {
		for i, run := range t.Runs {
			p := place{t, run, i + 1}
			r.runs = append(r.runs, p)
			r.byID[run.ID] = append(r.byID[run.ID], p)
			if run.ParentToolCallID != "" {
				r.byCall[run.ParentToolCallID] = append(r.byCall[run.ParentToolCallID], p)
			}
		}
	}
	r.spawned = map[*session.Run]bool{}
	for _, p := range r.runs {
		for _, c := range allCalls(p.run) {
			for _, kid := range r.kids(p, c) {
				r.spawned[kid.run] = true
			}
		}
		if p.tree.Session != r.main.Session {
			r.spawned[p.run] = true
		}
	}
	r.zero = r.main.Start
}

// kids returns the runs that call spawned.
func (r *renderer) kids(p place, call *session.ToolCall) []place {
	var out []place
	add := func(k place) {
		if k.run != p.run && !slices.ContainsFunc(out, func(o place) bool { return o.run == k.run }) {
			out = append(out, k)
		}
	}
	if call.ChildRunID != "" {
		for _, k := range r.byID[call.ChildRunID] {
			if call.ChildSessionID == "" || call.ChildSessionID == k.tree.ID {
				add(k)
			}
		}
	}
	if len(out) > 1 { // loops reuse ids: the one that ran meanwhile is meant
		during := slices.DeleteFunc(slices.Clone(out), func(k place) bool {
			return k.run.Start.Before(call.Start) || !call.End.IsZero() && k.run.Start.After(call.End)
		})
		if len(during) > 0 {
			out = during
		}
	}
	if call.ID != "" {
		for _, k := range r.byCall[call.ID] {
			if k.run.ParentID == p.run.ID && (k.run.ParentSessionID == "" || k.run.ParentSessionID == p.tree.ID) {
				add(k)
			}
		}
	}
	return out
}

func allCalls(run *session.Run) []*session.ToolCall {
	out := slices.Clone(run.ToolCalls)
	for _, t := range run.Turns {
		out = append(out, t.ToolCalls...)
	}
	return out
}

func (r *renderer) text() {
	var roots []*node
	for i, run := range r.main.Runs {
		p := place{r.main, run, i + 1}
		switch {
		case r.o.Run != nil:
			if run == r.o.Run {
				roots = append(roots, r.run(p, ""))
			}
		case !r.spawned[run] && !r.placed[run]:
			if g := r.group(run); g != nil {
				roots = append(roots, r.groupNode(g))
			} else {
				roots = append(roots, r.run(p, ""))
			}
		}
	}
	if r.o.Run == nil {
		for _, g := range r.main.Groups {
			if len(r.members(g)) == 0 {
				roots = append(roots, r.groupNode(g))
			}
		}
		for i, run := range r.main.Runs { // whatever claims each other
			if !r.placed[run] {
				roots = append(roots, r.run(place{r.main, run, i + 1}, ""))
			}
		}
	}
	r.header()
	r.d.blank()
	r.d.heads()
	for i, n := range roots {
		if i > 0 {
			r.d.blank()
		}
		r.d.node(n, "", "")
	}
	r.footer(roots)
}

// footer explains what was shown, and says what to do about what was not.
func (r *renderer) footer(roots []*node) {
	var notes []string
	if r.bounds {
		notes = append(notes, "~ estimated from the times around it: the loop states none for this")
	}
	switch {
	case len(roots) == 0 || r.main.Blocks == nil:
	case !r.said:
		notes = append(notes, "No word of what was said is here: it was not captured. `send --capture content` and WithCapture do.")
	case r.d.cutAt != "" && r.o.Turn == nil:
		notes = append(notes, "… text is cut; a turn alone is shown whole: show "+r.d.cutAt)
	}
	if len(notes) > 0 {
		r.d.blank()
	}
	for _, note := range notes {
		for _, line := range wrap(note, r.o.Width, maxWrap) {
			r.d.put(dim, line)
			r.d.flush()
		}
	}
}

// header is what there is to know of the session before its runs.
func (r *renderer) header() {
	s := r.main.Session
	turns, calls, failed, denied, compactions := 0, 0, 0, 0, 0
	statuses := map[spans.RunStatus]int64{}
	for _, run := range s.Runs {
		turns += len(run.Turns)
		compactions += len(run.Compactions)
		for _, t := range run.Turns {
			compactions += len(t.Compactions)
		}
		for _, c := range allCalls(run) {
			calls++
			switch c.Outcome {
			case spans.OutcomeError:
				failed++
			case spans.OutcomeDenied:
				denied++
			}
		}
		if run.Status != spans.RunStatusCompleted {
			statuses[run.Status]++
		}
	}
	var unfinished []string
	for _, st := range slices.Sorted(maps.Keys(statuses)) {
		unfinished = append(unfinished, count(statuses[st], Clean(string(st))))
	}
	id := Clean(s.ID)
	if s.MadeUp {
		id += " (made up: the producer named none)"
	}
	r.d.put(dim, padRight("session", labelWidth+1))
	r.d.put(bold, cut(id, r.o.Width-labelWidth-1))
	r.d.flush()
	if s.Tenant != "" {
		r.d.field("tenant", Clean(s.Tenant))
	}
	r.d.field("status", words(string(s.Status)), plural(len(s.Runs), "run")+among(unfinished...),
		plural(turns, "turn"), plural(calls, "tool call")+among(count(int64(failed), "failed"), count(int64(denied), "denied")),
		some(compactions, "compaction"))
	agent := s.Agent
	if agent == "" {
		agent = s.AgentID
	}
	service := s.Service
	if strings.HasPrefix(service, "unknown_service") { // what an SDK says when nobody named it
		service = ""
	}
	if service == s.Dialect || service == agent {
		service = ""
	}
	r.d.field("agent", Clean(agent), Clean(s.Dialect), Clean(service))
	r.d.field("time", r.period(s.Start, s.Last), took(s.Start, s.Last), ago(s.Last, r.o.Now))
	r.d.field("tokens", usageWords(s.Usage)...)
	if n, u := r.others(); n > 0 {
		r.d.field("", append([]string{"and in " + plural(n, "sub-agent session")}, usageWords(u)...)...)
	}
	for _, run := range s.Runs {
		if run.ParentSessionID != "" && run.ParentSessionID != s.ID {
			r.d.field("parent", "session "+Clean(run.ParentSessionID), prefixed("run ", Clean(run.ParentID)))
			break
		}
	}
	for _, def := range s.Defects {
		for i, line := range wrap(defectText(def), r.o.Width-labelWidth-1, maxWrap) {
			r.d.field([]string{"defect", " "}[min(i, 1)], line)
		}
	}
}

// others counts the sessions shown in place, and what they used.
func (r *renderer) others() (int, session.Usage) {
	var u session.Usage
	seen := map[*session.Session]bool{}
	for _, p := range r.runs {
		if p.tree.Session != r.main.Session && r.placed[p.run] {
			seen[p.tree.Session] = true
			u.Add(p.run.Usage)
		}
	}
	return len(seen), u
}

func (r *renderer) period(from, to time.Time) string {
	if from.IsZero() {
		return ""
	}
	from, to = from.In(r.o.Location), to.In(r.o.Location)
	s := from.Format("2006-01-02 15:04:05")
	switch {
	case to.IsZero() || from.Format(time.DateTime) == to.Format(time.DateTime):
	case from.Format(time.DateOnly) == to.Format(time.DateOnly):
		s += to.Format(" – 15:04:05")
	default:
		s += to.Format(" – 2006-01-02 15:04:05")
	}
	return s + from.Format(" MST")
}

// group returns the parallel group that a run belongs to.
func (r *renderer) group(run *session.Run) *session.Group {
	if run.GroupStart.IsZero() {
		return nil
	}
	for _, g := range r.main.Groups {
		if g.Start.Equal(run.GroupStart) {
			return g
		}
	}
	return nil
}

func (r *renderer) members(g *session.Group) []place {
	var out []place
	for i, run := range r.main.Runs {
		if !r.spawned[run] && r.group(run) == g {
			out = append(out, place{r.main, run, i + 1})
		}
	}
	return out
}

func (r *renderer) groupNode(g *session.Group) *node {
	members := r.members(g)
	n := &node{segs: []seg{{"∥ parallel", bold}, {" · " + plural(len(members), "run"), plainText}}}
	n.segs = append(n.segs, statusSeg(g.Status, "")...)
	n.cols = r.cols(g.Span, nil)
	if g.Missing {
		n.line("defect", yellow, "what was said of the group as a whole did not arrive")
	}
	if e := g.Evaluation; e != nil {
		n.line("judge", dim, fmt.Sprintf("%s in, %s out, as reported", Count(e.Input), Count(e.Output)))
	}
	r.defects(n, g.Defects)
	for _, m := range members {
		role := ""
		switch {
		case m.run.GroupRole == spans.GroupRoleJudge:
			role = "judge"
		case g.SelectedID != "" && m.run.ID == g.SelectedID:
			role = "selected"
		}
		n.add(r.run(m, role))
	}
	return n
}

func (r *renderer) run(p place, role string) *node {
	run := p.run
	r.placed[run] = true
	lead, system := r.lead, r.system
	r.lead = run.Model
	if p.tree.Session != r.main.Session {
		r.system = ""
		defer func() { r.system = system }()
	}
	defer func() { r.lead = lead }()

	n := &node{cols: r.cols(run.Span, &run.Usage)}
	title := fmt.Sprintf("run %d", p.n)
	if p.tree.Session != r.main.Session {
		title = "sub-agent"
		if len(p.tree.Runs) > 1 {
			title += fmt.Sprintf(" run %d", p.n)
		}
	} else if r.spawned[run] && role == "" {
		title = "sub-agent " + title
	}
	n.segs = append(n.segs, seg{title, bold})
	if role != "" {
		n.segs = append(n.segs, seg{" · " + role, cyan})
	}
	n.segs = append(n.segs, statusSeg(run.Status, run.StatusWord)...)
	if c := r.continues(p); c != "" {
		n.segs = append(n.segs, seg{" · " + c, plainText})
	}
	if run.Model != "" {
		n.segs = append(n.segs, seg{" · " + Clean(run.Model), dim})
	}

	if p.tree.Session != r.main.Session {
		n.line("session", dim, Clean(p.tree.ID))
	}
	if short, ok := strings.CutPrefix(run.ID, p.tree.ID); ok && strings.HasPrefix(short, ".") {
		n.line("id", dim, "…"+Clean(short))
	} else {
		n.line("id", dim, Clean(run.ID))
	}
	if agent := cmp.Or(run.Agent, run.AgentID); agent != "" && agent != cmp.Or(r.main.Agent, r.main.AgentID) {
		n.line("agent", dim, Clean(agent))
	}
	switch {
	case run.Known == spans.KnownClosed:
		n.wrapped("aborted", red, "its end was never seen; last seen "+r.clock(run.End))
	case run.Status == spans.RunStatusOpen:
		last := lastOf(run)
		n.wrapped("open", yellow, strings.TrimSuffix("no end yet; last seen "+r.clock(last)+", "+ago(last, r.o.Now), ", "))
	}
	if run.Rejection != "" && !slices.ContainsFunc(run.Permissions, func(q *session.Permission) bool { return q.Reason == run.Rejection }) {
		n.wrapped("reason", red, Clean(run.Rejection))
	}
	if run.Error != "" {
		n.wrapped("error", red, Clean(run.Error))
	}
	r.messages(n, p, run.Outside)

	body := func(t *session.Turn) bool { return r.o.Run != run || r.o.Turn == nil || r.o.Turn == t }
	var kids []timed
	if r.o.Run != run || r.o.Turn == nil {
		for _, c := range run.ToolCalls {
			kids = append(kids, timed{c.Span, r.call(p, c)})
		}
		for _, c := range run.Compactions {
			kids = append(kids, timed{c.Span, r.compaction(p, c)})
		}
		for _, q := range run.Permissions {
			kids = append(kids, timed{q.Span, r.permission(q)})
		}
	}
	var turns []timed
	for _, t := range run.Turns {
		if body(t) {
			turns = append(turns, timed{t.Span, r.turn(p, t)})
		}
	}
	// Runs of other sessions that name this one and no tool call of it.
	for _, k := range r.runs {
		if k.tree.Session != p.tree.Session && !r.placed[k.run] && k.run.ParentID == run.ID && run.ID != "" &&
			(k.run.ParentSessionID == "" || k.run.ParentSessionID == p.tree.ID) {
			kids = append(kids, timed{k.run.Span, r.run(k, "")})
		}
	}
	r.events(n, p, run.Events)
	r.defects(n, run.Defects)
	for _, k := range merge(turns, kids) {
		n.add(k.node)
	}
	return n
}

// continues says how a run relates to an earlier one of its session.
func (r *renderer) continues(p place) string {
	word := ""
	switch p.run.Continuation {
	case "", spans.ContinuationInitial:
		return ""
	case spans.ContinuationDefault:
		word = "continues"
	case spans.ContinuationRerun:
		word = "rerun of"
	case spans.ContinuationBranch:
		word = "branch of"
	case spans.ContinuationCompaction:
		word = "compaction of"
	default:
		word = Clean(string(p.run.Continuation)) + " of"
	}
	n := 0
	for i, other := range p.tree.Runs {
		if other != p.run && other.ID == p.run.ParentID && !other.Start.After(p.run.Start) {
			n = i + 1 // the last one of that id before
		}
	}
	if n == 0 {
		return word + " another run"
	}
	return fmt.Sprintf("%s run %d", word, n)
}

func (r *renderer) turn(p place, t *session.Turn) *node {
	n := &node{cols: r.cols(t.Span, &t.Usage), addr: turnAddress(p, t)}
	if t.Failed {
		n.segs = append(n.segs, seg{"✗ ", red})
	}
	n.segs = append(n.segs, seg{fmt.Sprintf("turn %d", t.Index), plainText})
	add := func(text string, st style) {
		if text != "" {
			n.segs = append(n.segs, seg{" · ", dim}, seg{Clean(text), st})
		}
	}
	add(words(string(t.Trigger)), plainText)
	switch {
	case t.Missing:
		add("did not arrive", yellow)
	case t.Known == spans.KnownClosed:
		add("no end seen", red)
	case t.Known == spans.KnownLive || t.End.IsZero():
		add("open", yellow)
	}
	add(t.StopReason, plainText)
	if t.Attempts > 1 {
		add(fmt.Sprintf("%d attempts", t.Attempts), yellow)
	}
	model := cmp.Or(t.Answered, t.Model)
	if model != r.lead {
		add(model, dim)
	}
	if t.Cost != nil {
		add(fmt.Sprintf("%.4g %s", *t.Cost, t.Currency), dim)
	}

	r.systemPrompt(n, p, t)
	r.messages(n, p, t.Input)

	var before, after []timed
	var firstCall time.Time
	for _, c := range t.ToolCalls {
		if firstCall.IsZero() || c.Start.Before(firstCall) {
			firstCall = c.Start
		}
	}
	put := func(k timed) {
		if firstCall.IsZero() || k.span.Start.Before(firstCall) {
			before = append(before, k)
		} else {
			after = append(after, k)
		}
	}
	for _, c := range t.Compactions {
		put(timed{c.Span, r.compaction(p, c)})
	}
	for _, q := range t.Permissions {
		put(timed{q.Span, r.permission(q)})
	}
	for _, k := range merge(nil, before) {
		n.add(k.node)
	}
	r.messages(n, p, t.Output)
	if t.Error != "" {
		n.wrapped("error", red, Clean(t.Error))
	}
	var calls []timed
	for _, c := range t.ToolCalls {
		calls = append(calls, timed{c.Span, r.call(p, c)})
	}
	r.events(n, p, t.Events)
	r.defects(n, t.Defects)
	for _, k := range merge(calls, after) {
		n.add(k.node)
	}
	return n
}

// content shows what somebody wrote: in one line, or whole where a turn alone is looked at.
func (r *renderer) content(n *node, label string, st style, text string) {
	it := item{label: label, style: st, text: text, lines: 1}
	if r.o.Turn != nil {
		it.lines = maxScan // Clean bounds it
	}
	n.items = append(n.items, it)
}

// turnAddress returns what `show` shows a turn alone by.
func turnAddress(p place, t *session.Turn) string {
	id := p.tree.ID
	if id == "" || id != Clean(id) || strings.ContainsAny(id, "/ ") {
		id = "SESSION"
	}
	return fmt.Sprintf("%s/@%d/%d", id, p.n, t.Index)
}

// systemPrompt shows the system prompt of a turn where it differs from the one before.
func (r *renderer) systemPrompt(n *node, p place, t *session.Turn) {
	if len(t.Requests) == 0 {
		return
	}
	params := t.Requests[len(t.Requests)-1].Params
	if params == nil {
		return
	}
	for _, it := range params.Items {
		if it.Provenance != string(spans.ProvenanceSystem) {
			continue
		}
		if it.Block == r.system {
			return
		}
		r.system = it.Block
		if body, ok := r.body(p, it); ok && body != "null" && body != `""` {
			r.content(n, "system", dim, Clean(valueText([]byte(body))))
		}
	}
}

// maxLines bounds how many messages or events of one thing are shown.
const maxLines = 8

// messages shows what was said, without tool results: those stand at their calls.
func (r *renderer) messages(n *node, p place, refs *session.Refs) {
	if refs == nil || p.tree.Blocks == nil {
		return
	}
	shown := 0
	for i, it := range refs.Items {
		if shown >= maxLines && r.o.Turn == nil {
			n.line("", dim, "and "+plural(len(refs.Items)-i, "more message"))
			return
		}
		body, ok := r.body(p, it)
		if !ok {
			n.line("missing", yellow, "this message did not arrive (block "+Clean(it.Block)+")")
			shown++
			continue
		}
		for _, s := range sayings(body) {
			if s.label == "result" {
				continue
			}
			st := dim
			switch s.label {
			case "user":
				st = cyan
			case "reply":
				st = green
			case "error":
				st = red
			case "extension":
				s.label = "ext"
			}
			r.content(n, cut(Clean(s.label), labelWidth-1), st, Clean(s.text))
			shown++
		}
	}
}

func (r *renderer) call(p place, c *session.ToolCall) *node {
	n := &node{cols: r.cols(c.Span, nil)}
	mark, st := "✓", green
	word := ""
	switch c.Outcome {
	case spans.OutcomeOK:
	case spans.OutcomeError:
		mark, st, word = "✗", red, "failed"
	case spans.OutcomeDenied:
		mark, st, word = "⊘", red, "denied"
	case spans.OutcomeSkipped:
		mark, st, word = "»", yellow, "skipped"
	case spans.OutcomeCancelled:
		mark, st, word = "■", yellow, "cancelled"
	case "":
		mark, st = "·", dim
	default:
		mark, st, word = "?", yellow, Clean(string(c.Outcome))
	}
	switch {
	case c.Missing:
		mark, st, word = "?", yellow, "did not arrive"
	case c.Known == spans.KnownClosed:
		mark, st, word = "■", red, "no end seen"
	case c.Known == spans.KnownLive || c.End.IsZero():
		mark, st, word = "…", yellow, "running"
	}
	name := cmp.Or(c.Name, "tool call")
	n.segs = []seg{{mark + " ", st}}
	if word != "" {
		n.segs = append(n.segs, seg{word + " ", st})
	}
	n.segs = append(n.segs, seg{Clean(name), bold})
	if args, ok := r.only(p, c.Args); ok && r.o.Turn != nil {
		r.content(n, "args", dim, Clean(argsText(args)))
	} else if ok {
		n.segs = append(n.segs, seg{"(" + Clean(argsText(args)) + ")", plainText})
	} else if c.ID != "" {
		n.segs = append(n.segs, seg{" " + Clean(c.ID), dim})
	}
	if c.Truncated != nil && *c.Truncated {
		n.line("note", yellow, "the result was cut before the model saw it")
	}
	for _, q := range c.Permissions {
		n.wrapped(decision(q), decisionStyle(q), permissionText(q))
	}
	r.events(n, p, c.Events)
	for _, k := range r.kids(p, c) {
		if !r.placed[k.run] {
			n.add(r.run(k, ""))
		}
	}
	label, lst := "result", dim
	if c.Outcome == spans.OutcomeError {
		label, lst = "error", red
	}
	text := Clean(c.Error)
	if result, ok := r.only(p, c.Result); ok {
		text = Clean(resultText(result))
	} else {
		label, lst = "error", red
	}
	known := slices.ContainsFunc(c.Permissions, func(q *session.Permission) bool { return Clean(q.Reason) == text })
	if text != "" && !known {
		r.content(n, label, lst, text)
	}
	r.defects(n, c.Defects)
	return n
}

// body returns what a reference stands for.
func (r *renderer) body(p place, ref session.Ref) (string, bool) {
	body, ok := p.tree.Blocks.Body(ref)
	r.said = r.said || ok
	return body, ok
}

// only returns the body of a list's one item.
func (r *renderer) only(p place, refs *session.Refs) (string, bool) {
	if refs == nil || len(refs.Items) == 0 {
		return "", false
	}
	return r.body(p, refs.Items[0])
}

func (r *renderer) compaction(p place, c *session.Compaction) *node {
	n := &node{cols: r.cols(c.Span, nil)}
	n.segs = []seg{{"◇ ", magenta}, {"compaction", bold}, {" · " + Clean(string(c.Kind)), plainText}}
	add := func(text string) {
		if text != "" {
			n.segs = append(n.segs, seg{" · ", dim}, seg{Clean(text), plainText})
		}
	}
	add(fromTo(c.MessagesBefore, c.MessagesAfter, "message"))
	add(fromTo(c.InputTokens, c.OutputTokens, "token"))
	if c.RemovedTokens != nil {
		add(Count(*c.RemovedTokens) + " tokens removed")
	}
	if len(c.Removed) > 0 {
		add(plural(len(c.Removed), "message") + " removed")
	}
	if c.Runs != nil && *c.Runs > 0 {
		add(plural(int(*c.Runs), "run"))
	}
	add(c.Category)
	add(c.Target)
	switch {
	case c.Applied != nil && !*c.Applied:
		add("not applied")
	case c.Known == spans.KnownClosed:
		add("no end seen")
	}
	add(c.Trigger)
	if c.Reason != "" {
		n.wrapped("reason", dim, Clean(c.Reason))
	}
	if s, ok := r.only(p, c.Summary); ok {
		text := valueText([]byte(s))
		if said := sayings(s); len(said) > 0 {
			text = said[0].text
		}
		r.content(n, "summary", dim, Clean(text))
	}
	r.events(n, p, c.Events)
	r.defects(n, c.Defects)
	return n
}

func (r *renderer) permission(q *session.Permission) *node {
	n := &node{cols: r.cols(q.Span, nil)}
	st := decisionStyle(q)
	mark := "✓ "
	switch q.Action {
	case spans.ActionDeny:
		mark = "⊘ "
	case spans.ActionAllow:
	default:
		mark = "? "
	}
	what := Clean(q.Tool)
	if q.Target == spans.PermissionTargetInput {
		what = "input"
	}
	n.segs = []seg{{mark, st}, {"permission ", bold}, {decision(q), st}}
	if what != "" {
		n.segs = append(n.segs, seg{" " + what, plainText})
	}
	if t := permissionText(q); t != "" {
		n.wrapped("reason", dim, t)
	}
	r.defects(n, q.Defects)
	return n
}

func decision(q *session.Permission) string { return cmp.Or(Clean(string(q.Action)), "decided") }

func decisionStyle(q *session.Permission) style {
	switch q.Action {
	case spans.ActionDeny:
		return red
	case spans.ActionAllow:
		return green
	}
	return yellow
}

func permissionText(q *session.Permission) string {
	var out []string
	add := func(s string) {
		if s != "" {
			out = append(out, s)
		}
	}
	add(Clean(q.Reason))
	add(prefixed("rule ", Clean(q.Pattern)))
	add(prefixed("from ", Clean(string(q.Source))))
	add(prefixed("by ", Clean(q.DecidedBy)))
	if q.WaitNS > 0 {
		add("waited " + Duration(time.Duration(q.WaitNS)))
	}
	if q.Derived {
		add("inferred")
	}
	return strings.Join(out, " · ")
}

func (r *renderer) events(n *node, p place, notes []session.Note) {
	for i, e := range notes {
		if i == maxLines && r.o.Turn == nil {
			n.line("", dim, "and "+plural(len(notes)-i, "more event"))
			return
		}
		text := Clean(e.Type)
		if e.Body != nil {
			if body, ok := r.body(p, *e.Body); ok {
				text += "  " + Clean(eventText(body))
			}
		}
		r.content(n, "event", dim, text)
	}
}

func (r *renderer) defects(n *node, list []session.Defect) {
	for _, def := range list {
		label := "defect"
		if info, ok := defectInfo(def.Code); ok && info.Observation {
			label = "note"
		}
		n.wrapped(label, yellow, defectText(def))
	}
}

func defectInfo(code spans.DefectCode) (spans.Defect, bool) {
	for _, d := range spans.Defects() {
		if d.Code == code {
			return d, true
		}
	}
	return spans.Defect{}, false
}

func defectText(def session.Defect) string {
	text := Clean(string(def.Code))
	if info, ok := defectInfo(def.Code); ok {
		text = info.Brief
	}
	if def.Detail != "" {
		text = strings.TrimSuffix(text, ".") + ": " + Clean(def.Detail)
	}
	return text
}

// cols are the numbers of one line.
func (r *renderer) cols(s session.Span, u *session.Usage) []string {
	at, in, out, cached, thought := "", "", "", "", ""
	if !s.Start.IsZero() && !r.zero.IsZero() {
		at = "+" + Duration(s.Start.Sub(r.zero))
	}
	if u != nil && *u != (session.Usage{}) {
		in, out = Count(u.Input), Count(u.Output)
		cached, thought = Count(u.CacheRead), Count(u.Reasoning)
	}
	t := took(s.Start, s.End)
	if s.StartSource == spans.TimeSourceBound || s.EndSource == spans.TimeSourceBound {
		t = prefixed("~", t)
		r.bounds = r.bounds || t != ""
	}
	switch len(r.d.cols.names) {
	case 1:
		return []string{t}
	case 3:
		return []string{t, in, out}
	}
	return []string{at, t, in, cached, out, thought}
}

func took(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return ""
	}
	return Duration(to.Sub(from))
}

func (r *renderer) clock(t time.Time) string {
	if t.IsZero() {
		return "at no known time"
	}
	layout := "15:04:05.000 MST"
	if t.In(r.o.Location).Format(time.DateOnly) != r.main.Start.In(r.o.Location).Format(time.DateOnly) {
		layout = "2006-01-02 " + layout // not the day that the header names
	}
	return t.In(r.o.Location).Format(layout)
}

// lastOf is the time of the last thing seen of a run.
func lastOf(run *session.Run) time.Time {
	last := run.Start
	see := func(s session.Span) {
		for _, t := range []time.Time{s.Start, s.End} {
			if t.After(last) {
				last = t
			}
		}
	}
	for _, t := range run.Turns {
		see(t.Span)
	}
	for _, c := range allCalls(run) {
		see(c.Span)
	}
	return last
}

// timed is a node with the times it is ordered by.
type timed struct {
	span session.Span
	node *node
}

// merge puts others, by start, between what is ordered already.
func merge(ordered, others []timed) []timed {
	others = slices.Clone(others)
	slices.SortStableFunc(others, func(a, b timed) int {
		return cmp.Or(a.span.Start.Compare(b.span.Start), cmp.Compare(a.span.Seq, b.span.Seq))
	})
	var out []timed
	for _, t := range ordered {
		for len(others) > 0 && others[0].span.Start.Before(t.span.Start) {
			out, others = append(out, others[0]), others[1:]
		}
		out = append(out, t)
	}
	return append(out, others...)
}

func statusSeg(s spans.RunStatus, word string) []seg {
	if s == "" {
		return nil
	}
	st := red
	switch s {
	case spans.RunStatusCompleted:
		st = green
	case spans.RunStatusOpen:
		st = yellow
	}
	segs := []seg{{" · ", dim}, {Clean(string(s)), st}}
	if word != "" && !strings.EqualFold(word, string(s)) {
		segs = append(segs, seg{" (" + Clean(word) + ")", dim})
	}
	return segs
}

func usageWords(u session.Usage) []string {
	in := Count(u.Input) + " in" + among(count(u.CacheRead, "cache read"), count(u.CacheWrite, "cache write"))
	out := Count(u.Output) + " out" + among(count(u.Reasoning, "reasoning"))
	return []string{in, out}
}

func count(n int64, what string) string {
	if n == 0 {
		return ""
	}
	return Count(n) + " " + what
}

func some(n int, one string) string {
	if n == 0 {
		return ""
	}
	return plural(n, one)
}

// among puts what there is into brackets.
func among(parts ...string) string {
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func fromTo(a, b *int64, one string) string {
	switch {
	case a != nil && b != nil:
		return Count(*a) + " → " + Count(*b) + " " + one + "s"
	case a != nil:
		return Count(*a) + " " + one + "s before"
	case b != nil:
		return Count(*b) + " " + one + "s after"
	}
	return ""
}

func prefixed(p, s string) string {
	if s == "" {
		return ""
	}
	return p + s
}

// words turns a word of ours into words of everybody's.
func words(s string) string {
	if s == string(spans.TriggerSubAgent) {
		return "sub-agent"
	}
	return strings.ReplaceAll(Clean(s), "_", " ")
}
