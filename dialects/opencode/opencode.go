// Package opencode reads the sessions that OpenCode keeps and turns them into events of package otelagent. They are
// in one of three layouts: an SQLite database with the tables session, message and part; a folder storage with a JSON
// document for each of these (before 1.2); and the document that 'opencode export' writes.
//
//	for ev, err := range opencode.Agent.NewDecoder().Events(export) { ... }
//	for ev, err := range opencode.Agent.NewDecoder().Read(file) { ... } // of transcript.Find
//
// All layouts give one stream of sessions, messages and parts, which one mapper reads: a run begins with a
// message of the user, and each message of the assistant is a turn. dialects/README.md says what is inferred.
//
// # Limits
//
//   - A document, a row, and a message with its parts: MaxLine bytes (64 MiB unless input.Settings sets others).
//   - Nesting of JSON: object.MaxDepth.
//   - Parts of a message: 16,384.
//
// A *input.LineError reports what is beyond a limit. The Decoder holds a message with its parts, or a document.
package opencode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

const maxParts = 16384 // of a message

// Agent says where OpenCode keeps its sessions: a database opencode.db, and session/PROJECT/SESSION.json in a folder
// storage, which is next to the folders message and part. The program has to have a driver of database/sql with the
// name sqlite to read a database.
var Agent = transcript.Agent{Dialect: "opencode", Open: open, Env: "XDG_DATA_HOME", Below: []string{"opencode"},
	Home: []string{".local/share/opencode"}, Head: headOf,
	Names: regexp.MustCompile(`(^|/)(opencode[^/]*\.db|[^/]*ses_[^/]+\.json)$`)}

// created is when a session was created. It is in the first bytes of its document.
var created = regexp.MustCompile(`"created": ?([0-9]{13})`)

func headOf(path string, head []byte, o input.Outline) (h transcript.Head) {
	if input.IsSQLite(head) {
		h.ID, h.Part = path, true
		err := withDatabase(path, func(db *input.Database) error {
			return db.Scan(sessions, func(_ []string, columns []any) {
				h.Sessions = append(h.Sessions, fmt.Sprint(columns[0]))
				h.Started = cmp.Or(h.Started, input.Time(fmt.Append(nil, columns[1])))
			})
		})
		if err != nil {
			return transcript.Head{Err: err}
		}
		return h
	}
	for _, at := range []string{"", "info"} {
		if o.Has(at, "projectID", "directory") {
			h.ID, h.Parent = o.Text(at, "id"), o.Text(at, "parentID")
		}
	}
	if m := created.FindSubmatch(head); m != nil {
		h.Started = input.Time(m[1])
	}
	return h
}

func open(d *transcript.Decoder, f transcript.File) (input.Reader, func() error) {
	r := &reader{Decoder: d}
	if m := document.FindStringSubmatch(filepath.ToSlash(f.Path)); m != nil {
		return input.Reader{}, func() error { return r.readFolder(filepath.FromSlash(m[1]), m[2], m[3]) }
	}
	if f.ID == f.Path && f.ID != "" {
		return input.Reader{}, func() error {
			defer r.endSession()
			return withDatabase(f.Path, func(db *input.Database) error { return r.readDatabase(db, f.Since) })
		}
	}
	return input.Reader{Line: func(input.Line) {}, End: r.endSession,
		IsDocument: func(input.Outline) bool { return true }, Document: r.document}, nil
}

// reader reads a file.
type reader struct {
	*transcript.Decoder
	session *session
	message *message // whose parts are being read
	held    int      // bytes of it and its parts

	head, part object.Object // of the message, and of the current part: one memory for all
}

// document reads what 'opencode export' writes: {"info": session, "messages": [{"info": message, "parts": [part]}]}.
func (d *reader) document(value []byte) {
	o := object.Of("", input.Compact(value)) // so that the layouts differ in no blanks
	if o.Require("info") {
		d.row("session", "", "info", o.Raw("info"))
	}
	for i, m := range o.Objects("messages") {
		if place := object.Element("messages", i); m != nil && m.Require("info") {
			d.row("message", "", place+".info", m.Raw("info"))
			place += ".parts"
			for k, part := range m.List("parts") {
				d.row("part", "", object.Element(place, k), part)
			}
		}
	}
	d.RejectProblems("", o)
}

