package foreign

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Values of otelagent.recording on rows that Map makes: which signals they come from.
const (
	RecordingSpans spans.Recording = "spans"
	RecordingLogs  spans.Recording = "logs"
	RecordingBoth  spans.Recording = "spans and logs"
)

// attrs collects attributes of a row.
type attrs []session.Attr

func (a *attrs) add(key attribute.Key, v session.Value) {
	if !v.IsZero() && (v.Type() != session.TypeString || v.Str() != "") {
		*a = append(*a, session.Attr{Key: string(key), Value: v})
	}
}

func (a *attrs) text(key attribute.Key, s string) { a.add(key, session.StringValue(s)) }

func (a *attrs) number(key attribute.Key, v session.Value) {
	if n, ok := count(v); ok {
		a.add(key, session.IntValue(n))
	}
}

// usage adds counts under keys for input, output, reasoning, cache read and cache write.
func (a *attrs) usage(r *record, keys [5]attribute.Key) {
	u := r.usage
	a.add(keys[0], session.IntValue(u.Input))
	a.add(keys[1], session.IntValue(u.Output))
	for i, n := range []int64{u.Reasoning, u.CacheRead, u.CacheWrite} {
		if n > 0 {
			a.add(keys[2+i], session.IntValue(n))
		}
	}
	if r.src.rule1 != "" {
		a.text(spans.UsageRuleKeyKey, string(r.src.rule1))
	}
}

var turnUsage = [5]attribute.Key{spans.GenAIUsageInputKey, spans.GenAIUsageOutputKey, spans.GenAIUsageReasoningKey,
	spans.GenAIUsageCacheReadKey, spans.GenAIUsageCacheCreationKey}

var runUsage = [5]attribute.Key{spans.RunUsageInputKey, spans.RunUsageOutputKey, spans.RunUsageReasoningKey,
	spans.RunUsageCacheReadKey, spans.RunUsageCacheWriteKey}

// pick returns the first value of a field that records have, the innermost record first.
func pick(recs []*record, f field) session.Value {
	for _, r := range slices.Backward(recs) {
		if v := r.value(f); !v.IsZero() {
			return v
		}
	}
	return session.Value{}
}

// rows writes the rows of the session want.
func (m *mapper) rows() []session.Row {
	w := &writer{mapper: m, children: map[*call]*run{}}
	var runs []*run
	seen := map[*run]bool{}
	for _, r := range m.all {
		if r.run == nil {
			continue
		}
		n := r.run.find()
		if n.gone || seen[n] {
			continue
		}
		seen[n] = true
		runs = append(runs, n)
		if n.call != nil && n.call.call != nil {
			if old := w.children[n.call.call]; old == nil || compareRuns(n, old) < 0 {
				w.children[n.call.call] = n
			}
		}
	}
	w.out = make([]session.Row, 0, len(runs)+len(m.calls))
	for _, n := range runs {
		if n.key == m.want {
			w.run(n)
		}
	}
	return w.out
}

type writer struct {
	*mapper
	children map[*call]*run // that a tool call began
	out      []session.Row
}

// row begins the row of a part of a run, as the record r has it.
func (w *writer) row(n *run, kind session.Kind, r *record, start, end int64) session.Row {
	if end > 0 && end < start {
		end = start
	}
	return session.Row{Trace: r.row.Trace, Span: r.row.Span, Parent: r.row.Parent, Session: w.want, Run: n.id(),
		RunStart: n.start(), Turn: session.NoTurn, Kind: kind, Known: spans.KnownObserved,
		Start: max(start, n.start()), End: end, Seq: r.order, Service: r.row.Service, Failed: r.row.Failed}
}

// start returns the start of a run in unix nanoseconds; 1 if no record has a time.
func (r *run) start() int64 {
	if r.rec != nil && r.rec.start > 0 {
		return r.rec.start
	}
	return max(r.first, 1)
}

// put adds a row with its attributes.
func (w *writer) put(row session.Row, a attrs, recs ...*record) {
	recording := RecordingSpans
	for i, r := range recs {
		switch {
		case i == 0 && r.log:
			recording = RecordingLogs
		case r.log != recs[0].log:
			recording = RecordingBoth
		}
	}
	a.text(spans.RecordingKindKey, string(recording))
	if len(recs) > 0 && recs[0].bound {
		a.text(spans.StartTimeKey, string(spans.TimeSourceBound))
	}
	slices.SortStableFunc(a, func(x, y session.Attr) int { return strings.Compare(x.Key, y.Key) })
	row.Attrs = slices.CompactFunc(a, func(x, y session.Attr) bool { return x.Key == y.Key })
	w.out = append(w.out, row)
}

