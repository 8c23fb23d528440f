package session

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/otelagent/otelagent/spans"
)

// rowVersion is the first byte of canonical bytes.
const rowVersion = 1

// ErrRow is wrapped by every error of ParseRow.
var ErrRow = errors.New("bad row")

// Canonical byte of each spans.Known, which is also its rank in Supersedes.
const (
	rankLive = iota
	rankClosed
	rankObserved
)

var knownOfRank = [...]spans.Known{rankLive: spans.KnownLive, rankClosed: spans.KnownClosed, rankObserved: spans.KnownObserved}

func knownRank(k spans.Known) byte {
	switch k {
	case spans.KnownLive:
		return rankLive
	case spans.KnownClosed:
		return rankClosed
	default:
		return rankObserved
	}
}

// Supersedes reports whether a is to be kept rather than b where both have one key (trace id, span id): observed over closed
// over live, then the later end, then the greater canonical bytes. It is a strict total order of rows by their canonical
// bytes, so that replicas agree without talking: of two different rows exactly one supersedes the other, and a row does
// not supersede itself.
func Supersedes(a, b *Row) bool {
	if ra, rb := knownRank(a.Known), knownRank(b.Known); ra != rb {
		return ra > rb
	}
	if a.End != b.End {
		return a.End > b.End
	}
	return string(a.AppendCanonical(nil)) > string(b.AppendCanonical(nil))
}

// AppendCanonical appends the canonical bytes of the row (docs/formats.md section 3) to dst and returns the result. They
// are a pure function of the row; ParseRow reads them back. An empty Known is written as observed, and attributes without
// a value are left out.
func (r *Row) AppendCanonical(dst []byte) []byte {
	dst = append(dst, rowVersion)
	dst = append(dst, r.Trace[:]...)
	dst = append(dst, r.Span[:]...)
	dst = append(dst, r.Parent[:]...)
	dst = appendString(dst, r.Session.Tenant)
	dst = appendString(dst, r.Session.ID)
	dst = appendString(dst, r.Run)
	dst = binary.AppendVarint(dst, r.RunStart)
	dst = binary.AppendVarint(dst, r.Turn)
	dst = append(dst, byte(r.Kind), knownRank(r.Known))
	dst = binary.AppendVarint(dst, r.Start)
	dst = binary.AppendVarint(dst, r.End)
	dst = binary.AppendVarint(dst, r.Seq)
	dst = binary.AppendVarint(dst, r.EndSeq)
	dst = append(dst, boolByte(r.Failed))
	dst = appendString(dst, r.Service)

	n := 0
	for i := range r.Attrs {
		if r.Attrs[i].Value.typ != TypeNone {
			n++
		}
	}
	dst = binary.AppendUvarint(dst, uint64(n))
	for i := range r.Attrs {
		a := &r.Attrs[i]
		if a.Value.typ == TypeNone {
			continue
		}
		dst = appendString(dst, a.Key)
		dst = append(dst, byte(a.Value.typ))
		switch a.Value.typ {
		case TypeString:
			dst = appendString(dst, a.Value.str)
		case TypeInt:
			dst = binary.AppendVarint(dst, int64(a.Value.num))
		case TypeDouble:
			dst = binary.BigEndian.AppendUint64(dst, a.Value.num)
		case TypeBool:
			dst = append(dst, boolByte(a.Value.num == 1))
		case TypeStrings:
			dst = append(dst, a.Value.str...)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Lists)))
	for i := range r.Lists {
		l := &r.Lists[i]
		dst = appendString(dst, l.Name)
		dst = binary.AppendVarint(dst, l.Attempt)
		dst = binary.AppendVarint(dst, l.Count)
		dst = appendString(dst, l.Whole)
		dst = appendString(dst, l.Prefix)
		dst = binary.AppendUvarint(dst, uint64(len(l.Items)))
		for _, it := range l.Items {
			dst = appendString(dst, it)
		}
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Events)))
	for i := range r.Events {
		e := &r.Events[i]
		dst = binary.AppendVarint(dst, e.Time)
		dst = appendString(dst, e.Type)
		dst = appendString(dst, e.Body)
		dst = binary.AppendVarint(dst, e.Seq)
	}
	if len(r.Facts) == 0 { // rows of before facts have none
		return dst
	}
	dst = binary.AppendUvarint(dst, uint64(len(r.Facts)))
	for i := range r.Facts {
		f := &r.Facts[i]
		dst = binary.AppendVarint(dst, f.Time)
		dst = appendString(dst, f.Subject)
		dst = appendString(dst, f.Key)
		dst = appendString(dst, f.Value)
		dst = binary.AppendVarint(dst, f.Seq)
	}
	return dst
}

