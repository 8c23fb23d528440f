package export

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// prompt is the request that a stretch of a run answers.
type prompt struct {
	run   *session.Run
	turn  *session.Turn // the last one that was written
	at    time.Time     // of the last thing
	seq   int64
	error []byte // the JSON-RPC error that ended it, where the session came from ACP
	meta  []byte // of its response, likewise
}

// unit writes what a row comes to.
func (t *trace) unit(i int) error {
	t.now = i
	u := &t.g.units[i]
	if u.kind == unitCompaction {
		if u.hidden > 0 {
			return nil
		}
		return t.compactions(u.run, []*session.Compaction{u.compaction}, time.Time{})
	}
	switch {
	case t.compacts(u) && u.hidden == 0:
		return t.compactions(u.run, u.run.Compactions, time.Time{})
	case t.skip[i]:
		return nil
	case u.kind == unitMessage:
		return t.message(i)
	}
	return t.reply(i)
}

// message takes a message of somebody else than the model. With those that follow it before a reply it becomes one prompt.
func (t *trace) message(i int) error {
	u := &t.g.units[i]
	blocks, err := t.messageBlocks(i)
	if err != nil {
		return err
	}
	last := t.last[u.run] == i
	if len(blocks) == 0 { // nothing of it is sent
		if last && t.said != nil && t.of.run == u.run {
			return t.unanswered(true)
		}
		if last && t.open != nil && t.open.run == u.run {
			return t.end(true)
		}
		return nil
	}
	if err := t.end(false); err != nil {
		return err
	}
	if t.said != nil && t.of.run != u.run {
		if err := t.unanswered(false); err != nil {
			return err
		}
	}
	if t.said == nil {
		t.of = u
	}
	for _, b := range blocks {
		t.said = append(append(t.said, ','), b...)
	}
	if last {
		return t.unanswered(true)
	}
	return nil
}

// unanswered makes a prompt of what was said and ends it, since no reply follows; final says that its run is over with it.
func (t *trace) unanswered(final bool) error {
	if t.said == nil {
		return nil
	}
	if err := t.ask(t.of.run); err != nil {
		return err
	}
	return t.end(final)
}

// messageBlocks makes the content blocks of a message.
func (t *trace) messageBlocks(i int) ([][]byte, error) {
	u := &t.g.units[i]
	parts, err := t.g.messageParts(i)
	if err != nil {
		return nil, err
	}
	if u.run.Dialect == acpDialect {
		if body, ok := t.g.message(u.ref); ok {
			var content []json.RawMessage
			if json.Unmarshal(find(members([]byte(body)), "content"), &content) == nil {
				l := make([][]byte, len(content))
				for k := range content {
					l[k] = content[k]
				}
				if len(l) == 0 {
					l = nil
				}
				return l, nil
			}
		}
	}
	var l [][]byte
	for k := range parts {
		if b := t.block(&parts[k], true); b != nil {
			l = append(l, b)
		}
	}
	return l, nil
}

// ask writes the request of a prompt of r with what was said, which may be nothing: then something else began the stretch.
func (t *trace) ask(r *session.Run) error {
	at, seq := r.Start, r.Seq
	if t.said != nil && t.of.turn != nil && t.of.turn.Index > 0 {
		at, seq = t.of.turn.Start, t.of.turn.Seq
	} else if t.said != nil && t.of.turn == nil && t.of.at > r.Start.UnixMilli() {
		at = time.UnixMilli(t.of.at)
	}
	t.open = &prompt{run: r, at: at, seq: seq}
	var o object
	o.str("sessionId", t.g.s.ID)
	if t.said == nil {
		o.raw("prompt", []byte("[]"))
	} else {
		t.said[0] = '['
		o.raw("prompt", append(t.said, ']'))
	}
	fromACP := r.Dialect == acpDialect
	if fromACP {
		meta, err := t.g.runValue(r, spans.ListMetadata, r.Metadata)
		if err != nil {
			return err
		}
		if members(meta) != nil {
			o.raw("_meta", meta)
		}
	} else if t.said == nil {
		var own object
		own.bool("no_message", true)
		o.raw("_meta", own.only(extensionKey))
	}
	t.said = nil
	return t.tell(wire{at: at, seq: t.seqOf(seq), dir: toAgent, method: "session/prompt", params: o.bytes(), reply: "session/prompt"})
}

// seqOf leaves numbers out that order nothing: those of sessions that did not come from ACP may be of several inputs.
func (t *trace) seqOf(seq int64) int64 {
	if t.fromACP {
		return seq
	}
	return 0
}

// reply writes a stretch of turns.
func (t *trace) reply(i int) error {
	g, u := t.g, &t.g.units[i]
	if t.said != nil && t.of.run != u.run {
		if err := t.unanswered(false); err != nil {
			return err
		}
	}
	if t.open != nil && t.open.run != u.run {
		if err := t.end(false); err != nil {
			return err
		}
	}
	if t.open == nil {
		if err := t.ask(u.run); err != nil {
			return err
		}
	}
	p := g.runs[u.run]
	for k := range u.steps {
		if st := &u.steps[k]; st.hidden == 0 {
			if err := t.step(u, p, st); err != nil {
				return err
			}
		}
	}
	if err := t.usage(u, p); err != nil {
		return err
	}
	if t.last[u.run] != i {
		return nil
	}
	if err := t.compactions(u.run, u.run.Compactions, t.open.at); err != nil {
		return err
	}
	return t.end(true)
}

