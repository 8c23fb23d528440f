package export

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// This file writes what is between a prompt and its response: pieces of replies, tool calls, questions, summaries.

func textBlock(s string) []byte { return fields("type", "text", "text", &s) }

func linkBlock(uri, name, title, mediaType string) []byte {
	return fields("type", "resource_link", "uri", &uri, "name", cmp.Or(name, uri, "unknown"), "title", title,
		"mimeType", mediaType)
}

// block makes the content block of a part that is no call; nil where ACP has none. ofPrompt: the part is of a prompt
// and not of a reply.
func (t *trace) block(p *builtPart, ofPrompt bool) []byte {
	data := parse(p.data)
	title, name := data.Text("title"), data.Text("filename")
	switch p.typ {
	case "step-start":
		return nil
	case "text", "reasoning":
		return textBlock(data.Text("text"))
	case "file", "reasoning-file":
		return fileBlock(data.Text("url"), data.Text("mediaType"), name)
	case "source-url":
		return linkBlock(data.Text("url"), cmp.Or(title, data.Text("url")), title, "")
	case "source-document":
		return linkBlock("urn:source:"+data.Text("sourceId"), cmp.Or(name, title), title, data.Text("mediaType"))
	case "file-ref", "directory-ref":
		ref := data.Object("ref")
		file, uri := ref.Text("path"), cmp.Or(ref.Text("url"), ref.Text("uri"))
		if uri == "" && file != "" {
			uri = "file://" + path.Join("/", t.cwd, file)
			if path.IsAbs(file) {
				uri = "file://" + file
			}
		}
		if uri != "" {
			return linkBlock(uri, path.Base(cmp.Or(file, uri)), "", "")
		}
	}
	if !ofPrompt || strings.HasPrefix(p.typ, "data-") {
		t.lacks("parts of the type " + p.typ)
		return nil
	}
	return textBlock(cmp.Or(data.Text("text"), string(p.data)))
}

// fileBlock makes the block of a file in base64, or of a link.
func fileBlock(url, mediaType, name string) []byte {
	head, data, ok := dataURL(url)
	if !ok {
		return linkBlock(url, cmp.Or(name, path.Base(url)), "", mediaType)
	}
	mediaType = cmp.Or(mediaType, head)
	if kind, _, _ := strings.Cut(mediaType, "/"); kind == "image" || kind == "audio" {
		return fields("type", kind, "data", &data, "mimeType", &mediaType)
	}
	return fields("type", "resource", "resource", fields("uri", "attachment:"+name, "blob", &data, "mimeType", &mediaType))
}

// piece is a piece of a reply: a chunk or a call.
type piece struct {
	kind, messageID string
	content         []byte
	call            func(moment)      // queues the messages of a call; nil: a chunk
	span            *session.ToolCall // of a call; nil where it is not there
}

const (
	messageChunk = "agent_message_chunk"
	thoughtChunk = "agent_thought_chunk"
)

// step writes a turn, or a reply whose turn is not there.
func (t *trace) step(u *unit, st *step) {
	turn := st.turn
	if turn == nil {
		t.open.at = latest(t.open.at, st.at)
		t.pieces(t.partPieces(u, st.parts, nil), t.open.moment, t.open.moment)
		t.send()
		return
	}
	t.compact(u.run, turn.Start)
	t.send()
	last := endOf(&turn.Span)
	var first moment
	if done := turn.Start.Add(time.Duration(turn.ModelCallNS)); turn.ModelCallNS > 0 && done.Before(last.at) {
		last = moment{done, turn.Seq}
	}
	if turn.FirstChunkNS > 0 {
		first = moment{turn.Start.Add(time.Duration(turn.FirstChunkNS)), turn.Seq}
	}
	if u.run.Dialect == acpDialect {
		if turn.Index > 0 {
			first = startOf(&turn.Span) // it begins with its first piece
		}
		t.pieces(t.keptPieces(u.run, turn), first, last)
		t.keptMessages(u.run, turn)
	} else {
		t.pieces(t.partPieces(u, st.parts, turn.Permissions), first, last)
	}
	t.open.turn, t.open.moment = turn, moment{latest(t.open.at, turn.Start, turn.End), turn.EndSeq}
	t.compact(u.run, latest(turn.Start, turn.End))
	t.send()
}

