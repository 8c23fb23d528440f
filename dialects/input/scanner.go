package input

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"
)

// HeadSize is how much of the beginning of an input Head reads at most.
const HeadSize = 64 << 10

// byteOrderMark is that of UTF-8.
const byteOrderMark = "\xef\xbb\xbf"

// Head reads the beginning of r until known reports true of it, r ends or fails, or HeadSize bytes are there: of a pipe
// no more than known needs. It returns a reader of all of r, and the error of r, which that reader returns, too.
func Head(r io.Reader, known func(head []byte) bool) (all io.Reader, err error) {
	in := bufio.NewReaderSize(r, HeadSize)
	for { // r may be a reader that Head returned: its buffer has the beginning already
		head, _ := in.Peek(in.Buffered())
		if (err != nil || len(head) > 0) && (known(head) || err != nil) {
			break
		}
		_, err = in.Peek(in.Buffered() + 1)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	return in, err
}

// Line is one line of an input, or the data of one server-sent event.
type Line struct {
	// Text is without blanks around it and never empty. It is valid until the next Scan.
	Text []byte
	// Number is its number in the input, from 1; of a server-sent event that of its first data line. Seq is its number
	// among all inputs, which is Meta.Seq of its events: the Shell sets it.
	Number, Seq int64
	// Arrived is when it was read; zero of a recording.
	Arrived time.Time
	// Event is the name of the server-sent event; empty for lines, and for events without one.
	Event string
	// Ended says that a line end followed it, or the blank line that ends a server-sent event. Of the last line of a file
	// it says that its writer was not at it any more.
	Ended bool
	// TooLong says that it was longer than allowed; Text is nil then.
	TooLong bool
}

// Scanner cuts a stream into lines. It skips blank lines, a byte order mark and carriage returns before line ends. It
// reads a stream whose first line is a field or comment of server-sent events (data:, event:, id:, retry:, or a colon)
// as those, as the HTML standard describes, data lines joined by line feeds.
//
// It reads from r only when all complete lines that it holds were handed out, so lines of a pipe come as soon as they
// end. The last line may lack its end, but for one after which r failed: the Scanner drops that one.
type Scanner struct {
	in     *bufio.Reader
	max    int
	live   bool
	long   []byte // a line longer than the buffer of in
	err    error  // of in, its end included
	line   Line
	number int64

	decided, served bool   // whether the stream is one of server-sent events
	data            []byte // of the current event
}

// NewScanner returns a Scanner of r. It uses MaxLine and Live of the settings.
func NewScanner(r io.Reader, s Settings) *Scanner {
	return &Scanner{in: bufio.NewReaderSize(r, HeadSize), max: s.MaxLine, live: s.Live}
}

// next returns the next line without its newline, valid until the next call. TooLong reports that a line was longer
// than allowed. More is false when there is none: in ended or failed.
func (s *Scanner) next() (line []byte, tooLong, more bool) {
	s.long = s.long[:0]
	for s.err == nil {
		piece, err := s.in.ReadSlice('\n')
		piece = bytes.TrimSuffix(piece, []byte("\n"))
		if tooLong = tooLong || len(s.long)+len(piece) > s.max; tooLong {
			piece, s.long = nil, s.long[:0]
		}
		full := errors.Is(err, bufio.ErrBufferFull)
		if full || len(s.long) > 0 {
			s.long = append(s.long, piece...)
			piece = s.long
		}
		switch {
		case full:
			continue
		case err == nil:
			return piece, tooLong, true
		}
		s.err = err
		return piece, tooLong, errors.Is(err, io.EOF) && (tooLong || len(piece) > 0)
	}
	return nil, false, false
}

// Scan goes on to the next line that is not blank, or to the next event with data, and reports whether there is one.
func (s *Scanner) Scan() bool {
	s.line, s.data = Line{}, s.data[:0]
	for {
		text, long, more := s.next()
		if !more {
			return errors.Is(s.err, io.EOF) && s.give(s.data)
		}
		s.number++
		if s.number == 1 {
			text = bytes.TrimPrefix(text, []byte(byteOrderMark))
		}
		text = bytes.Trim(text, " \t\r")
		blank := len(text) == 0 && !long
		if !s.decided && len(text) > 0 {
			s.decided, s.served = true, serverSent.Match(text)
		}
		if s.served && !blank {
			s.field(text, long)
			continue
		}
		if blank {
			text = s.data
		} else {
			s.line = Line{Number: s.number, TooLong: long}
		}
		s.line.Ended = s.err == nil
		if s.give(text) {
			return true
		}
		s.line = Line{} // an event without data is none
	}
}

// serverSent matches the first line of a stream of server-sent events.
var serverSent = regexp.MustCompile(`^(data|event|id|retry)?:`)

// field takes one line of the current server-sent event.
func (s *Scanner) field(text []byte, long bool) {
	name, value, _ := bytes.Cut(text, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch {
	case string(name) == "event":
		s.line.Event = string(value[:min(len(value), 128)])
	case string(name) == "data" || long:
		s.line.Number = cmp.Or(s.line.Number, s.number)
		s.line.TooLong = s.line.TooLong || long || len(s.data)+len(value) > s.max
		if !s.line.TooLong {
			s.data = append(append(s.data, value...), '\n')
		}
	}
}

// give completes the current line, and reports whether there is one: without text it is none.
func (s *Scanner) give(text []byte) bool {
	if s.line.Text = bytes.Trim(text, " \t\r\n"); s.line.TooLong {
		s.line.Text = nil
	}
	if s.live {
		s.line.Arrived = time.Now()
	}
	return len(s.line.Text) > 0 || s.line.TooLong
}

// Line returns the line that Scan went on to.
func (s *Scanner) Line() Line { return s.line }

// Lines returns how many lines were read so far, blank ones included.
func (s *Scanner) Lines() int64 { return s.number }

// Err returns the error of r that ended the scan, wrapped; nil at its end.
func (s *Scanner) Err() error {
	if s.err == nil || errors.Is(s.err, io.EOF) {
		return nil
	}
	return fmt.Errorf("read: %w", s.err)
}
