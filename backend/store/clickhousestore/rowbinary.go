package clickhousestore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/spans"
)

// RowBinary (https://clickhouse.com/docs/interfaces/formats/RowBinary): numbers in little endian, a String after its
// length as a varint, a FixedString as it is, an Array after its length, a Nullable after a byte that is 1 for NULL,
// nothing between columns and rows.

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

// The fields of summaries and figures are pointers. nullable marks text that is NULL when it is empty; an Opt is always
// nullable. A time that is not known is the least integer.

// fieldType returns the type of a field's column.
func fieldType(field any, nullable bool) string {
	switch field.(type) {
	case *int64, *time.Time:
		return integer
	case *bool:
		return "UInt8" + zstd
	case *float64:
		return "Float64" + zstd
	case *session.Opt[int64]:
		return "Nullable(Int64)" + zstd
	case *session.Opt[float64]:
		return "Nullable(Float64)" + zstd
	}
	if nullable {
		return "LowCardinality(Nullable(String))" + zstd
	}
	return words
}

func appendField(b []byte, field any, nullable bool) []byte {
	switch f := field.(type) {
	case *string:
		if nullable {
			if b = appendBool(b, *f == ""); *f == "" {
				return b
			}
		}
		return appendString(b, *f)
	case *spans.SessionStatus:
		return appendString(b, *f)
	case *int64:
		return appendI64(b, *f)
	case *float64:
		return appendU64(b, math.Float64bits(*f))
	case *bool:
		return appendBool(b, *f)
	case *time.Time:
		if f.IsZero() {
			return appendI64(b, math.MinInt64)
		}
		return appendI64(b, f.UnixNano())
	case *session.Opt[int64]:
		if b = appendBool(b, !f.OK); f.OK {
			b = appendI64(b, f.V)
		}
	case *session.Opt[float64]:
		if b = appendBool(b, !f.OK); f.OK {
			b = appendU64(b, math.Float64bits(f.V))
		}
	}
	return b
}

// field reads what appendField wrote.
func (d *reader) field(field any, nullable bool) {
	switch f := field.(type) {
	case *string:
		if !nullable || d.u8() == 0 {
			*f = d.str()
		}
	case *spans.SessionStatus:
		*f = spans.SessionStatus(d.str())
	case *int64:
		*f = d.i64()
	case *float64:
		*f = math.Float64frombits(d.u64())
	case *bool:
		*f = d.u8() != 0
	case *time.Time:
		if n := d.i64(); n != math.MinInt64 {
			*f = time.Unix(0, n).UTC()
		}
	case *session.Opt[int64]:
		if d.u8() == 0 {
			*f = session.Some(d.i64())
		}
	case *session.Opt[float64]:
		if d.u8() == 0 {
			*f = session.Some(math.Float64frombits(d.u64()))
		}
	}
}

// maxString bounds the length that a result may give for a String: a value and some room.
const maxString = store.MaxValue + 1<<20

// errDamaged means that a result is not one of the statement.
var errDamaged = errors.New("the result is damaged")

// A reader reads the rows of a result. After the first failure every method returns zero values.
type reader struct {
	r   *bufio.Reader
	err error
}

// more reports whether another row begins.
func (d *reader) more() bool {
	if d.err != nil {
		return false
	}
	_, err := d.r.Peek(1)
	if err != nil && !errors.Is(err, io.EOF) {
		d.err = err
	}
	return err == nil
}

func (d *reader) full(b []byte) {
	if d.err != nil {
		return
	}
	if _, err := io.ReadFull(d.r, b); errors.Is(err, io.EOF) {
		d.err = io.ErrUnexpectedEOF
	} else {
		d.err = err
	}
}

func (d *reader) u8() uint8 {
	var b [1]byte
	d.full(b[:])
	return b[0]
}

func (d *reader) u64() uint64 {
	var b [8]byte
	d.full(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

func (d *reader) i64() int64 { return int64(d.u64()) }

func (d *reader) length() int {
	if d.err != nil {
		return 0
	}
	n, err := binary.ReadUvarint(d.r)
	switch {
	case errors.Is(err, io.EOF):
		d.err = io.ErrUnexpectedEOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		d.err = err
	case err != nil || n > maxString:
		d.err = errDamaged
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

// bytes reads a String into buf where it fits. It takes memory as bytes arrive, whatever the length claims.
func (d *reader) bytes(buf []byte) []byte {
	buf = buf[:0]
	for n := d.length(); n > 0 && d.err == nil; {
		step, from := min(n, 1<<20), len(buf)
		buf = append(buf, make([]byte, step)...)
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

// literal returns s as an expression. No byte of s can be read as SQL.
func literal[T ~string | ~[]byte](s T) string { return fmt.Sprintf("unhex('%x')", []byte(s)) }

// fixed returns s as an expression of type FixedString.
func fixed(s []byte) string { return fmt.Sprintf("toFixedString(unhex('%x'), %d)", s, len(s)) }
