package foreign

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// transcriptOf returns the rows that a transcript of a session would give: its runs, turns of the conversation and tool
// calls, a second earlier, without costs, permissions and requests. The last reply is a placeholder.
func transcriptOf(rows []session.Row) (out []session.Row) {
	last := -1
	for _, r := range rows {
		switch r.Kind {
		case session.KindTurn:
			if r.Attr(spans.TurnPurposeKey).Text() != "" {
				continue
			}
			last = len(out)
		case session.KindRun, session.KindToolCall:
		default:
			continue
		}
		r.Lists = slices.DeleteFunc(slices.Clone(r.Lists), isRequest)
		id := sha256.Sum256(append(r.Trace[:], r.Span[:]...))
		copy(r.Trace[:], id[:])
		copy(r.Span[:], id[16:])
		r.Parent = session.SpanID{}
		r.RunStart, r.Start, r.End = r.RunStart-int64(time.Second), r.Start-int64(time.Second), r.End-int64(time.Second)
		r.Attrs = slices.DeleteFunc(slices.Clone(r.Attrs), func(a session.Attr) bool {
			return strings.HasPrefix(a.Key, "otelagent.turn.cost") || a.Key == string(spans.RecordingKindKey)
		})
		r.Attrs = append(r.Attrs, session.Attr{Key: string(spans.RecordingKindKey),
			Value: session.StringValue(string(spans.RecordingLedger))})
		slices.SortFunc(r.Attrs, func(a, b session.Attr) int { return strings.Compare(a.Key, b.Key) })
		out = append(out, r)
	}
	if last >= 0 && !out[last].Attr(spans.ResponseIDKey).IsZero() {
		for i := range out[last].Attrs {
			if a := &out[last].Attrs[i]; a.Key == string(spans.GenAIUsageOutputKey) {
				a.Value = session.IntValue(0)
			}
		}
		out[last].Attrs = append(out[last].Attrs, session.Attr{Key: string(spans.UsageLowerBoundKey),
			Value: session.BoolValue(true)})
		slices.SortFunc(out[last].Attrs, func(a, b session.Attr) int { return strings.Compare(a.Key, b.Key) })
	}
	return out
}

// sumsOf is what both recordings of a session must come to once.
func sumsOf(s *session.Session) string {
	turns, requests, calls, permissions, cost := 0, 0, 0, 0, 0.0
	for n := range s.Walk() {
		switch n.Kind() {
		case session.KindTurn:
			requests += len(n.Turn.Requests)
			if turns++; n.Turn.Cost != nil {
				cost += *n.Turn.Cost
			}
		case session.KindToolCall:
			calls++
		case session.KindPermission:
			permissions++
		}
	}
	return fmt.Sprintf("%d turns, %d requests, %d calls, %d permissions, %+v, cost %.6f, defects %v", turns, requests,
		calls, permissions, s.Usage, cost, s.Defects)
}

// A session with a transcript and telemetry is one: what both have counts once, and no part of either is missing.
func TestTranscriptAndTelemetry(t *testing.T) {
	table := Default()
	for name, e := range expectations(t) {
		agent := slices.ContainsFunc([]string{"claude-code", "codex", "gemini", "opencode"}, func(p string) bool {
			return strings.HasPrefix(name, p)
		})
		if !agent {
			continue
		}
		t.Run(name, func(t *testing.T) {
			var rows []session.Row
			for _, file := range e.Files {
				rows = append(rows, decode(t, table, sample(t, file))...)
			}
			for _, alone := range assemble(table, rows) {
				key := session.Key{ID: alone.ID}
				transcript := transcriptOf(table.Map(rows, key))
				all := slices.Concat(transcript, rows)
				both := session.Assemble(table.Map(all, key))
				if got, want := sumsOf(both), sumsOf(alone); got != want {
					t.Errorf("session %s\nboth  %s\nalone %s", alone.ID, got, want)
				}
				for _, r := range both.Runs {
					if r.Recording != spans.RecordingLedger {
						t.Errorf("run %s is from %s", r.ID, r.Recording)
					}
				}
				slices.Reverse(all)
				if again := session.Assemble(table.Map(all, key)); tree([]*session.Session{again}) !=
					tree([]*session.Session{both}) {
					t.Errorf("session %s: another order is another tree", alone.ID)
				}
				if len(transcript) > 2 { // it was read before the session went on
					half := session.Assemble(table.Map(slices.Concat(transcript[:len(transcript)/2], rows), key))
					if half.Usage.All() < alone.Usage.All()/2 {
						t.Errorf("session %s: of %+v half a transcript has %+v", alone.ID, alone.Usage, half.Usage)
					}
				}
			}
		})
	}
}