// partPieces makes the pieces of the parts of a reply. decided are permission evaluations of its turn.
func (t *trace) partPieces(u *unit, parts []builtPart, decided []*session.Permission) (l []piece) {
	for i := range parts {
		p := &parts[i]
		if strings.HasPrefix(p.typ, "tool-") || p.typ == "dynamic-tool" {
			l = append(l, piece{span: p.call, call: func(m moment) { t.tool(u, p, decided, m) }})
		} else if content := t.block(p, false); content != nil {
			kind := messageChunk
			if strings.HasPrefix(p.typ, "reasoning") {
				kind = thoughtChunk
			}
			l = append(l, piece{kind: kind, messageID: u.id, content: content})
		}
	}
	return l
}

// pieces queues the messages of a reply. The tree has the times of a turn, of its tool calls, of the model's answer
// (last) and of its first piece, zero if that is not known: a piece came before the call that follows it, and before
// the model was done.
func (t *trace) pieces(l []piece, first, last moment) {
	var prev *session.ToolCall
	var at moment // of the latest chunk
	for i, p := range l {
		m := last
		var next *session.ToolCall
		for _, later := range l[i:] {
			next = cmp.Or(next, later.span)
		}
		switch {
		case prev != nil:
			m = startOf(&prev.Span)
		case next != nil && !next.Start.After(m.at):
			m = startOf(&next.Span)
		}
		if i == 0 && !first.at.IsZero() && first.at.Before(m.at) {
			m = first
		}
		if p.call != nil {
			p.call(m)
			prev = cmp.Or(p.span, prev)
			continue
		}
		if t.compare(m, at) < 0 {
			m = at
		}
		at = m
		t.push(m, p.kind, "messageId", p.messageID, "content", p.content)
	}
}

// toolKinds are the kinds of the guide's tools.
var toolKinds = map[string]string{
	"read": "read", "write": "edit", "edit": "edit", "glob": "search", "grep": "search", "tool_search": "search",
	"bash": "execute", "web_search": "fetch", "web_fetch": "fetch", "skill": "think",
}

// status queues a tool_call_update that sets a status, with further members.
func (t *trace) status(m moment, id, status string, keysAndValues ...any) {
	t.push(m, "tool_call_update", append([]any{"toolCallId", &id, "status", status}, keysAndValues...)...)
}

// tool queues the messages of a call. m is when the model asked for it, where its span is not there.
func (t *trace) tool(u *unit, p *builtPart, decided []*session.Permission, m moment) {
	data := parse(p.data)
	name := cmp.Or(toolName(p.typ, p.data), "unknown")
	own := cmp.Or(p.callID, "call_"+u.id)
	id := own
	for n := 2; t.calls[id]; n++ { // an id is of one call of the session
		id = own + "." + strconv.Itoa(n)
	}
	t.calls[id] = true
	end, c := m, p.call
	if c != nil {
		m, end = startOf(&c.Span), endOf(&c.Span)
		decided = append(slices.Clone(decided), c.Permissions...)
	}
	begun := m
	questions := slices.DeleteFunc(slices.Clone(decided), func(x *session.Permission) bool {
		return x.CallID != p.callID || p.callID == "" || !asked(u.run, x)
	})
	for _, q := range questions { // a question comes after its call
		if first := askedAt(q); first.Before(m.at) {
			m.at = first
		}
	}
	t.push(m, "tool_call", "toolCallId", id, "title", name, "name", name, "kind", cmp.Or(toolKinds[name], "other"),
		"status", "pending", "rawInput", data.Raw("input")) // null is an unknown one
	for _, q := range questions {
		t.question(u.run, id, q, q.Seq)
		if isAnswered(q) {
			begun.at = latest(begun.at, q.Start, q.End)
		}
	}
	end.at = latest(end.at, begun.at)
	if p.state == "output-available" || p.state == "output-error" || p.state == "input-available" && c != nil {
		t.status(begun, id, "in_progress")
	}
	approval := data.Object("approval")
	switch p.state {
	case "output-available":
		output := data.Spelled("output")
		if o := parse(output); o.Text("type") == "output" && o.Spelled("data") != nil {
			output = o.Spelled("data") // the guide's envelope is around it
		}
		var content []byte
		if output != nil {
			content = textContent(outputText(output))
		}
		t.status(end, id, "completed", "content", content, "rawOutput", output)
	case "output-error", "output-denied", "approval-responded":
		if p.state != "approval-responded" || string(approval.Spelled("approved")) == "false" {
			t.status(end, id, "failed", "content", toolContent(cmp.Or(data.Text("errorText"), approval.Text("reason"))))
		}
	}
}

// toolContent is the content of a call that is a text; nil for an empty one.
func toolContent(s string) []byte {
	if s == "" {
		return nil
	}
	return textContent(s)
}

func textContent(s string) []byte {
	return list([][]byte{fields("type", "content", "content", textBlock(s))})
}

