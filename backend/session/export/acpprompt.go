package export

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// This file writes prompts: what opens them, their replies, and how they end.

// prompt is the request that a stretch of a run answers.
type prompt struct {
	moment // of the last message
	run    *session.Run
	turn   *session.Turn // the last one that was written
	error  []byte        // the JSON-RPC error that ended it, where the session came from ACP
	meta   []byte        // of its response, likewise
}

// run writes the messages of a run. Messages that are not the model's become one prompt with those that follow them
// before a reply.
func (t *trace) run(r *session.Run) {
	last := 0
	for i, u := range t.byRun[r] {
		if u.kind != unitCompaction && !t.skips(u) {
			last = i
		}
	}
	for i, u := range t.byRun[r] {
		t.done = append(t.done, u)
		switch {
		case u.kind == unitCompaction && u.hidden == 0:
			t.compactions(r, []*session.Compaction{u.compaction}, time.Time{})
		case t.compacts(u) && u.hidden == 0:
			t.compactions(r, r.Compactions, time.Time{})
		case u.kind == unitCompaction || t.skips(u):
		case u.kind == unitReply:
			t.reply(u)
		default:
			if blocks := t.messageBlocks(u); len(blocks) > 0 {
				t.end(false)
				if t.pending == nil {
					t.pendingOf = u
				}
				t.pending = append(t.pending, blocks...)
			}
		}
		if i == last {
			if t.pending != nil {
				t.ask(r)
			}
			if u.kind == unitReply && t.open != nil {
				t.compactions(r, r.Compactions, t.open.at)
			}
			t.end(true)
		}
	}
}

// messageBlocks makes the content blocks of a message.
func (t *trace) messageBlocks(u *unit) (l [][]byte) {
	if u.run.Dialect == acpDialect {
		if content := parse(t.Guide.content.message(u.ref)).get("content"); len(content) > 0 && content[0] == '[' {
			for _, block := range elements(content) {
				l = append(l, block)
			}
			return l
		}
	}
	for k := range u.parts {
		if b := t.block(&u.parts[k], true); b != nil {
			l = append(l, b)
		}
	}
	return l
}

// ask writes the request of a prompt of r with the messages that have none. Without any, something else began the
// stretch.
func (t *trace) ask(r *session.Run) {
	m := startOf(&r.Span)
	switch u := t.pendingOf; {
	case t.pending == nil:
	case u.turn != nil && u.turn.Index > 0:
		m = startOf(&u.turn.Span)
	case u.turn == nil && u.at > r.Start.UnixMilli():
		m.at = time.UnixMilli(u.at)
	}
	t.open = &prompt{run: r, moment: m}
	var meta []byte
	if r.Dialect == acpDialect {
		if meta = t.runValue(r, spans.ListMetadata, r.Metadata); parse(meta) == nil {
			meta = nil
		}
	} else if t.pending == nil {
		meta = fields(extensionKey, fields("no_message", true))
	}
	params := fields("sessionId", &t.s.ID, "prompt", list(t.pending), "_meta", meta)
	t.pending = nil
	t.send(wire{moment: m, dir: toAgent, method: "session/prompt", params: params, reply: "session/prompt"})
}

// reply writes a stretch of turns.
func (t *trace) reply(u *unit) {
	if t.open == nil {
		t.ask(u.run)
	}
	for _, st := range u.steps {
		if st.hidden == 0 {
			t.step(u, st)
		}
	}
	t.usageUpdate(u)
}

// usageUpdate writes the tokens in the model's context after a reply, where the size of its window is known.
func (t *trace) usageUpdate(u *unit) {
	if u.run.Dialect == acpDialect {
		return // it has its own
	}
	t.use(u)
	for _, turn := range u.turns() {
		switch {
		case u.run.Copied:
		case turn.Cost != nil && turn.Currency != "":
			t.costs[turn.Currency] += *turn.Cost
		case turn.Usage != (session.Usage{}):
			t.costless = true
		}
	}
	window := int64(parse([]byte(u.run.Config)).number("context_window"))
	if _, known := t.usage(u, true); window <= 0 || !known {
		return
	}
	var cost []byte
	if len(t.costs) == 1 && !t.costless {
		for currency, amount := range t.costs {
			cost = fields("amount", number(amount), "currency", currency)
		}
	}
	t.push(t.open.moment, "usage_update", "used", new(max(t.used, 0)), "size", window, "cost", cost)
	t.sendQueue()
}

