package foreign

import (
	"cmp"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// A session may be known from the agent's own transcript and from its telemetry. Join makes one of both: runs, turns
// and tool calls of the transcript count. The telemetry adds permissions, requests, costs and times to them, calls
// that are no part of the conversation, and what the transcript does not reach yet.

// slack is by how much clocks of a transcript and of telemetry may differ.
const slack = int64(5 * time.Second)

// measures are attributes that a turn or tool call takes from its counterpart where it has none.
var measures = []attribute.Key{spans.TurnCostKey, spans.TurnCostCurrencyKey, spans.TurnModelCallDurationKey,
	spans.TimeToFirstChunkKey, spans.TurnAttemptsKey, spans.RequestTemperatureKey, spans.RequestMaxTokensKey,
	spans.RequestReasoningLevelKey}

// usageKeys are those of a turn.
var usageKeys = append(turnUsage[:], spans.GenAIUsageCacheWriteKey, spans.UsageRuleKeyKey, spans.UsageReportedTotalKey,
	spans.UsageLowerBoundKey)

// ledger is a run of a transcript.
type ledger struct {
	row   *session.Row
	turns []*session.Row // by start
	next  int64          // number of another turn
	reach int64          // until when the transcript goes on
}

type joiner struct {
	runs  []*ledger // by start
	byID  map[callName]*session.Row
	runOf map[session.RunKey]*ledger
	// turnTo has the number that a turn of the telemetry has in the transcript.
	turnTo map[turnName]int64
	taken  map[*session.Row]bool
	named  map[session.Kind]bool // kinds of which transcript and telemetry have the same ids
	// compactions are those of the transcript. Its model calls are turns in the telemetry.
	compactions []*session.Row
}

// callName is a turn by the id of its reply, or a tool call by its id.
type callName struct {
	kind session.Kind
	id   string
}

type turnName struct {
	run  session.RunKey
	turn int64
}

func nameOf(r *session.Row) callName {
	switch r.Kind {
	case session.KindTurn:
		return callName{r.Kind, r.Attr(spans.ResponseIDKey).Text()}
	case session.KindToolCall, session.KindPermission:
		return callName{session.KindToolCall, r.Attr(spans.ToolCallIDKey).Text()}
	}
	return callName{}
}

// Join returns the rows of a session. Own rows are no telemetry, but for those of runs that came over ACP: such a
// session may have a transcript, too.
func Join(own []session.Row, telemetry ...session.Row) []session.Row {
	acp := map[session.RunKey]bool{}
	for i := range own {
		if r := &own[i]; r.Kind == session.KindRun && r.Attr(spans.DialectKey).Text() == "acp" {
			acp[r.RunKey()] = true
		}
	}
	if len(acp)+len(telemetry) == 0 {
		return own
	}
	own = slices.DeleteFunc(sorted(own), func(r session.Row) bool {
		if acp[r.RunKey()] {
			telemetry = append(telemetry, r)
		}
		return acp[r.RunKey()]
	})
	j := &joiner{byID: map[callName]*session.Row{}, runOf: map[session.RunKey]*ledger{}, turnTo: map[turnName]int64{},
		taken: map[*session.Row]bool{}, named: map[session.Kind]bool{}}
	for i := range own { // runs come first
		r := &own[i]
		l, name := j.runOf[r.RunKey()], nameOf(r)
		switch {
		case r.Kind == session.KindRun && r.Attr(spans.RecordingKindKey).Text() == string(spans.RecordingLedger):
			l = &ledger{row: r, reach: r.Start}
			j.runs, j.runOf[r.RunKey()] = append(j.runs, l), l
		case l != nil && r.Kind == session.KindTurn:
			l.turns, l.next, l.reach = append(l.turns, r), max(l.next, r.Turn+1), r.Start+slack
		case l != nil && r.Kind == session.KindCompaction:
			j.compactions = append(j.compactions, r)
		}
		if l != nil && name.id != "" && name.kind == r.Kind && j.byID[name] == nil {
			j.byID[name] = r
		}
	}
	if len(j.runs) == 0 {
		return append(own, telemetry...)
	}
	telemetry = sorted(telemetry)
	j.findRuns(telemetry)
	var out []session.Row
	decided := map[string]bool{} // calls whose decision telemetry has
	for _, r := range telemetry {
		if j.place(&r) {
			out = append(out, r)
			decided[nameOf(&r).id] = decided[nameOf(&r).id] || r.Kind == session.KindPermission
		}
	}
	for _, r := range own {
		derived, _ := r.Attr(spans.DerivedKey).Bool()
		if r.Kind != session.KindPermission || !derived || !decided[nameOf(&r).id] {
			out = append(out, r)
		}
	}
	return out
}

// sorted returns a copy of rows, runs before turns before what is in them, by start.
func sorted(rows []session.Row) []session.Row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b session.Row) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Start, b.Start), cmp.Compare(a.Run, b.Run),
			cmp.Compare(a.Turn, b.Turn))
	})
	return rows
}

