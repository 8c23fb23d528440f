package input

import (
	"bytes"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/spans"
)

// Line is one line of an input, or the data of one server-sent event.
type Line struct {
	// Text is without blanks around it and never empty. It is valid until the next Scan.
	Text []byte
	// Number is its number in the input, from 1; of a server-sent event that of its first data line.
	Number int64
	// Arrived is when it was read; zero of a recording.
	Arrived time.Time
	// Event is the name of the server-sent event; empty for lines, and for events without one.
	Event string
	// TooLong says that it was longer than allowed; Text is nil then.
	TooLong bool
}

// Scanner cuts a stream into lines. Blank lines, a byte order mark and carriage returns before line ends are passed
// over. A stream whose first line is a field or comment of server-sent events (data:, event:, id:, retry:, or a colon)
// is read as those, as the HTML standard says, data lines joined by line feeds.
//
// It reads from r only when all complete lines that it holds were handed out, so lines of a pipe come as soon as they
// end. Its buffer grows to the longest line met. The last line may lack its end, but for one after which r failed: that
// one is dropped.
type Scanner struct {
	in   lineReader
	live bool

	line   Line
	number int64
	mode   mode

	data  []byte // of the event at hand
	event string
	first int64 // number of its first data line, 0 without one
	long  bool
}

type mode uint8

const (
	undecided mode = iota
	plainLines
	serverSent
)

// NewScanner returns a Scanner of r. It uses MaxLine and Live of the settings.
func NewScanner(r io.Reader, s Settings) *Scanner {
	return &Scanner{in: lineReader{r: r, max: s.MaxLine}, live: s.Live}
}

// Scan goes on to the next line that is not blank, and reports whether there is one.
func (s *Scanner) Scan() bool {
	for {
		text, long, more := s.in.next()
		if !more {
			if s.mode == serverSent && s.in.err == nil && s.first > 0 {
				return s.dispatch()
			}
			return false
		}
		s.number++
		if s.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		}
		if s.mode == serverSent {
			if s.field(bytes.TrimSuffix(text, []byte("\r")), long) {
				return true
			}
			continue
		}
		if text = trimmed(text); len(text) == 0 && !long {
			continue
		}
		if s.mode == undecided && !long {
			s.mode = plainLines
			if looksServerSent(text) {
				s.mode = serverSent
				s.field(text, false)
				continue
			}
		}
		s.line = Line{Text: text, Number: s.number, TooLong: long}
		if long {
			s.line.Text = nil
		}
		s.stamp()
		return true
	}
}

// Line returns the line that Scan went on to.
func (s *Scanner) Line() Line { return s.line }

// Lines returns how many lines were read so far, blank ones included.
func (s *Scanner) Lines() int64 { return s.number }

// Err returns the error of r that ended the scan, wrapped; nil at its end.
func (s *Scanner) Err() error {
	if s.in.err == nil {
		return nil
	}
	return fmt.Errorf("read: %w", s.in.err)
}

func (s *Scanner) stamp() {
	if s.live {
		s.line.Arrived = time.Now()
	}
}

// trimmed returns line without blanks around it.
func trimmed(line []byte) []byte { return bytes.Trim(line, " \t\r") }

func looksServerSent(text []byte) bool {
	for _, p := range []string{"data:", "event:", "id:", "retry:", ":"} {
		if bytes.HasPrefix(text, []byte(p)) {
			return true
		}
	}
	return false
}

// field takes one line of server-sent events, and reports whether an event is complete.
func (s *Scanner) field(text []byte, long bool) bool {
	if len(text) == 0 && !long {
		return s.dispatch()
	}
	name, value, _ := bytes.Cut(text, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case long:
		s.long = true
		if s.first == 0 {
			s.first = s.number
		}
	case string(name) == "data":
		if s.first == 0 {
			s.first = s.number
		} else if !s.long {
			s.data = append(s.data, '\n')
		}
		if s.long = s.long || len(s.data)+len(value) > s.in.max; !s.long {
			s.data = append(s.data, value...)
		}
	case string(name) == "event":
		s.event = string(value[:min(len(value), 128)])
	}
	return false
}

// dispatch hands out the event at hand; one without data is none.
func (s *Scanner) dispatch() bool {
	line := Line{Text: trimmed(s.data), Number: s.first, Event: s.event, TooLong: s.long}
	s.data, s.event, s.first, s.long = s.data[:0], "", 0, false
	if line.Number == 0 || len(line.Text) == 0 && !line.TooLong {
		return false
	}
	if line.TooLong {
		line.Text = nil
	}
	s.line = line
	s.stamp()
	return true
}

// Lost returns the defect that a notice of lost events gives: feeds of phi-core send an event of the name lagged, whose
// data is their number, or an object with one number. It is nil for any other line.
func (l *Line) Lost(seq int64) *event.DefectFound {
	if l.Event != "lagged" {
		return nil
	}
	lost := &event.DefectFound{Meta: event.Meta{Seq: seq, Arrived: l.Arrived}, Code: spans.DefectEventLost}
	digits := bytes.TrimFunc(l.Text, func(r rune) bool { return r < '0' || r > '9' })
	if n, err := strconv.ParseInt(string(digits), 10, 64); err == nil && n > 0 {
		lost.Detail = strconv.FormatInt(n, 10) + " events"
	}
	return lost
}