// use adds the usage of a reply to the tokens in the model's context.
func (t *trace) use(u *unit) {
	t.used = session.Usage{Input: t.used, Output: t.visibleUsage(u).All()}.All()
}

// end answers the open prompt; final: its run ends with it. A run of which no end was seen gets no answer.
func (t *trace) end(final bool) {
	p := t.open
	if p == nil {
		return
	}
	t.open = nil
	m := wire{moment: p.moment, dir: toClient, reply: "session/prompt"}
	if final {
		if p.run.End.IsZero() || p.run.Known != spans.KnownObserved {
			delete(t.waiting[toAgent], m.reply)
			return
		}
		m.moment = endOf(&p.run.Span)
	}
	fromACP := p.run.Dialect == acpDialect
	reason, failed := stopOf(p, final)
	switch {
	case p.error != nil:
		m.error = p.error
	case failed != "":
		code := int64(-32603)
		if n, err := strconv.ParseInt(p.run.StatusWord, 10, 32); err == nil && fromACP {
			code = n
		}
		m.error = fields("code", &code, "message", failed)
	default:
		m.result = fields("stopReason", reason, "_meta", p.meta)
	}
	if final && p.run.Status == spans.RunStatusCancelled && !fromACP {
		t.send(wire{moment: m.moment, dir: toAgent, method: "session/cancel", params: fields("sessionId", &t.s.ID)})
	}
	t.send(m)
}

const unknownError = "internal error"

// stopOf returns ACP's stop reason of a stretch. failed is the error, for which it has none.
func stopOf(p *prompt, final bool) (reason, failed string) {
	r, reasons, turnError := p.run, []string{}, ""
	if p.turn != nil {
		turnError = p.turn.Error
	}
	if final {
		switch r.Status {
		case spans.RunStatusCancelled, spans.RunStatusAborted:
			return "cancelled", ""
		case spans.RunStatusRejected, spans.RunStatusVetoed:
			return "refusal", ""
		case spans.RunStatusError:
			return "", cmp.Or(r.Error, turnError, unknownError)
		}
		reasons = append(reasons, r.StatusWord)
	}
	if p.turn != nil {
		reasons = append(reasons, p.turn.StopReason)
	}
	for _, w := range reasons {
		switch known := stopReasonOf(w); {
		case known.phi == "error":
			return "", cmp.Or(turnError, r.Error, unknownError)
		case known.acp != "":
			return known.acp, ""
		}
	}
	return "end_turn", ""
}

// step writes a turn, or a reply whose turn is not there.
func (t *trace) step(u *unit, st *step) {
	turn := st.turn
	if turn == nil {
		t.open.at = latest(t.open.at, st.at)
		t.pieces(t.partPieces(u, st.parts, nil), &places{first: t.open.moment, last: t.open.moment}, nil)
		t.sendQueue()
		return
	}
	t.compactions(u.run, u.run.Compactions, turn.Start)
	if u.run.Dialect == acpDialect {
		t.keptTurn(u.run, turn)
	} else {
		t.pieces(t.partPieces(u, st.parts, turn.Permissions), placesOf(turn), nil)
		for _, x := range turn.Permissions {
			isOf := func(p builtPart) bool { return p.callID == x.CallID && p.callID != "" }
			if asked(x) && !slices.ContainsFunc(st.parts, isOf) {
				t.lacks(noCall)
			}
		}
	}
	for _, c := range turn.Compactions {
		t.compaction(u.run, turn, c)
	}
	t.sendQueue()
	t.open.turn, t.open.moment = turn, moment{latest(t.open.at, turn.Start, turn.End), turn.EndSeq}
}

// places gives times to the pieces of a reply. The tree has the times of a turn, of its tool calls, of the model's
// answer and of its first piece: a piece came before the call that follows it, and before the model was done.
type places struct {
	first moment            // of the first piece; zero: not known
	begun time.Time         // no piece came before it
	last  moment            // of those after which no call comes
	prev  *session.ToolCall // the last one before the piece
}

