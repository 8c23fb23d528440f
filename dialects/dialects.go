// Package dialects knows all dialects, and recognises which of them an input speaks from its beginning.
package dialects

import (
	"bytes"
	"fmt"
	"io"
	"iter"
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

	recognise func(head []byte) (why string, ok bool)
}

var all = []Dialect{
	{ndjson.Dialect, "our own events as JSON lines", of(ndjson.NewDecoder), ndjson.Recognise},
	{phi.Dialect, "AgentEvents as lines or server-sent events, saved sessions, message arrays", of(phi.NewDecoder),
		phi.Recognise},
	{clark.Dialect, "AgentEvents, bare or in an envelope, and TrajectoryRecords", of(clark.NewDecoder), clark.Recognise},
	{acp.Dialect, "captures of Agent Client Protocol messages", of(acp.NewDecoder), acp.Recognise},
	{guide.Dialect, "sessions of the agent guide as JSON, JSONL or SQLite", of(guide.NewDecoder), guide.Recognise},
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
	i := slices.IndexFunc(all, func(d Dialect) bool { return d.Name == name })
	if i < 0 {
		return Dialect{}, false
	}
	return all[i], true
}

// Tried is what the search for the dialect of an input came to, for one dialect.
type Tried struct {
	Dialect string
	// Line is the first line that speaks it, from 1; 0 when none does.
	Line int
	// Reads is what it reads.
	Reads string
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

const (
	// headSize is how much of an input is looked at.
	headSize = 64 << 10
	// headLines is how many of its lines are.
	headLines = 64
)

// Open reads the beginning of r and returns the dialect that it speaks, why that one, and a reader of all of the input.
// It reads until the dialect is known, at most 64 KiB, so it waits for the first line of a pipe and for no more if that
// says enough. The error is an *UnknownError, or one of r.
func Open(r io.Reader) (d Dialect, why string, whole io.Reader, err error) {
	head := make([]byte, 0, headSize)
	for {
		n, readErr := r.Read(head[len(head):headSize])
		head = head[:len(head)+n]
		text := head
		if readErr == io.EOF {
			text = append(head[:len(head):len(head)], '\n') // the last line may lack its end
		}
		d, why, err = Recognise(text)
		switch {
		case err == nil, readErr == io.EOF, len(head) == headSize:
			return d, why, io.MultiReader(bytes.NewReader(head), r), err
		case readErr != nil:
			return Dialect{}, "", nil, fmt.Errorf("read: %w", readErr)
		}
	}
}

// lines yields the first whole lines of head that are not blank, the data of server-sent events among them, with their
// numbers from 1.
func lines(head []byte) iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		rest := bytes.TrimPrefix(head, []byte("\xef\xbb\xbf"))
		for n, number := 0, 0; n < headLines; {
			line, more, found := bytes.Cut(rest, []byte("\n"))
			if !found {
				return
			}
			rest = more
			number++
			line = bytes.TrimSpace(line)
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				line = bytes.TrimSpace(data)
			} else if len(line) > 0 && line[0] != '{' && line[0] != '[' && looksServerSent(line) {
				continue
			}
			if len(line) == 0 {
				continue
			}
			n++
			if !yield(number, line) {
				return
			}
		}
	}
}

func looksServerSent(line []byte) bool {
	return slices.ContainsFunc([]string{"event:", "id:", "retry:", ":"},
		func(p string) bool { return bytes.HasPrefix(line, []byte(p)) })
}

// Recognise returns the dialect that an input speaks, from its beginning, which may be cut anywhere, and why that one.
// The error is an *UnknownError.
func Recognise(head []byte) (d Dialect, why string, err error) {
	tried := make([]Tried, len(all))
	for i, d := range all {
		tried[i] = Tried{Dialect: d.Name, Reads: d.Reads}
	}
	if len(bytes.TrimSpace(head)) == 0 {
		return Dialect{}, "", &UnknownError{Tried: tried, Empty: true}
	}
	n := 0
	reasons := make([]string, len(all))
	for number, line := range lines(head) {
		if rawjson.Valid(line, rawjson.MaxDepth) != nil || line[0] != '{' {
			if n == 0 {
				break // a document
			}
			continue
		}
		n++
		for i := range all {
			if tried[i].Line > 0 {
				continue
			}
			if why, ok := all[i].recognise(append(bytes.Clone(line), '\n')); ok {
				tried[i].Line, reasons[i] = number, why
				break
			}
		}
	}
	if n == 0 {
		for i := range all {
			if why, ok := all[i].recognise(head); ok {
				return all[i], why, nil
			}
		}
		return Dialect{}, "", &UnknownError{Tried: tried}
	}
	found := -1
	for i := range all {
		if tried[i].Line == 0 || i == 0 {
			continue
		}
		if found >= 0 {
			return Dialect{}, "", &UnknownError{Tried: tried[1:]}
		}
		found = i
	}
	switch {
	case found < 0 && tried[0].Line > 0:
		found = 0
	case found < 0:
		return Dialect{}, "", &UnknownError{Tried: tried}
	}
	return all[found], reasons[found], nil
}
