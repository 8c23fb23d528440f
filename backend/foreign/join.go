package foreign

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// A session may be known from the agent's own transcript and from its telemetry. join makes one of both: runs, turns
// and tool calls of the transcript count. The telemetry adds permissions, costs and times to them, calls that are no
// part of the conversation, and what the transcript does not reach yet.

// slack is by how much clocks of a transcript and of telemetry may differ.
const slack = int64(5 * time.Second)

// measures are attributes that a turn or tool call takes from its counterpart where it has none.
var measures = []attribute.Key{spans.TurnCostKey, spans.TurnCostCurrencyKey, spans.TurnModelCallDurationKey,
	spans.TimeToFirstChunkKey, spans.TurnAttemptsKey, spans.RequestTemperatureKey, spans.RequestMaxTokensKey,
	spans.RequestReasoningLevelKey}

type turnKey struct {
	run  session.RunKey
	turn int64
}

type joiner struct {
	own     []session.Row
	runs    []*session.Row // of the transcript, by start
	turns   map[string]*session.Row
	calls   map[string]*session.Row
	inRun   map[session.RunKey][]*session.Row // turns, by start
	denials map[string]bool                   // calls whose decision telemetry has
	runTo   map[session.RunKey]*session.Row
	turnTo  map[turnKey]*session.Row
	taken   map[*session.Row]bool
	extra   map[*session.Row]int64 // turns that a run of the transcript got
	named   map[session.Kind]bool  // kinds of which transcript and telemetry have the same ids
}

// join returns the rows of a session. Own rows are those that are no telemetry.
func join(own, telemetry []session.Row) []session.Row {
	if len(own) == 0 {
		return telemetry
	}
	j := &joiner{own: slices.Clone(own), turns: map[string]*session.Row{}, calls: map[string]*session.Row{},
		inRun: map[session.RunKey][]*session.Row{}, denials: map[string]bool{}, runTo: map[session.RunKey]*session.Row{},
		turnTo: map[turnKey]*session.Row{}, taken: map[*session.Row]bool{},
		extra: map[*session.Row]int64{}, named: map[session.Kind]bool{}}
	saved := map[session.RunKey]bool{}
	for i := range own {
		r := &own[i]
		if r.Kind == session.KindRun && r.Attr(spans.RecordingKindKey).Text() == string(spans.RecordingLedger) {
			saved[r.RunKey()] = true
		}
	}
	if len(saved) == 0 || len(telemetry) == 0 {
		return append(own, telemetry...)
	}
	for i := range j.own {
		r := &j.own[i]
		switch {
		case !saved[r.RunKey()]:
		case r.Kind == session.KindRun:
			j.runs = append(j.runs, r)
		case r.Kind == session.KindTurn:
			j.inRun[r.RunKey()] = append(j.inRun[r.RunKey()], r)
			note(j.turns, r, spans.ResponseIDKey)
		case r.Kind == session.KindToolCall:
			note(j.calls, r, spans.ToolCallIDKey)
		}
	}
	byStart := func(a, b *session.Row) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Turn, b.Turn))
	}
	slices.SortFunc(j.runs, byStart)
	for _, l := range j.inRun {
		slices.SortFunc(l, byStart)
	}
	telemetry = slices.Clone(telemetry)
	slices.SortStableFunc(telemetry, func(a, b session.Row) int { // runs, then turns
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), byStart(&a, &b))
	})
	j.findRuns(telemetry)
	var out []session.Row
	for _, r := range telemetry {
		if j.place(&r) {
			out = append(out, r)
		}
	}
	own = slices.DeleteFunc(j.own, func(r session.Row) bool {
		derived, _ := r.Attr(spans.DerivedKey).Bool()
		return r.Kind == session.KindPermission && derived && j.denials[r.Attr(spans.ToolCallIDKey).Text()]
	})
	return append(own, out...)
}

// note finds a row by an id, the first of several.
func note(rows map[string]*session.Row, r *session.Row, key attribute.Key) {
	if id := r.Attr(key).Text(); id != "" && rows[id] == nil {
		rows[id] = r
	}
}

// findRuns finds the run of the transcript that each run of the telemetry is: by ids of its turns and tool calls, by
// its own id, else by its time.
func (j *joiner) findRuns(telemetry []session.Row) {
	votes := map[session.RunKey]map[*session.Row]int{}
	byKey := map[session.RunKey]*session.Row{}
	for _, r := range j.runs {
		byKey[r.RunKey()] = r
	}
	for i := range telemetry {
		r := &telemetry[i]
		same := j.turns[r.Attr(spans.ResponseIDKey).Text()]
		if r.Kind == session.KindToolCall {
			same = j.calls[r.Attr(spans.ToolCallIDKey).Text()]
		}
		if votes[r.RunKey()] == nil {
			votes[r.RunKey()] = map[*session.Row]int{}
		}
		if same != nil {
			j.named[r.Kind] = true
			votes[r.RunKey()][byKey[same.RunKey()]]++
		}
	}
	for key, of := range votes {
		var best *session.Row
		for _, r := range j.runs {
			switch {
			case of[r] > of[best], best == nil && key.ID != "" && key.ID == r.Run:
				best = r
			case best == nil || of[best] == 0 && best.Run != key.ID:
				if r.Start <= key.Start+slack && (r.End == 0 || key.Start <= r.End+slack) {
					best = r
				}
			}
		}
		if best != nil {
			j.runTo[key] = best
		}
	}
}

