package session

import (
	"cmp"
	"time"

	"github.com/otelagent/otelagent/spans"
)

// Figures are the numbers of a session for statistics: one record for each turn, tool call, compaction and permission
// evaluation. Stores keep them in tables (backend/store/stats/README.md). They hold no content. The zero value is that
// of an empty session.
type Figures struct {
	Turns       []TurnFigures
	ToolCalls   []ToolCallFigures
	Compactions []CompactionFigures
	Permissions []PermissionFigures
}

// Opt is a number that may be unknown. The zero value is unknown.
type Opt[T int64 | float64] struct {
	V  T
	OK bool
}

// Some returns a known Opt.
func Some[T int64 | float64](v T) Opt[T] { return Opt[T]{v, true} }

// TurnFigures are the numbers of one turn. Times are unix nanoseconds; unknown text is empty.
type TurnFigures struct {
	// Session is the id of the session, without its tenant.
	Session  string
	Run      string
	RunStart int64
	Turn     int64
	Start    int64
	// End is known if both times were stated, or read from a clock when the events arrived: End less Start is the
	// duration. It is unknown while the turn is open, if the adapter closed it, and if its neighbours only bound one
	// of its times.
	End Opt[int64]
	// ModelCall is the duration of the model call alone, FirstChunk the time to the first piece of the reply, in
	// nanoseconds.
	ModelCall, FirstChunk Opt[int64]
	// Agent is the name of the run's agent, or its id if it has no name.
	Agent    string
	Provider string
	// Model is the requested one: of the turn, else of the run, else the one that answered.
	Model         string
	ResponseModel string
	StopReason    string
	Failed        bool
	ErrorType     string
	Attempts      Opt[int64]
	// The five counts in tokens: Input includes both kinds of cached tokens, Output includes Reasoning. All are known
	// or none: a turn that reports some of them has 0 in the others. They do not include discarded attempts.
	Input, Output, Reasoning, CacheRead, CacheWrite Opt[int64]
	// LowerBound says that the true counts are these or more.
	LowerBound bool
	// Purpose is empty for a turn of the conversation.
	Purpose string
	// Cost is what the loop reported, in Currency.
	Cost     Opt[float64]
	Currency string
	// RequestMessages and RequestBytes are the size of the last request of the turn.
	RequestMessages, RequestBytes Opt[int64]
	ToolCalls                     int64
	// Trace is the id of the run's trace, in hexadecimal.
	Trace string
}

// ToolCallFigures are the numbers of one tool call. Turn is unknown if it is outside any turn. See TurnFigures for the
// other fields.
type ToolCallFigures struct {
	Session  string
	Run      string
	RunStart int64
	Turn     Opt[int64]
	Call     string
	Start    int64
	End      Opt[int64]
	Agent    string
	Model    string
	Tool     string
	// Outcome is a value of spans.Outcome, or another one of the source; empty while the call is open. Failed reports
	// an error.
	Outcome string
	Failed  bool
}

// CompactionFigures are the numbers of one compaction. See ToolCallFigures for the other fields.
type CompactionFigures struct {
	Session                       string
	Run                           string
	RunStart                      int64
	Turn                          Opt[int64]
	Start                         int64
	End                           Opt[int64]
	Kind, Trigger                 string
	InputTokens, OutputTokens     Opt[int64]
	MessagesBefore, MessagesAfter Opt[int64]
	// The tokens of its own model calls, whether the true counts are these or more, and what the loop reported as their
	// cost.
	UsedInput, UsedOutput Opt[int64]
	LowerBound            bool
	Cost                  Opt[float64]
	Currency              string
}

// PermissionFigures are the numbers of one permission evaluation, at the time at which it began. Wait is the time until
// the answer, in nanoseconds. See ToolCallFigures for the other fields.
type PermissionFigures struct {
	Session        string
	Run            string
	RunStart       int64
	Turn           Opt[int64]
	At             int64
	Wait           Opt[int64]
	Tool           string
	Action, Source string
}

