package otelagent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// Run is one open run: a session.run span. The nil Run does nothing. Safe for concurrent use.
type Run writer.Run

// RunInfo describes a run when it starts. All fields are optional; ids over 256 bytes are replaced by their
// hash.
type RunInfo struct {
	// SessionID is the session. Empty: that of the enclosing run in the context, else the baggage member session.id, else
	// an id that the tracer generates and marks as such.
	SessionID string
	// ID is the run as the loop names it. Empty: the tracer generates one.
	ID string
	// Agent names who runs.
	Agent string
	// Model and Provider are those asked for; turns may differ.
	Model, Provider string
	// ParentID is the run of the same session that this one continues. Empty: the run that encloses it in the context.
	ParentID string
	// Continuation says how the run relates to its parent; empty means initial.
	Continuation spans.Continuation
	// Config is the loop's configuration as JSON (content); users and passwords are taken off its URLs.
	Config []byte
	// Rules are the permission rules in force, as JSON (content).
	Rules []byte
	// Start is when the run started.
	Start time.Time
	// NewRoot starts the run in a trace of its own, linked to the span in the caller's context. A run that starts inside
	// another run stays its child.
	NewRoot bool
}

func (i *RunInfo) full() writer.RunInfo {
	return writer.RunInfo{SessionID: i.SessionID, ID: i.ID, Agent: i.Agent, Model: i.Model, Provider: i.Provider,
		ParentID: i.ParentID, Continuation: i.Continuation, Config: i.Config, Rules: i.Rules, Start: moment(i.Start)}
}

// runInfo returns what a caller may see of i.
func runInfo(i *writer.RunInfo) RunInfo {
	return RunInfo{SessionID: i.SessionID, ID: i.ID, Agent: i.Agent, Model: i.Model, Provider: i.Provider,
		ParentID: i.ParentID, Continuation: i.Continuation, Config: i.Config, Rules: i.Rules, Start: i.Start.Time}
}

func moment(t time.Time) writer.Moment { return writer.Moment{Time: t} }

// RunResult says how a run ended. The zero value is a completed run.
type RunResult struct {
	// Status is the status of the run. Empty: completed, or with Err error, or cancelled.
	Status spans.RunStatus
	// Err is why the run failed; of a rejected run, why the input was refused.
	Err error
	// End is when the run ended.
	End time.Time
}

// ID returns the id of the run: that of [RunInfo], else a generated one. Empty for nil.
func (r *Run) ID() string { return (*writer.Run)(r).ID() }

// SessionID returns the id of the run's session: that of [RunInfo], else that of the enclosing run, else a generated
// one. Empty for nil.
func (r *Run) SessionID() string { return (*writer.Run)(r).SessionID() }

// StartTurn starts the next turn and returns a context in which its tool calls are to be started. The turn is a child
// of the run, whatever span ctx holds.
func (r *Run) StartTurn(ctx context.Context, info TurnInfo) (context.Context, *Turn) {
	ctx, turn := (*writer.Run)(r).StartTurn(ctx, writer.TurnInfo{Trigger: info.Trigger, Purpose: info.Purpose,
		Model: info.Model, Start: moment(info.Start)})
	return ctx, (*Turn)(turn)
}

// StartCompaction starts a compaction and returns a context for what it does. In the context of a turn of the run it is
// a child of that turn, else of the run.
func (r *Run) StartCompaction(ctx context.Context, info CompactionInfo) (context.Context, *Compaction) {
	full := writer.Compaction{Kind: info.Kind, Trigger: info.Trigger, MessagesBefore: info.MessagesBefore,
		InputTokens: info.InputTokens}
	var c *writer.Compacting
	if run, turn, _ := writer.InContext(ctx); turn != nil && run == (*writer.Run)(r) {
		ctx, c = turn.StartCompaction(ctx, full)
	} else {
		ctx, c = (*writer.Run)(r).StartCompaction(ctx, full)
	}
	return ctx, (*Compaction)(c)
}

// AddMessage records a message that arrived outside any turn. Limit: 4,096 messages; later ones are only counted.
func (r *Run) AddMessage(m Message) { (*writer.Run)(r).AddMessage(m) }

// End ends the run, once; later calls do nothing.
func (r *Run) End(res RunResult) {
	full := writer.RunResult{End: moment(res.End), Error: text(res.Err),
		Status: outcome(res.Status, res.Err, spans.RunStatusError, spans.RunStatusCancelled)}
	if res.Status == spans.RunStatusRejected {
		full.Rejected, full.Rejection, full.Error = true, full.Error, ""
	}
	(*writer.Run)(r).End(full)
}

// outcome returns what is stated, else failed or cancelled where err says so.
func outcome[O ~string](stated O, err error, failed, cancelled O) O {
	switch _, isCancelled := describe(err); {
	case stated != "" || err == nil:
		return stated
	case isCancelled:
		return cancelled
	}
	return failed
}

// text returns what an error says; empty for nil.
func text(err error) string {
	text, _ := describe(err)
	return text
}

// describe returns what an error says, and whether it is a cancellation. Of one whose methods panic, as those of a nil
// pointer do, it returns the type.
func describe(err error) (text string, cancelled bool) {
	if err == nil {
		return "", false
	}
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("%T", err)
		}
	}()
	return err.Error(), errors.Is(err, context.Canceled)
}
