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
	s := p.s
	raw, o := f.in.Raw("update"), f.in.Object("update")
	typ := identifier(o, "sessionUpdate")
	if f.bad() {
		return
	}
	d.keep(s, f.meta, mUpdate+".unknown_keys", f.in.Rest())
	if d.statement(f, s, typ, o) {
		return
	}
	if s.loading {
		if typ == "usage_update" && s.cost == (money{}) { // what was spent before
			s.spent(o)
		}
		if s.updates++; d.hold(&s.held, len(raw)+1) {
			s.history = append(append(s.history, ','), raw...)
		}
		return
	}
	r, taken := s.prompt(), false
	switch typ {
	case kindText, kindThought:
		need(o, "content")
		content, v := o.Raw("content"), voice{typ, o.String("messageId")}
		if taken = r != nil; taken && !f.bad() {
			d.chunk(r, f.meta, v, content)
			if o.Rest() != nil {
				d.sh.Stats.IgnoredKeys++
			}
		}
	case "tool_call", "tool_call_update":
		u := readCall(o)
		taken = r != nil && !f.bad() && d.toolUpdate(r, f.meta, typ, u, raw)
	case "usage_update":
		d.usageUpdate(f, s, r, o)
	case "compaction_update":
		taken = d.compact(f, s, o, raw)
	case "compaction_summary_chunk":
		c := s.compactions[identifier(o, "compactionId")]
		content := o.Raw("content")
		need(o, "content")
		if taken = c != nil && !c.over && !f.bad() && d.hold(&c.run.turn.held, len(content)+1); taken {
			c.summary = append(append(c.summary, ','), content...)
		}
	}
	if r != nil && !slices.Contains([]string{kindText, kindThought, "tool_call", "tool_call_update"}, typ) {
		r.cut()
	}
	if !taken && !f.bad() {
		d.keep(s, f.meta, typ, raw)
	}
}

// statement takes updates that state what is true of the session from now on, whether a prompt is open or not. It
// reports whether typ is one.
func (d *Decoder) statement(f *frame, s *session, typ string, o *object.Object) bool {
	var facts []otelagent.Fact
	switch typ {
	case "session_info_update":
		o.String("title")
		o.String("updatedAt")
		facts = append(facts, fact("title", o.Spelled("title")), fact("updated_at", o.Spelled("updatedAt")))
	case "current_mode_update":
		mode := identifier(o, "currentModeId")
		s.mode = cmp.Or(mode, s.mode)
		facts = append(facts, fact("mode", quoted(mode)))
	case "config_option_update":
		o.Require("configOptions")
		facts = append(facts, fact("config_options", array(o, "configOptions")))
		s.options(f.in.Raw("update"))
	case "available_commands_update":
		o.Require("availableCommands")
		facts = append(facts, fact("available_commands", array(o, "availableCommands")))
	default:
		return false
	}
	if !f.bad() {
		o.Use("sessionUpdate")
		d.state(s, f.meta, facts...)
		d.keep(s, f.meta, typ+".unknown_keys", o.Rest())
	}
	return true
}

// usageUpdate takes the size of the context and the cost so far.
func (d *Decoder) usageUpdate(f *frame, s *session, r *run, o *object.Object) {
	used := o.Count("used")
	o.Count("size")
	o.Object("cost")
	if f.bad() {
		return
	}
	if used != nil {
		s.used = *used
	}
	if more, ok := s.spent(o); ok && r != nil {
		t := &r.turn
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

// compact takes compaction_update. It reports false for one of an unknown status, of a compaction that is over, or
// without room, which the caller keeps as it is.
func (d *Decoder) compact(f *frame, s *session, o *object.Object, raw []byte) bool {
	id, status := identifier(o, "compactionId"), identifier(o, "status")
	summary, reason := array(o, "summary"), o.String("error")
	if f.bad() {
		return true
	}
	begins, ends := status == "in_progress", slices.Contains([]string{"completed", "failed", "cancelled"}, status)
	c := s.compactions[id]
	if c != nil && (begins || c.over) || !begins && !ends {
		return false
	}
	if c == nil {
		if c = d.compacts(s, f.meta, id); c == nil {
			return false
		}
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
	if !c.started {
		res.InputTokens = s.used
	}
	// Its id, the status at its end, and what is not read: in the compaction that goes on, or after one that came whole.
	o.Keep("compactionId", "status")
	o.Use("sessionUpdate")
	if c.started {
		d.other(m, "compaction_update."+status, o.Rest())
	}
	d.sh.Emit(&otelagent.CompactionEnded{Meta: m, Compaction: before, CompactionResult: res})
	if !c.started {
		d.other(m, "compaction_update."+status, o.Rest())
	}
	c.over, c.summary = true, nil
	if r == s.between {
		end := otelagent.RunResult{Status: spans.RunStatusCompleted, Word: status}
		d.sh.Emit(&otelagent.RunEnded{Meta: m, RunResult: end})
		d.abandon(r)
	}
	return true
}

// compacts begins a compaction in the open prompt. One between two prompts is a run of its own, which only compacts. It
// returns nil when there is no room.
func (d *Decoder) compacts(s *session, at otelagent.Meta, id string) *compaction {
	r := cmp.Or(s.prompt(), s.between)
	if r == nil {
		r = &run{id: "compaction-" + id, s: s}
		s.between = r
		d.begin(r, at, otelagent.RunInfo{Continuation: spans.ContinuationCompaction})
	}
	if !d.hold(&r.held, entry) {
		return nil
	}
	c := &compaction{run: r}
	s.compactions[id] = c
	return c
}