// outputText is the readable text of a result: a text, the texts of its blocks, else its JSON.
func outputText(output []byte) string {
	if s, ok := text(parse(output).Spelled("text")); ok {
		return s
	}
	parts := message.ReadResult(output).Parts
	if slices.ContainsFunc(parts, func(p message.Part) bool { return p.Type != message.Text }) || parts == nil {
		return string(output)
	}
	return message.JoinText(parts, false)
}

// asked reports whether an evaluation asked the client: a client does not see a decision of the loop's own. All that a
// ledger keeps were asked.
func asked(r *session.Run, x *session.Permission) bool {
	return !x.Derived && (x.Options != nil || x.Outcome != "" || x.Action == spans.ActionAsk ||
		r.Recording == spans.RecordingLedger)
}

// askedAt returns when a question was asked.
func askedAt(x *session.Permission) time.Time {
	answered := latest(x.Start, x.End)
	began := answered.Add(-time.Duration(x.WaitNS))
	if x.WaitNS > 0 && (began.Before(x.Start) || x.Start.Equal(answered)) {
		return began
	}
	return x.Start
}

// isAnswered reports whether the answer to a question is known.
func isAnswered(x *session.Permission) bool { return x.Action != spans.ActionAsk || x.Outcome != "" }

// standardKinds are the kinds of answers of ACP, and standardOptions one option of each kind.
var standardKinds = []string{"allow_once", "allow_always", "reject_once", "reject_always"}

const standardOptions = `[{"optionId":"allow_once","name":"Allow once","kind":"allow_once"},` +
	`{"optionId":"allow_always","name":"Always allow","kind":"allow_always"},` +
	`{"optionId":"reject_once","name":"Reject","kind":"reject_once"},` +
	`{"optionId":"reject_always","name":"Always reject","kind":"reject_always"}]`

// question queues the request and its response. Options that are not known, or not spelled as in ACP, become the
// standard ones. seq orders the request; that of x orders the response.
func (t *trace) question(r *session.Run, callID string, x *session.Permission, seq int64) {
	var options []byte
	for _, in := range t.read(r, nil, spans.ListOptions, x.Options) {
		options = in.body
	}
	option := x.Option
	if !offered(options, option) {
		options, option = []byte(standardOptions), ""
		how := "_once"
		if x.Source == spans.PermissionSourceSession {
			how = "_always"
		}
		switch x.Action {
		case spans.ActionAllow:
			option = "allow" + how
		case spans.ActionDeny:
			option = "reject" + how
		}
	}
	name := "permission/" + callID + "/" + strconv.Itoa(len(t.queue))
	t.queue = append(t.queue, wire{moment: moment{askedAt(x), seq}, dir: toClient, reply: name,
		method: "session/request_permission",
		params: fields("sessionId", &t.s.ID, "toolCall", fields("toolCallId", &callID), "options", options)})
	if !isAnswered(x) {
		return
	}
	m := wire{moment: endOf(&x.Span), dir: toAgent, reply: name}
	switch {
	case x.Outcome == "error" && r.Dialect == acpDialect:
		m.error = fields("code", internalError, "message", cmp.Or(x.Reason, unknownError))
	case option != "":
		m.result = fields("outcome", fields("outcome", "selected", "optionId", option))
	default:
		m.result = fields("outcome", fields("outcome", "cancelled"))
	}
	t.queue = append(t.queue, m)
}

// offered reports whether options are spelled as in ACP, and option is one of them or empty.
func offered(options []byte, option string) bool {
	l := elements(options)
	found := option == ""
	for _, raw := range l {
		o := parse(raw)
		if !slices.Contains(standardKinds, o.Text("kind")) || !o.Has("optionId") || !o.Has("name") {
			return false
		}
		found = found || o.Text("optionId") == option
	}
	return found && l != nil
}

// compact queues the summaries of a run that were over by then, or with a zero time all, that were not queued yet. A
// session from ACP keeps its own.
func (t *trace) compact(r *session.Run, by time.Time) {
	for len(t.summaries[r]) > 0 {
		u := t.summaries[r][0]
		c, end := u.compaction, endOf(&u.compaction.Span)
		if !by.IsZero() && end.at.After(by) {
			return
		}
		if t.summaries[r] = t.summaries[r][1:]; r.Dialect == acpDialect {
			continue
		}
		if end.at.After(c.Start) {
			t.push(startOf(&c.Span), "compaction_update", "compactionId", u.id, "status", "in_progress")
		}
		var summary []byte
		if s, ok := t.summary(r, nil, c); ok {
			summary = list([][]byte{textBlock(s)})
		}
		t.push(end, "compaction_update", "compactionId", u.id, "status", "completed", "summary", summary)
	}
}
