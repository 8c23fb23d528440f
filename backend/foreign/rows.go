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

// add adds an attribute unless it is empty or there.
func (a *attrs) add(key attribute.Key, v session.Value) {
	is := func(old session.Attr) bool { return old.Key == string(key) }
	if !v.IsZero() && (v.Type() != session.TypeString || v.Str() != "") && !slices.ContainsFunc(*a, is) {
		*a = append(*a, session.Attr{Key: string(key), Value: v})
	}
}

func (a *attrs) text(key attribute.Key, s string) { a.add(key, session.StringValue(s)) }

// sorted returns the attributes by key.
func (a attrs) sorted() []session.Attr {
	slices.SortFunc(a, func(x, y session.Attr) int { return strings.Compare(x.Key, y.Key) })
	return a
}

// usage adds the counts of a record under keys, which are in the order of usageFields.
func (a *attrs) usage(r *record, keys [5]attribute.Key) {
	u := r.usage
	for i, n := range []int64{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite} {
		if i < 2 || n > 0 {
			a.add(keys[i], session.IntValue(n))
		}
	}
	a.text(spans.UsageRuleKeyKey, string(r.usageRule()))
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
	for _, n := range m.list {
		if n.key == m.want {
			m.writeRun(n)
		}
	}
	return m.out
}

// row begins the row of a part of a run, as the record r has it.
func (n *run) row(kind session.Kind, r *record, start, end int64) session.Row {
	if end > 0 {
		end = max(end, start)
	}
	return session.Row{Trace: r.row.Trace, Span: r.row.Span, Parent: r.row.Parent, Session: n.key, Run: n.id,
		RunStart: n.first, Turn: session.NoTurn, Kind: kind, Known: spans.KnownObserved,
		Start: cmp.Or(start, n.first), End: end, Seq: r.order, Service: r.row.Service, Failed: r.row.Failed}
}

// errorTypes are those of rows that failed.
var errorTypes = map[session.Kind]spans.ErrorType{session.KindRun: spans.ErrorTypeOther,
	session.KindTurn: spans.ErrorTypeProvider, session.KindToolCall: spans.ErrorTypeTool}

// write adds a row with its attributes, as records and others within it have it.
func (m *mapper) write(row session.Row, a attrs, recs []*record, within ...*record) {
	signals := 0
	for _, r := range slices.Concat(recs, within) {
		signals |= 1 + bit(r.log)
	}
	a.text(spans.RecordingKindKey, string([]spans.Recording{1: RecordingSpans, RecordingLogs, RecordingBoth}[signals]))
	if row.Failed {
		a.text(spans.ErrorTypeKeyKey, string(errorTypes[row.Kind]))
		a.add(spans.ErrorMessageKey, pick(recs, "error"))
		for _, r := range slices.Backward(recs) {
			a.add(spans.ErrorMessageKey, r.row.Attr(StatusKey))
		}
		a.add(spans.ErrorMessageKey, pick(recs, "error_type"))
	}
	if recs[0].start == 0 && recs[0].end == 0 {
		a.text(spans.StartTimeKey, string(spans.TimeSourceBound))
	}
	row.Attrs = a.sorted()
	m.out = append(m.out, row)
}

// derived returns the id of a row that no span has: it follows from that of a record.
func derived(r *record, word string) session.SpanID {
	sum := sha256.Sum256(slices.Concat([]byte(word), r.row.Trace[:], r.row.Span[:]))
	return session.SpanID(sum[:8])
}

