package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/otelagent/otelagent/spans"
)

// rowVersion is the first byte of canonical bytes.
const rowVersion = 1

// ErrRow is wrapped by every error of ParseRow.
var ErrRow = errors.New("bad row")

// knownOfRank has, by its canonical byte, each spans.Known. That is also its rank in Supersedes.
var knownOfRank = [...]spans.Known{spans.KnownLive, spans.KnownClosed, spans.KnownObserved}

// KnownRank returns the place of k in the order of Supersedes, from 0 for live; an unknown one counts as observed.
func KnownRank(k spans.Known) byte {
	if i := slices.Index(knownOfRank[:], k); i >= 0 {
		return byte(i)
	}
	return byte(len(knownOfRank) - 1)
}

// Supersedes reports whether a replaces b where both have one key (trace id, span id): observed over closed over
// live, then the later end, then the greater canonical bytes. It is a strict total order of rows by their canonical
// bytes, so that replicas agree: of two different rows exactly one supersedes the other, and a row does not supersede
// itself.
func Supersedes(a, b *Row) bool {
	if ra, rb := KnownRank(a.Known), KnownRank(b.Known); ra != rb {
		return ra > rb
	}
	if a.End != b.End {
		return a.End > b.End
	}
	return string(a.AppendCanonical(nil)) > string(b.AppendCanonical(nil))
}

// AppendCanonical appends the canonical bytes of the row (README.md) to dst and returns the result.
// They are a pure function of the row; ParseRow reads them back. It writes an empty Known as observed, and omits
// attributes without a value.
func (r *Row) AppendCanonical(dst []byte) []byte {
	c := codec{out: dst}
	c.row(r)
	return c.out
}

// ParseRow reads what AppendCanonical wrote. It accepts exactly the bytes that AppendCanonical gives of some row, and
// nothing after them. It keeps nothing of b. The memory of a row is bounded by a small multiple of len(b). Errors wrap
// ErrRow; the row is then zero.
func ParseRow(b []byte) (Row, error) { return parse(b, nil) }

// maxNames is how many strings a RowReader remembers, maxName bounds the length of each.
const maxNames, maxName = 4096, 64

// RowReader reads rows of which many are held at once: equal short strings are mostly the same, such as keys, names and
// ids of runs. The zero value is ready for use.
type RowReader struct{ names names }

// names has the last string of each hash.
type names [maxNames]string

var namesSeed = maphash.MakeSeed()

// Parse is ParseRow.
func (r *RowReader) Parse(b []byte) (Row, error) { return parse(b, &r.names) }

func parse(b []byte, names *names) (Row, error) {
	c := codec{reading: true, in: b, names: names}
	var row Row
	c.row(&row)
	if c.pos != len(b) {
		c.fail("trailing bytes")
	}
	if c.err != "" {
		return Row{}, fmt.Errorf("session: parse row of %d bytes: %s at byte %d: %w", len(b), c.err, c.pos, ErrRow)
	}
	return row, nil
}

// codec writes canonical bytes to out, or reads them from in. Its methods take what they write, and set it when
// reading. After the first failure they read zero values.
type codec struct {
	reading bool
	out     []byte
	in      []byte
	names   *names // of a RowReader; nil: none
	pos     int
	err     string
}

func (c *codec) row(r *Row) {
	if c.byte(rowVersion) != rowVersion {
		c.fail("version")
	}
	c.bytes(r.Trace[:])
	c.bytes(r.Span[:])
	c.bytes(r.Parent[:])
	c.string(&r.Session.Tenant)
	c.string(&r.Session.ID)
	c.string(&r.Run)
	c.int(&r.RunStart)
	c.int(&r.Turn)
	kind, known := Kind(c.byte(byte(r.Kind))), c.byte(KnownRank(r.Known))
	if kind > KindForeign {
		c.fail("kind")
	}
	if int(known) >= len(knownOfRank) {
		c.fail("known")
	} else if c.reading {
		r.Kind, r.Known = kind, knownOfRank[known]
	}
	c.int(&r.Start)
	c.int(&r.End)
	c.int(&r.Seq)
	c.int(&r.EndSeq)
	c.bool(&r.Failed)
	c.string(&r.Service)

	attrs := r.Attrs
	if absent := func(a Attr) bool { return a.Value.IsZero() }; slices.ContainsFunc(attrs, absent) {
		attrs = slices.DeleteFunc(slices.Clone(attrs), absent)
	}
	before := ""
	each(c, &attrs, 3, func(a *Attr) {
		c.string(&a.Key)
		if c.reading && a.Key <= before && &attrs[0] != a {
			c.fail("order of attributes")
		}
		before = a.Key
		c.value(&a.Value)
	})
	if c.reading {
		r.Attrs = attrs
	}
	each(c, &r.Lists, 6, func(l *List) {
		c.string(&l.Name)
		c.int(&l.Attempt)
		c.int(&l.Count)
		c.unique(&l.Whole)
		c.unique(&l.Prefix)
		each(c, &l.Items, 1, c.unique)
	})
	each(c, &r.Events, 4, func(e *Event) {
		c.int(&e.Time)
		c.string(&e.Type)
		c.unique(&e.Body)
		c.int(&e.Seq)
	})
	if c.reading && (c.err != "" || c.pos == len(c.in)) || !c.reading && len(r.Facts) == 0 {
		return // rows without facts end here
	}
	each(c, &r.Facts, 5, func(f *RowFact) {
		c.int(&f.Time)
		c.string(&f.Subject)
		c.string(&f.Key)
		c.unique(&f.Value)
		c.int(&f.Seq)
	})
	if len(r.Facts) == 0 {
		c.fail("facts")
	}
}

