package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// A session that was told from ACP holds more of its wire than rows do: titles and kinds of tool calls, updates, requests of the agent,
// exchanges about the session (package dialects/acp says as what). They are written back as they were, in the order of time.

// heldUpdates are the updates of version 1.
var heldUpdates = []string{
	"user_message_chunk", messageChunk, thoughtChunk, "tool_call", "tool_call_update", "plan", "available_commands_update",
	"current_mode_update", "config_option_update", "session_info_update", "usage_update", "notice", "compaction_update", "compaction_summary_chunk",
}

// exchanges are requests that are kept with their responses, as one fact.
var exchanges = []string{"session/new", "session/load", "session/resume", "session/close", "session/set_mode", "session/set_config_option"}

// heldMethods are those that are kept by themselves: requests, and notifications.
var heldMethods = map[string]struct {
	dir     direction
	request bool
}{
	"authenticate": {toAgent, true}, "logout": {toAgent, true}, "session/list": {toAgent, true}, "session/delete": {toAgent, true},
	"session/request_permission": {toClient, true}, "elicitation/create": {toClient, true},
	"session/cancel": {toAgent, false}, "elicitation/complete": {toClient, false},
}

// isWork reports whether a method is about files or terminals; such requests are kept with their ids.
func isWork(method string) bool {
	return method == "fs/read_text_file" || method == "fs/write_text_file" || strings.HasPrefix(method, "terminal/")
}

// appendNotes appends the blocks of notes of a session that was told from ACP.
func (t *trace) appendNotes(ids []spans.ShortID, r *session.Run, notes []session.Note) []spans.ShortID {
	if r.Dialect != acpDialect {
		return ids
	}
	for i := range notes {
		if notes[i].Body != nil {
			ids = appendID(ids, *notes[i].Body)
		}
	}
	return ids
}

// appendMore appends the blocks that messages of a turn are made of beside those of its rows.
func (t *trace) appendMore(ids []spans.ShortID, r *session.Run, turn *session.Turn) []spans.ShortID {
	permissions := func(l []*session.Permission) {
		for _, x := range l {
			ids = appendIDs(ids, x.Options)
		}
	}
	permissions(turn.Permissions)
	ids = t.appendNotes(ids, r, turn.Events)
	for _, c := range turn.ToolCalls {
		permissions(c.Permissions)
		ids = t.appendNotes(ids, r, c.Events)
	}
	for _, c := range turn.Compactions {
		ids = t.appendNotes(appendIDs(ids, c.Summary), r, c.Events)
	}
	return ids
}

// load makes what a turn is made of readable, with the facts that stand between its messages.
func (t *trace) load(r *session.Run, p *runPlan, i int) error {
	turn := p.turns[i]
	need := t.appendMore(p.appendTurn(nil, i), r, turn)
	if i+1 < len(p.turns) {
		need = appendIDs(need, p.turns[i+1].Input) // where results may be
	} else {
		need = t.appendNotes(need, r, r.Events)
	}
	for k, f := range t.facts {
		if k == aheadMost || f.At.After(latest(turn.Start, turn.End)) {
			break
		}
		if f.Value != nil {
			need = appendID(need, *f.Value)
		}
	}
	return t.g.window.load(t.g.ctx, need, func(ids []spans.ShortID) []spans.ShortID {
		for j := i + 1; j < len(p.turns) && len(ids) < aheadMost; j++ {
			ids = t.appendMore(p.appendTurn(ids, j), r, p.turns[j])
		}
		return ids
	})
}