// row reads a row or document: a session, a message of an id that may be in it, or a part. Place is where it is.
func (d *reader) row(kind, id, place string, text []byte) {
	d.Counts.Lines++
	d.Counts.Events++
	d.Seq, d.held = d.Counts.Lines, d.held+len(text)
	o := &d.part
	switch kind {
	case "session":
		d.endSession()
		o = new(object.Object)
	case "message":
		d.endMessage()
		o = &d.head
	}
	if len(text) > d.Settings.MaxLine {
		d.Reject(&input.LineError{Field: place, Reason: "longer than " + strconv.Itoa(d.Settings.MaxLine) + " bytes"})
		return
	}
	if err := o.ParseAt(place, text); err != nil {
		bad := input.Malformed(err)
		bad.Field, bad.Cut = place, bad.Cut && place == kind // a document of a folder may still be written
		d.Reject(bad)
		return
	}
	switch kind {
	case "session":
		if id, when := o.String("id"), o.Object("time"); id == "" {
			o.Fail("id", "want a string that is not empty")
		} else {
			d.session = &session{Thread: d.Thread(id, ""), info: o, revert: o.Object("revert").String("messageID"),
				created: input.Time(when.Raw("created")), updated: input.Time(when.Raw("updated"))}
			d.session.Parent = o.String("parentID")
		}
	case "message":
		if d.beginMessage(o, cmp.Or(id, o.String("id"))) { // it is read when it has all its parts
			return
		}
	default:
		d.addPart(o)
	}
	d.RejectProblems(kind, o)
}

// Tables are those of a database of OpenCode that are read.
var Tables = []string{"session", "message", "part"}

// document is the path of a session in a storage folder: that folder, the project, and the id of the session.
var document = regexp.MustCompile(`^(.*storage)/session/([^/]+)/([^/]+)\.json$`)

// withDatabase opens a database, which OpenCode may write meanwhile.
func withDatabase(path string, read func(*input.Database) error) error {
	file, err := input.OpenSQLite(path)
	if err != nil {
		return err
	}
	defer file.Close()
	db, err := input.NewDatabase(context.Background(), file, Tables...)
	if err != nil {
		return err
	}
	return read(db)
}

// readDatabase reads the sessions of a database by the time of their creation and id, or those that changed since a
// time. What was written after a session was read comes with the next reading. It holds the ids of all sessions.
func (d *reader) readDatabase(db *input.Database, since time.Time) error {
	var ids []any
	var err error
	whole := since.IsZero()
	if !whole {
		err = db.Scan(changed, func(_ []string, columns []any) {
			ids, whole = append(ids, columns[0]), whole || columns[2] != int64(0)
		}, since.Add(-time.Minute).UnixMilli()) // a row is written a while after its time
	}
	if whole || err != nil { // copies are found next to what they are of
		ids, err = db.IDs(sessions)
	}
	for i := 0; i < len(ids) && err == nil && !d.Stopped(); i++ {
		if err = db.Measure(); err == nil {
			err = d.readSession(db, ids[i])
		}
	}
	return err
}

// sessions is the query of all sessions by time.
var sessions = input.Sorted("id, time_created", "session", "time_created, id")

// changed is the query of the sessions that changed since a time, with those above them, and whether they are forks:
// these have messages that are older.
var changed = input.Sorted("id, time_created, EXISTS (SELECT 1 FROM message WHERE session_id = s.id AND "+
	"json_extract(data, '$.time.created') < s.time_created) AS fork", `session s WHERE id IN (
	WITH RECURSIVE above (id) AS (
		SELECT id FROM session WHERE time_updated >= ?1 UNION SELECT session_id FROM message WHERE time_updated >= ?1 UNION
		SELECT session_id FROM part WHERE time_updated >= ?1 UNION
		SELECT parent_id FROM session JOIN above USING (id) WHERE parent_id IS NOT NULL)
	SELECT id FROM above)`, "time_created, id")

