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

// This file converts the parts of rows to messages of ACP.

func textBlock(s string) []byte { return fields("type", "text", "text", &s) }

func linkBlock(uri, name, title, mediaType string) []byte {
	return fields("type", "resource_link", "uri", &uri, "name", cmp.Or(name, uri, "unknown"), "title", title,
		"mimeType", mediaType)
}

// block makes the content block of a part that is no call; nil where ACP has none. ofPrompt: the part is of a prompt
// and not of a reply.
func (t *trace) block(p *builtPart, ofPrompt bool) []byte {
	data := parse(p.data)
	title := data.text("title")
	switch p.typ {
	case "step-start":
		return nil
	case "text", "reasoning":
		return textBlock(data.text("text"))
	case "file", "reasoning-file":
		return fileBlock(data.text("url"), data.text("mediaType"), data.text("filename"))
	case "source-url":
		url := data.text("url")
		return linkBlock(url, cmp.Or(title, url), title, "")
	case "source-document":
		return linkBlock("urn:source:"+data.text("sourceId"), cmp.Or(data.text("filename"), title), title,
			data.text("mediaType"))
	case "file-ref", "directory-ref":
		if b := t.refBlock(data.object("ref")); b != nil {
			return b
		}
	}
	if !ofPrompt || strings.HasPrefix(p.typ, "data-") {
		t.lacks("parts of the type " + p.typ)
		return nil
	}
	return textBlock(cmp.Or(data.text("text"), string(p.data)))
}

// fileBlock makes the block of a file in base64, or of a link.
func fileBlock(url, mediaType, name string) []byte {
	head, data, ok := dataURL(url)
	if !ok {
		return linkBlock(url, cmp.Or(name, path.Base(url)), "", mediaType)
	}
	mediaType = cmp.Or(mediaType, head)
	if kind := modalityOf(mediaType); kind == "image" || kind == "audio" {
		return fields("type", kind, "data", &data, "mimeType", &mediaType)
	}
	return fields("type", "resource", "resource", fields("uri", "attachment:"+name, "blob", &data, "mimeType", &mediaType))
}

// refBlock makes the link to a file of the workspace.
func (t *trace) refBlock(o object) []byte {
	file, uri := o.text("path"), cmp.Or(o.text("url"), o.text("uri"))
	switch {
	case file == "" && uri == "":
		return nil
	case uri != "":
	case path.IsAbs(file):
		uri = "file://" + file
	case t.cwd != "" && t.cwd != "/":
		uri = "file://" + path.Join(t.cwd, file)
	default:
		uri = file
	}
	return linkBlock(uri, path.Base(cmp.Or(file, uri)), "", "")
}

const (
	messageChunk = "agent_message_chunk"
	thoughtChunk = "agent_thought_chunk"
)

