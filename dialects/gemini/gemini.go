// Package gemini reads the chats that Gemini CLI keeps and turns them into events of package otelagent: one JSON
// document a session (to 0.39), or a log of changes as JSON lines.
//
//	for ev, err := range gemini.Events(file) { ... }
//
// A run begins with a message of the user that is no result of a tool, and each message of the model with tokens is a
// turn. In a log the appended messages alone are events: a list of messages that $set repeats adds nothing but a
// compaction, or that a prompt was taken back. dialects/README.md says what is inferred.
//
// # Limits
//
//   - A line, and a document as a whole: MaxLine bytes (64 MiB unless input.WithMaxLine sets another number).
//   - Nesting of JSON: object.MaxDepth.
//   - Messages of a list: 65,536. Messages that a rewind reaches: the last 65,536 of a session.
//
// A *input.LineError reports what is beyond a limit. The Decoder holds one turn, and a document whole.
package gemini

import (
	"bytes"
	"io"
	"iter"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "gemini-cli"

// Layout is where Gemini CLI keeps its chats: tmp/PROJECT/chats/session-TIME-ID.json and .jsonl below its folder, and
// the sub-agents of a session in a folder that has the session's id as its name.
var Layout = transcript.Layout{Dialect: Dialect, Roots: func(env func(string) string, home string) []string {
	if moved := env("GEMINI_CLI_HOME"); moved != "" {
		home = moved
	}
	return []string{home + "/.gemini/tmp"}
}, Is: regexp.MustCompile(`(/chats/[^\n]*|session[^/]*)\.jsonl?$`).MatchString, Head: headOf}

// child is the path of a sub-agent's chat: its folder is the id of its parent.
var child = regexp.MustCompile(`/chats/([^/]+)/[^/]+\.jsonl?$`)

func headOf(path string, head []byte) (h transcript.Head) {
	o := input.OutlineOf(head)
	if Recognise(o) == "" && RecogniseDocument(o) == "" {
		return h
	}
	h.ID, h.Folder = o.Text("", "sessionId"), filepath.Join(filepath.Dir(path), filepath.Base(o.Text("", "sessionId")))
	h.Started, _ = input.Time(rawjson.Quote(nil, o.Text("", "startTime")))
	if m := child.FindStringSubmatch(filepath.ToSlash(path)); m != nil {
		h.Parent = m[1]
	}
	return h
}

// Events reads one input. It is NewDecoder(opts...).Events(r).
func Events(r io.Reader, opts ...input.Option) iter.Seq2[event.Event, error] {
	return NewDecoder(opts...).Events(r)
}

// A Decoder reads the chats of a session, of its sub-agents, and copies of them. Not safe for concurrent use.
type Decoder struct{ r reader }

// NewDecoder returns a Decoder that has read no session.
func NewDecoder(opts ...input.Option) *Decoder {
	shell := input.NewShell(Dialect, ndjson.Read, opts...)
	return &Decoder{reader{Emitter: transcript.NewEmitter(&shell)}}
}

// Stats returns what was read so far. Lines counts lines; of a document messages.
func (d *Decoder) Stats() input.Stats { return d.r.Stats }

// Next says that the next input is f.
func (d *Decoder) Next(f transcript.File) {
	d.r.Next(f)
	if d.r.session = nil; f.Offset > 0 {
		d.r.session = d.r.files[f.Path]
	}
}

// Events reads r until its end, as [input.Decoder] describes: a document, or lines.
func (d *Decoder) Events(r io.Reader) iter.Seq2[event.Event, error] {
	return d.r.Shell.Events(r, input.Reader{Line: d.r.line, End: d.r.end,
		IsDocument: func(o input.Outline) bool { return RecogniseDocument(o) != "" }, Document: d.r.document})
}

// reader is a Decoder behind its methods.
type reader struct {
	*transcript.Emitter
	session *session
	files   map[string]*session // by path, while they grow
}

// line reads one line: the head of a session, a message, a change, or a rewind.
func (d *reader) line(line input.Line) {
	o := d.Object(line)
	if o == nil {
		return
	}
	switch {
	case o.Has("sessionId") && !o.Has("id"):
		d.head(o)
	case d.session == nil && d.Settings.Session == "":
		d.Reject(&input.LineError{Field: "sessionId", Reason: "of no session: its head has to stand before"})
		return
	default:
		s := d.of("")
		switch {
		case o.Has("$rewindTo"):
			d.Stats.Events++
			s.rewind(o.String("$rewindTo"))
			s.keep("gemini.rewind", o)
		case o.Has("$set"):
			d.Stats.Events++
			if set := o.Object("$set"); set != nil {
				s.set(set)
			}
		default:
			s.message(o)
		}
	}
	d.RejectProblems("", o)
}

// document reads a session that is one document.
func (d *reader) document(value []byte) {
	o := object.Of("", value)
	messages := o.List("messages")
	d.head(o)
	if d.session == nil {
		d.RejectProblems("", o)
		return
	}
	for i, value := range messages {
		d.Stats.Lines++
		d.Seq = d.Stats.Lines
		place := "messages[" + strconv.Itoa(i) + "]"
		if m := object.Of(place, value); m != nil {
			d.session.message(m)
			d.RejectProblems("", m)
		} else {
			d.Reject(&input.LineError{Field: place, Reason: "want an object, got " + rawjson.KindOf(value)})
		}
	}
	d.RejectProblems("", o)
}

// of returns the session of an id; the one at hand for the empty one.
func (d *reader) of(id string) *session {
	if s := d.session; s != nil && (id == "" || id == s.id) {
		return s
	}
	if id == "" {
		id = d.Settings.Session
	}
	s := &session{Thread: d.Thread(id, ""), d: d, id: id}
	if m := child.FindStringSubmatch(filepath.ToSlash(d.File.Path)); m != nil {
		s.parent = m[1]
	}
	if d.session = s; d.File.Path != "" {
		if d.files == nil || len(d.files) == maxMessages {
			d.files = map[string]*session{}
		}
		d.files[d.File.Path] = s
	}
	return s
}

// head reads the head of a session, which stands again where the session was resumed.
func (d *reader) head(o *object.Object) {
	id := o.String("sessionId")
	if id == "" {
		o.Fail("sessionId", "want a string that is not empty")
		return
	}
	d.Stats.Events++
	if s := d.session; s != nil && s.id != id {
		d.end()
	}
	s := d.of(id)
	if kind := o.Raw("kind"); kind != nil {
		s.kind = bytes.Clone(kind)
	}
	s.see(o.Time("startTime"))
	o.Use("messages")
	s.facts(o)
}

// end says that an input ended. A run whose last reply asks for no tool is over.
func (d *reader) end() {
	if s := d.session; s != nil && !d.Settings.Live && s.Run() != "" && s.over() {
		s.endRun(time.Time{})
	}
	d.Finish()
	if !d.Settings.Live {
		d.session = nil
	}
}

// Recognise returns why a line, which may be cut, is the head of a session; empty when it is none.
func Recognise(o input.Outline) (why string) {
	if o.First("", "sessionId") == '"' && o.First("", "projectHash") == '"' {
		return "lines with sessionId and projectHash"
	}
	return ""
}

// RecogniseDocument returns why an input is a session as one document; empty when it is none.
func RecogniseDocument(o input.Outline) (why string) {
	if Recognise(o) != "" && o.First("", "messages") == '[' {
		return "an object with sessionId, projectHash and messages"
	}
	return ""
}

// text returns the text of a value that is a string or an array of parts with text.
func text(value []byte) string {
	if s, ok := rawjson.String(value); ok {
		return s
	}
	var all []string
	for _, p := range parts(value) {
		if s, ok := rawjson.String(p.Raw("text")); ok {
			all = append(all, s)
		}
	}
	return strings.Join(all, "")
}

// parts returns the parts of a value that is one, or an array of them.
func parts(value []byte) (list []*object.Object) {
	if o := object.Of("", value); o != nil {
		return []*object.Object{o}
	}
	c := rawjson.NewCursor(value, object.MaxDepth)
	for c.Open('['); c.More(']'); {
		if o := object.Of("", c.Value()); o != nil && len(list) < object.MaxElements {
			list = append(list, o)
		}
	}
	return list
}
