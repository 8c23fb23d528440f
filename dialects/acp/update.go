package acp

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

const callShape = "toolCallId! title name kind status content:array locations:array rawInput:any rawOutput:any"

// updates are the shapes of the updates that the package reads.
var updates = map[string]string{
	kindText:                    "content:object! messageId",
	kindThought:                 "content:object! messageId",
	"tool_call":                 callShape,
	"tool_call_update":          callShape,
	"usage_update":              "used:count size:count cost:object",
	"compaction_update":         "compactionId! status! summary:array error",
	"compaction_summary_chunk":  "compactionId! content:object!",
	"session_info_update":       "title updatedAt",
	"current_mode_update":       "currentModeId!",
	"config_option_update":      "configOptions:array!",
	"available_commands_update": "availableCommands:array!",
}

// update takes session/update.
func (d *Decoder) update(f *frame, p *pending) {
	s, raw, o := p.s, f.in.Raw("update"), f.in.Object("update")
	input.Check(o, "sessionUpdate!")
	typ := o.String("sessionUpdate")
	if input.Check(o, updates[typ]); f.bad() {
		return
	}
	d.keep(s, f.meta, mUpdate+input.UnknownKeys, f.in.Rest())
	var facts []event.Fact
	switch typ {
	case "session_info_update":
		facts = []event.Fact{fact("title", o.Spelled("title")), fact("updated_at", o.Spelled("updatedAt"))}
	case "current_mode_update":
		s.mode = o.String("currentModeId")
		facts = []event.Fact{fact("mode", o.Raw("currentModeId"))}
	case "config_option_update":
		s.options(raw)
		facts = []event.Fact{fact("config_options", o.Raw("configOptions"))}
	case "available_commands_update":
		facts = []event.Fact{fact("available_commands", o.Raw("availableCommands"))}
	}
	if facts != nil { // what is true of the session from now on, whether a prompt is open or not
		d.state(s, f.meta, facts...)
		d.keep(s, f.meta, typ+input.UnknownKeys, o.Rest())
		return
	}
	if s.loading {
		if typ == "usage_update" { // what was spent before
			s.spent(o)
		}
		s.history = append(s.history, bytes.Clone(raw))
		d.hold(&s.held, len(raw))
		return
	}
	r, taken := s.prompt(), false
	switch typ {
	case kindText, kindThought:
		if taken = r != nil; taken {
			d.chunk(r, f.meta, voice{typ, o.String("messageId")}, o.Raw("content"))
		}
	case "tool_call", "tool_call_update":
		taken = d.toolUpdate(f, r, typ, o, raw)
	default:
		taken = d.between(f, s, typ, o, raw)
	}
	if !taken {
		d.keep(s, f.meta, typ, raw)
	}
}

// between takes an update that is no part of the reply. It reports false for one that the caller keeps.
func (d *Decoder) between(f *frame, s *session, typ string, o *object.Object, raw []byte) bool {
	r := s.prompt()
	if r != nil {
		r.cut()
	}
	switch typ {
	case "usage_update":
		s.used = cmp.Or(o.Count("used"), s.used)
		if more, ok := s.spent(o); ok && r != nil {
			t := &r.turn
			if t.spent != nil && t.currency == s.cost.currency {
				more += *t.spent
			}
			t.spent, t.currency = &more, s.cost.currency
		}
	case "compaction_update":
		return d.compact(f, s, o, raw)
	case "compaction_summary_chunk":
		if c := s.compactions[o.String("compactionId")]; c != nil {
			d.hold(&c.held, len(o.Raw("content")))
			c.summary = append(c.summary, bytes.Clone(o.Raw("content")))
			return true
		}
	}
	return false
}

// compaction is a compaction that has not ended, of a run that is open.
type compaction struct {
	run     *run
	summary [][]byte // its chunks
	held    int      // bytes of it
}

// compact takes compaction_update. It reports false for one that the caller keeps as it is: of an unknown status, the
// beginning of one that goes on, and what follows an end. A compaction between two prompts is a run of its own, which
// only compacts.
func (d *Decoder) compact(f *frame, s *session, o *object.Object, raw []byte) bool {
	id, status := o.String("compactionId"), o.String("status")
	summary, reason := o.Raw("summary"), o.String("error")
	begins, c, name := status == "in_progress", s.compactions[id], "compaction-"+id
	ends := (status == "completed" || status == "failed" || status == "cancelled") && (c != nil || s.taken[name] == 0)
	if !ends && (!begins || c != nil) {
		return false
	}
	before := event.Compaction{Kind: spans.CompactionKindSummary, InputTokens: s.used}
	if c == nil {
		r := s.prompt()
		if name = d.name(s, name); r == nil {
			r = &run{id: name, s: s}
			d.begin(r, f.meta, event.RunInfo{Continuation: spans.ContinuationCompaction})
		}
		c = &compaction{run: r}
		d.hold(&c.held, entry+len(id))
		s.compactions[id] = c
		d.Emit(&event.CompactionStarted{Meta: r.at(f.meta), Compaction: before})
	}
	r := c.run
	m := r.at(f.meta)
	if begins {
		d.Other(m, "compaction_update", raw)
		return true
	}
	if summary == nil && c.summary != nil {
		summary = input.Array(c.summary)
	}
	applied := status == "completed"
	res := event.CompactionResult{Applied: &applied, Reason: reason, Summary: summary}
	o.Keep("compactionId", "status") // with what is not read
	d.Other(m, "compaction_update."+status, o.Rest())
	d.Emit(&event.CompactionEnded{Meta: m, Compaction: before, CompactionResult: res})
	d.release(&c.held)
	if delete(s.compactions, id); !slices.Contains(s.open, r) {
		d.Emit(&event.RunEnded{Meta: m, RunResult: event.RunResult{Status: spans.RunStatusCompleted, Word: status}})
		d.abandon(r)
	}
	return true
}
