package export

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// What the parts of rows become in a trace of ACP.

// textBlock and linkBlock make content blocks.
func textBlock(s string) []byte {
	var o object
	o.str("type", "text")
	o.str("text", s)
	return o.bytes()
}

func linkBlock(uri, name, title, mediaType string) []byte {
	var o object
	o.str("type", "resource_link")
	o.str("uri", uri)
	o.str("name", cmp.Or(name, uri, "unknown"))
	o.notEmpty("title", title)
	o.notEmpty("mimeType", mediaType)
	return o.bytes()
}

// block makes the content block of a part that is no call; nil where nothing is sent of it. said tells a part of a prompt from one of a reply.
func (t *trace) block(p *builtPart, said bool) []byte {
	data := columns(members(p.data))
	switch p.typ {
	case "step-start":
		return nil
	case "text", "reasoning":
		return textBlock(data.text("text"))
	case "file", "reasoning-file":
		return fileBlock(data.text("url"), data.text("mediaType"), data.text("filename"))
	case "source-url":
		url := data.text("url")
		return linkBlock(url, cmp.Or(data.text("title"), url), data.text("title"), "")
	case "source-document":
		title := data.text("title")
		return linkBlock("urn:source:"+data.text("sourceId"), cmp.Or(data.text("filename"), title), title, data.text("mediaType"))
	case "file-ref", "directory-ref":
		if b := t.refBlock(find(data, "ref")); b != nil {
			return b
		}
	}
	if !said || strings.HasPrefix(p.typ, "data-") {
		t.lacks("parts of the type " + p.typ)
		return nil
	}
	if s := data.text("text"); s != "" {
		return textBlock(s)
	}
	return textBlock(string(p.data))
}

// fileBlock makes the block of a file that is there in base64, or of the link to one.
func fileBlock(url, mediaType, name string) []byte {
	head, data, ok := strings.Cut(url, ";base64,")
	if !ok || !strings.HasPrefix(head, "data:") {
		return linkBlock(url, cmp.Or(name, path.Base(url)), "", mediaType)
	}
	mediaType = cmp.Or(mediaType, strings.TrimPrefix(head, "data:"))
	kind := modalityOf(mediaType)
	var o object
	if kind == "image" || kind == "audio" {
		o.str("type", kind)
		o.str("data", data)
		o.str("mimeType", mediaType)
		return o.bytes()
	}
	var resource object
	resource.str("uri", "attachment:"+name)
	resource.str("blob", data)
	resource.str("mimeType", mediaType)
	o.str("type", "resource")
	o.raw("resource", resource.bytes())
	return o.bytes()
}