func (d *reader) readSession(db *input.Database, id any) error {
	place, of, i, k := "session", "", 0, 0
	return db.Scan(rows, func(_ []string, columns []any) {
		kind := Tables[columns[0].(int64)]
		message, _ := columns[1].(string)
		text, _ := columns[2].([]byte)
		switch kind {
		case "message":
			of = object.Element("messages", i)
			place, i, k = of+".data", i+1, 0
		case "part":
			place, k = object.Element(of+".parts", k)+".data", k+1
		}
		if !d.Stopped() {
			d.row(kind, message, place, text)
		}
	}, id)
}

// rows is the query of a session, which it spells as an export does, and of its messages, each with its parts after
// it. Each row says of which of the tables it is. The query takes the keys in the order of the indexes, or sorts them,
// and then reads the data of each row. The last SELECT stands for columns that a version lacks.
const rows = `WITH r AS MATERIALIZED (
	SELECT 0 AS kind, NULL AS time, NULL AS message, NULL AS part, rowid AS at FROM session WHERE id = ?1 UNION ALL
	SELECT 1, time_created, id, NULL, rowid FROM message WHERE session_id = ?1 UNION ALL
	SELECT 2, m.time_created, m.id, p.id, p.rowid FROM message m JOIN part p ON p.message_id = m.id
		WHERE m.session_id = ?1
	ORDER BY 2, 3, 4 LIMIT ?2)
SELECT kind, iif(kind = 1, message, NULL), CAST(CASE kind WHEN 2 THEN (SELECT data FROM part WHERE rowid = at)
	WHEN 1 THEN (SELECT data FROM message WHERE rowid = at)
	ELSE (SELECT json_object('id', id, 'parentID', parent_id, 'directory', directory, 'title', title, 'version', version,
		'permission', json(iif(json_valid(permission), permission, 'null')),
		'revert', json(iif(json_valid(revert), revert, 'null')),
		'time', json_object('created', time_created, 'updated', time_updated)) FROM session WHERE rowid = at) END AS BLOB)
FROM r, (SELECT NULL AS directory, NULL AS title, NULL AS version, NULL AS permission, NULL AS revert)`

// readFolder reads a session of a storage folder.
func (d *reader) readFolder(folder, project, session string) error {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	defer d.endSession()
	return d.readFile(root, "session", project, session)
}

// readFile reads the document KIND/FOLDER/ID.json, if it is one, and after it those of its elements, by their names:
// in message/SESSION or part/MESSAGE. It follows no symbolic link.
func (d *reader) readFile(root *os.Root, kind, folder, id string) error {
	if text := transcript.ReadIn(root, kind+"/"+folder+"/"+id+".json", d.Settings.MaxLine); text != nil {
		if rawjson.Valid(text, object.MaxDepth) == nil {
			text = input.Compact(text)
		}
		d.row(kind, id, kind, text)
	}
	in := map[string]string{"session": "message", "message": "part"}[kind]
	if in == "" || d.session == nil || kind == "session" && d.session.Session != id {
		return nil
	}
	entries, err := fs.ReadDir(root.FS(), in+"/"+id)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for _, e := range entries {
		if name, isJSON := strings.CutSuffix(e.Name(), ".json"); isJSON && !d.Stopped() {
			err = cmp.Or(err, d.readFile(root, in, id, name))
		}
	}
	return err
}

// session is the current session.
type session struct {
	*transcript.Thread
	info                      *object.Object
	created, updated, replied time.Time // replied: when the last reply was over
	// revert is the message from which on all are taken back, reverted whether it was met.
	revert   string
	reverted bool
	// compaction is the message that asked for a summary which was not met yet.
	compaction *message // its object is no longer valid
}

// message is a message, and what its parts say.
type message struct {
	*object.Object
	id, role           string
	created, completed time.Time
	call               transcript.Call // that it is, if it is a reply
	parts, steps       int
	text               []byte        // the first one
	written            bool          // it has a text that is not by OpenCode itself
	asks, tail         string        // for a compaction: who does, and what is kept
	last               time.Time     // the latest end of a part
	others             []event.Other // parts that have no place among the events
}