// check looks at the content that only ACP needs, before anything is written.
func (t *trace) check() error {
	g := t.g
	before := len(g.missing)
	for _, r := range g.s.Runs {
		if c := r.Capture; c != "" && c != spans.CaptureContent {
			continue
		}
		p := g.runs[r]
		for i, turn := range p.turns {
			need := t.appendMore(nil, r, turn)
			if i == 0 {
				need = t.appendNotes(need, r, r.Events)
			}
			if len(need) == 0 || turn.Capture != "" && turn.Capture != spans.CaptureContent {
				continue
			}
			err := g.window.load(g.ctx, need, func(ids []spans.ShortID) []spans.ShortID {
				for j := i + 1; j < len(p.turns) && len(ids) < aheadMost; j++ {
					ids = t.appendMore(ids, r, p.turns[j])
				}
				return ids
			})
			if err != nil {
				return err
			}
			for _, id := range need {
				if _, ok := g.window.set.Body(session.Ref{Block: id.String()}); !ok {
					g.miss(whereTurn(r, turn), "block "+id.String())
				}
			}
		}
	}
	captured := len(g.s.Runs) == 0 || slices.ContainsFunc(g.s.Runs, func(r *session.Run) bool { return r.Capture == "" || r.Capture == spans.CaptureContent })
	for _, f := range t.facts {
		if f.Value == nil || !captured {
			continue
		}
		if err := g.window.load(g.ctx, appendID(nil, *f.Value), func(ids []spans.ShortID) []spans.ShortID {
			for _, next := range t.facts {
				if next.Value != nil && !next.At.Before(f.At) && len(ids) < aheadMost {
					ids = appendID(ids, *next.Value)
				}
			}
			return ids
		}); err != nil {
			return err
		}
		if _, ok := g.window.set.Body(*f.Value); !ok {
			g.miss(f.Subject+" "+f.Key, "block "+f.Value.Block)
		}
	}
	if len(g.missing) > before && !g.opts.Partial {
		return &MissingError{Session: g.s.ID, Missing: g.missing}
	}
	return nil
}

// heldTurn queues the messages of a turn that was told from ACP. Its content is loaded.
func (t *trace) heldTurn(r *session.Run, p *runPlan, turn *session.Turn) {
	x := placesOf(turn, t.seqOf)
	if turn.Index > 0 {
		x.at, x.atSeq = turn.Start, turn.Seq // it begins with its first piece
	}
	x.begun = x.at
	if x.begun.IsZero() {
		x.begun = turn.Start
	}
	calls := slices.Clone(turn.ToolCalls)
	indexOf := func(id string) int {
		return slices.IndexFunc(calls, func(c *session.ToolCall) bool { return c.ID == id })
	}
	var items []columns
	for _, in := range t.g.read(r, turn, spans.ListOutput, turn.Output) {
		var content []json.RawMessage
		if json.Unmarshal(find(members(in.body), "content"), &content) != nil {
			continue
		}
		for _, raw := range content {
			items = append(items, columns(members(raw)))
		}
	}
	next := func(from int) *session.ToolCall {
		for _, item := range items[from:] {
			if item.text("type") == "toolCall" {
				if at := indexOf(item.text("id")); at >= 0 {
					return calls[at]
				}
			}
		}
		return nil
	}
	cuts := t.cuts(turn)
	var pieces []int // in the queue
	for i, item := range items {
		at, seq := time.Time{}, int64(0)
		if item.text("type") != "toolCall" {
			at, seq = x.piece(next(i))
			if i > 0 && apart(items[i-1], item) && len(cuts) > 0 { // something came between the two
				if cut := cuts[0]; cmp.Or(at.Compare(cut.at), cmp.Compare(seq, cut.seq)) <= 0 {
					at, seq = cut.at, cut.seq+1
				}
				cuts = cuts[1:]
			}
			if i+1 < len(items) && apart(item, items[i+1]) {
				cuts = slices.DeleteFunc(cuts, func(cut wire) bool { return !x.begun.IsZero() && cut.at.Before(x.begun) })
				if len(cuts) > 0 && cmp.Or(at.Compare(cuts[0].at), cmp.Compare(seq, cuts[0].seq)) > 0 {
					at, seq = cuts[0].at, cuts[0].seq
				}
			}
			pieces = append(pieces, len(t.queue))
		}
		switch item.text("type") {
		case "toolCall":
			var c *session.ToolCall
			if at := indexOf(item.text("id")); at >= 0 {
				c = calls[at]
				calls = slices.Delete(calls, at, at+1)
			}
			t.heldCall(r, item, c, x)
		case "thinking":
			content := find(item, "block")
			if content == nil {
				content = textBlock(item.text("thinking"))
			}
			t.queue = append(t.queue, t.chunk(at, seq, thoughtChunk, item.text("messageId"), content))
		default:
			var o object
			for _, m := range item {
				if m.key != "messageId" {
					o.raw(m.key, m.value)
				}
			}
			t.queue = append(t.queue, t.chunk(at, seq, messageChunk, item.text("messageId"), o.bytes()))
		}
	}
	for k := len(pieces) - 2; k >= 0; k-- { // none came after the one behind it
		if m, after := &t.queue[pieces[k]], &t.queue[pieces[k+1]]; cmp.Or(m.at.Compare(after.at), cmp.Compare(m.seq, after.seq)) > 0 {
			m.at, m.seq = after.at, after.seq
		}
	}
	for _, c := range calls { // of which no content was captured
		t.heldCall(r, nil, c, x)
	}
	t.heldNotes(r, turn.Events, "")
	permissions := slices.Clone(turn.Permissions)
	for _, c := range turn.ToolCalls {
		t.heldNotes(r, c.Events, c.ID)
		permissions = append(permissions, c.Permissions...)
	}
	if turn == p.turns[len(p.turns)-1] {
		t.heldNotes(r, r.Events, "")
		permissions = append(permissions, r.Permissions...)
	}
	for _, c := range turn.Compactions {
		t.heldNotes(r, c.Events, "")
	}
	for _, x := range permissions {
		q := t.questionOf(r, x)
		for _, c := range turn.ToolCalls {
			if c.ID == x.CallID && c.Start.Equal(q.asked) {
				q.seq = c.Seq // that of x is of the answer
			}
		}
		t.question(r, x.CallID, q)
	}
}

