package phi

import (
	"bytes"
	"errors"
	"io"
)

// errLong says that a line was longer than allowed and passed over.
var errLong = errors.New("line too long")

// lineReader cuts a stream into lines. Its buffer grows to the longest line met.
type lineReader struct {
	r          io.Reader
	max        int
	buf        []byte
	start, end int // what of buf is read and not handed out
	err        error
}

// next returns the next line without its newline, valid until the next call. The last line may lack a newline, but for one
// after which r failed: that one is dropped. Errors: errLong for one line; io.EOF or that of r when there are no more lines.
func (l *lineReader) next() ([]byte, error) {
	scanned := l.start
	long := false
	for {
		if n := bytes.IndexByte(l.buf[scanned:l.end], '\n'); n >= 0 {
			line := l.buf[l.start : scanned+n]
			l.start = scanned + n + 1
			if long || len(line) > l.max {
				return nil, errLong
			}
			return line, nil
		}
		if l.err != nil {
			line := l.buf[l.start:l.end]
			l.start = l.end
			switch {
			case l.err != io.EOF || len(line) == 0 && !long:
				return nil, l.err
			case long || len(line) > l.max:
				return nil, errLong
			}
			return line, nil
		}
		if l.end-l.start > l.max {
			long = true
			l.start = l.end
		}
		scanned = l.end - l.start
		l.fill()
		scanned += l.start
	}
}

// fill moves what is not handed out to the front, makes room, and reads once.
func (l *lineReader) fill() {
	if l.start > 0 {
		l.end = copy(l.buf, l.buf[l.start:l.end])
		l.start = 0
	}
	if l.end == len(l.buf) {
		grown := make([]byte, max(firstBuffer, min(2*len(l.buf), l.max+firstBuffer)))
		copy(grown, l.buf[:l.end])
		l.buf = grown
	}
	for range 100 {
		n, err := l.r.Read(l.buf[l.end:])
		l.end += n
		if n > 0 || err != nil {
			l.err = err
			return
		}
	}
	l.err = io.ErrNoProgress
}
