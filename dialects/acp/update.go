package acp

import (
	"cmp"
	"slices"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// update takes session/update.
func (d *Decoder) update(f *frame, p *pending) {
	s, raw, o := p.s, f.in.Raw("update"), f.in.Object("update")
	typ := identifier(o, "sessionUpdate")
	if f.bad() {
		return
	}
	d.keep(s, f.meta, mUpdate+".unknown_keys", f.in.Rest())
	switch facts := s.statement(typ, o, raw); {
	case f.bad():
		return
	case facts != nil:
		o.Use("sessionUpdate")
		d.state(s, f.meta, facts...)
		d.keep(s, f.meta, typ+".unknown_keys", o.Rest())
		return
	case s.loading:
		if typ == "usage_update" && s.cost == (money{}) { // what was spent before
			s.spent(o)
		}
		s.updates++
		s.history = append(append(s.history, ','), raw...)
		d.hold(&s.held, len(raw)+1)
		return
	}
	r := s.prompt()
	if r != nil && !slices.Contains([]string{kindText, kindThought, "tool_call", "tool_call_update"}, typ) {
		r.cut()
	}
	switch typ {
	case kindText, kindThought:
		need(o, "content")
		if v := (voice{typ, o.String("messageId")}); r != nil && !f.bad() {
			if d.chunk(r, f.meta, v, o.Raw("content")); o.Rest() != nil {
				d.sh.Stats.IgnoredKeys++
			}
			return
		}
	case "tool_call", "tool_call_update":
		if d.toolUpdate(f, r, typ, o, raw) {
			return
		}
	case "usage_update":
		d.usageUpdate(f, s, o)
	case "compaction_update":
		if d.compact(f, s, o, raw) {
			return
		}
	case "compaction_summary_chunk":
		need(o, "content")
		content, c := o.Raw("content"), s.compactions[identifier(o, "compactionId")]
		if c != nil && !c.over && !f.bad() {
			d.hold(&c.run.turn.held, len(content)+1)
			c.summary = append(append(c.summary, ','), content...)
			return
		}
	}
	if !f.bad() {
		d.keep(s, f.meta, typ, raw)
	}
}

// statement returns the facts of an update that states what is true of the session from now on, whether a prompt is
// open or not; nil for any other.
func (s *session) statement(typ string, o *object.Object, raw []byte) []otelagent.Fact {
	key, name := "availableCommands", "available_commands"
	switch typ {
	case "session_info_update":
		o.String("title")
		o.String("updatedAt")
		return []otelagent.Fact{fact("title", o.Spelled("title")), fact("updated_at", o.Spelled("updatedAt"))}
	case "current_mode_update":
		mode := identifier(o, "currentModeId")
		s.mode = cmp.Or(mode, s.mode)
		return []otelagent.Fact{fact("mode", quoted(mode))}
	case "config_option_update":
		s.options(raw)
		key, name = "configOptions", "config_options"
	case "available_commands_update":
	default:
		return nil
	}
	o.Require(key)
	return []otelagent.Fact{fact(name, array(o, key))}
}

// usageUpdate reads the size of the context and the cost so far.
func (d *Decoder) usageUpdate(f *frame, s *session, o *object.Object) {
	used := o.Count("used")
	o.Count("size")
	o.Object("cost")
	if f.bad() {
		return
	}
	if used != nil {
		s.used = *used
	}
	if more, ok := s.spent(o); ok && s.prompt() != nil {
		t := &s.prompt().turn
		if t.spent != nil && t.currency == s.cost.currency {
			more += *t.spent
		}
		t.spent, t.currency = &more, s.cost.currency
	}
}

// compaction is a compaction of a run.
type compaction struct {
	run     *run
	summary []byte // its chunks, each after a comma
	started bool
	over    bool
}

// compact takes compaction_update. It reports false for one of an unknown status or of a compaction that is over, which
// the caller keeps as it is.
func (d *Decoder) compact(f *frame, s *session, o *object.Object, raw []byte) bool {
	id, status := identifier(o, "compactionId"), identifier(o, "status")
	summary, reason := array(o, "summary"), o.String("error")
	if f.bad() {
		return true
	}
	c, begins := s.compactions[id], status == "in_progress"
	switch {
	case !begins && status != "completed" && status != "failed" && status != "cancelled":
		return false
	case c == nil:
		c = d.beginCompaction(s, f.meta, id)
	case begins || c.over:
		return false
	}
	r := c.run
	m := r.at(f.meta)
	before := otelagent.Compaction{Kind: spans.CompactionKindSummary, MessagesBefore: -1, InputTokens: s.used}
	if begins {
		c.started = true
		d.sh.Emit(&otelagent.CompactionStarted{Meta: m, Compaction: before})
		d.other(m, "compaction_update", raw)
		return true
	}
	if summary == nil {
		summary = asArray(c.summary)
	}
	applied := status == "completed"
	res := otelagent.CompactionResult{MessagesBefore: -1, MessagesAfter: -1, InputTokens: -1, OutputTokens: -1,
		MessagesSummarized: -1, TokensGone: -1, Runs: -1, Applied: &applied, Reason: reason, Summary: summary}
	// Its id, the status at its end, and what is not read: in the compaction that goes on, or after one that came whole.
	o.Keep("compactionId", "status")
	o.Use("sessionUpdate")
	if c.started {
		d.other(m, "compaction_update."+status, o.Rest())
	} else {
		res.InputTokens = s.used
	}
	d.sh.Emit(&otelagent.CompactionEnded{Meta: m, Compaction: before, CompactionResult: res})
	if !c.started {
		d.other(m, "compaction_update."+status, o.Rest())
	}
	if c.over, c.summary = true, nil; r == s.between {
		end := otelagent.RunResult{Status: spans.RunStatusCompleted, Word: status}
		d.sh.Emit(&otelagent.RunEnded{Meta: m, RunResult: end})
		d.abandon(r)
	}
	return true
}

// beginCompaction begins a compaction in the open prompt. One between two prompts is a run of its own, which only
// compacts.
func (d *Decoder) beginCompaction(s *session, at otelagent.Meta, id string) *compaction {
	r := cmp.Or(s.prompt(), s.between)
	if r == nil {
		r = &run{id: "compaction-" + id, s: s}
		s.between = r
		d.begin(r, at, otelagent.RunInfo{Continuation: spans.ContinuationCompaction})
	}
	d.hold(&r.held, entry)
	s.compactions[id] = &compaction{run: r}
	return s.compactions[id]
}