// The model call that writes the summary of a compaction is a turn in telemetry, and tokens of the compaction in a
// transcript: it counts once, with its cost. How long a reply and a tool took, only the telemetry knows.
func TestTelemetryOfTranscript(t *testing.T) {
	table := Default()
	rows := decode(t, table, sample(t, "claude-code-session-a.logs.json"))
	alone := assemble(table, rows)[0]
	key := session.Key{ID: alone.ID}
	var summary session.Row
	for _, r := range table.Map(rows, key) {
		if n, _ := r.Attr(spans.GenAIUsageOutputKey).Int(); r.Kind == session.KindTurn && n == 700 {
			summary = r
		}
	}
	var transcript []session.Row
	for _, r := range transcriptOf(table.Map(rows, key)) {
		switch r.Kind {
		case session.KindTurn:
			r.Start = r.End
		case session.KindToolCall:
			if r.End > r.Start { // it ran
				r.End += int64(2 * time.Second)
			}
		}
		transcript = append(transcript, r)
	}
	compaction := summary
	compaction.Kind, compaction.Turn, compaction.Span = session.KindCompaction, session.NoTurn, session.SpanID{0xc}
	compaction.RunStart -= int64(time.Second) // as that of the transcript
	compaction.Start, compaction.Attrs = summary.End, nil
	for to, from := range map[attribute.Key]attribute.Key{
		spans.CompactionUsageInputKey:     spans.GenAIUsageInputKey,
		spans.CompactionUsageOutputKey:    spans.GenAIUsageOutputKey,
		spans.CompactionUsageCacheReadKey: spans.GenAIUsageCacheReadKey,
	} {
		compaction.Attrs = append(compaction.Attrs, session.Attr{Key: string(to), Value: summary.Attr(from)})
	}
	slices.SortFunc(compaction.Attrs, func(a, b session.Attr) int { return strings.Compare(a.Key, b.Key) })
	both := session.Assemble(table.Map(slices.Concat(transcript, []session.Row{compaction}, rows), key))
	own := both.CompactionUsage
	if own == nil || both.Usage.All()+own.All() != alone.Usage.All() || own.Output != 700 {
		t.Errorf("%+v and %+v of compactions, alone %+v", both.Usage, own, alone.Usage)
	}
	costs := func(s *session.Session) (sum float64) {
		for n := range s.Walk() {
			switch {
			case n.Kind() == session.KindTurn && n.Turn.Cost != nil:
				sum += *n.Turn.Cost
			case n.Kind() == session.KindCompaction && n.Compaction.Cost != nil:
				sum += *n.Compaction.Cost
			}
		}
		return sum
	}
	if got, want := fmt.Sprintf("%.6f", costs(both)), fmt.Sprintf("%.6f", costs(alone)); got != want {
		t.Errorf("cost %s, alone %s", got, want)
	}
	took := func(s *session.Session) (all []string) {
		for n := range s.Walk() {
			if n.Kind() == session.KindToolCall {
				all = append(all, fmt.Sprint(n.Call.ID, n.Call.End.Sub(n.Call.Start)))
			} else if n.Kind() == session.KindTurn && n.Turn.Purpose == "" {
				all = append(all, fmt.Sprint(n.Turn.Usage.Output, n.Turn.Start))
			}
		}
		return all
	}
	if got, want := took(both), took(alone); !slices.Equal(got, want) {
		t.Errorf("%q took\nalone %q", got, want)
	}
}
