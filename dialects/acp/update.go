package acp

import (
	"slices"
	"strconv"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// update takes session/update.
func (d *Decoder) update(f *frame, s *session, params object) *fields {
	w := &fields{}
	raw := params.get("update")
	o := w.mustObject("params.update", raw)
	if w.wrong != nil {
		return w
	}
	typ := w.id("params.update.sessionUpdate", o.get("sessionUpdate"))
	if w.wrong != nil {
		return w
	}
	d.keepMore(s, f.meta, mUpdate, params, "sessionId", "update")
	if d.statement(w, s, f.meta, typ, o) || w.wrong != nil {
		return w
	}
	if s.loads > 0 {
		if s.history == nil {
			s.history = &history{}
		}
		if typ == "usage_update" && s.cost == (money{}) { // what was spent before
			s.spent(readMoney(o.object("cost")))
		}
		s.history.add(d, raw)
		return w
	}
	r := s.prompt()
	switch typ {
	case kindText, kindThought, "tool_call", "tool_call_update":
	default:
		if r != nil {
			r.cut()
		}
	}
	switch typ {
	case kindText, kindThought:
		content := w.mustObject("params.update.content", o.get("content"))
		messageID := w.text("params.update.messageId", o.get("messageId"))
		if w.wrong != nil || r == nil {
			break
		}
		d.chunk(r, f.meta, typ, messageID, content, o.get("content"))
		if _, more := o.without("sessionUpdate", "content", "messageId"); more {
			d.stats.IgnoredKeys++
		}
		return w
	case "tool_call", "tool_call_update":
		u := readCall(w, "params.update", o)
		if w.wrong != nil || r == nil {
			break
		}
		d.toolUpdate(r, f.meta, typ, &u, raw)
		return w
	case "usage_update":
		d.usageUpdate(w, s, r, o)
	case "compaction_update":
		if d.compaction(w, f.meta, s, o, raw) || w.wrong != nil {
			return w
		}
	case "compaction_summary_chunk":
		id := w.id("params.update.compactionId", o.get("compactionId"))
		content := w.must("params.update.content", o.get("content"), "{", "an object")
		if _, c := s.compacting(id); w.wrong == nil && c != nil && d.held+len(content) < maxHeld {
			d.held += len(content) + 1
			c.chunks = append(append(c.chunks, ','), content...)
			return w
		}
	}
	if w.wrong == nil {
		d.keep(s, f.meta, typ, raw)
	}
	return w
}

// statement takes updates that say what is true of the session from now on, whether a prompt is open or not. It reports whether typ is one.
func (d *Decoder) statement(w *fields, s *session, at otelagent.Meta, typ string, o object) bool {
	known := []string{"sessionUpdate", "", ""}
	switch typ {
	case "session_info_update":
		known[1], known[2] = "title", "updatedAt"
		w.text("params.update.title", o.get("title"))
		w.text("params.update.updatedAt", o.get("updatedAt"))
		if w.wrong != nil {
			return true
		}
		var facts []otelagent.Fact
		if title := o.raw("title"); title != nil {
			facts = append(facts, fact("title", title))
		}
		if updated := o.raw("updatedAt"); updated != nil {
			facts = append(facts, fact("updated_at", updated))
		}
		d.state(s, at, facts...)
	case "current_mode_update":
		known[1] = "currentModeId"
		mode := w.id("params.update.currentModeId", o.get("currentModeId"))
		if w.wrong != nil {
			return true
		}
		s.mode = mode
		d.state(s, at, factText("mode", mode))
	case "config_option_update":
		known[1] = "configOptions"
		options := w.must("params.update.configOptions", o.get("configOptions"), "[", "an array")
		if w.wrong != nil {
			return true
		}
		s.options(options)
		d.state(s, at, fact("config_options", options))
	case "available_commands_update":
		known[1] = "availableCommands"
		commands := w.must("params.update.availableCommands", o.get("availableCommands"), "[", "an array")
		if w.wrong != nil {
			return true
		}
		d.state(s, at, fact("available_commands", commands))
	default:
		return false
	}
	d.keepMore(s, at, typ, o, known...)
	return true
}

// usageUpdate takes the size of the context and the cost so far.
func (d *Decoder) usageUpdate(w *fields, s *session, r *run, o object) {
	used := w.count("params.update.used", o.get("used"))
	w.count("params.update.size", o.get("size"))
	cost := w.want("params.update.cost", o.get("cost"), "{", "an object")
	if w.wrong != nil {
		return
	}
	if used >= 0 {
		s.used = used
	}
	inner, _ := members(cost)
	if more, ok := s.spent(readMoney(inner)); ok && r != nil {
		t := &r.turn
		if t.spent != nil && t.currency == s.cost.currency {
			more += *t.spent
		}
		t.spent, t.currency = &more, s.cost.currency
	}
}

// readMoney reads a cost. One without amount or currency is not known.
func readMoney(o object) money {
	currency := o.word("currency")
	amount, err := strconv.ParseFloat(string(o.get("amount")), 64)
	if err != nil || currency == "" || amount < 0 {
		return money{}
	}
	return money{amount: amount, currency: currency}
}

// spent takes a cost that counts from the beginning of the session, and returns what was spent since the last one, if that is known.
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

// compacting returns the compaction of that id that goes on, and the run that it is part of; nil when there is none.
func (s *session) compacting(id string) (*run, *compacting) {
	for _, r := range append(s.open[:len(s.open):len(s.open)], s.between) {
		if r == nil {
			continue
		}
		for _, c := range r.compacts {
			if c.id == id && !c.over {
				return r, c
			}
		}
	}
	return nil, nil
}

// compaction takes compaction_update. It reports whether the update is told: one of an unknown status, or of a compaction that is over, is
// kept as it is.
func (d *Decoder) compaction(w *fields, at otelagent.Meta, s *session, o object, raw []byte) bool {
	id := w.id("params.update.compactionId", o.get("compactionId"))
	status := w.id("params.update.status", o.get("status"))
	summary := w.want("params.update.summary", o.get("summary"), "[", "an array")
	reason := w.text("params.update.error", o.get("error"))
	if w.wrong != nil {
		return true
	}
	r, c := s.compacting(id)
	switch status {
	case "in_progress":
		if c != nil || slices.Contains(s.compacted, id) {
			return false
		}
	case "completed", "failed", "cancelled":
		if c == nil && slices.Contains(s.compacted, id) {
			return false
		}
	default:
		return false
	}
	if c == nil {
		r, c = d.compacts(s, at, id)
	}
	m := r.at(at)
	before := otelagent.Compaction{Kind: spans.CompactionKindSummary, MessagesBefore: -1, InputTokens: s.used}
	if status == "in_progress" {
		c.started = true
		d.emit(&otelagent.CompactionStarted{Meta: m, Compaction: before})
		d.emit(&otelagent.Other{Meta: m, Type: "compaction_update", Body: raw})
		return true
	}
	c.over = true
	if summary == nil && c.chunks != nil {
		summary = append(append([]byte{'['}, c.chunks[1:]...), ']')
	}
	applied := status == "completed"
	res := otelagent.CompactionResult{MessagesBefore: -1, MessagesAfter: -1, InputTokens: -1, OutputTokens: -1, MessagesSummarized: -1,
		TokensGone: -1, Runs: -1, Applied: &applied, Reason: reason, Summary: summary}
	if !c.started {
		res.InputTokens = s.used
	}
	// Its id, the word for its end, and what is not read.
	if body, _ := o.without("sessionUpdate", "summary", "error"); c.started {
		d.emit(&otelagent.Other{Meta: m, Type: "compaction_update." + status, Body: body})
	}
	d.emit(&otelagent.CompactionEnded{Meta: m, Compaction: before, CompactionResult: res})
	if body, _ := o.without("sessionUpdate", "summary", "error"); !c.started {
		d.emit(&otelagent.Other{Meta: m, Type: "compaction_update." + status, Body: body})
	}
	d.held -= len(c.chunks)
	c.chunks = nil
	if r == s.between {
		d.emit(&otelagent.RunEnded{Meta: m, RunResult: otelagent.RunResult{Status: spans.RunStatusCompleted, Word: status}})
		d.abandon(r)
		s.between = nil
	}
	return true
}

// compacts begins a compaction in the open prompt. One between two prompts is a run of its own, which only compacts.
func (d *Decoder) compacts(s *session, at otelagent.Meta, id string) (*run, *compacting) {
	r := s.prompt()
	if r == nil {
		r = s.between
	}
	if r == nil {
		r = &run{id: "compaction-" + id, s: s}
		s.between = r
		d.emit(&otelagent.RunStarted{Meta: r.at(at), RunInfo: otelagent.RunInfo{SessionID: s.id, ID: r.id, Dialect: Dialect, Model: s.model,
			Agent: s.agent, Provider: d.settings.Provider, ParentID: s.last, Continuation: spans.ContinuationCompaction}})
	}
	c := &compacting{id: id}
	r.compacts = slices.DeleteFunc(r.compacts, func(c *compacting) bool { return c.over })
	if len(r.compacts) == maxPrompts {
		d.held -= len(r.compacts[0].chunks)
		r.compacts = slices.Delete(r.compacts, 0, 1)
	}
	r.compacts = append(r.compacts, c)
	if len(s.compacted) == maxCompactions {
		s.compacted = slices.Delete(s.compacted, 0, 1)
	}
	s.compacted = append(s.compacted, id)
	return r, c
}