// endSession emits what is known of the current session.
func (d *reader) endSession() {
	d.endMessage()
	d.Finish()
	d.session = nil
}

// beginMessage begins a message, and reports whether it is one of the current session.
func (d *reader) beginMessage(o *object.Object, id string) bool {
	of, when := o.String("sessionID"), o.Object("time")
	if d.session == nil || id == "" || of != "" && of != d.session.Session {
		o.Fail("sessionID", "of no session: that has to stand before its messages, and a message has an id")
		return false
	}
	d.held, d.message = 0, &message{Object: o, id: id, role: o.String("role"),
		created: input.Time(when.Raw("created")), completed: input.Time(when.Raw("completed"))}
	return true
}

// addPart adds a part to the current message.
func (d *reader) addPart(o *object.Object) {
	m, of := d.message, o.Raw("messageID")
	switch {
	case m == nil || of != nil && string(rawjson.Text(of)) != m.id:
		o.Fail("messageID", "of no message, which has to stand before its parts")
		return
	case m.parts == maxParts || d.held > d.Settings.MaxLine:
		o.Fail("", "beyond the limits of a message")
		return
	}
	m.parts++
	c, kind, text, when := &m.call, o.String("type"), o.Raw("text"), o.Object("time")
	var block []byte
	switch kind {
	case "text":
		if block = transcript.Block(kind, text); m.text == nil {
			m.text = text
		}
		m.written = m.written || !o.True("synthetic")
	case "reasoning":
		block = transcript.Block("thinking", text)
	case "file":
		block = input.Members("type", kind, "mediaType", o.Raw("mime"), "filename", o.Raw("filename"), "url", o.Raw("url"))
	case "tool":
		state := o.Object("state")
		when = cmp.Or(state.Object("time"), when)
		c.Tools = append(c.Tools, d.tool(o, state, when))
		block = input.Members("type", "tool_use", "id", o.Raw("callID"), "name", o.Raw("tool"), "input", state.Raw("input"))
	case "step-start":
	case "step-finish":
		m.steps++
	case "compaction":
		m.asks = map[bool]string{true: "auto", false: "manual"}[o.True("auto")]
		m.tail = o.String("tail_start_id")
	case "retry":
		name, text := failure(o)
		d.session.Discard(event.DiscardedAttempt{At: event.Moment{Time: input.Time(when.Raw("created"))}, Reason: name,
			Error: text})
	case "subtask": // what a command asks a sub-agent for
		block = transcript.Block("text", o.Raw("prompt"))
		fallthrough
	default:
		o.Keep(o.Keys()...)
		o.Use("id", "sessionID", "messageID")
		m.others = append(m.others, event.Other{Type: "opencode." + cmp.Or(kind, "part"), Body: o.Rest()})
	}
	if block != nil {
		c.Said = append(c.Said, block)
	}
	start, end := input.Time(when.Raw("start")), input.Time(when.Raw("end"))
	m.last = input.Later(m.last, end)
	if took := start.Sub(m.created); kind != "tool" && took > 0 && !m.created.IsZero() {
		c.FirstChunk, c.ModelCall = cmp.Or(c.FirstChunk, took), max(took, end.Sub(m.created))
	}
}

// synthetic reports whether a message of the user is by OpenCode itself.
func (m *message) synthetic() bool { return m.asks == "auto" || m.text != nil && !m.written }

