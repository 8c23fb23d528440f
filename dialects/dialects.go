// Package dialects knows all dialects, and recognises which of them an input speaks from its beginning.
package dialects

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/dialects/acp"
	"github.com/otelagent/otelagent/dialects/clark"
	"github.com/otelagent/otelagent/dialects/guide"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// Dialect is one of the formats in which loops report their events.
type Dialect struct {
	// Name is its name in flags and in RunInfo.Dialect.
	Name string
	// Reads says briefly what it reads.
	Reads string
	// New returns a Decoder that has met nothing.
	New func(...input.Option) input.Decoder

	line     func(input.Outline) (why string) // of a line, which may be cut
	document func(input.Outline) (why string) // of an input that has no lines; nil where there is none
}

var all = []Dialect{
	{ndjson.Dialect, "our own events as JSON lines", of(ndjson.NewDecoder), ndjson.Recognise, nil},
	{phi.Dialect, "AgentEvents as lines or server-sent events, saved sessions, message arrays", of(phi.NewDecoder),
		phi.Recognise, phi.RecogniseDocument},
	{clark.Dialect, "AgentEvents, bare or in an envelope, and TrajectoryRecords", of(clark.NewDecoder), clark.Recognise,
		nil},
	{acp.Dialect, "captures of Agent Client Protocol messages", of(acp.NewDecoder), acp.Recognise, nil},
	{guide.Dialect, "sessions of the agent guide as JSON, JSONL or SQLite", of(guide.NewDecoder), guide.Recognise,
		guide.RecogniseDocument},
}

// of makes a constructor of the interface from one of a type.
func of[D input.Decoder](make func(...input.Option) D) func(...input.Option) input.Decoder {
	return func(opts ...input.Option) input.Decoder { return make(opts...) }
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

// Tried says where an input speaks one dialect.
type Tried struct {
	Dialect string
	// Line is the first line that speaks it, from 1; 0 when none does.
	Line int
	// Reads is what it reads.
	Reads string

	why string
}

// UnknownError says that an input speaks none of the dialects, or more than one.
type UnknownError struct {
	// Tried has an entry for every dialect; more than one Line is set in a mixed input, none in an unknown one.
	Tried []Tried
	// Empty says that there was nothing to go by.
	Empty bool
}

// Error lists what was tried, without any piece of the input.
func (e *UnknownError) Error() string {
	if e.Empty {
		return "the input is empty"
	}
	var met, tried []string
	for _, t := range e.Tried {
		if t.Line > 0 {
			met = append(met, fmt.Sprintf("line %d is %s", t.Line, t.Dialect))
		}
		tried = append(tried, fmt.Sprintf("%s (%s)", t.Dialect, t.Reads))
	}
	if len(met) > 0 {
		return "the input speaks several dialects: " + strings.Join(met, ", ") + "; lines of " + ndjson.Dialect +
			" alone may stand between those of another"
	}
	return "the input speaks no dialect that is known; tried: " + strings.Join(tried, ", ")
}

// headLines is how many lines of an input are looked at.
const headLines = 64

// Open reads the beginning of r and returns the dialect that it speaks, why that one, and a reader of all of the input.
// It reads until the dialect is known, at most 64 KiB, so it waits for the first line of a pipe and for no more if that
// says enough. The error is an *UnknownError, or one of r.
func Open(r io.Reader) (d Dialect, why string, whole io.Reader, err error) {
	err = &UnknownError{}
	whole, _, readErr := input.Head(r, func(head []byte) bool {
		d, why, err = Recognise(head)
		return err == nil
	})
	if err != nil && readErr != nil {
		return Dialect{}, "", nil, fmt.Errorf("read: %w", readErr)
	}
	return d, why, whole, err
}

// Recognise returns the dialect that an input speaks, from its beginning, which may be cut anywhere, and why that one.
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
	tried := make([]Tried, len(all))
	for i, d := range all {
		tried[i] = Tried{Dialect: d.Name, Reads: d.Reads}
	}
	in := input.NewScanner(bytes.NewReader(head), input.SettingsOf())
	for n := 0; n < headLines && in.Scan(); n++ {
		line := in.Line()
		if n > 0 && rawjson.Valid(line.Text, rawjson.MaxDepth) != nil { // the first one may be cut
			continue
		}
		o := input.OutlineOf(line.Text)
		for i, d := range all {
			if why := d.line(o); why != "" {
				if line.Event != "" {
					why = strings.Replace(why, "lines", "server-sent events", 1)
				}
				if tried[i].Line == 0 {
					tried[i].Line, tried[i].why = int(line.Number), why
				}
				break
			}
		}
	}
	var found []int
	for i := range tried {
		if tried[i].Line > 0 {
			found = append(found, i)
		}
	}
	if len(found) > 1 && found[0] == 0 { // lines of package ndjson stand between those of another
		found, tried = found[1:], tried[1:]
	}
	if len(found) != 1 {
		return Dialect{}, "", &UnknownError{Tried: tried, Empty: len(bytes.TrimSpace(head)) == 0}
	}
	i := slices.IndexFunc(tried, func(t Tried) bool { return t.Line > 0 })
	return all[found[0]], tried[i].why, nil
}
