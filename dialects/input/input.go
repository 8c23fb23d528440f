// Package input holds what all dialects share: the settings for what a wire lacks, the cutting of a stream into lines
// or server-sent events, the Shell that reads these for a dialect, and errors that name the line and the key.
//
// A dialect is a package whose Decoder turns bytes into the events of package otelagent:
//
//	for ev, err := range phi.NewDecoder(input.Settings{Live: true}).Events(os.Stdin) {
//		var bad *input.LineError
//		switch {
//		case errors.As(err, &bad):
//			log.Print(bad) // this line is lost, the rest goes on
//		case err != nil:
//			return err
//		default:
//			rec.Record(ctx, ev)
//		}
//	}
package input

import (
	"cmp"
	"errors"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Decoder reads one dialect. It remembers what it met, so that one Decoder reads all files of one recording. Not safe
// for concurrent use.
type Decoder interface {
	// Events reads r until its end. Line numbers in errors begin at 1; Meta.Seq goes on from earlier inputs.
	//
	// An event is valid until the next iteration: it and all its slices may be reused. Strings may be kept.
	//
	// An error that is a *LineError is about one line (or one place of a document), and reading goes on after it; its
	// event is nil. Any other error is the last: one of r, wrapped, or that r is not what the dialect reads. The iterator
	// may be used once.
	Events(r io.Reader) iter.Seq2[event.Event, error]
	// Stats returns what was read so far.
	Stats() Stats
}

// Stats counts what a Decoder read.
type Stats struct {
	// Lines counts all lines, blank ones included; of a document its places (messages, rows). Rejected counts those that
	// gave a *LineError.
	Lines, Rejected int64
	// Events counts events of the dialect that were read, also those of which nothing is kept.
	Events int64
	// Outside counts records that wait for a run which has not begun, and those that waited in vain.
	Outside int64
}

// LineError says why a line, or a place of a document, was not read. It never holds a piece of it: lines are content.
type LineError struct {
	// Dialect is the name of the dialect that read it, File the path where one of several files is meant.
	Dialect, File string
	// Line is the number of the line in its input, from 1; 0 in a document, where Field says the place. Seq is the number
	// that its events would have had as Meta.Seq; it differs from Line only where one Decoder read several inputs.
	Line, Seq int64
	// Type is the variant, if it is one of the dialect's and came before what is wrong.
	Type string
	// Field is the path of the key that is wrong, such as payload.messages; empty where the line as a whole is.
	Field string
	// Reason says briefly what is wrong, and what would be right.
	Reason string
	// Cut says that the input ended inside the line or document: its writer died, or still writes.
	Cut bool
	// Again says that the error before is about the same line, which counts as rejected once.
	Again bool
}

// Error returns "DIALECT: [line N: ][TYPE: ][FIELD: ]REASON".
func (e *LineError) Error() string {
	line := ""
	if e.Line > 0 {
		line = "line " + strconv.FormatInt(e.Line, 10)
	}
	parts := slices.DeleteFunc([]string{line, e.Type, e.Field}, func(s string) bool { return s == "" })
	return strings.Join(slices.Concat([]string{e.Dialect}, parts, []string{e.Reason}), ": ")
}

// Malformed returns the error of a line that err, of package rawjson or object, says is not JSON, or no object.
func Malformed(err error) *LineError {
	e := &LineError{Reason: err.Error()}
	if bad := (*rawjson.SyntaxError)(nil); errors.As(err, &bad) {
		e.Reason, e.Cut = bad.Reason+" at byte "+strconv.Itoa(bad.Offset+1), bad.Cut
	}
	return e
}

// Put sets a value of a map. When that has most keys, it forgets them all.
func Put[K comparable, V any](m map[K]V, most int, key K, value V) {
	if len(m) >= most {
		clear(m)
	}
	m[key] = value
}

// Settings of a Decoder. Of several the last that is set counts.
type Settings struct {
	// Live says that the input is a pipe from a loop that runs now: events get Meta.Arrived, the time at which their line
	// was read. Without it the input is a recording and Arrived is zero.
	Live bool
	// MaxLine is the longest line that is read, in bytes without its end; longer ones give a *LineError. Of a document it
	// bounds the whole. Zero or less means 64 MiB.
	MaxLine int
	// Session, Agent and Provider are those of runs for which the input names none. Default: what the dialect makes of it.
	Session, Agent, Provider string
	// Rule says how usage is to be read where the input does not say. Default: the rule of the dialect.
	Rule spans.UsageRule
}

// SettingsOf returns several settings as one, with what is not set by default.
func SettingsOf(all ...Settings) (s Settings) {
	for _, o := range all {
		s = Settings{Live: s.Live || o.Live, MaxLine: cmp.Or(max(0, o.MaxLine), s.MaxLine),
			Session: cmp.Or(o.Session, s.Session), Agent: cmp.Or(o.Agent, s.Agent),
			Provider: cmp.Or(o.Provider, s.Provider), Rule: cmp.Or(o.Rule, s.Rule)}
	}
	s.MaxLine = cmp.Or(s.MaxLine, 64<<20) // a line may hold a whole request
	return s
}