// endMessage emits the current message, which has all its parts. One of the user that OpenCode wrote, or that came
// before the last reply was over, goes on with the run before it.
func (d *reader) endMessage() {
	m, s := d.message, d.session
	if d.message = nil; m == nil {
		return
	}
	if m.role != "assistant" {
		if m.synthetic() && !s.replied.IsZero() || m.created.Before(s.replied) {
			s.Over(time.Time{}, event.RunResult{})
		}
		s.Cut()
	}
	switch {
	case m.role == "assistant" && string(m.Raw("summary")) == "true":
		d.compact(m)
	case m.role == "assistant":
		d.reply(m)
	case m.asks != "":
		s.compaction = m
	default:
		d.prompt(m)
	}
	if s.reverted = s.reverted || m.id == s.revert; s.reverted {
		d.Hide(s.Session, m.id, true, s.updated)
	}
	m.Use(fields...)
	for _, o := range append(m.others, event.Other{Type: "message.unknown_keys", Body: m.Rest()}) {
		if o.Body != nil {
			s.Other(o.Type, o.Body, m.created)
		}
	}
	d.RejectProblems("message", m.Object)
}

// fields are those of a message that the mapper reads, or that are elsewhere: path, mode and the sums of changes.
var fields = []string{"id", "sessionID", "parentID", "role", "time", "agent", "mode", "model", "modelID", "providerID",
	"variant", "finish", "tokens", "cost", "error", "path", "summary", "system", "tools", "format"}

// prompt begins a run.
func (d *reader) prompt(m *message) {
	s := d.session
	model, trigger := m.Object.Object("model"), spans.TriggerUser
	info := event.RunInfo{ID: m.id, Agent: m.String("agent"), Model: model.String("modelID"),
		Provider: model.String("providerID"), Rules: s.info.Raw("permission"),
		Config: input.Members("version", s.info.Raw("version"), "agent", m.Raw("agent"))}
	if m.synthetic() {
		trigger = spans.TriggerContinuation
	}
	d.begin(info, m, trigger)
	d.Fact(s.Session, "title", s.info.Raw("title"), s.updated)
	d.Fact(s.Session, "cwd", s.info.Raw("directory"), s.updated)
	raw := input.Members("id", m.id, "role", m.role, "content", input.Array(m.call.Said))
	s.Message(event.Message{Raw: raw, Role: m.role, Time: m.created})
}

// begin begins a run with a message. A message that is older than its session is the copy that a fork has of one of its
// parent's; it has another id and the same time.
func (d *reader) begin(info event.RunInfo, m *message, trigger spans.Trigger) {
	s := d.session
	owner, _ := d.First(s.Session, "at "+m.created.String()+" "+m.role)
	copied := m.created.Before(s.created) && !m.created.IsZero()
	if copied && owner != "" && owner != s.Session {
		info.Copied, info.ForkParentID = true, owner
	}
	s.Begin(transcript.Run{RunInfo: info, At: m.created, Trigger: trigger, Taken: copied})
}

var keys = event.UsageKeys{Input: "input", Output: "output", Reasoning: "reasoning", CacheRead: "cache.read",
	CacheWrite: "cache.write", Total: "total"}

// usage returns the tokens of a message and their cost; nil when they are zero, as before the reply is there. A message
// of several steps, as old versions wrote them, has the tokens of the last.
func (m *message) usage() (*event.Usage, *float64) {
	u := transcript.Counted(keys.Read(m.Object.Object("tokens"), spans.UsageRuleExcludesCacheAndReasoning))
	if u == nil {
		return nil, nil
	}
	u.LowerBound = m.steps > 1
	return u, m.Float("cost")
}

// failure returns the name of the error of a message or part, and what it says.
func failure(of *object.Object) (name, text string) {
	o := of.Object("error")
	return o.String("name"), cmp.Or(o.Object("data").String("message"), o.String("name"))
}

// reply emits a message of the assistant: a call of the model, and the calls of tools that it asked for.
func (d *reader) reply(m *message) {
	s, c := d.session, &m.call
	name, text := failure(m.Object)
	c.ID, c.Run, c.Variant, c.Start = m.id, m.String("parentID"), m.String("variant"), event.Moment{Time: m.created}
	c.Model, c.Provider, c.StopReason = m.String("modelID"), m.String("providerID"), m.String("finish")
	c.Failed, c.Cancelled, c.Error, c.ResponseID = text != "", name == "MessageAbortedError", text, m.id
	c.At, c.Currency = input.Later(cmp.Or(m.completed, m.last), m.created), "USD"
	if c.Usage, c.Cost = m.usage(); c.Tools != nil {
		c.ModelCall = 0 // it ended before they began
	}
	if s.replied = m.completed; !s.Call(*c) {
		return
	}
	switch {
	case c.Cancelled:
		s.Over(c.At, event.RunResult{Status: spans.RunStatusCancelled})
	case text != "":
		s.Over(c.At, event.RunResult{Status: spans.RunStatusError, Error: text})
	case !m.completed.IsZero() && c.StopReason != "tool-calls":
		s.Over(c.At, event.RunResult{})
	}
}