func (m *mapper) writeRun(n *run) {
	own, inside := n.recs, n.notes // records of the run itself, and of what is in it
	for _, t := range slices.Concat(n.turns, n.tools) {
		inside = append(inside, t.recs[0])
	}
	if len(own) == 0 {
		own = []*record{slices.MinFunc(inside, compareRecords)}
	}
	source := own[0] // of its own record, else of the first of its turns
	if len(inside) > len(n.notes) && source.role != roleRun {
		source = inside[len(n.notes)]
	}
	row := n.row(session.KindRun, own[0], n.first, max(n.last, n.first))
	a := attrs{{Key: string(spans.DialectKey), Value: session.StringValue(source.src.Name)}}
	if n.rec == nil {
		row.Span, row.Parent, row.Failed = derived(own[0], "run "+n.id), session.SpanID{}, false
		a.text(spans.EndTimeKey, string(spans.TimeSourceBound))
	} else {
		ok, known := n.rec.success()
		if row.Failed = known && !ok; n.rec.end > 0 {
			row.End = max(n.rec.end, n.first)
		}
	}
	if strings.HasPrefix(n.key.ID, tracePrefix) {
		a.add(spans.SessionMadeUpKey, session.BoolValue(true))
	}
	var prompt []string
	for _, r := range n.recs {
		if a.add(spans.AgentNameKey, r.value("agent_name")); prompt == nil {
			prompt = r.items("prompt")
		}
	}
	if n.call != nil {
		a.add(spans.AgentNameKey, n.call.value("agent_name"))
	}
	for _, t := range n.turns {
		a.add(spans.AgentNameKey, pick(t.recs, "agent_name"))
		if !t.utility() {
			a.add(spans.RequestModelKey, pick(t.recs, "model"))
			a.add(spans.ProviderNameKey, pick(t.recs, "provider"))
		}
	}
	if p := n.parent(); p != nil {
		a.text(spans.RunParentIDKey, p.id)
		if p.key != n.key {
			a.text(spans.RunParentSessionIDKey, p.key.ID)
		}
		if n.call != nil && n.call.call != nil {
			a.text(spans.RunParentToolCallIDKey, n.call.call.id())
		}
	}
	if row.Failed {
		a.text(spans.RunStatusKeyKey, string(spans.RunStatusError))
	}
	if n.rec != nil && n.rec.usage != nil && n.rec.src.RollUp == "" {
		a.usage(n.rec, runUsage)
	}
	for _, r := range n.notes {
		if r.role == roleCompaction {
			m.writeCompaction(n, r)
		} else if len(row.Events) < 1024 {
			row.Events = append(row.Events, session.Event{Time: r.start, Type: r.row.Attr(NameKey).Str(), Seq: r.order})
		}
	}
	if len(n.turns) == 0 {
		row.Lists = lists(spans.ListOutside, prompt)
	}
	m.write(row, a, own, inside...)
	for _, t := range n.turns {
		var input []string
		if !t.utility() {
			input, prompt = prompt, nil
		}
		m.writeTurn(n, t, input)
	}
	ordinals := map[string]int64{}
	for _, t := range n.tools {
		m.writeTool(n, t, ordinals)
	}
}

// lists returns a list of items, none where there are none.
func lists(name string, items []string) []session.List {
	if len(items) == 0 {
		return nil
	}
	return []session.List{{Name: name, Count: int64(len(items)), Items: items}}
}

// content returns the items of the first of some fields that records of a call have, the innermost first, else records
// of content.
func content(recs, contents []*record, of ...field) (out []string) {
	for _, f := range of {
		for _, r := range slices.Backward(recs) {
			if items := r.items(f); items != nil {
				return items
			}
		}
		for _, r := range contents {
			if items := r.items(f); items != nil && r.rule.As == "" {
				return items
			} else if r.rule.As == f {
				out = append(out, r.items("message")...)
			}
		}
		if out != nil {
			return out
		}
	}
	return nil
}

func (m *mapper) writeTurn(n *run, t *call, input []string) {
	r := t.recs[len(t.recs)-1]
	if t.usage != nil {
		r = t.usage
	}
	if !t.recs[0].log && r.log { // a span has better ids than a log record
		r = t.recs[0]
	}
	row := n.row(session.KindTurn, r, t.start, t.end)
	row.Turn = t.index
	a := make(attrs, 0, 16)
	a.add(spans.RequestModelKey, pick(t.recs, "model"))
	a.add(spans.ResponseModelKey, pick(t.recs, "answered_model"))
	a.add(spans.ProviderNameKey, pick(t.recs, "provider"))
	a.text(spans.ResponseIDKey, pick(t.recs, "response").Text())
	a.text(spans.TurnStopReasonKey, stopReason(pick(t.recs, "stop")))
	a.add(spans.TurnAttemptsKey, pick(t.recs, "attempts"))
	if ms, ok := pick(t.recs, "first_ms").Double(); ok && ms > 0 && ms < 1e12 {
		a.add(spans.TimeToFirstChunkKey, session.DoubleValue(ms/1e3))
	}
	if cost, ok := pick(t.recs, "cost").Double(); ok && cost >= 0 {
		a.add(spans.TurnCostKey, session.DoubleValue(cost))
		a.text(spans.TurnCostCurrencyKey, "USD")
	}
	if t.usage != nil {
		a.usage(t.usage, turnUsage)
	}
	if t.utility() {
		a.text(spans.TurnPurposeKey, string(spans.PurposeUtility))
	}
	for _, x := range t.recs {
		ok, known := x.success()
		row.Failed = row.Failed || x.rule.Failed || known && !ok
	}
	request := content(t.recs, t.contents, "request")
	row.Lists = lists(spans.ListRequest, request)
	if request == nil {
		row.Lists = lists(spans.ListInput, input)
	}
	row.Lists = append(row.Lists, lists(spans.ListOutput, content(t.recs, t.contents, "reply"))...)
	var params []string
	for _, f := range []field{"system", "tools"} { // as the kinds of provenance are named
		for _, item := range content(t.recs, t.contents, f) {
			if it, err := spans.ParseItem(item); err == nil {
				it.Provenance = string(f)
				params = append(params, it.Encode())
			}
		}
	}
	row.Lists = append(row.Lists, lists(spans.ListParams, params)...)
	m.write(row, a, t.recs)
}

