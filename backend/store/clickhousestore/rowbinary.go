package clickhousestore

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"

	"github.com/otelagent/otelagent/backend/store"
)

// RowBinary (https://clickhouse.com/docs/interfaces/formats/RowBinary): numbers in little endian, a String behind its
// length as a varint, a FixedString as it is, an Array behind its length, nothing between columns and rows.

func appendU64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }
func appendI64(b []byte, v int64) []byte  { return appendU64(b, uint64(v)) }

func appendString[T ~string | ~[]byte](b []byte, s T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendU64s(b []byte, l []uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(l)))
	for _, v := range l {
		b = appendU64(b, v)
	}
	return b
}

const (
	// maxString bounds what a result may claim a String to be: a value and some room.
	maxString = store.MaxValue + 1<<20
	// tailSize is how much of the end of a result is kept for the text of an exception.
	tailSize = 4096
)

// A reader reads the rows of a result. A server that fails after it sent the first of them writes the text of its
// exception behind the last one, still with status 200; so each row ends with a number that was drawn for this
// statement, and a row without it was none. After the first failure every method returns zero values.
type reader struct {
	r     *bufio.Reader
	tail  tailReader
	stamp uint64
	err   error
}

func newReader(r io.Reader, stamp uint64) *reader {
	d := &reader{stamp: stamp}
	d.tail.r = r
	d.r = bufio.NewReaderSize(&d.tail, 64<<10)
	return d
}

// more tells whether another row begins.
func (d *reader) more() bool {
	if d.err != nil {
		return false
	}
	if _, err := d.r.Peek(1); err != nil {
		if !errors.Is(err, io.EOF) {
			d.err = err
		}
		return false
	}
	return true
}

// end is the end of a row. It returns what is wrong with it.
func (d *reader) end() error {
	if got := d.u64(); d.err == nil && got != d.stamp {
		d.err = errNoRow
	}
	if errors.Is(d.err, errNoRow) {
		// What is left is short: the exception ends the result.
		_, _ = io.CopyN(io.Discard, d.r, 1<<20)
		if code := exceptionCode(d.tail.last); code != 0 {
			d.err = &ServerError{Code: code, Status: 200}
		}
	}
	return d.err
}

// errNoRow means that what came is not a row of the statement.
var errNoRow = errors.New("the result is damaged")

func (d *reader) full(b []byte) {
	if d.err != nil {
		return
	}
	if _, err := io.ReadFull(d.r, b); err != nil {
		d.err = d.short(err)
	}
}

// short returns what it means that a row ends before its end: the result is whole, and none; or it was cut on the way.
func (d *reader) short(err error) error {
	if d.tail.ended {
		return errNoRow
	}
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (d *reader) u8() uint8 {
	var b [1]byte
	d.full(b[:])
	return b[0]
}

func (d *reader) u64() uint64 {
	var b [8]byte
	d.full(b[:])
	if d.err != nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b[:])
}

func (d *reader) i64() int64 { return int64(d.u64()) }

func (d *reader) length() int {
	if d.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(d.r)
	switch {
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		d.err = d.short(err)
	case err != nil || n > maxString:
		d.err = errNoRow
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

// bytes reads a String into buf, which grows as bytes come: a length alone reserves nothing large.
func (d *reader) bytes(buf []byte) []byte {
	buf = buf[:0]
	for n := d.length(); n > 0 && d.err == nil; {
		step := min(n, 1<<20)
		from := len(buf)
		if cap(buf)-from < step {
			buf = append(buf, make([]byte, step)...)
		} else {
			buf = buf[:from+step]
		}
		d.full(buf[from:])
		n -= step
	}
	if d.err != nil {
		return nil
	}
	return buf
}

func (d *reader) str() string { return string(d.bytes(nil)) }

func (d *reader) u64s() []uint64 {
	var out []uint64
	for n := d.length(); n > 0 && d.err == nil; n-- {
		out = append(out, d.u64())
	}
	return out
}

// tailReader keeps the last bytes that went through it.
type tailReader struct {
	r     io.Reader
	last  []byte
	ended bool // as it should
}

func (t *tailReader) Read(p []byte) (int, error) {
	n, err := t.r.Read(p)
	t.ended = t.ended || errors.Is(err, io.EOF)
	keep := p[:n]
	if len(keep) > tailSize {
		keep = keep[len(keep)-tailSize:]
	}
	if over := len(t.last) + len(keep) - tailSize; over > 0 {
		t.last = append(t.last[:0], t.last[over:]...)
	}
	t.last = append(t.last, keep...)
	return n, err
}

var exception = regexp.MustCompile(`Code: (\d{1,5})[.,]`)

// exceptionCode returns the code that the text of an exception states, 0 when it is none. It takes the last one: what
// came before it may be anything.
func exceptionCode(text []byte) int {
	m := exception.FindAllSubmatch(text, -1)
	if m == nil || !bytes.Contains(text, []byte("DB::")) {
		return 0
	}
	code, err := strconv.Atoi(string(m[len(m)-1][1]))
	if err != nil {
		return 0
	}
	return code
}

// literal returns s as an expression. There is no text in which anything of s could be read as SQL.
func literal[T ~string | ~[]byte](s T) string { return fmt.Sprintf("unhex('%x')", []byte(s)) }

// fixed returns s as an expression of type FixedString.
func fixed(s []byte) string { return fmt.Sprintf("toFixedString(unhex('%x'), %d)", s, len(s)) }