// derived returns the id of a row that no span has: it follows from that of a record.
func derived(r *record, word string) session.SpanID {
	sum := sha256.Sum256(slices.Concat([]byte(word), r.row.Trace[:], r.row.Span[:]))
	return session.SpanID(sum[:8])
}

func (w *writer) run(n *run) {
	var recs []*record // those that are of the run itself
	if n.rec != nil {
		recs = append(recs, n.rec)
	}
	recs = append(recs, n.starts...)
	var first, all []*record
	for _, t := range n.turns {
		all = append(all, t.recs[0])
	}
	for _, t := range n.tools {
		all = append(all, t.main())
	}
	if all = append(all, n.notes...); len(recs) == 0 {
		first = []*record{slices.MinFunc(all, compareRecords)}
		recs = first
	}
	row := w.row(n, session.KindRun, recs[0], n.start(), max(n.last, n.start()))
	var a attrs
	a.text(spans.DialectKey, w.dialect(n, recs, all).Name())
	if n.rec == nil {
		row.Span, row.Parent, row.Failed = derived(recs[0], "run "+n.id()), session.SpanID{}, false
		a.text(spans.EndTimeKey, string(spans.TimeSourceBound))
	} else if n.rec.end > 0 {
		row.End = max(n.rec.end, n.start())
	}
	if strings.HasPrefix(w.want.ID, tracePrefix) {
		a.add(spans.SessionMadeUpKey, session.BoolValue(true))
	}
	a.text(spans.AgentNameKey, w.agent(n))
	for _, t := range n.turns {
		if v := pick(t.recs, fieldModel); !t.utility() && !v.IsZero() {
			a.add(spans.RequestModelKey, v)
			a.add(spans.ProviderNameKey, pick(t.recs, fieldProvider))
			break
		}
	}
	if p := n.above(); p != nil {
		a.text(spans.RunParentIDKey, p.id())
		if p.key != n.key {
			a.text(spans.RunParentSessionIDKey, p.key.ID)
		}
		if n.call != nil && n.call.call != nil {
			a.text(spans.RunParentToolCallIDKey, n.call.call.id())
		}
	}
	if row.Failed {
		a.text(spans.RunStatusKeyKey, string(spans.RunStatusError))
		a.text(spans.ErrorTypeKeyKey, string(spans.ErrorTypeOther))
		a.add(spans.ErrorMessageKey, n.rec.row.Attr(StatusKey))
	}
	if n.rec != nil && n.rec.usage != nil && n.rec.src.RollUp == "" {
		a.usage(n.rec, runUsage)
	}
	for _, r := range n.notes {
		if r.role == roleNote && len(row.Events) < 1024 {
			row.Events = append(row.Events, session.Event{Time: r.start, Type: r.row.Attr(NameKey).Str(), Seq: r.order})
		}
	}
	slices.SortFunc(row.Events, func(a, b session.Event) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.Seq, b.Seq), strings.Compare(a.Type, b.Type))
	})
	var prompt []string
	for _, r := range append(recs[:len(recs):len(recs)], n.outer) {
		if prompt == nil && r != nil && len(first) == 0 {
			prompt = r.items(fieldPrompt)
		}
	}
	if len(n.turns) == 0 && prompt != nil {
		row.Lists = append(row.Lists, list(spans.ListOutside, prompt))
	}
	signals := recs
	for _, r := range all {
		if r.log != recs[0].log {
			signals = append(signals[:len(signals):len(signals)], r)
			break
		}
	}
	w.put(row, a, signals...)
	for _, t := range n.turns {
		var input []string
		if !t.utility() {
			input, prompt = prompt, nil
		}
		w.turn(n, t, input)
	}
	ordinals := map[string]int64{}
	slices.SortFunc(n.tools, compareCalls)
	for _, t := range n.tools {
		w.tool(n, t, ordinals)
	}
	for _, r := range n.notes {
		switch r.role {
		case roleCompaction:
			w.compaction(n, r)
		case rolePermission:
			w.permission(n, r, session.NoTurn, "", r.text(fieldTool))
		}
	}
}