// apart reports whether two pieces of a reply that stand next to each other would be one, had nothing come between them.
func apart(a, b columns) bool {
	kind := a.text("type")
	return kind == b.text("type") && (kind == "text" || kind == "thinking") && a.text("messageId") == "" && b.text("messageId") == "" &&
		find(a, "block") == nil && find(b, "block") == nil
}

// cuts returns when things came that end a message without an id, in their order.
func (t *trace) cuts(turn *session.Turn) []wire {
	var l []wire
	add := func(notes []session.Note, all bool) {
		for i := range notes {
			n := &notes[i]
			if method := strings.TrimSuffix(n.Type, ".response"); !strings.HasPrefix(n.Type, "acp.") && (all || isWork(method)) {
				l = append(l, wire{at: n.Time, seq: t.seqOf(n.Seq)})
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
	slices.SortStableFunc(l, func(a, b wire) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.seq, b.seq)) })
	return l
}

// heldCall queues the messages of a tool call.
func (t *trace) heldCall(r *session.Run, item columns, c *session.ToolCall, x *places) {
	id, name, kind, title := item.text("id"), item.text("name"), item.text("kind"), item.text("title")
	at, seq := x.piece(c)
	if c != nil {
		at, seq, id, name = c.Start, t.seqOf(c.Seq), c.ID, cmp.Or(name, c.Name)
		x.prev = c
	}
	over := c != nil && !c.End.IsZero() && c.Known == spans.KnownObserved && c.Outcome != ""
	status := "pending"
	if c != nil && t.worked(r, c) {
		status = "in_progress"
	}
	var o object
	if title == "" { // then it was met in an update, or in a question
		o.str("sessionUpdate", "tool_call_update")
		o.str("toolCallId", id)
	} else {
		o.str("sessionUpdate", "tool_call")
		o.str("toolCallId", id)
		o.str("title", title)
	}
	if name != "" && name != kind && (kind != "" || name != "other") { // else it is the kind that stands for it
		o.str("name", name)
	}
	o.notEmpty("kind", kind)
	o.str("status", status)
	input := find(item, "arguments")
	if c != nil {
		for _, in := range t.g.read(r, nil, spans.ListArgs, c.Args) {
			input = in.body
		}
	}
	if input != nil {
		o.raw("rawInput", input)
	}
	t.queue = append(t.queue, t.update(at, seq, o.bytes()))
	if !over {
		return
	}
	status = "failed"
	if c.Outcome == spans.OutcomeOK {
		status = "completed"
	}
	end := statusUpdate(id, status)
	told := false
	for _, in := range t.g.read(r, nil, spans.ListResult, c.Result) {
		for _, m := range members(in.body) {
			end.raw(m.key, m.value)
			told = true
		}
	}
	if !told && c.Error != "" {
		end.raw("content", toolContent(c.Error))
	}
	t.queue = append(t.queue, t.update(latest(c.Start, c.End), t.seqOf(c.EndSeq), end.bytes()))
}