// tool reads a call and its result.
func (d *reader) tool(p, state, when *object.Object) (t transcript.Tool) {
	t.ID, t.Name, t.Args = p.String("callID"), p.String("tool"), state.Raw("input")
	t.At = input.Time(when.Raw("start"))
	status, meta := state.String("status"), state.Object("metadata")
	if status != "completed" && status != "error" {
		return t
	}
	r := &transcript.Result{CallID: t.ID, Name: t.Name, At: input.Time(when.Raw("end"))}
	r.Truncated, t.Result = meta.Bool("truncated"), r
	if child := cmp.Or(meta.String("sessionId"), meta.String("sessionID")); child != d.session.Session {
		r.ChildSessionID = child
	}
	if r.Result = state.Raw("output"); status == "error" {
		r.Result = state.Raw("error")
		fail(r, state.String("error"))
	} else if exit := meta.Int("exit"); exit != nil && *exit != 0 {
		r.Outcome, r.Error = spans.OutcomeError, "exit code "+strconv.FormatInt(*exit, 10)
	}
	if state.Has("attachments") {
		r.Result = input.Members("output", r.Result, "attachments", state.Raw("attachments"))
	}
	return t
}

// refusals are what the error of a call says that a person or a rule refused, with the reason or the rules.
var refusals = transcript.Refusals{
	{Text: regexp.MustCompile(`^The user rejected permission`), Source: "user-rejected"},
	{Text: regexp.MustCompile(`^The user has specified a rule which prevents you`), Source: "permission-rule"},
}

// fail says why a call failed: it was refused, stopped, or an error.
func fail(r *transcript.Result, text string) {
	r.Outcome, r.Error, r.Denied = spans.OutcomeError, text, refusals.Find(text)
	if _, list, ok := strings.Cut(text, "["); r.Denied != nil && ok { // the rules; the last one that denies counts
		rules, _ := object.Parse([]byte(`{"rules":[` + list + "}"))
		for _, rule := range rules.Objects("rules") {
			if rule.String("action") == "deny" {
				r.Denied.Pattern, r.Denied.Reason = rule.String("pattern"), ""
			}
		}
	} else if strings.HasPrefix(text, "Tool execution aborted") {
		r.Outcome = spans.OutcomeCancelled
	}
}

// compact emits a compaction: the message that asked for it, and m, its summary, whose tokens are no turn's.
func (d *reader) compact(m *message) {
	s := d.session
	asked := cmp.Or(s.compaction, m)
	s.compaction = nil
	c := event.Compaction{Kind: spans.CompactionKindSummary, Start: event.Moment{Time: asked.created}, Trigger: asked.asks}
	res := event.CompactionResult{End: event.Moment{Time: m.completed}, Currency: "USD", Target: asked.tail}
	res.Usage, res.Cost = m.usage()
	if _, text := failure(m.Object); text != "" {
		res.Applied, res.Reason = new(false), text
	} else if m.text != nil {
		res.Applied, res.Summary = new(true), m.text
	}
	d.begin(event.RunInfo{ID: asked.id, Continuation: spans.ContinuationCompaction}, asked, "")
	s.Compact(asked.id, m.completed, c, res)
	s.End(m.completed, event.RunResult{})
}

// RecogniseDocument returns why an input is an export, which may be cut; empty when it is not.
func RecogniseDocument(o input.Outline) (why string) {
	if o.Text("info", "id") != "" && o.Has("info", "projectID", "directory", "version", "slug") {
		return "an object with info and messages"
	}
	return ""
}