// dialect returns the source of a run: of its own record, else of the first of its turns.
func (w *writer) dialect(n *run, recs, all []*record) *Source {
	if n.rec != nil && n.rec.role == roleRun || len(all) == 0 {
		return recs[0].src
	}
	return all[0].src
}

// agent returns the name of the agent of a run.
func (w *writer) agent(n *run) (name string) {
	for _, r := range []*record{n.rec, n.outer, n.call} {
		if r != nil && name == "" {
			name = r.text(fieldAgentName)
		}
	}
	for _, t := range n.turns {
		name = cmp.Or(name, pick(t.recs, fieldAgentName).Text())
	}
	return name
}

// list returns a list of items that are there.
func list(name string, items []string) session.List {
	return session.List{Name: name, Count: int64(len(items)), Items: items}
}

// find returns the items of a field that records have, the innermost record first.
func find(recs []*record, f field) []string {
	for _, r := range slices.Backward(recs) {
		if items := r.items(f); items != nil {
			return items
		}
	}
	return nil
}

// content returns the items of a field that records of the call itself have, else those of records of content.
func content(recs, contents []*record, f field) []string {
	if items := find(recs, f); items != nil {
		return items
	}
	var out []string
	for _, r := range contents {
		if r.rule.As == "" {
			if items := r.items(f); items != nil {
				return items
			}
		} else if fieldOf(r.rule.As) == f {
			out = append(out, r.items(fieldMessage)...)
		}
	}
	return out
}

func (w *writer) turn(n *run, t *call, input []string) {
	r := t.recs[len(t.recs)-1]
	if t.usage != nil {
		r = t.usage
	}
	for _, x := range t.recs { // a span has better ids than a log record
		if r.log && !x.log {
			r = x
		}
	}
	row := w.row(n, session.KindTurn, r, t.start, t.end)
	row.Turn = t.index
	var a attrs
	a.add(spans.RequestModelKey, pick(t.recs, fieldModel))
	a.add(spans.ResponseModelKey, pick(t.recs, fieldAnswered))
	a.add(spans.ProviderNameKey, pick(t.recs, fieldProvider))
	a.text(spans.ResponseIDKey, pick(t.recs, fieldResponse).Text())
	a.text(spans.TurnStopReasonKey, stopReason(pick(t.recs, fieldStop)))
	a.number(spans.TurnAttemptsKey, pick(t.recs, fieldAttempts))
	if ms, ok := pick(t.recs, fieldFirst).Double(); ok && ms > 0 && ms < 1e12 {
		a.add(spans.TimeToFirstChunkKey, session.DoubleValue(ms/1e3))
	}
	if cost, ok := pick(t.recs, fieldCost).Double(); ok && cost >= 0 {
		a.add(spans.TurnCostKey, session.DoubleValue(cost))
		a.text(spans.TurnCostCurrencyKey, "USD")
	}
	if t.usage != nil {
		a.usage(t.usage, turnUsage)
	}
	if t.utility() {
		a.text(spans.TurnPurposeKey, string(spans.PurposeUtility))
	}
	row.Failed = r.row.Failed
	for _, x := range t.recs {
		ok, known := x.success()
		row.Failed = row.Failed || x.rule.Failed || known && !ok
	}
	if row.Failed {
		a.text(spans.ErrorTypeKeyKey, string(spans.ErrorTypeProvider))
		a.text(spans.ErrorMessageKey, message(t.recs))
	}
	add := func(name string, items []string) {
		if len(items) > 0 {
			row.Lists = append(row.Lists, list(name, items))
		}
	}
	request := content(t.recs, t.contents, fieldRequest)
	add(spans.ListRequest, request)
	if request == nil {
		add(spans.ListInput, input)
	}
	add(spans.ListOutput, content(t.recs, t.contents, fieldReply))
	var params []string
	for _, p := range []struct {
		field
		spans.ProvenanceKind
	}{{fieldSystem, spans.ProvenanceSystem}, {fieldTools, spans.ProvenanceTools}} {
		for _, item := range content(t.recs, t.contents, p.field) {
			if it, err := spans.ParseItem(item); err == nil {
				it.Provenance = string(p.ProvenanceKind)
				params = append(params, it.Encode())
			}
		}
	}
	add(spans.ListParams, params)
	w.put(row, a, t.recs...)
}

// message returns what records say of a failure.
func message(recs []*record) string {
	text := pick(recs, fieldError).Text()
	for _, r := range slices.Backward(recs) {
		text = cmp.Or(text, r.row.Attr(StatusKey).Text())
	}
	return cmp.Or(text, pick(recs, fieldErrorType).Text())
}

