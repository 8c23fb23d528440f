// Package dialects knows all dialects, and recognises from the beginning of an input which of them it is in.
package dialects

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/dialects/acp"
	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/claudecode"
	"github.com/otelagent/otelagent/dialects/codex"
	"github.com/otelagent/otelagent/dialects/gemini"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/dialects/opencode"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/dialects/pi"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Dialect is one of the formats in which loops report their events.
type Dialect struct {
	// Name is its name in flags and in RunInfo.Dialect.
	Name string
	// Reads says briefly what it reads.
	Reads string
	// New returns a Decoder that has met nothing.
	New func(...input.Settings) input.Decoder
	// Agent says where the agent keeps its sessions; nil where it keeps none. New returns a *transcript.Decoder then.
	Agent *transcript.Agent

	line     func(input.Outline) (why string) // of a line, which may be cut
	document func(input.Outline) (why string) // of an input that has no lines; nil where there is none
}

var all = []Dialect{
	{ndjson.Dialect, "otelagent's events as JSON lines", of(ndjson.NewDecoder), nil, ndjson.Recognise, nil},
	{phi.Dialect, "AgentEvents as lines or server-sent events, saved sessions, message arrays", of(phi.NewDecoder), nil,
		phi.Recognise, phi.RecogniseDocument},
	{clark.Dialect, "AgentEvents, bare or in an envelope, and TrajectoryRecords", of(clark.NewDecoder), nil,
		clark.Recognise, nil},
	{acp.Dialect, "captures of Agent Client Protocol messages", of(acp.NewDecoder), nil, acp.Recognise, nil},
	{guide.Dialect, "sessions of the agent guide as JSON, JSONL or SQLite", of(guide.NewDecoder), nil, guide.Recognise,
		guide.RecogniseDocument},
	agent(&claudecode.Agent, "transcripts of Claude Code", claudecode.Recognise, nil),
	agent(&codex.Agent, "rollouts of Codex", codex.Recognise, nil),
	agent(&gemini.Agent, "chats of Gemini CLI", gemini.Recognise, gemini.RecogniseDocument),
	agent(&opencode.Agent, "sessions of OpenCode: database, storage folders, exports", opencode.RecogniseDocument,
		opencode.RecogniseDocument),
	agent(&pi.Agent, "sessions of Pi", pi.Recognise, nil),
}

// agent returns the dialect of the files of an agent.
func agent(a *transcript.Agent, reads string, line, document func(input.Outline) string) Dialect {
	return Dialect{a.Dialect, reads, of(a.NewDecoder), a, line, document}
}

// of makes a constructor of the interface from one of a type.
func of[D input.Decoder](make func(...input.Settings) D) func(...input.Settings) input.Decoder {
	return func(opts ...input.Settings) input.Decoder { return make(opts...) }
}

// All returns the dialects, package ndjson's first. The slice is the caller's.
func All() []Dialect { return slices.Clone(all) }

// Names returns their names in that order.
func Names() []string {
	var names []string
	for _, d := range all {
		names = append(names, d.Name)
	}
	return names
}

// Named returns the dialect of that name.
func Named(name string) (Dialect, bool) {
	for _, d := range all {
		if d.Name == name {
			return d, true
		}
	}
	return Dialect{}, false
}

// UnknownError says that an input is in none of the dialects, or in more than one.
type UnknownError struct {
	// Empty says that there was nothing to go by.
	Empty bool
	met   []string // which line is in which dialect
}

// Error lists what was tried, without any piece of the input.
func (e *UnknownError) Error() string {
	switch {
	case e.Empty:
		return "the input is empty"
	case len(e.met) > 0:
		return "the input is in several dialects: " + strings.Join(e.met, ", ") + "; lines of " + ndjson.Dialect +
			" alone may stand between those of another"
	}
	var tried []string
	for _, d := range all {
		tried = append(tried, fmt.Sprintf("%s (%s)", d.Name, d.Reads))
	}
	return "the input is in no known dialect; tried: " + strings.Join(tried, ", ")
}

// headLines is how many lines of an input are looked at.
const headLines = 64

// Open reads the beginning of r and returns the dialect that it is in, why that one, and a reader of all of the input.
// It reads until the dialect is known, at most 64 KiB, so it waits for the first line of a pipe and for no more if that
// says enough. The error is an *UnknownError, or one of r.
func Open(r io.Reader) (d Dialect, why string, whole io.Reader, err error) {
	err = &UnknownError{}
	whole, readErr := input.Head(r, func(head []byte) bool {
		d, why, err = Recognise(head)
		return err == nil
	})
	if err != nil && readErr != nil {
		return Dialect{}, "", nil, fmt.Errorf("read: %w", readErr)
	}
	return d, why, whole, err
}

// Recognise returns the dialect of an input, from its beginning, which may be cut anywhere, and why that one.
// It looks for a document, then at the first 64 lines that are not blank. The error is an *UnknownError.
func Recognise(head []byte) (d Dialect, why string, err error) {
	whole := input.OutlineOf(head)
	for _, d := range all {
		if d.document == nil {
			continue
		}
		if why := d.document(whole); why != "" {
			return d, why, nil
		}
	}
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	first, whys := make([]int64, len(all)), make([]string, len(all)) // of the first line of each dialect
	for n := 0; n < headLines && in.Scan(); n++ {
		line := in.Line()
		if n > 0 && rawjson.Valid(line.Text, rawjson.MaxDepth) != nil { // the first one may be cut
			continue
		}
		o := input.OutlineOf(line.Text)
		for i, d := range all {
			if met := d.line(o); met != "" {
				first[i] = cmp.Or(first[i], line.Number)
				whys[i] = cmp.Or(whys[i], met)
				if line.Event != "" {
					whys[i] = strings.Replace(whys[i], "lines", "server-sent events", 1)
				}
				break
			}
		}
	}
	unknown := &UnknownError{Empty: len(bytes.TrimSpace(head)) == 0}
	for i, other := range slices.Backward(all) {
		if first[i] > 0 && (i > 0 || len(unknown.met) == 0) { // lines of package ndjson are between those of another
			d, why = other, whys[i]
			unknown.met = append(unknown.met, fmt.Sprintf("line %d is %s", first[i], other.Name))
		}
	}
	if len(unknown.met) == 1 {
		return d, why, nil
	}
	slices.Reverse(unknown.met)
	return Dialect{}, "", unknown
}

// RecogniseDB returns the dialect whose tables an SQLite database has: that of the agent guide, else one with an Agent,
// whose Decoder reads the file itself. The error is an *UnknownError, or one of the database.
func RecogniseDB(ctx context.Context, db *sql.DB) (Dialect, error) {
	in, err := input.NewDatabase(ctx, db)
	if err != nil {
		return Dialect{}, err
	}
	there, err := in.IDs("SELECT name FROM sqlite_schema WHERE type = 'table' LIMIT ?")
	if err != nil {
		return Dialect{}, err
	}
	tables := map[string][]string{guide.Dialect: {"chat_sessions"}, opencode.Agent.Dialect: opencode.Tables}
	missing := func(table string) bool { return !slices.Contains(there, any(table)) }
	for _, d := range all {
		if of, ok := tables[d.Name]; ok && !slices.ContainsFunc(of, missing) {
			return d, nil
		}
	}
	return Dialect{}, &UnknownError{}
}
