package otelagent

import (
	"cmp"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// Permission is one open evaluation whether a tool may run: a permission.evaluate span. Its action is ask until End.
// The nil Permission does nothing. Safe for concurrent use.
type Permission writer.Asking

// Decision is the result of a permission evaluation.
type Decision struct {
	// Action is what was decided. Empty: deny with Err, else ask.
	Action spans.Action
	// Pattern is the rule that matched (content), Source where that rule is defined.
	Pattern string
	Source  spans.PermissionSource
	// Reason is why, and who decided (content).
	Reason string
	// Wait is how long somebody was waited for; zero when nobody was.
	Wait time.Duration
	// Err is why nothing could be decided; it stands for an empty Reason.
	Err error
}

// End records the decision; later calls do nothing.
func (p *Permission) End(d Decision) {
	full := writer.PermissionEvaluation{Action: d.Action, Pattern: d.Pattern, Source: d.Source, Reason: d.Reason,
		Wait: d.Wait}
	if d.Err != nil {
		full.Action = cmp.Or(full.Action, spans.ActionDeny)
		full.Outcome = string(spans.OutcomeError)
		full.Reason = cmp.Or(full.Reason, text(d.Err))
	}
	full.Action = cmp.Or(full.Action, spans.ActionAsk)
	(*writer.Asking)(p).End(full)
}