// stopReason returns a stop reason, also of a list of one as text.
func stopReason(v session.Value) string {
	if l := v.Strings(); len(l) > 0 {
		return l[0]
	}
	return strings.Trim(v.Text(), `[]"`)
}

// id returns the id of a call, else its name.
func (c *call) id() string {
	for _, r := range c.all() {
		if id := r.text(fieldCall); id != "" {
			return id
		}
	}
	return c.name()
}

func (w *writer) tool(n *run, t *call, ordinals map[string]int64) {
	r := t.main()
	row := w.row(n, session.KindToolCall, r, t.start, t.end)
	if t.turn != nil {
		row.Turn = t.turn.index
	}
	var a attrs
	id := t.id()
	a.text(spans.ToolCallIDKey, id)
	address := id + "\x00" + session.IntValue(row.Turn).Text()
	if ordinals[address] > 0 {
		a.add(spans.OrdinalKey, session.IntValue(ordinals[address]))
	}
	ordinals[address]++
	a.text(spans.ToolNameKey, t.name())
	outcome := t.outcome()
	a.text(spans.ToolOutcomeKey, string(outcome))
	if row.Failed = outcome == spans.OutcomeError; row.Failed {
		a.text(spans.ErrorTypeKeyKey, string(spans.ErrorTypeTool))
		a.text(spans.ErrorMessageKey, message(t.recs))
	}
	if child := w.children[t]; child != nil && !child.gone {
		a.text(spans.ToolChildRunIDKey, child.id())
		if child.key != n.key {
			a.text(spans.ToolChildSessionIDKey, child.key.ID)
		}
	}
	args, result := content(t.all(), nil, fieldArgs), content(t.recs, t.contents, fieldResult)
	if args == nil {
		args = content(t.recs, t.contents, fieldRequest)
	}
	if result == nil {
		result = content(t.recs, t.contents, fieldReply)
	}
	for _, l := range []session.List{list(spans.ListArgs, args), list(spans.ListResult, result)} {
		if l.Count > 0 {
			row.Lists = append(row.Lists, l)
		}
	}
	if len(t.recs) == 0 {
		row.Span, row.End = derived(r, "tool"), 0
		if outcome != "" {
			row.End = t.start
		}
	}
	w.put(row, a, t.all()...)
	decided := t.permissions
	if len(decided) == 0 {
		decided = t.recs // that say themselves how they were decided
	}
	for _, p := range slices.Backward(decided) { // of a span and a log record the log record
		if p.action() != "" {
			w.permission(n, p, row.Turn, id, t.name())
			break
		}
	}
}

func (w *writer) permission(n *run, r *record, turn int64, call, tool string) {
	row := w.row(n, session.KindPermission, r, r.start, r.end)
	row.Span, row.Failed, row.Turn = derived(r, "permission"), false, turn
	if r.role != rolePermission {
		row.End = row.Start
	}
	var a attrs
	a.text(spans.ToolCallIDKey, call)
	a.text(spans.ToolNameKey, tool)
	a.text(spans.PermissionActionKey, string(r.action()))
	a.text(spans.PermissionOutcomeKey, r.text(fieldDecision))
	a.text(spans.PermissionSourceKeyKey, r.text(fieldDecider))
	a.add(spans.PermissionReasonKey, r.value(fieldReason))
	if !r.log && r.end > r.start {
		a.add(spans.PermissionWaitKey, session.IntValue(r.end-r.start))
	}
	w.put(row, a, r)
}

func (w *writer) compaction(n *run, r *record) {
	row := w.row(n, session.KindCompaction, r, r.start, r.end)
	kind := spans.CompactionKindSummary
	if r.rule.Prune {
		kind = spans.CompactionKindPrune
	}
	var a attrs
	a.text(spans.CompactionKindKeyKey, string(kind))
	a.add(spans.CompactionTriggerKey, r.value(fieldTrigger))
	a.number(spans.CompactionInputTokensKey, r.value(fieldBefore))
	a.number(spans.CompactionOutputTokensKey, r.value(fieldAfter))
	a.number(spans.CompactionMessagesSummarizedKey, r.value(fieldRemoved))
	if ok, known := r.success(); known {
		a.add(spans.CompactionAppliedKey, session.BoolValue(ok))
	}
	w.put(row, a, r)
}