// place puts a row of the telemetry where it belongs. It reports false for one whose counterpart has it.
func (j *joiner) place(r *session.Row) bool {
	key := r.RunKey()
	run := j.runTo[key]
	if run == nil {
		return true
	}
	at := turnKey{key, r.Turn}
	turns := j.inRun[run.RunKey()]
	reached := run.Start
	if n := len(turns); n > 0 {
		reached = turns[n-1].Start + slack
	}
	r.Run, r.RunStart = run.Run, run.RunStart
	switch r.Kind {
	case session.KindRun:
		return false
	case session.KindTurn:
		same := j.counterpart(r, turns)
		utility := r.Attr(spans.TurnPurposeKey).Text() != ""
		other := j.named[r.Kind] && !r.Attr(spans.ResponseIDKey).IsZero()
		if same == nil && (utility || other || r.Start > reached) {
			r.Turn = j.next(run)
			j.turnTo[at] = r
			return true
		}
		if same != nil {
			j.taken[same] = true
			enrich(same, r)
			j.turnTo[at] = same
		}
		return false
	case session.KindToolCall:
		if same := j.calls[r.Attr(spans.ToolCallIDKey).Text()]; same != nil {
			enrich(same, r)
			return false
		}
	case session.KindPermission:
		id := r.Attr(spans.ToolCallIDKey).Text()
		if call := j.calls[id]; call != nil {
			j.denials[id] = true
			r.Run, r.RunStart, r.Turn, r.Trace, r.Parent = call.Run, call.RunStart, call.Turn, call.Trace, call.Span
			return true
		}
	}
	if r.Turn != session.NoTurn {
		r.Turn = session.NoTurn
		if turn := j.turnTo[at]; turn != nil {
			r.Turn = turn.Turn
		}
	}
	return r.Kind == session.KindPermission || r.Kind == session.KindToolCall && j.named[r.Kind] || r.Start > reached
}

// counterpart finds the turn of the transcript: by the id of the reply, else one with the same tokens.
func (j *joiner) counterpart(r *session.Row, turns []*session.Row) *session.Row {
	if same := j.turns[r.Attr(spans.ResponseIDKey).Text()]; same != nil {
		return same
	}
	tokens := func(r *session.Row) [2]int64 {
		return [2]int64{r.Attr(spans.GenAIUsageInputKey).IntOr(-1), r.Attr(spans.GenAIUsageOutputKey).IntOr(-1)}
	}
	if tokens(r)[0] < 0 {
		return nil
	}
	for _, t := range turns {
		if !j.taken[t] && tokens(t) == tokens(r) {
			return t
		}
	}
	return nil
}

// next returns the number of another turn of a run of the transcript.
func (j *joiner) next(run *session.Row) int64 {
	n := int64(-1)
	for _, t := range j.inRun[run.RunKey()] {
		n = max(n, t.Turn)
	}
	j.extra[run]++
	return n + j.extra[run]
}

// usageKeys are those of a turn.
var usageKeys = append(turnUsage[:], spans.GenAIUsageCacheWriteKey, spans.UsageRuleKeyKey, spans.UsageReportedTotalKey,
	spans.UsageLowerBoundKey)

// enrich gives a row what its counterpart measured. Usage that is unknown, or less than the provider counted, is that
// of the telemetry.
func enrich(to, from *session.Row) {
	all := map[string]session.Value{}
	for _, a := range to.Attrs {
		all[a.Key] = a.Value
	}
	bound, _ := to.Attr(spans.UsageLowerBoundKey).Bool()
	if input := spans.GenAIUsageInputKey; !from.Attr(input).IsZero() && (bound || to.Attr(input).IsZero()) {
		for _, key := range usageKeys {
			if delete(all, string(key)); !from.Attr(key).IsZero() {
				all[string(key)] = from.Attr(key)
			}
		}
	}
	for _, key := range measures {
		if v := from.Attr(key); !v.IsZero() && to.Attr(key).IsZero() {
			all[string(key)] = v
		}
	}
	to.Attrs = nil
	for _, key := range slices.Sorted(maps.Keys(all)) {
		to.Attrs = append(to.Attrs, session.Attr{Key: key, Value: all[key]})
	}
}