// refBlock makes the link to a file of the workspace.
func (t *trace) refBlock(ref []byte) []byte {
	o := columns(members(ref))
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

// chunk makes the update of a piece of a reply.
func (t *trace) chunk(at time.Time, seq int64, kind, messageID string, content []byte) wire {
	var o object
	o.str("sessionUpdate", kind)
	o.notEmpty("messageId", messageID)
	o.raw("content", content)
	return t.update(at, seq, o.bytes())
}

const (
	messageChunk = "agent_message_chunk"
	thoughtChunk = "agent_thought_chunk"
)

// step writes a turn, or a reply whose turn is not there.
func (t *trace) step(u *unit, p *runPlan, st *step) error {
	g := t.g
	if st.lone != nil {
		if err := g.loadLone(st); err != nil {
			return err
		}
		at := t.open.at
		if st.turn >= 0 {
			at = latest(at, p.turns[st.turn].Start)
		}
		t.parts(u, g.loneParts(u.run, st), &places{at: at, last: at})
		t.open.at = at
		return t.tellQueue()
	}
	turn := p.turns[st.turn]
	if err := t.compactions(u.run, u.run.Compactions, turn.Start); err != nil {
		return err
	}
	if err := t.load(u.run, p, st.turn); err != nil {
		return err
	}
	fromACP := u.run.Dialect == acpDialect
	if fromACP {
		t.heldTurn(u.run, p, turn)
	} else {
		made := g.turnParts(u.run, p, st)
		t.decided = turn.Permissions
		t.parts(u, made.parts, placesOf(turn, t.seqOf))
		t.decided = nil
		for _, x := range turn.Permissions {
			if asked(x) && !made.calls[x.CallID] {
				t.lacks(noCall)
			}
		}
	}
	for _, c := range turn.Compactions {
		t.compaction(u.run, turn, c)
	}
	if err := t.tellQueue(); err != nil {
		return err
	}
	t.open.turn, t.open.at, t.open.seq = turn, latest(t.open.at, turn.Start, turn.End), turn.EndSeq
	return nil
}

// places says when the pieces of a reply came. The tree knows when its turn began and ended, how long the model took and when the first piece
// came, and when tools were called: a piece came before the call that follows it, and before the model was done.
type places struct {
	at    time.Time // of the first piece; zero: not known
	begun time.Time // no piece came before it
	atSeq int64
	last  time.Time // of those behind which no call comes
	seq   int64
	prev  *session.ToolCall // the last one before the piece
	seqOf func(int64) int64
}

func placesOf(turn *session.Turn, seqOf func(int64) int64) *places {
	x := &places{last: latest(turn.Start, turn.End), seq: seqOf(turn.EndSeq), seqOf: seqOf, atSeq: seqOf(turn.Seq)}
	if turn.ModelCallNS > 0 {
		if done := turn.Start.Add(time.Duration(turn.ModelCallNS)); done.Before(x.last) {
			x.last, x.seq = done, seqOf(turn.Seq)
		}
	}
	if turn.FirstChunkNS > 0 {
		x.at = turn.Start.Add(time.Duration(turn.FirstChunkNS))
	}
	return x
}

// piece returns when the next piece came; next is the call behind it, nil if there is none.
func (x *places) piece(next *session.ToolCall) (time.Time, int64) {
	first := x.at
	x.at = time.Time{}
	at, seq := x.last, x.seq
	switch {
	case x.prev != nil:
		return x.prev.Start, x.seqOf(x.prev.Seq)
	case next != nil && !next.Start.After(at):
		at, seq = next.Start, x.seqOf(next.Seq)
	}
	if !first.IsZero() && first.Before(at) {
		return first, x.atSeq
	}
	return at, seq
}

// parts queues the messages of the parts of a reply.
func (t *trace) parts(u *unit, parts []builtPart, x *places) {
	if x.seqOf == nil {
		x.seqOf = func(int64) int64 { return 0 }
	}
	next := func(i int) *session.ToolCall {
		for _, p := range parts[i:] {
			if p.call != nil {
				return p.call
			}
		}
		return nil
	}
	for i := range parts {
		p := &parts[i]
		if strings.HasPrefix(p.typ, "tool-") || p.typ == "dynamic-tool" {
			at, _ := x.piece(next(i))
			t.tool(u, p, at)
			if p.call != nil {
				x.prev = p.call
			}
			continue
		}
		content := t.block(p, false)
		if content == nil {
			continue
		}
		kind := messageChunk
		if strings.HasPrefix(p.typ, "reasoning") {
			kind = thoughtChunk
		}
		at, seq := x.piece(next(i))
		t.queue = append(t.queue, t.chunk(at, seq, kind, u.id, content))
	}
}

// toolKinds are the kinds of the guide's tools.
var toolKinds = map[string]string{
	"read": "read", "write": "edit", "edit": "edit", "glob": "search", "grep": "search", "tool_search": "search", "bash": "execute",
	"web_search": "fetch", "web_fetch": "fetch", "skill": "think",
}

// callID returns the id of a call, which must be the only one of the session.
func (t *trace) callID(own, other string) string {
	id := cmp.Or(own, other)
	for n := 2; t.calls[id]; n++ {
		id = cmp.Or(own, other) + "." + strconv.Itoa(n)
	}
	t.calls[id] = true
	return id
}

// statusUpdate begins a tool_call_update that sets a status.
func statusUpdate(id, status string) *object {
	o := &object{}
	o.str("sessionUpdate", "tool_call_update")
	o.str("toolCallId", id)
	o.str("status", status)
	return o
}

// tool queues the messages of a call. at is when it was asked for, where its span is not there.
func (t *trace) tool(u *unit, p *builtPart, at time.Time) {
	data := columns(members(p.data))
	name := cmp.Or(toolOf(&PartRow{Type: p.typ, DataJSON: string(p.data)}), "unknown")
	id := t.callID(p.callID, "call_"+u.id)
	end, c := at, p.call
	if c != nil {
		at = c.Start
		end = latest(c.Start, c.End)
	}
	begun := at
	put := func(at time.Time, update []byte) { t.queue = append(t.queue, t.update(at, 0, update)) }
	approval := columns(members(find(data, "approval")))
	questions := t.questions(u.run, p, approval, at, end)
	for _, q := range questions { // nobody is asked about a call that was not told of
		if q.asked.Before(at) {
			at = q.asked
		}
	}

	var o object
	o.str("sessionUpdate", "tool_call")
	o.str("toolCallId", id)
	o.str("title", name)
	o.str("name", name)
	o.str("kind", cmp.Or(toolKinds[name], "other"))
	o.str("status", "pending")
	if input := valueOf(find(data, "input")); input != nil { // null stands for what is not known
		o.raw("rawInput", input)
	}
	put(at, o.bytes())

	for _, q := range questions {
		t.question(u.run, id, q)
		if !q.answered.IsZero() {
			begun = latest(begun, q.answered)
		}
	}
	end = latest(end, begun)
	progress := func() { put(begun, statusUpdate(id, "in_progress").bytes()) }
	switch p.state {
	case "output-available":
		progress()
		o := statusUpdate(id, "completed")
		output := unwrapped(find(data, "output"))
		if output != nil {
			o.raw("content", toolContent(outputText(output)))
			o.raw("rawOutput", output)
		}
		put(end, o.bytes())
	case "output-error", "output-denied":
		if p.state == "output-error" {
			progress()
		}
		put(end, failure(id, cmp.Or(data.text("errorText"), approval.text("reason"))))
	case "input-available":
		if c != nil { // else it was asked for and never called
			progress()
		}
	case "approval-responded":
		if string(find(approval, "approved")) == "false" {
			put(end, failure(id, approval.text("reason")))
		}
	}
}

// failure makes the update that ends a call as failed.
func failure(id, why string) []byte {
	o := statusUpdate(id, "failed")
	if why != "" {
		o.raw("content", toolContent(why))
	}
	return o.bytes()
}

// toolContent is the content of a call that is a text.
func toolContent(s string) []byte {
	var o object
	o.str("type", "content")
	o.raw("content", textBlock(s))
	return list([][]byte{o.bytes()})
}

// unwrapped takes the guide's envelope off a result.
func unwrapped(output []byte) []byte {
	l := members(output)
	if kind, _ := text(find(l, "type")); kind != "output" {
		return output
	}
	if data := find(l, "data"); data != nil {
		return data
	}
	return output
}

// outputText is what people read of a result: a text, the texts of its blocks, else its JSON.
func outputText(output []byte) string {
	if s, ok := text(output); ok {
		return s
	}
	if l := members(output); l != nil {
		if s, ok := text(find(l, "text")); ok {
			return s
		}
		if inner := find(l, "content"); inner != nil {
			return outputText(inner)
		}
		return string(output)
	}
	var blocks []json.RawMessage
	if json.Unmarshal(output, &blocks) != nil || len(blocks) == 0 {
		return string(output)
	}
	var texts []string
	for _, b := range blocks {
		s, ok := text(find(members(b), "text"))
		if !ok {
			return string(output)
		}
		texts = append(texts, s)
	}
	return strings.Join(texts, "\n")
}

// question is a decision that somebody was asked for.
type question struct {
	asked, answered time.Time // answered is zero where no answer is known
	seq, answerSeq  int64
	options         []byte
	option, outcome string
	action          spans.Action
	always          bool
	reason          string
}

// asked reports whether somebody was asked: a decision of the loop's own is none that a client saw.
func asked(x *session.Permission) bool {
	return !x.Derived && (x.Options != nil || x.Outcome != "" || x.Action == spans.ActionAsk)
}

// questions returns what was asked about a call: its evaluations, and those of its turn, and the approval that the guide keeps in a part.
func (t *trace) questions(r *session.Run, p *builtPart, approval columns, at, end time.Time) []question {
	verbatim := len(approval) > 0 && r.Recording == spans.RecordingLedger || strings.HasPrefix(p.state, "approval-")
	var all []*session.Permission
	for _, x := range t.decided {
		if x.CallID == p.callID && p.callID != "" {
			all = append(all, x)
		}
	}
	if p.call != nil {
		all = append(all, p.call.Permissions...)
	}
	var l []question
	for _, x := range all {
		if asked(x) || verbatim && !x.Derived {
			l = append(l, t.questionOf(r, x))
		}
	}
	if len(l) > 0 || !verbatim {
		return l
	}
	q := question{asked: at, action: spans.ActionAsk, reason: approval.text("reason")}
	switch string(find(approval, "approved")) {
	case "true":
		q.action, q.answered = spans.ActionAllow, end
	case "false":
		q.action, q.answered = spans.ActionDeny, end
	}
	return append(l, q)
}

// questionOf reads an evaluation, whose options are loaded.
func (t *trace) questionOf(r *session.Run, x *session.Permission) question {
	q := question{
		asked: x.Start, answered: latest(x.Start, x.End), seq: x.Seq, answerSeq: x.EndSeq, option: x.Option, outcome: x.Outcome,
		action: x.Action, always: x.Source == spans.PermissionSourceSession, reason: x.Reason,
	}
	if x.WaitNS > 0 {
		if began := q.answered.Add(-time.Duration(x.WaitNS)); began.Before(q.asked) || q.asked.Equal(q.answered) {
			q.asked = began
		}
	}
	if x.Action == spans.ActionAsk && x.Outcome == "" {
		q.answered = time.Time{}
	}
	for _, in := range t.g.read(r, nil, spans.ListOptions, x.Options) {
		q.options = in.body
	}
	return q
}

// standardOptions are the answers that ACP has words for.
var standardOptions = [][2]string{
	{"allow_once", "Allow once"}, {"allow_always", "Always allow"}, {"reject_once", "Reject"}, {"reject_always", "Always reject"},
}

// question queues the request and its response. Where the options are not known, or are not spelled as in ACP, they are the standard ones.
func (t *trace) question(r *session.Run, callID string, q question) {
	options, option := q.options, q.option
	if !offered(options, option) {
		option = ""
		var l array
		for _, s := range standardOptions {
			var o object
			o.str("optionId", s[0])
			o.str("name", s[1])
			o.str("kind", s[0])
			l.raw(o.bytes())
		}
		options = l.bytes()
		how := "_once"
		if q.always {
			how = "_always"
		}
		switch q.action {
		case spans.ActionAllow:
			option = "allow" + how
		case spans.ActionDeny:
			option = "reject" + how
		}
	}
	var call, p object
	call.str("toolCallId", callID)
	p.str("sessionId", t.g.s.ID)
	p.raw("toolCall", call.bytes())
	p.raw("options", options)
	name := "permission/" + callID + "/" + strconv.Itoa(len(t.queue))
	t.queue = append(t.queue, wire{at: q.asked, seq: t.seqOf(q.seq), dir: toClient, method: "session/request_permission", params: p.bytes(), reply: name})
	if q.answered.IsZero() {
		return
	}
	m := wire{at: q.answered, seq: t.seqOf(q.answerSeq), dir: toAgent, reply: name}
	var outcome, result object
	switch {
	case q.outcome == "error" && r.Dialect == acpDialect:
		var e object
		e.int("code", -32603)
		e.str("message", cmp.Or(q.reason, unknownError))
		m.error = e.bytes()
	case option != "":
		outcome.str("outcome", "selected")
		outcome.str("optionId", option)
	default:
		outcome.str("outcome", "cancelled")
	}
	result.raw("outcome", outcome.bytes())
	m.result = result.bytes()
	t.queue = append(t.queue, m)
}

// offered reports whether options are such as ACP has them, and option is one of them or empty.
func offered(options []byte, option string) bool {
	var l []json.RawMessage
	if len(options) == 0 || json.Unmarshal(options, &l) != nil {
		return false
	}
	found := option == ""
	for _, raw := range l {
		o := columns(members(raw))
		kind := o.text("kind")
		if !slices.ContainsFunc(standardOptions, func(s [2]string) bool { return s[0] == kind }) || !o.present("optionId") || !o.present("name") {
			return false
		}
		found = found || o.text("optionId") == option
	}
	return found
}

// compactions writes those of a run that were over by then, or all without a time, that were not written yet.
func (t *trace) compactions(r *session.Run, l []*session.Compaction, by time.Time) error {
	for _, c := range l {
		if t.written[c] || !by.IsZero() && latest(c.Start, c.End).After(by) {
			continue
		}
		need := t.appendNotes(appendIDs(nil, c.Summary), r, c.Events)
		if err := t.g.window.load(t.g.ctx, t.appendNotes(need, r, r.Events), nil); err != nil {
			return err
		}
		t.compaction(r, nil, c)
		if err := t.tellQueue(); err != nil {
			return err
		}
	}
	return nil
}

// compaction queues the messages of a compaction whose summary is loaded.
func (t *trace) compaction(r *session.Run, turn *session.Turn, c *session.Compaction) {
	if c.Kind != spans.CompactionKindSummary || t.written[c] {
		return
	}
	if r.Dialect == acpDialect {
		t.written[c] = true
		t.heldCompaction(r, turn, c)
		return
	}
	i, ok := t.byID[c]
	if !ok || t.g.units[i].hidden > 0 {
		return
	}
	t.written[c] = true
	id := t.g.units[i].id
	state := func(status string) *object {
		o := &object{}
		o.str("sessionUpdate", "compaction_update")
		o.str("compactionId", id)
		o.str("status", status)
		return o
	}
	end := latest(c.Start, c.End)
	if end.After(c.Start) {
		t.queue = append(t.queue, t.update(c.Start, 0, state("in_progress").bytes()))
	}
	o := state("completed")
	var texts []string
	for _, in := range t.g.read(r, turn, spans.ListSummary, c.Summary) {
		texts = append(texts, summaryText(in))
	}
	if texts != nil {
		o.raw("summary", list([][]byte{textBlock(strings.Join(texts, "\n"))}))
	}
	t.queue = append(t.queue, t.update(end, 0, o.bytes()))

	// What the model has from now on: the summary, and replies that it left.
	t.used = 0
	if c.OutputTokens != nil {
		t.used = *c.OutputTokens
	}
	tail := t.g.tailStart(c)
	in := false
	for j := range t.g.units[:t.now] {
		u := &t.g.units[j]
		if in = in || u.id == tail; in && u.kind == unitReply && !t.skip[j] {
			sum := guideUsage(t.g.visibleUsage(u))
			t.used = session.Usage{Input: t.used, Output: sum.All()}.All()
		}
	}
}
