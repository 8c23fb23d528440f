package otelagent

import (
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// Compaction is one open compaction: a compaction.run span. The nil Compaction does nothing. Safe for concurrent use.
type Compaction writer.Compacting

// CompactionInfo describes a compaction when it starts.
type CompactionInfo struct {
	// Kind is how the messages are compacted; empty means summary.
	Kind spans.CompactionKind
	// Trigger is why the loop compacts, in its own value.
	Trigger string
	// MessagesBefore and InputTokens are what there is before, as the loop estimates; nil when unknown.
	MessagesBefore, InputTokens *int64
}

// CompactionResult says how a compaction ended. The zero value is one that took effect. A nil count is unknown.
type CompactionResult struct {
	// Err is why it did not take effect.
	Err error
	// MessagesAfter and OutputTokens are what there is after, MessagesSummarized how many messages the summary replaced.
	MessagesAfter, MessagesSummarized, OutputTokens *int64
	// Usage is that of the model calls of the compaction, if the loop does not record them as turns.
	Usage *Usage
	// Summary is what replaced the messages, as JSON (content).
	Summary []byte
}

// End ends the compaction, once; later calls do nothing.
func (c *Compaction) End(res CompactionResult) {
	full := writer.CompactionResult{MessagesAfter: res.MessagesAfter, MessagesSummarized: res.MessagesSummarized,
		OutputTokens: res.OutputTokens, Usage: res.Usage, Summary: res.Summary, Reason: text(res.Err)}
	if res.Err != nil {
		full.Applied = new(false)
	}
	(*writer.Compacting)(c).End(full)
}
