// Package claudecode reads the transcripts of Claude Code: the files SESSION.jsonl below ~/.claude/projects, those of
// its sub-agents, and large outputs of tools. The format is internal to that program and changes; dialects/README.md
// says what is inferred and what is lost.
//
//	for _, family := range families {
//		for ev, err := range family.Events(claudecode.NewDecoder()) { ... }
//	}
//
// where families comes from [transcript.Find] and [Layout]. A single file is read with Events, as that of any dialect.
package claudecode

import (
	"bytes"
	"cmp"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/object"
)

// Dialect is the name of this dialect in RunInfo.Dialect.
const Dialect = "claude-code"

// maxSides is how many sub-agents in line, compactions and titles of a file are remembered.
const maxSides = 4096

// family is what the files of a session, of its sub-agents and of its forks share.
type family struct {
	*transcript.Emitter
	talks  map[*transcript.Thread]*talk  // what is known of a thread
	sides  map[string]*transcript.Thread // threads of sub-agents in line, by their lines
	calls  map[string]*transcript.Thread // and by the call that spawned them
	side   *transcript.Thread            // the last one
	below  map[string]bool               // lines below which a prompt stands
	summed []*summed                     // calls of compactions
	rank   map[string]int                // of the title of a session
}

// file is one of them.
type file struct {
	*family
	transcript.File
	session string
	agent   string            // the sub-agent whose file it is
	titles  map[string][]byte // of the history that ends with a line
}

// NewDecoder returns a Decoder of the files of a family. An input without a name is of the session that its lines name.
func NewDecoder(opts ...input.Option) *transcript.Decoder {
	return transcript.NewDecoder(Dialect, opts, func(e *transcript.Emitter) transcript.Format {
		d := &family{Emitter: e, talks: map[*transcript.Thread]*talk{}, sides: map[string]*transcript.Thread{},
			calls: map[string]*transcript.Thread{}, below: map[string]bool{}, rank: map[string]int{}}
		return func(f transcript.File) transcript.Reader {
			d := &file{family: d, File: f, session: cmp.Or(f.ID, e.Settings.Session), titles: map[string][]byte{}}
			if agent, ok := strings.CutPrefix(f.ID, agentPrefix); ok {
				d.session, d.agent, _ = strings.Cut(agent, " ")
			}
			return transcript.Reader{Reader: input.Reader{Line: e.Objects("type!", d.line), End: d.end}}
		}
	})
}

// end reports what the end of a file shows.
func (d *file) end() {
	for t, k := range d.talks {
		k.endCompaction(nil)
		if t.Name != "" && d.Spawned(t.Session, t.Run()).Done {
			t.Over(time.Time{}, event.RunResult{})
		}
	}
	d.Finish()
}

// Ids of lines and sub-agents are remembered under names of their own: a prompt's line is also its run.
const linePrefix, agentPrefix = "line ", "agent "

// Layout is where Claude Code keeps its sessions.
var Layout = transcript.Layout{Dialect: Dialect, Env: "CLAUDE_CONFIG_DIR", Below: []string{"projects"},
	Home: []string{".claude/projects", ".config/claude/projects",
		"Library/Application Support/Claude/local-agent-mode-sessions",
		"Library/Developer/Xcode/CodingAssistant/ClaudeAgentConfig/projects"},
	Names: regexp.MustCompile(`\.jsonl(\.zst)?$`), Head: headOf, NextTo: "agent-*.jsonl*"}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// headOf finds the session in the name of a file or in its lines, and what it has in common with others: the first line
// of a history, and the session from which it was forked.
func headOf(path string, head []byte) (h transcript.Head) {
	session := ""
	for line := range bytes.Lines(head) {
		o, err := object.Parse(bytes.TrimSpace(line))
		if err != nil {
			continue
		}
		if session == "" && known(o.String("type")) {
			session = o.String("sessionId")
		}
		at := transcript.Time(o.Raw("timestamp"))
		if at.IsZero() || o.String("uuid") == "" {
			continue
		}
		h.Started, h.Parent = at, from(o)
		if !o.Has("parentUuid") {
			h.Keys = []string{linePrefix + o.String("uuid")}
		}
		break
	}
	if session == "" {
		return transcript.Head{}
	}
	stem := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".zst"), ".jsonl")
	agent, isAgent := strings.CutPrefix(stem, "agent-")
	if !isAgent {
		if h.ID, h.Folder = session, filepath.Join(filepath.Dir(path), stem); uuid.MatchString(stem) {
			h.ID = stem
		}
		return h
	}
	if before, _, ok := strings.Cut(filepath.ToSlash(path), "/subagents/"); ok {
		h.Folder = filepath.FromSlash(before)
		if name := filepath.Base(h.Folder); uuid.MatchString(name) {
			session = name
		}
	}
	h.Part = true
	if h.ID, h.Keys = agentPrefix+session+" "+agent, []string{session}; isCompaction(agent) {
		h.Started, h.Parent = time.Time{}, "" // read before the session, whose compaction takes its tokens
	} else {
		h.Parent = session
	}
	return h
}

// from returns the session from which a line was copied, as far as it says so.
func from(o *object.Object) (of string) {
	if of = o.String("session_id"); of == o.String("sessionId") {
		of = ""
	}
	return cmp.Or(o.Object("forkedFrom").String("sessionId"), of)
}

// isCompaction reports whether a sub-agent is the call that writes the summary of a compaction.
func isCompaction(agent string) bool { return strings.HasPrefix(agent, "acompact") }

// Recognise returns why a line, which may be cut, is one of Claude Code; empty when it is none.
func Recognise(o input.Outline) (why string) {
	switch kind := o.Text("", "type"); {
	case known(kind) && o.Has("", "sessionId") && !o.Has("", "projectHash"),
		kind == "file-history-snapshot" && o.Has("", "messageId"), kind == "summary" && o.Has("", "leafUuid"):
		return "lines with type " + kind + " and sessionId"
	}
	return ""
}