// worked reports whether a call must have been in progress from the first, for all that is known: the agent asked for files before any update,
// or for a terminal that no update names. Else such work would not be known to be its.
func (t *trace) worked(r *session.Run, c *session.ToolCall) bool {
	files, terminals, named := false, false, false
	for _, in := range t.g.read(r, nil, spans.ListResult, c.Result) {
		named = named || namesTerminal(in.body)
	}
	progress := false
	for i := range c.Events {
		n := &c.Events[i]
		progress = progress || strings.HasSuffix(n.Type, ".in_progress")
		files = files || !progress && strings.HasPrefix(n.Type, "fs/")
		terminals = terminals || !progress && strings.HasPrefix(n.Type, "terminal/")
		if strings.HasPrefix(n.Type, "tool_call") {
			body, ok := t.noteBody(n)
			named = named || !ok || namesTerminal(body)
		}
	}
	return files || terminals && !named
}

// noteBody returns the content of a note that is loaded.
func (t *trace) noteBody(n *session.Note) ([]byte, bool) {
	if n.Body == nil {
		return nil, false
	}
	body, ok := t.g.window.set.Body(*n.Body)
	return []byte(body), ok
}

// namesTerminal reports whether the content of a call, or of an update of it, names a terminal.
func namesTerminal(update []byte) bool {
	var content []json.RawMessage
	if json.Unmarshal(find(members(update), "content"), &content) != nil {
		return false
	}
	return slices.ContainsFunc(content, func(item json.RawMessage) bool { return columns(members(item)).text("type") == "terminal" })
}

// heldNotes queues what notes tell.
func (t *trace) heldNotes(r *session.Run, notes []session.Note, callID string) {
	for i := range notes {
		n := &notes[i]
		body, ok := t.noteBody(n)
		if !ok {
			body = nil
		}
		m := wire{at: n.Time, seq: t.seqOf(n.Seq)}
		switch {
		case n.Type == "session/prompt.error":
			if code := find(members(body), "code"); code != nil && t.open != nil {
				t.open.error = body
			}
		case n.Type == "session/prompt.unknown_keys":
			if meta := find(members(body), "_meta"); members(meta) != nil && t.open != nil {
				t.open.meta = meta
			}
		case n.Type == "$/cancel_request" && r.ID == "prompt-"+strings.Trim(string(find(members(body), "requestId")), `"`):
			var o object
			o.int("requestId", t.waiting[toAgent]["session/prompt"])
			m.dir, m.method, m.params = toAgent, n.Type, o.bytes()
			t.queue = append(t.queue, m)
		case body == nil && callID != "" && (n.Type == "tool_call_update.pending" || n.Type == "tool_call_update.in_progress"):
			t.queue = append(t.queue, t.update(m.at, m.seq, statusUpdate(callID, strings.TrimPrefix(n.Type, "tool_call_update.")).bytes()))
		default:
			t.held(&m, n.Type, body)
		}
	}
}

// held queues what a note or fact of a type tells, at the time and in the place of m.
func (t *trace) held(m *wire, typ string, body []byte) {
	method, isResponse := strings.CutSuffix(typ, ".response")
	kind, _, _ := strings.Cut(typ, ".")
	known, isHeld := heldMethods[method]
	o := members(body)
	switch {
	case strings.HasPrefix(typ, "acp."), strings.HasPrefix(typ, "compaction_update."):
		return // what the reader says itself; the end of a compaction, which is told there
	case o == nil:
		t.lacks(typ + ", of which no content is there")
		return
	case slices.Contains(heldUpdates, kind) && find(o, "sessionUpdate") != nil:
		u := t.update(m.at, m.seq, body)
		m = &u
	case isWork(method):
		m.dir, m.reply = toClient, "work/"+method+"/"+string(find(o, "id"))
		if m.method, m.params = method, find(o, "params"); isResponse {
			m.dir, m.method, m.params = toAgent, "", nil
			m.result, m.error = find(o, "result"), find(o, "error")
		}
	case isHeld && isResponse:
		m.dir, m.reply, m.result, m.error = known.dir.back(), "held/"+method, find(o, "result"), find(o, "error")
	case isHeld:
		m.dir, m.method, m.params = known.dir, method, body
		if known.request {
			m.reply = "held/" + method
		}
	default:
		t.lacks(typ)
		return
	}
	t.queue = append(t.queue, *m)
}