// FiguresOf returns the figures of s, in the order of the tree. It counts each span of the tree once, also one that
// is missing and inferred, as Summarize does. It omits runs that the session took over from the one it was
// forked from (Run.Copied), which count there. It counts turns that were rewound, since they were paid for. Groups
// are not runs.
func FiguresOf(s *Session) Figures {
	var f Figures
	for n := range s.Walk() {
		r, t := n.Run, n.Turn
		if r.Copied {
			continue
		}
		began, model, agent, turn := r.Start.UnixNano(), r.Model, cmp.Or(r.Agent, r.AgentID), Opt[int64]{}
		if t != nil {
			turn, model = Some(t.Index), cmp.Or(t.Model, r.Model, t.Answered)
		}
		switch n.Kind() {
		case KindTurn:
			f.Turns = append(f.Turns, FiguresOfTurn(s.ID, r, t))
		case KindToolCall:
			c := n.Call
			f.ToolCalls = append(f.ToolCalls, ToolCallFigures{
				Session: s.ID, Run: r.ID, RunStart: began, Turn: turn, Call: c.ID, Start: nanoseconds(c.Start),
				End: c.measured(), Agent: agent, Model: model, Tool: c.Name, Outcome: string(c.Outcome),
				Failed: c.Outcome == spans.OutcomeError,
			})
		case KindCompaction:
			c := n.Compaction
			x := CompactionFigures{
				Session: s.ID, Run: r.ID, RunStart: began, Turn: turn, Start: nanoseconds(c.Start), End: c.measured(),
				Kind: string(c.Kind), Trigger: c.Trigger, InputTokens: given(c.InputTokens),
				OutputTokens: given(c.OutputTokens), MessagesBefore: given(c.MessagesBefore),
				MessagesAfter: given(c.MessagesAfter), Cost: given(c.Cost), Currency: c.Currency,
			}
			if u := c.Usage; u != nil {
				x.UsedInput, x.UsedOutput, x.LowerBound = Some(u.Input), Some(u.Output), u.LowerBound
			}
			f.Compactions = append(f.Compactions, x)
		case KindPermission:
			p := n.Permission
			f.Permissions = append(f.Permissions, PermissionFigures{
				Session: s.ID, Run: r.ID, RunStart: began, Turn: turn, At: nanoseconds(p.Start),
				Wait: positive(p.WaitNS), Tool: p.Tool, Action: string(p.Action), Source: string(p.Source),
			})
		}
	}
	return f
}

// FiguresOfTurn returns the figures of a turn of a run of a session.
func FiguresOfTurn(session string, r *Run, t *Turn) TurnFigures {
	x := TurnFigures{
		Session: session, Run: r.ID, RunStart: r.Start.UnixNano(), Turn: t.Index, Start: nanoseconds(t.Start),
		End: t.measured(), ModelCall: positive(t.ModelCallNS), FirstChunk: positive(t.FirstChunkNS),
		Agent: cmp.Or(r.Agent, r.AgentID), Provider: cmp.Or(t.Provider, r.Provider),
		Model: cmp.Or(t.Model, r.Model, t.Answered), ResponseModel: t.Answered,
		StopReason: t.StopReason, Failed: t.Failed, ErrorType: string(t.ErrorType), Attempts: positive(t.Attempts),
		Cost: given(t.Cost), Currency: t.Currency, Purpose: string(t.Purpose), Trace: r.TraceID,
		RequestMessages: positive(t.RequestMessages), RequestBytes: positive(t.RequestBytes),
		ToolCalls: int64(len(t.ToolCalls)),
	}
	if u := t.Usage; t.UsageReported() {
		x.Input, x.Output, x.Reasoning = Some(u.Input), Some(u.Output), Some(u.Reasoning)
		x.CacheRead, x.CacheWrite, x.LowerBound = Some(u.CacheRead), Some(u.CacheWrite), u.LowerBound
	}
	return x
}

// measured returns the end, if the duration was measured.
func (s *Span) measured() Opt[int64] {
	switch {
	case s.Missing, s.End.IsZero(), s.Known != spans.KnownObserved, s.End.Before(s.Start),
		s.StartSource == spans.TimeSourceBound, s.EndSource == spans.TimeSourceBound:
		return Opt[int64]{}
	}
	return Some(s.End.UnixNano())
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// positive returns a number whose zero is unknown.
func positive(n int64) Opt[int64] {
	if n <= 0 {
		return Opt[int64]{}
	}
	return Some(n)
}

func given[T int64 | float64](n *T) Opt[T] {
	if n == nil {
		return Opt[T]{}
	}
	return Some(*n)
}
