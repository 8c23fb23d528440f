package input

import (
	"bytes"
	"io"
)

// firstBuffer is the size of the reading buffer at first; it doubles up to the longest line.
const firstBuffer = 64 << 10

// lineReader cuts a stream into lines. Its buffer grows to the longest line met.
type lineReader struct {
	r          io.Reader
	max        int
	buf        []byte
	start, end int // what of buf is read and not handed out
	eof        bool
	err        error // of r, other than its end
}

// next returns the next line without its newline, valid until the next call. Long says that a line was longer than
// allowed and passed over. Without more there is none: r ended or failed, see err. The last line may lack a newline,
// but for one after which r failed: that one is dropped.
func (l *lineReader) next() (line []byte, long, more bool) {
	scanned := l.start
	for {
		if n := bytes.IndexByte(l.buf[scanned:l.end], '\n'); n >= 0 {
			line = l.buf[l.start : scanned+n]
			l.start = scanned + n + 1
			return line, long || len(line) > l.max, true
		}
		if l.err != nil {
			return nil, false, false
		}
		if l.eof {
			line = l.buf[l.start:l.end]
			l.start = l.end
			return line, long || len(line) > l.max, long || len(line) > 0
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
		if err != nil {
			if l.eof = err == io.EOF; !l.eof {
				l.err = err
			}
			return
		}
		if n > 0 {
			return
		}
	}
	l.err = io.ErrNoProgress
}