// stopReason returns a stop reason, also of a list of one as text.
func stopReason(v session.Value) string {
	if l := v.Strings(); len(l) > 0 {
		return l[0]
	}
	return strings.Trim(v.Text(), `[]"`)
}

func (m *mapper) writeTool(n *run, t *call, ordinals map[string]int64) {
	r, id, outcome := t.recs[0], t.id(), t.outcome()
	row := n.row(session.KindToolCall, r, t.start, t.end)
	if t.turn != nil {
		row.Turn = t.turn.index
	}
	a := make(attrs, 0, 8)
	a.text(spans.ToolCallIDKey, id)
	address := id + "\x00" + session.IntValue(row.Turn).Text()
	if ordinals[address] > 0 {
		a.add(spans.OrdinalKey, session.IntValue(ordinals[address]))
	}
	ordinals[address]++
	a.text(spans.ToolNameKey, t.name())
	a.text(spans.ToolOutcomeKey, string(outcome))
	row.Failed = outcome == spans.OutcomeError
	if child := t.child; child != nil {
		a.text(spans.ToolChildRunIDKey, child.id)
		if child.key != n.key {
			a.text(spans.ToolChildSessionIDKey, child.key.ID)
		}
	}
	row.Lists = append(lists(spans.ListArgs, content(t.recs, t.contents, "args", "request")),
		lists(spans.ListResult, content(t.own(), t.contents, "result", "reply"))...)
	if t.itself == 0 {
		if row.Span = derived(r, "tool"); outcome != "" {
			row.End = row.Start
		}
	}
	m.write(row, a, t.recs)
	for _, p := range slices.Backward(t.recs) { // permissions come last, of a span and a log record the log record
		if p.action() != "" {
			m.writePermission(n, t, p, row.Turn)
			break
		}
	}
}

func (m *mapper) writePermission(n *run, t *call, r *record, turn int64) {
	row := n.row(session.KindPermission, r, r.start, r.end)
	row.Span, row.Failed, row.Turn = derived(r, "permission"), false, turn
	var a attrs
	if r.role != rolePermission {
		row.End = row.Start
	} else if !r.log && r.end > r.start {
		a.add(spans.PermissionWaitKey, session.IntValue(r.end-r.start))
	}
	a.text(spans.ToolCallIDKey, t.id())
	a.text(spans.ToolNameKey, t.name())
	a.text(spans.PermissionActionKey, string(r.action()))
	a.text(spans.PermissionOutcomeKey, r.text("decision"))
	a.text(spans.PermissionSourceKeyKey, r.text("decider"))
	a.add(spans.PermissionReasonKey, r.value("reason"))
	m.write(row, a, []*record{r})
}

func (m *mapper) writeCompaction(n *run, r *record) {
	row := n.row(session.KindCompaction, r, r.start, r.end)
	kind := spans.CompactionKindSummary
	if r.rule.Prune {
		kind = spans.CompactionKindPrune
	}
	var a attrs
	a.text(spans.CompactionKindKeyKey, string(kind))
	a.add(spans.CompactionTriggerKey, r.value("trigger"))
	a.add(spans.CompactionInputTokensKey, r.value("before"))
	a.add(spans.CompactionOutputTokensKey, r.value("after"))
	a.add(spans.CompactionMessagesSummarizedKey, r.value("removed"))
	if ok, known := r.success(); known {
		a.add(spans.CompactionAppliedKey, session.BoolValue(ok))
	}
	m.write(row, a, []*record{r})
}