// heldCompaction queues the end of a compaction, whose beginning is a note.
func (t *trace) heldCompaction(r *session.Run, turn *session.Turn, c *session.Compaction) {
	notes := slices.Clone(c.Events)
	if turn != nil {
		notes = append(notes, turn.Events...)
	} else {
		t.heldNotes(r, c.Events, "")
		t.heldNotes(r, r.Events, "")
		notes = append(notes, r.Events...)
	}
	end := latest(c.Start, c.End)
	for i := range notes {
		n := &notes[i]
		if !strings.HasPrefix(n.Type, "compaction_update.") || !n.Time.Equal(end) || c.EndSeq != n.Seq {
			continue
		}
		body, ok := t.noteBody(n)
		if !ok {
			continue
		}
		var o object
		o.str("sessionUpdate", "compaction_update")
		for _, m := range members(body) {
			o.raw(m.key, m.value)
		}
		for _, in := range t.g.read(r, turn, spans.ListSummary, c.Summary) {
			o.raw("summary", in.body)
		}
		o.notEmpty("error", c.Reason)
		t.queue = append(t.queue, t.update(end, t.seqOf(c.EndSeq), o.bytes()))
		return
	}
}

// tellFacts writes what became true of the session before m, or with nil all that is left.
func (t *trace) tellFacts(m *wire) error {
	for len(t.facts) > 0 {
		f := t.facts[0]
		if m != nil && cmp.Or(f.At.Compare(m.at), cmp.Compare(t.seqOf(f.Seq), m.seq)) > 0 {
			return nil
		}
		t.facts = t.facts[1:]
		v, err := t.g.fact(f)
		if err != nil {
			return err
		}
		if v == nil {
			continue // never captured, or missing and named
		}
		if err := t.fact(f, v); err != nil {
			return err
		}
	}
	return nil
}

func (t *trace) fact(f *session.Fact, v []byte) error {
	var o object
	switch f.Key {
	case "title":
		if _, ok := text(v); !ok && string(v) != "null" {
			return nil
		}
		o.str("sessionUpdate", "session_info_update")
		o.raw("title", v)
		if len(t.facts) > 0 && t.facts[0].Key == "updated_at" && placeOfFact(t.facts[0]) == placeOfFact(f) {
			updated, err := t.g.fact(t.facts[0])
			if err != nil {
				return err
			}
			if t.facts = t.facts[1:]; updated != nil {
				o.raw("updatedAt", updated)
			}
		}
	case "updated_at":
		if !t.fromACP {
			return nil
		}
		o.str("sessionUpdate", "session_info_update")
		o.raw("updatedAt", v)
	case "mode", "config_options", "available_commands":
		if !t.fromACP || t.asked[placeOfFact(f)] {
			return nil // the response of a request said it
		}
		words := map[string][2]string{
			"mode":               {"current_mode_update", "currentModeId"},
			"config_options":     {"config_option_update", "configOptions"},
			"available_commands": {"available_commands_update", "availableCommands"},
		}[f.Key]
		o.str("sessionUpdate", words[0])
		o.raw(words[1], v)
	default:
		t.heldFact(f, strings.TrimPrefix(f.Key, "acp."), v)
		return nil
	}
	m := t.update(f.At, 0, o.bytes())
	t.write(&m)
	return nil
}

// heldFact writes what was said about the session outside of its prompts.
func (t *trace) heldFact(f *session.Fact, typ string, v []byte) {
	o := members(v)
	switch {
	case typ == "history": // told before the exchange that it is part of
		t.replay = find(o, "items")
	case typ == "initialize":
		if bytes.Equal(t.opened, v) {
			return
		}
		t.opened = v
		t.exchange(f, typ, o)
	case slices.Contains(exchanges, typ):
		t.exchange(f, typ, o)
	default:
		// The queue may be in use: what is put there now is written at once.
		queue := t.queue
		t.queue = nil
		t.held(&wire{at: f.At}, typ, v)
		for i := range t.queue {
			t.write(&t.queue[i])
		}
		t.queue = queue
	}
}

// exchange writes a request and its response. When the request was made is not known.
func (t *trace) exchange(f *session.Fact, method string, o []member) {
	params, result, failed := find(o, "params"), find(o, "result"), find(o, "error")
	if params == nil || result == nil && failed == nil {
		t.lacks(method + ", of which no content is there")
		return
	}
	t.write(&wire{at: f.At, dir: toAgent, method: method, params: params, reply: method})
	if method == "session/load" {
		var updates []json.RawMessage
		_ = json.Unmarshal(t.replay, &updates) // nil has none
		for _, u := range updates {
			m := t.update(f.At, 0, u)
			t.write(&m)
		}
		t.replay = nil
	}
	t.write(&wire{at: f.At, dir: toClient, result: result, error: failed, reply: method})
}
