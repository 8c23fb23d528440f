// Package gemini reads the chats that Gemini CLI keeps and turns them into events of package otelagent: one JSON
// document a session (to 0.39), or a log of changes as JSON lines.
//
//	for ev, err := range gemini.NewDecoder().Events(file) { ... }
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
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/input"
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

// NewDecoder returns a Decoder of the chats of a session, of its sub-agents, and copies of them. Stats.Lines counts
// lines; of a document messages.
func NewDecoder(opts ...input.Option) *transcript.Decoder {
	return transcript.NewDecoder(Dialect, opts, func(e *transcript.Emitter) transcript.Format {
		return func(f transcript.File) transcript.Reader {
			s := &session{e: e}
			if m := child.FindStringSubmatch(filepath.ToSlash(f.Path)); m != nil {
				s.parent = m[1]
			}
			return transcript.Reader{Reader: input.Reader{Line: s.line, End: s.ends, Document: s.document,
				IsDocument: func(o input.Outline) bool { return RecogniseDocument(o) != "" }}}
		}
	})
}

// line reads one line: the head of a session, a message, a change, or a rewind.
func (s *session) line(line input.Line) {
	o := s.e.Object(line)
	if o == nil {
		return
	}
	switch {
	case o.Has("sessionId") && !o.Has("id"):
		s.head(o)
	case !s.of(s.e.Settings.Session):
		s.e.Reject(&input.LineError{Field: "sessionId", Reason: "of no session: its head has to stand before"})
		return
	case o.Has("$rewindTo"):
		s.e.Stats.Events++
		s.rewind(o.String("$rewindTo"))
		s.keep("gemini.rewind", o)
	case o.Has("$set"):
		s.e.Stats.Events++
		if set := o.Object("$set"); set != nil {
			s.set(set)
		}
	default:
		s.message(o)
	}
	s.e.RejectProblems("", o)
}

// document reads a session that is one document.
func (s *session) document(value []byte) {
	o := object.Of("", value)
	messages := o.List("messages")
	if !s.head(o) {
		messages = nil
	}
	for i, value := range messages {
		s.e.Stats.Lines++
		s.e.Seq = s.e.Stats.Lines
		place := "messages[" + strconv.Itoa(i) + "]"
		if m := object.Of(place, value); m != nil {
			s.message(m)
			s.e.RejectProblems("", m)
		} else {
			s.e.Reject(&input.LineError{Field: place, Reason: "want an object, got " + rawjson.KindOf(value)})
		}
	}
	s.e.RejectProblems("", o)
}

// of makes the session of an id the one at hand, unless one is, and reports whether one is.
func (s *session) of(id string) bool {
	if s.Thread == nil && id != "" {
		s.Thread = s.e.Thread(id, "")
	}
	return s.Thread != nil
}

// head reads the head of a session, which stands again where the session was resumed. It reports whether it is one.
func (s *session) head(o *object.Object) bool {
	id := o.String("sessionId")
	if id == "" {
		o.Fail("sessionId", "want a string that is not empty")
		return false
	}
	s.e.Stats.Events++
	if s.Thread != nil && s.Session != id {
		s.ends()
		*s = session{e: s.e, parent: s.parent}
	}
	s.of(id)
	if kind := o.Raw("kind"); kind != nil {
		s.kind = bytes.Clone(kind)
	}
	s.see(o.Time("startTime"))
	o.Use("messages")
	s.facts(o)
	return true
}

// ends says that an input ended. A run whose last reply asks for no tool is over.
func (s *session) ends() {
	if !s.e.Settings.Live && s.Thread != nil && s.Run() != "" && s.over() {
		s.endRun(time.Time{})
	}
	s.e.Finish()
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