// piece is a piece of a reply: a chunk or a call.
type piece struct {
	kind, messageID string
	content         []byte
	joins           bool              // a chunk that is one piece with a neighbour of its kind
	call            func(moment)      // queues the messages of a call; nil: a chunk
	span            *session.ToolCall // of a call; nil where it is not there
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

// pieces queues the messages of a reply. cuts are the times of messages that end a chunk without an id, in their order.
func (t *trace) pieces(l []piece, x *places, cuts []moment) {
	apart := func(i int) bool { // whether a message came between piece i and the one before it, which would be one
		return i > 0 && i < len(l) && l[i-1].joins && l[i].joins && l[i-1].kind == l[i].kind
	}
	var chunks []int // in the queue
	for i, p := range l {
		var next *session.ToolCall
		for _, later := range l[i:] {
			next = cmp.Or(next, later.span)
		}
		m := x.piece(next)
		if p.call != nil {
			p.call(m)
			x.prev = cmp.Or(p.span, x.prev)
			continue
		}
		if apart(i) && len(cuts) > 0 {
			if t.compare(m, cuts[0]) <= 0 {
				m = moment{cuts[0].at, cuts[0].seq + 1}
			}
			cuts = cuts[1:]
		}
		if apart(i + 1) {
			cuts = slices.DeleteFunc(cuts, func(cut moment) bool { return cut.at.Before(x.begun) })
			if len(cuts) > 0 && t.compare(m, cuts[0]) > 0 {
				m = cuts[0]
			}
		}
		chunks = append(chunks, len(t.queue))
		t.push(m, p.kind, "messageId", p.messageID, "content", p.content)
	}
	for k := len(chunks) - 2; k >= 0; k-- { // none came after the one that follows it
		if m, after := &t.queue[chunks[k]], &t.queue[chunks[k+1]]; t.compare(m.moment, after.moment) > 0 {
			m.moment = after.moment
		}
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
	}
	begun := m
	approval := data.object("approval")
	questions := t.questions(u.run, p, approval, decided, m.at, end.at)
	for _, q := range questions { // a question comes after its call
		if first := askedAt(q); first.Before(m.at) {
			m.at = first
		}
	}
	input := valueOf(data.get("input")) // null is an unknown one
	t.push(m, "tool_call", "toolCallId", id, "title", name, "name", name, "kind", cmp.Or(toolKinds[name], "other"),
		"status", "pending", "rawInput", input)
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
	switch p.state {
	case "output-available":
		output := unwrapped(data.get("output"))
		var content []byte
		if output != nil {
			content = list([][]byte{fields("type", "content", "content", textBlock(outputText(output)))})
		}
		t.status(end, id, "completed", "content", content, "rawOutput", output)
	case "output-error", "output-denied", "approval-responded":
		if p.state != "approval-responded" || string(approval.get("approved")) == "false" {
			t.status(end, id, "failed", "content", toolContent(cmp.Or(data.text("errorText"), approval.text("reason"))))
		}
	}
}

// toolContent is the content of a call that is a text; nil for an empty one.
func toolContent(s string) []byte {
	if s == "" {
		return nil
	}
	return list([][]byte{fields("type", "content", "content", textBlock(s))})
}

// unwrapped takes the guide's envelope off a result.
func unwrapped(output []byte) []byte {
	if o := parse(output); o.text("type") == "output" && o.get("data") != nil {
		return o.get("data")
	}
	return output
}

// outputText is the readable text of a result: a text, the texts of its blocks, else its JSON.
func outputText(output []byte) string {
	if s, ok := text(parse(output).get("text")); ok {
		return s
	}
	parts := message.ReadResult(output).Parts
	if slices.ContainsFunc(parts, func(p message.Part) bool { return p.Kind != message.Text }) || parts == nil {
		return string(output)
	}
	return message.JoinText(parts, false)
}

// asked reports whether an evaluation asked the client: a client does not see a decision of the loop's own.
func asked(x *session.Permission) bool {
	return !x.Derived && (x.Options != nil || x.Outcome != "" || x.Action == spans.ActionAsk)
}

// questions returns the questions about a call: its evaluations, those of its turn, and the approval that the guide
// keeps in a part.
func (t *trace) questions(r *session.Run, p *builtPart, approval object, decided []*session.Permission,
	at, end time.Time,
) (l []*session.Permission) {
	kept := len(approval) > 0 && r.Recording == spans.RecordingLedger || strings.HasPrefix(p.state, "approval-")
	var all []*session.Permission
	for _, x := range decided {
		if x.CallID == p.callID && p.callID != "" {
			all = append(all, x)
		}
	}
	if p.call != nil {
		all = append(all, p.call.Permissions...)
	}
	for _, x := range all {
		if asked(x) || kept && !x.Derived {
			l = append(l, x)
		}
	}
	if len(l) > 0 || !kept {
		return l
	}
	q := &session.Permission{Span: session.Span{Start: at, End: end}, Action: spans.ActionAsk}
	switch string(approval.get("approved")) {
	case "true":
		q.Action = spans.ActionAllow
	case "false":
		q.Action = spans.ActionDeny
	}
	return append(l, q)
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
		m.error = fields("code", -32603, "message", cmp.Or(x.Reason, unknownError))
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
		if !slices.Contains(standardKinds, o.text("kind")) || !o.has("optionId") || !o.has("name") {
			return false
		}
		found = found || o.text("optionId") == option
	}
	return found && l != nil
}
