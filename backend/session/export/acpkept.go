package export

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// A session that came from ACP keeps more of its wire than rows do: titles and kinds of tool calls, updates, requests
// of the agent, exchanges about the session (package dialects/acp documents how). This file writes them back as they
// were, in the order of time.

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
// session/cancel and elicitation/complete.
var keptMethods = map[string]direction{
	"authenticate": toAgent, "logout": toAgent, "session/list": toAgent, "session/delete": toAgent,
	"session/request_permission": toClient, "elicitation/create": toClient, "elicitation/complete": toClient,
	"session/cancel": toAgent,
}

// isWork reports whether a method is about files or terminals; such requests are kept with their ids.
func isWork(method string) bool {
	return method == "fs/read_text_file" || method == "fs/write_text_file" || strings.HasPrefix(method, "terminal/")
}

// keptTurn queues the messages of a turn of ACP.
func (t *trace) keptTurn(r *session.Run, turn *session.Turn) {
	x := placesOf(turn)
	if turn.Index > 0 {
		x.first = startOf(&turn.Span) // it begins with its first piece
	}
	if x.begun = x.first.at; x.begun.IsZero() {
		x.begun = turn.Start
	}
	calls := slices.Clone(turn.ToolCalls)
	var l []piece
	for _, in := range t.read(r, turn, spans.ListOutput, turn.Output) {
		for _, raw := range elements(parse(in.body).get("content")) {
			item := parse(raw)
			typ, block := item.text("type"), item.get("block")
			p := piece{kind: messageChunk, messageID: item.text("messageId"), content: item.without("messageId").bytes()}
			p.joins = (typ == "text" || typ == "thinking") && p.messageID == "" && block == nil
			switch typ {
			case "toolCall":
				if i := slices.IndexFunc(calls, func(c *session.ToolCall) bool { return c.ID == item.text("id") }); i >= 0 {
					p.span = calls[i]
					calls = slices.Delete(calls, i, i+1)
				}
				p.call = func(m moment) { t.keptCall(r, item, p.span, m) }
			case "thinking":
				if p.kind, p.content = thoughtChunk, block; block == nil {
					p.content = textBlock(item.text("thinking"))
				}
			}
			l = append(l, p)
		}
	}
	for _, c := range calls { // of which no content was captured
		l = append(l, piece{span: c, call: func(m moment) { t.keptCall(r, nil, c, m) }})
	}
	t.pieces(l, x, t.cuts(turn))
	t.keptNotes(r, turn.Events, "")
	permissions := slices.Clone(turn.Permissions)
	for _, c := range turn.ToolCalls {
		t.keptNotes(r, c.Events, c.ID)
		permissions = append(permissions, c.Permissions...)
	}
	if turns := t.runs[r].turns; turn == turns[len(turns)-1] {
		t.keptNotes(r, r.Events, "")
		permissions = append(permissions, r.Permissions...)
	}
	for _, c := range turn.Compactions {
		t.keptNotes(r, c.Events, "")
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

// cuts returns when messages came that end a message without an id, in their order.
func (t *trace) cuts(turn *session.Turn) (l []moment) {
	add := func(notes []session.Note, all bool) {
		for i := range notes {
			n := &notes[i]
			method := strings.TrimSuffix(n.Type, ".response")
			if !strings.HasPrefix(n.Type, "acp.") && (all || isWork(method)) {
				l = append(l, moment{n.Time, n.Seq})
			}
		}
	}
	add(turn.Events, true)
	for _, c := range turn.Compactions {
		add(c.Events, true)
	}
	for _, c := range turn.ToolCalls {
		add(c.Events, false)
	}
	slices.SortStableFunc(l, t.compare)
	return l
}

// keptCall queues the messages of a tool call. m is its place where its span c is not there.
func (t *trace) keptCall(r *session.Run, item object, c *session.ToolCall, m moment) {
	id, name, kind, title := item.text("id"), item.text("name"), item.text("kind"), item.text("title")
	status, input := "pending", item.get("arguments")
	if c != nil {
		m, id, name = startOf(&c.Span), c.ID, cmp.Or(name, c.Name)
		if t.worked(r, c) {
			status = "in_progress"
		}
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
	t.push(m, update, "toolCallId", &id, "title", title, "name", name, "kind", kind, "status", status,
		"rawInput", input)
	if c == nil || c.End.IsZero() || c.Known != spans.KnownObserved || c.Outcome == "" {
		return
	}
	var more []any
	for _, in := range t.read(r, nil, spans.ListResult, c.Result) {
		for _, m := range parse(in.body) {
			more = append(more, m.key, m.value)
		}
	}
	if more == nil {
		more = []any{"content", toolContent(c.Error)}
	}
	if status = "failed"; c.Outcome == spans.OutcomeOK {
		status = "completed"
	}
	t.status(endOf(&c.Span), id, status, more...)
}

// worked reports whether a call must have been in progress from the first, as far as is known: the agent asked for
// files before any update, or for a terminal that no update names. Else such work would not be known to be the call's.
func (t *trace) worked(r *session.Run, c *session.ToolCall) bool {
	files, terminals, named, progress := false, false, false, false
	for _, in := range t.read(r, nil, spans.ListResult, c.Result) {
		named = named || namesTerminal(in.body)
	}
	for i := range c.Events {
		n := &c.Events[i]
		progress = progress || strings.HasSuffix(n.Type, ".in_progress")
		files = files || !progress && strings.HasPrefix(n.Type, "fs/")
		terminals = terminals || !progress && strings.HasPrefix(n.Type, "terminal/")
		if strings.HasPrefix(n.Type, "tool_call") {
			body := t.noteBody(n)
			named = named || body == nil || namesTerminal(body)
		}
	}
	return files || terminals && !named
}

// noteBody returns the content of a note, nil where it is not there.
func (t *trace) noteBody(n *session.Note) []byte {
	if n.Body != nil {
		if body, ok := t.body(*n.Body); ok {
			return []byte(body)
		}
	}
	return nil
}

// namesTerminal reports whether the content of a call, or of an update of it, names a terminal.
func namesTerminal(update []byte) bool {
	for _, item := range elements(parse(update).get("content")) {
		if parse(item).text("type") == "terminal" {
			return true
		}
	}
	return false
}

// keptNotes queues the messages of notes.
func (t *trace) keptNotes(r *session.Run, notes []session.Note, callID string) {
	for i := range notes {
		n := &notes[i]
		body := t.noteBody(n)
		o := parse(body)
		m := moment{n.Time, n.Seq}
		progress, ofCall := strings.CutPrefix(n.Type, "tool_call_update.")
		switch {
		case n.Type == "session/prompt.error":
			if o.get("code") != nil && t.open != nil {
				t.open.error = body
			}
		case n.Type == "session/prompt.unknown_keys":
			if meta := o.get("_meta"); parse(meta) != nil && t.open != nil {
				t.open.meta = meta
			}
		case n.Type == "$/cancel_request" && r.ID == "prompt-"+strings.Trim(string(o.get("requestId")), `"`):
			t.queue = append(t.queue, wire{moment: m, dir: toAgent, method: n.Type,
				params: fields("requestId", new(t.waiting[toAgent]["session/prompt"]))})
		case body == nil && callID != "" && ofCall && (progress == "pending" || progress == "in_progress"):
			t.status(m, callID, progress)
		default:
			if w := t.kept(m, n.Type, body); w != nil {
				t.queue = append(t.queue, *w)
			}
		}
	}
}

// kept returns the message that a note or fact of a type keeps, at a moment; nil where ACP has no place for it.
func (t *trace) kept(m moment, typ string, body []byte) *wire {
	method, isResponse := strings.CutSuffix(typ, ".response")
	kind, _, _ := strings.Cut(typ, ".")
	to, isKept := keptMethods[method]
	o := parse(body)
	w := wire{moment: m, dir: to, method: method, params: body}
	if isWork(method) {
		w.dir, w.params, isKept = toClient, o.get("params"), true
	}
	switch {
	case strings.HasPrefix(typ, "acp."), strings.HasPrefix(typ, "compaction_update."):
		return nil // notes of the reader; the end of a compaction, which keptCompaction writes
	case o == nil:
		t.lacks(typ + ", of which no content is there")
		return nil
	case slices.Contains(keptUpdates, kind) && o.get("sessionUpdate") != nil:
		w = t.update(m, body)
	case !isKept:
		t.lacks(typ)
		return nil
	case isResponse:
		w = wire{moment: m, dir: w.dir.back(), result: o.get("result"), error: o.get("error")}
		fallthrough
	case method != "session/cancel" && method != "elicitation/complete":
		if w.reply = "kept/" + method; isWork(method) {
			w.reply = "work/" + method + "/" + string(o.get("id"))
		}
	}
	return &w
}

// keptCompaction queues the end of a compaction, whose beginning is a note.
func (t *trace) keptCompaction(r *session.Run, turn *session.Turn, c *session.Compaction) {
	notes := slices.Clone(c.Events)
	if turn != nil {
		notes = append(notes, turn.Events...)
	} else {
		t.keptNotes(r, c.Events, "")
		t.keptNotes(r, r.Events, "")
		notes = append(notes, r.Events...)
	}
	end := endOf(&c.Span)
	for i := range notes {
		n := &notes[i]
		if !strings.HasPrefix(n.Type, "compaction_update.") || !n.Time.Equal(end.at) || c.EndSeq != n.Seq {
			continue
		}
		body := t.noteBody(n)
		if body == nil {
			continue
		}
		var more []any
		for _, m := range parse(body) {
			more = append(more, m.key, m.value)
		}
		for _, in := range t.read(r, turn, spans.ListSummary, c.Summary) {
			more = append(more, "summary", in.body)
		}
		t.push(end, "compaction_update", append(more, "error", c.Reason)...)
		return
	}
}

// keptFact writes the messages about the session outside of its prompts. When a request was made is not known: it has
// the time of its response.
func (t *trace) keptFact(f *session.Fact, typ string, v []byte) {
	o := parse(v)
	switch {
	case typ == "history": // it comes before the exchange that it is part of
		t.replay = o.get("items")
	case typ == "initialize" && bytes.Equal(t.opened, v):
	case typ == "initialize" || slices.Contains(exchanges, typ):
		if typ == "initialize" {
			t.opened = v
		}
		params, result, failed := o.get("params"), o.get("result"), o.get("error")
		if params == nil || result == nil && failed == nil {
			t.lacks(typ + ", of which no content is there")
			return
		}
		t.exchange(f.At, typ, params, result, failed)
	default:
		if w := t.kept(moment{at: f.At}, typ, v); w != nil {
			t.write(*w)
		}
	}
}