// usage writes how full the model's context is after a reply, where the size of its window is known.
func (t *trace) usage(u *unit, p *runPlan) error {
	if u.run.Dialect == acpDialect {
		return nil // it told
	}
	sum := guideUsage(t.g.visibleUsage(u))
	t.used = session.Usage{Input: t.used, Output: sum.All()}.All()
	for k := range u.steps {
		if st := &u.steps[k]; st.lone == nil && !u.run.Copied {
			turn := p.turns[st.turn]
			switch {
			case turn.Cost != nil && turn.Currency != "":
				t.costs[turn.Currency] += *turn.Cost
			case turn.Usage != (session.Usage{}):
				t.costless = true
			}
		}
	}
	window := columns(members([]byte(u.run.Config))).int("context_window")
	if _, known := t.g.replyUsage(u); window <= 0 || !known {
		return nil
	}
	var o object
	o.str("sessionUpdate", "usage_update")
	o.int("used", max(t.used, 0))
	o.int("size", window)
	if len(t.costs) == 1 && !t.costless {
		for currency, amount := range t.costs {
			var cost object
			cost.raw("amount", number(amount))
			cost.str("currency", currency)
			o.raw("cost", cost.bytes())
		}
	}
	m := t.update(t.open.at, 0, o.bytes())
	return t.tell(m)
}

// end answers the open prompt; final says that its run is over with it. A run of which no end was seen is not answered.
func (t *trace) end(final bool) error {
	p := t.open
	if p == nil {
		return nil
	}
	t.open = nil
	m := wire{at: p.at, seq: t.seqOf(p.seq), dir: toClient, reply: "session/prompt"}
	if final {
		if p.run.End.IsZero() || p.run.Known != spans.KnownObserved {
			delete(t.waiting[toAgent], m.reply)
			return nil
		}
		m.at, m.seq = latest(p.run.End, p.run.Start), t.seqOf(p.run.EndSeq)
	}
	word, failed := stopReason(p, final)
	switch {
	case p.error != nil:
		m.error = p.error
	case failed != "":
		code := int64(-32603)
		if n, err := strconv.ParseInt(p.run.StatusWord, 10, 32); err == nil && p.run.Dialect == acpDialect {
			code = n // its word is the code
		}
		var e object
		e.int("code", code)
		e.str("message", failed)
		m.error = e.bytes()
	default:
		var o object
		o.str("stopReason", word)
		if p.meta != nil {
			o.raw("_meta", p.meta)
		}
		m.result = o.bytes()
	}
	if final && p.run.Status == spans.RunStatusCancelled && p.run.Dialect != acpDialect {
		var o object
		o.str("sessionId", t.g.s.ID)
		if err := t.tell(wire{at: m.at, dir: toAgent, method: "session/cancel", params: o.bytes()}); err != nil {
			return err
		}
	}
	return t.tell(m)
}

// stopReasons are those of ACP by the words that loops have for them, spelled in small letters alone.
var stopReasons = map[string]string{
	"maxtokens": "max_tokens", "length": "max_tokens", "maxoutputtokens": "max_tokens",
	"refusal": "refusal", "contentfilter": "refusal", "contentfiltered": "refusal", "safety": "refusal", "guardrail": "refusal",
	"maxturnrequests": "max_turn_requests", "maxturns": "max_turn_requests", "maxsteps": "max_turn_requests", "steplimit": "max_turn_requests",
	"executionlimit": "max_turn_requests",
	"cancelled":      "cancelled", "canceled": "cancelled", "aborted": "cancelled", "abort": "cancelled", "userstop": "cancelled",
}

const unknownError = "internal error"

// stopReason returns how a stretch ended in the words of ACP. failed is what went wrong, for which it has no word.
func stopReason(p *prompt, final bool) (word, failed string) {
	r, words := p.run, []string{}
	if final {
		switch r.Status {
		case spans.RunStatusCancelled, spans.RunStatusAborted:
			return "cancelled", ""
		case spans.RunStatusRejected, spans.RunStatusVetoed:
			return "refusal", ""
		case spans.RunStatusError:
			failed = r.Error
			if p.turn != nil {
				failed = cmp.Or(failed, p.turn.Error)
			}
			return "", cmp.Or(failed, unknownError)
		}
		words = append(words, r.StatusWord)
	}
	if p.turn != nil {
		words = append(words, p.turn.StopReason)
	}
	for _, w := range words {
		plain := strings.Map(func(c rune) rune {
			switch {
			case c >= 'a' && c <= 'z':
				return c
			case c >= 'A' && c <= 'Z':
				return c - 'A' + 'a'
			}
			return -1
		}, w)
		if plain == "error" {
			if p.turn != nil {
				failed = p.turn.Error
			}
			return "", cmp.Or(failed, r.Error, unknownError)
		}
		if known := stopReasons[plain]; known != "" {
			return known, ""
		}
	}
	return "end_turn", ""
}