// findRuns finds the run of the transcript that each run of the telemetry is: by the first id of a turn or tool call
// that both have, by its own id, else the last that began before.
func (j *joiner) findRuns(telemetry []session.Row) {
	found := map[session.RunKey]*ledger{}
	for i := range telemetry {
		r := &telemetry[i]
		if same := j.byID[nameOf(r)]; same != nil && r.Kind != session.KindPermission {
			j.named[r.Kind] = true
			found[r.RunKey()] = cmp.Or(found[r.RunKey()], j.runOf[same.RunKey()])
		}
	}
	for i := range telemetry {
		key := telemetry[i].RunKey()
		if found[key] != nil {
			continue
		}
		for _, l := range j.runs {
			if key.ID == l.row.Run {
				found[key] = l
				break
			} else if l.row.Start <= key.Start+slack && (l.row.End == 0 || key.Start <= l.row.End+slack) {
				found[key] = l
			}
		}
	}
	j.runOf = found
}

// place puts a row of the telemetry where it belongs. It reports false for one whose counterpart has it.
func (j *joiner) place(r *session.Row) bool {
	at, name := turnName{r.RunKey(), r.Turn}, nameOf(r)
	l, same := j.runOf[at.run], j.byID[name]
	if l == nil {
		return true
	}
	r.Run, r.RunStart = l.row.Run, l.row.RunStart
	input, output := r.Attr(spans.GenAIUsageInputKey), r.Attr(spans.GenAIUsageOutputKey)
	find := func(rows []*session.Row, in, out attribute.Key) { // the first with the same tokens
		for _, t := range rows {
			if same == nil && r.Kind == session.KindTurn && !j.taken[t] && !input.IsZero() && t.Attr(in) == input &&
				t.Attr(out) == output {
				same = t
			}
		}
	}
	find(l.turns, spans.GenAIUsageInputKey, spans.GenAIUsageOutputKey)
	find(j.compactions, spans.CompactionUsageInputKey, spans.CompactionUsageOutputKey)
	more := r.Start > l.reach || r.Kind == session.KindPermission || j.named[r.Kind] && name.id != "" ||
		!r.Attr(spans.TurnPurposeKey).IsZero()
	switch {
	case r.Kind == session.KindRun:
		return false
	case same != nil && r.Kind == session.KindPermission:
		r.Run, r.RunStart, r.Turn, r.Trace, r.Parent = same.Run, same.RunStart, same.Turn, same.Trace, same.Span
		return true
	case same != nil:
		if enrich(same, r); r.Kind == session.KindTurn {
			j.taken[same], j.turnTo[at] = true, same.Turn
		}
		return false
	case r.Kind == session.KindTurn && more:
		r.Turn, l.next = l.next, l.next+1
		j.turnTo[at] = r.Turn
		return true
	}
	turn, known := j.turnTo[at]
	if r.Turn = turn; !known {
		r.Turn = session.NoTurn
	}
	return more
}

// enrich gives a row what its counterpart measured. Usage that is unknown, or less than the provider counted, is that
// of the telemetry. A transcript has the time at which a reply was written, and that of the line of a result. It has no
// request.
func enrich(to, from *session.Row) {
	if from.Kind == session.KindToolCall && from.End > from.Start {
		to.Start, to.End = from.Start, from.End
	} else if from.Kind == session.KindTurn {
		to.Start = min(to.Start, max(from.Start, to.RunStart))
	}
	hasRequest := slices.ContainsFunc(to.Lists, isRequest)
	for _, l := range from.Lists {
		if isRequest(l) && to.Kind == session.KindTurn && !hasRequest {
			to.Lists = append(slices.Clip(to.Lists), l)
		}
	}
	bound, _ := to.Attr(spans.UsageLowerBoundKey).Bool()
	input := spans.GenAIUsageInputKey
	a, keys := attrs(slices.Clone(to.Attrs)), measures
	if to.Kind == session.KindCompaction {
		a.add(spans.CompactionCostKey, from.Attr(spans.TurnCostKey))
		a.add(spans.CompactionCostCurrencyKey, from.Attr(spans.TurnCostCurrencyKey))
		keys = nil
	} else if !from.Attr(input).IsZero() && (bound || to.Attr(input).IsZero()) {
		a = slices.DeleteFunc(a, func(old session.Attr) bool { return slices.Contains(usageKeys, attribute.Key(old.Key)) })
		keys = slices.Concat(usageKeys, measures)
	}
	for _, key := range keys {
		a.add(key, from.Attr(key))
	}
	to.Attrs = a.sorted()
}

// isRequest reports whether a list is a part of the request of a turn.
func isRequest(l session.List) bool { return l.Name == spans.ListRequest || l.Name == spans.ListParams }
