package export

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// This file writes facts, and the messages that a session from ACP kept as they were (package dialects/acp).

// keptPieces makes the pieces of a turn of ACP.
func (t *trace) keptPieces(r *session.Run, turn *session.Turn) (l []piece) {
	calls := slices.Clone(turn.ToolCalls)
	for _, in := range t.read(r, turn, spans.ListOutput, turn.Output) {
		for _, raw := range elements(parse(in.body).Spelled("content")) {
			item := parse(raw)
			p := piece{kind: messageChunk, messageID: item.Text("messageId"), content: edited(item, []string{"messageId"})}
			switch item.Text("type") {
			case "toolCall":
				if i := slices.IndexFunc(calls, func(c *session.ToolCall) bool { return c.ID == item.Text("id") }); i >= 0 {
					p.span = calls[i]
					calls = slices.Delete(calls, i, i+1)
				}
				p.call = func(m moment) { t.keptCall(r, item, p.span, m) }
			case "thinking":
				if p.kind, p.content = thoughtChunk, item.Spelled("block"); p.content == nil {
					p.content = textBlock(item.Text("thinking"))
				}
			}
			l = append(l, p)
		}
	}
	for _, c := range calls { // of which no content was captured
		l = append(l, piece{span: c, call: func(m moment) { t.keptCall(r, nil, c, m) }})
	}
	return l
}

// keptMessages queues the questions of a turn of ACP, and the messages that it kept.
func (t *trace) keptMessages(r *session.Run, turn *session.Turn) {
	where := whereTurn(r, turn)
	t.keptNotes(r, where, turn.Events, "")
	permissions := slices.Clone(turn.Permissions)
	for _, c := range turn.ToolCalls {
		t.keptNotes(r, where, c.Events, c.ID)
		permissions = append(permissions, c.Permissions...)
	}
	for _, c := range turn.Compactions {
		t.keptNotes(r, where, c.Events, "")
	}
	if turns := t.runs[r].turns; turn == turns[len(turns)-1] {
		t.keptNotes(r, whereRun(r), r.Events, "")
		permissions = append(permissions, r.Permissions...)
	}
	for _, x := range permissions {
		seq := x.Seq
		for _, c := range turn.ToolCalls {
			if c.ID == x.CallID && c.Start.Equal(askedAt(x)) {
				seq = c.Seq // that of x is of the answer
			}
		}
		t.question(r, x.CallID, x, seq)
	}
}

// keptCall queues the messages of a tool call. m is its place where its span c is not there.
func (t *trace) keptCall(r *session.Run, item *object.Object, c *session.ToolCall, m moment) {
	id, name, kind, title := item.Text("id"), item.Text("name"), item.Text("kind"), item.Text("title")
	input, begun := item.Spelled("arguments"), "pending"
	if c != nil {
		if len(c.Events) > 0 && isWork(c.Events[0].Type) { // it was in progress, else the work would not be its own
			begun = "in_progress"
		}
		m, id, name = startOf(&c.Span), c.ID, cmp.Or(name, c.Name)
		for _, in := range t.read(r, nil, spans.ListArgs, c.Args) {
			input = in.body
		}
	}
	update := "tool_call"
	if title == "" { // its first message was an update, or a question
		update = "tool_call_update"
	}
	if name == kind || kind == "" && name == "other" { // which is the kind in its place
		name = ""
	}
	t.push(m, update, "toolCallId", &id, "title", title, "name", name, "kind", kind, "status", begun,
		"rawInput", input)
	if c == nil || c.End.IsZero() || c.Known != spans.KnownObserved || c.Outcome == "" {
		return
	}
	more, status := []any{"content", toolContent(c.Error)}, "failed"
	for _, in := range t.read(r, nil, spans.ListResult, c.Result) {
		more = nil
		for key, value := range parse(in.body).All() {
			more = append(more, key, value)
		}
	}
	if c.Outcome == spans.OutcomeOK {
		status = "completed"
	}
	t.status(endOf(&c.Span), id, status, more...)
}

// keptNotes queues the messages of notes.
func (t *trace) keptNotes(r *session.Run, where string, notes []session.Note, callID string) {
	for i := range notes {
		n := &notes[i]
		m := moment{n.Time, n.Seq}
		body := t.need(n.Body, where, isCaptured(r.Capture))
		progress, _ := strings.CutPrefix(n.Type, "tool_call_update.")
		end, ends := strings.CutPrefix(n.Type, "compaction_update.")
		switch {
		case n.Type == "session/prompt.error":
			if t.open != nil && parse(body) != nil {
				t.open.error = body
			}
		case body == nil && callID != "" && (progress == "pending" || progress == "in_progress"):
			t.status(m, callID, progress)
		case ends && body != nil && end != "unknown_keys":
			t.queue = append(t.queue, t.update(m, t.summaryOf(r, body, m)))
		default:
			t.queue = append(t.queue, t.kept(m, n.Type, body)...)
		}
	}
}