func placesOf(turn *session.Turn) *places {
	x := &places{last: endOf(&turn.Span)}
	done := moment{turn.Start.Add(time.Duration(turn.ModelCallNS)), turn.Seq}
	if turn.ModelCallNS > 0 && done.at.Before(x.last.at) {
		x.last = done
	}
	if turn.FirstChunkNS > 0 {
		x.first = moment{turn.Start.Add(time.Duration(turn.FirstChunkNS)), turn.Seq}
	}
	return x
}

// piece returns when the next piece came; next is the call after it, nil if there is none.
func (x *places) piece(next *session.ToolCall) moment {
	first, m := x.first, x.last
	x.first = moment{}
	if x.prev != nil {
		return startOf(&x.prev.Span)
	}
	if next != nil && !next.Start.After(m.at) {
		m = startOf(&next.Span)
	}
	if !first.at.IsZero() && first.at.Before(m.at) {
		return first
	}
	return m
}

// compactions writes those of a run that were over by then, or all without a time, that were not written yet.
func (t *trace) compactions(r *session.Run, l []*session.Compaction, by time.Time) {
	for _, c := range l {
		if by.IsZero() || !latest(c.Start, c.End).After(by) {
			t.compaction(r, nil, c)
			t.sendQueue()
		}
	}
}

// compaction queues the messages of a compaction.
func (t *trace) compaction(r *session.Run, turn *session.Turn, c *session.Compaction) {
	if c.Kind != spans.CompactionKindSummary || t.written[c] {
		return
	}
	if r.Dialect == acpDialect {
		t.written[c] = true
		t.keptCompaction(r, turn, c)
		return
	}
	u := t.summaries[c]
	if u == nil || u.hidden > 0 {
		return
	}
	t.written[c] = true
	end := endOf(&c.Span)
	if end.at.After(c.Start) {
		t.push(startOf(&c.Span), "compaction_update", "compactionId", u.id, "status", "in_progress")
	}
	var summary []byte
	if s, ok := t.summary(r, turn, c); ok {
		summary = list([][]byte{textBlock(s)})
	}
	t.push(end, "compaction_update", "compactionId", u.id, "status", "completed", "summary", summary)

	// From now on the model has the summary, and the replies that it kept.
	t.used = 0
	if c.OutputTokens != nil {
		t.used = *c.OutputTokens
	}
	tail, in := t.tailStart(c), false
	for _, u := range t.done[:len(t.done)-1] {
		if in = in || u.id == tail; in && u.kind == unitReply && !t.skips(u) {
			t.use(u)
		}
	}
}

// sendFacts writes the facts of the session that became true before m, or with nil all others.
func (t *trace) sendFacts(m *moment) {
	for len(t.facts) > 0 {
		f := t.facts[0]
		if m != nil && t.compare(moment{f.At, f.Seq}, *m) > 0 {
			return
		}
		t.facts = t.facts[1:]
		if v := t.Guide.fact(f); v != nil { // else it was never captured, or is missing and named
			t.sendFact(f, v)
		}
	}
}

// factUpdates are the names of updates, and of the member with the value, by the key of a fact.
var factUpdates = map[string][2]string{
	"title": {"session_info_update", "title"}, "updated_at": {"session_info_update", "updatedAt"},
	"mode": {"current_mode_update", "currentModeId"}, "config_options": {"config_option_update", "configOptions"},
	"available_commands": {"available_commands_update", "availableCommands"},
}

func (t *trace) sendFact(f *session.Fact, v json.RawMessage) {
	kind, known := factUpdates[f.Key]
	_, isText := text(v)
	var updated []byte
	switch {
	case !known:
		t.keptFact(f, strings.TrimPrefix(f.Key, "acp."), v)
		return
	case f.Key == "title" && !isText && string(v) != "null", f.Key != "title" && !t.fromACP:
		return
	case f.Key != "title" && f.Key != "updated_at" && t.asked[placeOfFact(f)]:
		return // the response of a request has it
	case f.Key == "title" && len(t.facts) > 0 && t.facts[0].Key == "updated_at" &&
		placeOfFact(t.facts[0]) == placeOfFact(f):
		updated = t.Guide.fact(t.facts[0])
		t.facts = t.facts[1:]
	}
	t.write(t.update(moment{at: f.At}, fields("sessionUpdate", kind[0], kind[1], []byte(v), "updatedAt", updated)))
}