// ParseRow reads what AppendCanonical wrote. It is strict: it accepts exactly the bytes that AppendCanonical gives of some
// row, and nothing behind them. All strings of the row share one copy of b, which the caller may reuse. What a row takes is
// bounded by a small multiple of len(b). Errors wrap ErrRow; the row is then zero.
func ParseRow(b []byte) (Row, error) {
	p := parser{s: string(b)}
	var r Row
	if v := p.byte(); v != rowVersion {
		p.fail("version")
	}
	copy(r.Trace[:], p.take(len(r.Trace)))
	copy(r.Span[:], p.take(len(r.Span)))
	copy(r.Parent[:], p.take(len(r.Parent)))
	r.Session.Tenant = p.str()
	r.Session.ID = p.str()
	r.Run = p.str()
	r.RunStart = p.varint()
	r.Turn = p.varint()
	r.Kind = Kind(p.byte())
	if r.Kind > KindPayload {
		p.fail("kind")
	}
	if known := p.byte(); int(known) < len(knownOfRank) {
		r.Known = knownOfRank[known]
	} else {
		p.fail("known")
	}
	r.Start = p.varint()
	r.End = p.varint()
	r.Seq = p.varint()
	r.EndSeq = p.varint()
	r.Failed = p.bool()
	r.Service = p.str()

	if n := p.count(3); n > 0 {
		r.Attrs = make([]Attr, n)
		for i := range r.Attrs {
			p.attr(&r.Attrs[i])
			if i > 0 && r.Attrs[i-1].Key >= r.Attrs[i].Key {
				p.fail("order of attributes")
			}
			if p.err != "" {
				break
			}
		}
	}
	if n := p.count(6); n > 0 {
		r.Lists = make([]List, n)
		for i := range r.Lists {
			p.list(&r.Lists[i])
			if p.err != "" {
				break
			}
		}
	}
	if n := p.count(4); n > 0 {
		r.Events = make([]Event, n)
		for i := range r.Events {
			e := &r.Events[i]
			e.Time = p.varint()
			e.Type = p.str()
			e.Body = p.str()
			e.Seq = p.varint()
		}
	}
	if p.err == "" && p.pos != len(p.s) {
		n := p.count(5)
		if n == 0 { // AppendCanonical writes nothing then
			p.fail("facts")
		}
		r.Facts = make([]RowFact, n)
		for i := range r.Facts {
			f := &r.Facts[i]
			f.Time = p.varint()
			f.Subject = p.str()
			f.Key = p.str()
			f.Value = p.str()
			f.Seq = p.varint()
		}
	}
	if p.err == "" && p.pos != len(p.s) {
		p.fail("trailing bytes")
	}
	if p.err != "" {
		return Row{}, fmt.Errorf("session: parse row of %d bytes: %s at byte %d: %w", len(b), p.err, p.pos, ErrRow)
	}
	return r, nil
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

// parser reads canonical bytes from s. After the first failure every method returns zero values.
type parser struct {
	s   string
	pos int
	err string
}

func (p *parser) fail(what string) {
	if p.err == "" {
		p.err = what
	}
}

func (p *parser) byte() byte {
	if p.err != "" || p.pos >= len(p.s) {
		p.fail("end of bytes")
		return 0
	}
	p.pos++
	return p.s[p.pos-1]
}

func (p *parser) bool() bool {
	b := p.byte()
	if b > 1 {
		p.fail("bool")
	}
	return b == 1
}

func (p *parser) take(n int) string {
	if p.err != "" || n > len(p.s)-p.pos {
		p.fail("end of bytes")
		return ""
	}
	p.pos += n
	return p.s[p.pos-n : p.pos]
}

func (p *parser) uvarint() uint64 {
	if p.err != "" {
		return 0
	}
	var v uint64
	for i := 0; i < binary.MaxVarintLen64 && p.pos < len(p.s); i++ {
		c := p.s[p.pos]
		p.pos++
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			// The shortest form only, and nothing beyond 64 bits.
			if i > 0 && c == 0 || i == binary.MaxVarintLen64-1 && c > 1 {
				p.fail("varint")
				return 0
			}
			return v
		}
	}
	p.fail("varint")
	return 0
}

func (p *parser) varint() int64 {
	u := p.uvarint()
	v := int64(u >> 1)
	if u&1 != 0 {
		v = ^v
	}
	return v
}

// count reads a number of things that take at least size bytes each.
func (p *parser) count(size int) int {
	n := p.uvarint()
	if n > uint64((len(p.s)-p.pos)/size) {
		p.fail("count")
		return 0
	}
	return int(n)
}

func (p *parser) str() string {
	return p.take(p.count(1))
}

func (p *parser) attr(a *Attr) {
	a.Key = p.str()
	a.Value.typ = ValueType(p.byte())
	switch a.Value.typ {
	case TypeString:
		a.Value.str = p.str()
	case TypeInt:
		a.Value.num = uint64(p.varint())
	case TypeDouble:
		if s := p.take(8); len(s) == 8 {
			a.Value.num = binary.BigEndian.Uint64([]byte(s))
		}
	case TypeBool:
		if p.bool() {
			a.Value.num = 1
		}
	case TypeStrings:
		from := p.pos
		for n := p.count(1); n > 0 && p.err == ""; n-- {
			p.str()
		}
		a.Value.str = p.s[from:p.pos]
	default:
		p.fail("type of an attribute")
	}
}

func (p *parser) list(l *List) {
	l.Name = p.str()
	l.Attempt = p.varint()
	l.Count = p.varint()
	l.Whole = p.str()
	l.Prefix = p.str()
	if n := p.count(1); n > 0 {
		l.Items = make([]string, n)
		for i := range l.Items {
			l.Items[i] = p.str()
		}
	}
}