// each writes or reads a list, whose elements take at least size bytes each.
func each[T any](c *codec, l *[]T, size int, element func(*T)) {
	n := c.count(len(*l), size)
	if c.reading && n > 0 {
		*l = make([]T, n)
	}
	for i := range *l {
		if element(&(*l)[i]); c.err != "" {
			return
		}
	}
}

func (c *codec) value(v *Value) {
	typ := ValueType(c.byte(byte(v.typ)))
	num := int64(v.num)
	switch typ {
	case TypeString:
		c.string(&v.str)
	case TypeInt:
		c.int(&num)
	case TypeDouble:
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], v.num)
		c.bytes(b[:])
		num = int64(binary.BigEndian.Uint64(b[:]))
	case TypeBool:
		b := v.num == 1
		c.bool(&b)
		num = int64(boolByte(b))
	case TypeStrings:
		if !c.reading {
			c.out = append(c.out, v.str...)
			return
		}
		from := c.pos
		for n := c.count(0, 1); n > 0 && c.err == ""; n-- {
			c.take(c.count(0, 1))
		}
		v.str = c.own(c.in[from:c.pos])
	default:
		c.fail("type of an attribute")
	}
	if c.reading {
		v.typ, v.num = typ, uint64(num)
	}
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func (c *codec) fail(what string) {
	if c.err == "" {
		c.err = what
	}
}

func (c *codec) byte(b byte) byte {
	if !c.reading {
		c.out = append(c.out, b)
		return b
	}
	if s := c.take(1); len(s) > 0 {
		return s[0]
	}
	return 0
}

func (c *codec) bool(b *bool) {
	n := c.byte(boolByte(*b))
	if n > 1 {
		c.fail("bool")
	}
	if c.reading {
		*b = n == 1
	}
}

func (c *codec) bytes(b []byte) {
	if c.reading {
		copy(b, c.take(len(b)))
	} else {
		c.out = append(c.out, b...)
	}
}

// string writes or reads a string that other rows may have too.
func (c *codec) string(s *string) {
	if n := c.count(len(*s), 1); c.reading {
		*s = c.own(c.take(n))
	} else {
		c.out = append(c.out, *s...)
	}
}

// unique is string for one that few rows have.
func (c *codec) unique(s *string) {
	if n := c.count(len(*s), 1); c.reading {
		*s = string(c.take(n))
	} else {
		c.out = append(c.out, *s...)
	}
}

// own returns a string that was read, a short one mostly as it was returned before.
func (c *codec) own(b []byte) string {
	if len(b) > maxName || c.names == nil {
		return string(b)
	}
	name := &c.names[maphash.Bytes(namesSeed, b)%maxNames]
	if *name != string(b) {
		*name = string(b)
	}
	return *name
}

func (c *codec) int(n *int64) {
	if !c.reading {
		c.out = binary.AppendVarint(c.out, *n)
		return
	}
	u := c.uvarint()
	*n = int64(u>>1) ^ -int64(u&1)
}

// count writes n, or reads a number of elements that take at least size bytes each.
func (c *codec) count(n, size int) int {
	if !c.reading {
		c.out = binary.AppendUvarint(c.out, uint64(n))
		return n
	}
	u := c.uvarint()
	if u > uint64((len(c.in)-c.pos)/size) {
		c.fail("count")
		return 0
	}
	return int(u)
}

func (c *codec) take(n int) []byte {
	if c.err != "" || n > len(c.in)-c.pos {
		c.fail("end of bytes")
		return nil
	}
	c.pos += n
	return c.in[c.pos-n : c.pos]
}

func (c *codec) uvarint() uint64 {
	if c.err != "" {
		return 0
	}
	var v uint64
	for i := 0; i < binary.MaxVarintLen64 && c.pos < len(c.in); i++ {
		b := c.in[c.pos]
		c.pos++
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			// The shortest form only, and nothing beyond 64 bits.
			if i > 0 && b == 0 || i == binary.MaxVarintLen64-1 && b > 1 {
				c.fail("varint")
				return 0
			}
			return v
		}
	}
	c.fail("varint")
	return 0
}