// summaryOf returns the update at the end of a compaction: its note, and the summary or reason that the tree has.
func (t *trace) summaryOf(r *session.Run, note []byte, m moment) []byte {
	l := []any{"sessionUpdate", "compaction_update"}
	for key, value := range parse(note).All() {
		l = append(l, key, value)
	}
	for n := range r.Walk() {
		if c := n.Compaction; c != nil && c.End.Equal(m.at) && c.EndSeq == m.seq {
			for _, in := range t.read(r, n.Turn, spans.ListSummary, c.Summary) {
				l = append(l, "summary", in.body)
			}
			l = append(l, "error", c.Reason)
		}
	}
	return fields(l...)
}

// keptUpdates are the updates of version 1.
var keptUpdates = strings.Fields(
	"user_message_chunk agent_message_chunk agent_thought_chunk tool_call tool_call_update " +
		"plan available_commands_update current_mode_update config_option_update session_info_update usage_update notice " +
		"compaction_update compaction_summary_chunk",
)

// exchanges are requests that are kept with their responses, as one fact.
var exchanges = strings.Fields("session/new session/load session/resume session/close session/set_mode " +
	"session/set_config_option")

// keptMethods are those that are kept by themselves, with the side that receives them. The two of notifications are
// session/cancel and elicitation/complete. Requests about files and terminals are kept with their ids.
var keptMethods = map[string]direction{
	"authenticate": toAgent, "logout": toAgent, "session/list": toAgent, "session/delete": toAgent,
	"session/request_permission": toClient, "elicitation/create": toClient, "elicitation/complete": toClient,
	"session/cancel": toAgent,
}

// isWork reports whether a method is about files or terminals.
func isWork(method string) bool {
	return strings.HasPrefix(method, "fs/") || strings.HasPrefix(method, "terminal/")
}

// kept returns the message that a note or fact of a type keeps, at a moment; none where ACP has no place for it.
func (t *trace) kept(m moment, typ string, body []byte) []wire {
	method, isResponse := strings.CutSuffix(typ, ".response")
	kind, _, _ := strings.Cut(typ, ".")
	to, isKept := keptMethods[method]
	o := parse(body)
	w := wire{moment: m, dir: to, method: method, params: body, reply: "kept/" + method}
	if isWork(method) {
		w.dir, w.params, w.reply = toClient, o.Spelled("params"), method+"/"+string(o.Spelled("id"))
	}
	switch {
	case strings.HasPrefix(typ, "acp."): // notes of the reader
		return nil
	case o == nil:
		t.lacks(typ + ", of which no content is there")
		return nil
	case slices.Contains(keptUpdates, kind) && o.Has("sessionUpdate"):
		return []wire{t.update(m, body)}
	case !isKept && !isWork(method):
		t.lacks(typ)
		return nil
	case isResponse:
		w = wire{moment: m, dir: w.dir.back(), result: o.Spelled("result"), error: o.Spelled("error"), reply: w.reply}
	case method == "session/cancel" || method == "elicitation/complete":
		w.reply = ""
	}
	return []wire{w}
}

// factUpdates are the names of updates, and of the member with the value, by the key of a fact.
var factUpdates = map[string][2]string{
	"title": {"session_info_update", "title"}, "updated_at": {"session_info_update", "updatedAt"},
	"mode": {"current_mode_update", "currentModeId"}, "config_options": {"config_option_update", "configOptions"},
	"available_commands": {"available_commands_update", "availableCommands"},
}

// sendFacts writes what facts keep that became true before m, or with nil all else.
func (t *trace) sendFacts(m *moment) {
	for len(t.facts) > 0 && (m == nil || t.compare(t.facts[0].moment, *m) <= 0) {
		t.write(t.facts[0])
		t.facts = t.facts[1:]
	}
}

// factWires makes the messages about the session outside of its prompts that a fact keeps. When a request was made is
// not known: it has the time of its response. asked: a response states what the fact does.
func (t *trace) factWires(f *session.Fact, asked bool) []wire {
	captured := func(r *session.Run) bool { return isCaptured(r.Capture) }
	t.need(f.Value, f.Subject+" "+f.Key, len(t.s.Runs) == 0 || slices.ContainsFunc(t.s.Runs, captured))
	typ, m, v := strings.TrimPrefix(f.Key, "acp."), moment{f.At, f.Seq}, t.fact(f)
	o := parse(v)
	kind, known := factUpdates[f.Key]
	_, isText := text(v)
	switch {
	case v == nil, typ == "initialize" && bytes.Equal(t.opened, v):
		return nil
	case f.Key == "title" && (isText || string(v) == "null"), f.Key == "updated_at" && t.fromACP,
		known && t.fromACP && f.Key != "title" && !asked:
		return []wire{t.update(m, fields("sessionUpdate", kind[0], kind[1], []byte(v)))}
	case known:
		return nil
	case typ == "history": // it comes before the exchange that it is part of
		t.replay = o.Raw("items")
		return nil
	case typ == "initialize" || slices.Contains(exchanges, typ):
		return t.exchange(m, typ, o.Spelled("params"), o.Spelled("result"), o.Spelled("error"))
	}
	return t.kept(m, typ, v)
}
