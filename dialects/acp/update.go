package acp

import (
	"bytes"
	"slices"

	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// update takes session/update.
func (d *Decoder) update(f *frame, s *session) {
	raw, o := f.in.Raw("update"), need(f.in, "update")
	typ := identifier(o, "sessionUpdate")
	if f.bad() {
		return
	}
	d.keepRest(s, f.meta, mUpdate, f.in)
	if d.statement(f, s, typ, o) {
		return
	}
	if s.loads > 0 {
		if typ == "usage_update" && s.cost == (money{}) { // what was spent before
			s.spent(readMoney(o))
		}
		d.replayed(s, raw)
		return
	}
	r := s.prompt()
	if r != nil && !slices.Contains([]string{kindText, kindThought, "tool_call", "tool_call_update"}, typ) {
		r.cut()
	}
	taken := false
	switch typ {
	case kindText, kindThought:
		need(o, "content")
		content := o.Raw("content")
		v := voice{typ, o.String("messageId")}
		if taken = r != nil; taken && !f.bad() {
			d.chunk(r, f.meta, v, loose(content), content)
			if o.Rest() != nil {
				d.sh.Stats.IgnoredKeys++
			}
		}
	case "tool_call", "tool_call_update":
		u := readCall(o)
		if taken = r != nil; taken && !f.bad() {
			d.toolUpdate(r, f.meta, typ, u, raw)
		}
	case "usage_update":
		d.usageUpdate(f, s, r, o)
	case "compaction_update":
		taken = d.compaction(f, s, o, raw)
	case "compaction_summary_chunk":
		id := identifier(o, "compactionId")
		need(o, "content")
		content := o.Raw("content")
		c := s.compacting(id)
		if taken = c != nil && !c.over && !f.bad() && d.hold(&c.run.held, len(content)+1); taken {
			c.chunks = append(c.chunks, bytes.Clone(content))
		}
	}
	if !taken && !f.bad() {
		d.keep(s, f.meta, typ, raw)
	}
}

// statement takes updates that say what is true of the session from now on, whether a prompt is open or not. It reports
// whether typ is one.
func (d *Decoder) statement(f *frame, s *session, typ string, o *object.Object) bool {
	var facts []otelagent.Fact
	switch typ {
	case "session_info_update":
		o.String("title")
		o.String("updatedAt")
		if title := o.Spelled("title"); title != nil {
			facts = append(facts, fact("title", title))
		}
		if updated := o.Spelled("updatedAt"); updated != nil {
			facts = append(facts, fact("updated_at", updated))
		}
	case "current_mode_update":
		mode := identifier(o, "currentModeId")
		if mode != "" {
			s.mode = mode
		}
		facts = append(facts, fact("mode", quoted(mode)))
	case "config_option_update":
		o.Require("configOptions")
		facts = append(facts, fact("config_options", array(o, "configOptions")))
		s.options(loose(f.in.Raw("update")))
	case "available_commands_update":
		o.Require("availableCommands")
		facts = append(facts, fact("available_commands", array(o, "availableCommands")))
	default:
		return false
	}
	if !f.bad() {
		o.Use("sessionUpdate")
		d.state(s, f.meta, facts...)
		d.keepRest(s, f.meta, typ, o)
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
	if more, ok := s.spent(readMoney(o)); ok && r != nil {
		t := &r.turn
		if t.spent != nil && t.currency == s.cost.currency {
			more += *t.spent
		}
		t.spent, t.currency = &more, s.cost.currency
	}
}

// readMoney reads the cost in an update. One without amount or currency is not known.
func readMoney(update *object.Object) money {
	o := loose(update.Raw("cost"))
	currency, amount := o.String("currency"), o.Float("amount")
	if amount == nil || currency == "" || *amount < 0 {
		return money{}
	}
	return money{amount: *amount, currency: currency}
}

// spent takes a cost that counts from the beginning of the session, and returns what was spent since the last one, if
// that is known.
func (s *session) spent(now money) (more float64, ok bool) {
	if now.currency == "" {
		return 0, false
	}
	last := s.cost
	s.cost = now
	switch {
	case last.zero:
		return now.amount, true
	case last.currency == now.currency && now.amount >= last.amount:
		return now.amount - last.amount, true
	}
	return 0, false // the first one of a session that began before, or another way of counting
}

// compacting is a compaction of a run.
type compacting struct {
	id      string
	run     *run
	chunks  [][]byte // of its summary
	started bool
	over    bool // it has ended, or its run has
}

// compacting returns the compaction of that id; nil when none is known.
func (s *session) compacting(id string) *compacting {
	for _, c := range slices.Backward(s.compacts) {
		if c.id == id {
			return c
		}
	}
	return nil
}

// compaction takes compaction_update. It reports whether the update is emitted: one of an unknown status, or of a
// compaction that is over, is kept as it is.
func (d *Decoder) compaction(f *frame, s *session, o *object.Object, raw []byte) bool {
	id, status := identifier(o, "compactionId"), identifier(o, "status")
	summary, reason := array(o, "summary"), o.String("error")
	if f.bad() {
		return true
	}
	c := s.compacting(id)
	begins := status == "in_progress"
	if c != nil && (begins || c.over) || !begins && status != "completed" && status != "failed" && status != "cancelled" {
		return false
	}
	if c == nil {
		c = d.compacts(s, f.meta, id)
	}
	r := c.run
	m := r.at(f.meta)
	before := otelagent.Compaction{Kind: spans.CompactionKindSummary, MessagesBefore: -1, InputTokens: s.used}
	if begins {
		c.started = true
		d.sh.Emit(&otelagent.CompactionStarted{Meta: m, Compaction: before})
		d.sh.Emit(&otelagent.Other{Meta: m, Type: "compaction_update", Body: raw})
		return true
	}
	if summary == nil {
		summary = listed(c.chunks)
	}
	applied := status == "completed"
	res := otelagent.CompactionResult{MessagesBefore: -1, MessagesAfter: -1, InputTokens: -1, OutputTokens: -1,
		MessagesSummarized: -1, TokensGone: -1, Runs: -1, Applied: &applied, Reason: reason, Summary: summary}
	if !c.started {
		res.InputTokens = s.used
	}
	// Its id, the status at its end, and what is not read: in the compaction that goes on, or behind one that came whole.
	o.Keep("compactionId", "status")
	o.Use("sessionUpdate")
	events := []otelagent.Event{
		&otelagent.Other{Meta: m, Type: "compaction_update." + status, Body: o.Rest()},
		&otelagent.CompactionEnded{Meta: m, Compaction: before, CompactionResult: res},
	}
	if !c.started {
		slices.Reverse(events)
	}
	for _, ev := range events {
		d.sh.Emit(ev)
	}
	c.over, c.chunks = true, nil
	if r == s.between {
		end := otelagent.RunResult{Status: spans.RunStatusCompleted, Word: status}
		d.sh.Emit(&otelagent.RunEnded{Meta: m, RunResult: end})
		d.abandon(r)
		s.between = nil
	}
	return true
}

// compacts begins a compaction in the open prompt. One between two prompts is a run of its own, which only compacts.
func (d *Decoder) compacts(s *session, at otelagent.Meta, id string) *compacting {
	r := s.prompt()
	if r == nil {
		r = s.between
	}
	if r == nil {
		r = &run{id: "compaction-" + id, s: s}
		s.between = r
		info := d.runInfo(r, spans.ContinuationCompaction)
		d.sh.Emit(&otelagent.RunStarted{Meta: r.at(at), RunInfo: info})
	}
	if len(s.compacts) == maxCalls {
		s.compacts[0].over = true
		s.compacts = slices.Delete(s.compacts, 0, 1)
	}
	c := &compacting{id: id, run: r}
	s.compacts = append(s.compacts, c)
	return c
}
