package genaijson

import (
	"bytes"
	"math"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// A part is one part of a message, in pieces of the input.
type part struct {
	message int    // number of the message that it is of
	role    []byte // of its message, a JSON string

	typ      []byte // JSON string; nil: the message has no parts
	modality string
	id, name []byte // JSON strings or nil
	mime     []byte // what stands between the quotes of a JSON string, or nil
	isError  bool
	key      string // property that holds content; "": content is the part
	content  []byte
	form     form

	around, head, size, whole int // see measure
}

// A form says what content is.
type form int

const (
	value  form = iota // a JSON value
	plain              // text, not quoted
	binary             // what stands behind the opening quote of a JSON string in base64
)

// follows reports whether p stands in the same message as q.
func (p *part) follows(q *part) bool {
	return p.message == q.message && bytes.Equal(p.role, q.role)
}

// measure sets the sizes that p takes, with a comma: whole, if nothing is cut; else head, and size for content or less.
// Scratch is memory.
func (p *part) measure(scratch *[]byte) {
	if p.typ == nil {
		p.head, p.whole = len(`,`), len(`,`)
		return
	}
	if p.form == binary {
		*scratch = p.appendMark((*scratch)[:0])
		p.head = len(*scratch) + 1
		*scratch = p.appendHead((*scratch)[:0], p.key)
		p.whole = len(*scratch) + len(`"`) + len(p.content) + len(`},`)
		p.head = min(p.head, p.whole)
		return
	}
	p.size = len(p.content)
	if p.form == plain {
		p.size = quotedLen(p.content)
	}
	if p.key == "" {
		// As soon as it is cut it needs a head, because its type might be what is cut off.
		*scratch = p.appendHead((*scratch)[:0], "value")
		p.head = len(*scratch) + len(`},`)
		p.whole = p.size + len(`,`)
		return
	}
	*scratch = p.appendHead((*scratch)[:0], p.key)
	p.head = len(*scratch) + len(`},`)
	p.whole = p.head + p.size
}

// append writes p. If cut is set, content has at most share bytes, and binary content goes if p is not shorter so.
func (p *part) append(dst []byte, share int, cut bool) []byte {
	switch {
	case p.typ == nil:
		return dst
	case p.form == binary:
		if cut && p.head < p.whole {
			return p.appendMark(dst)
		}
		return append(append(append(p.appendHead(dst, p.key), '"'), p.content...), '}')
	case p.key == "" && (!cut || p.whole <= p.head+min(p.size, share)):
		return append(dst, p.content...)
	case p.key == "":
		dst = p.appendHead(dst, "value")
	default:
		dst = p.appendHead(dst, p.key)
	}
	if p.form == plain {
		dst = appendPlain(dst, p.content, share)
	} else {
		dst = appendValue(dst, p.content, share)
	}
	return append(dst, '}')
}

// appendHead writes p up to its content.
func (p *part) appendHead(dst []byte, key string) []byte {
	dst = append(append(dst, `{"type":`...), p.typ...)
	if p.modality != "" {
		dst = append(append(append(dst, `,"modality":"`...), p.modality...), '"')
	}
	if p.id != nil {
		dst = append(append(dst, `,"id":`...), p.id...)
	}
	if p.name != nil {
		dst = append(append(dst, `,"name":`...), p.name...)
	}
	if p.mime != nil {
		dst = append(append(append(dst, `,"mime_type":"`...), p.mime...), '"')
	}
	if p.isError {
		dst = append(dst, `,"is_error":true`...)
	}
	return append(append(append(dst, `,"`...), key...), `":`...)
}

// appendMark writes what stands for a part with binary content.
func (p *part) appendMark(dst []byte) []byte {
	dst = append(dst, `{"type":"text","content":"[cut: `...)
	if p.mime != nil {
		dst = append(dst, p.mime...)
	} else {
		dst = append(dst, p.modality...)
	}
	data := bytes.TrimRight(p.content, `="`)
	return append(appendCount(append(dst, ", "...), len(data)/4*3+len(data)%4*3/4), ` bytes]"}`...)
}

// note returns a part of the message of p that says how much is left out before p.
func (p *part) note(messages, parts int) part {
	text := append(make([]byte, 0, maxNote), `"[left out: `...)
	if messages > 0 {
		text = appendUnits(text, messages, "message")
	}
	if parts > 0 {
		if messages > 0 {
			text = append(text, ", "...)
		}
		text = appendUnits(text, parts, "part")
	}
	text = append(text, `]"`...)
	return part{message: p.message, role: p.role, typ: typeText, key: "content", content: text, size: len(text)}
}

func appendUnits(dst []byte, n int, unit string) []byte {
	dst = append(append(appendCount(dst, n), ' '), unit...)
	if n != 1 {
		dst = append(dst, 's')
	}
	return dst
}

// shares is room, for things of different size, given so that the smallest get all they want.
type shares struct {
	n, sum [64]int // number and size of things with sizes of as many bits
}

func (s *shares) add(size int) {
	k := bitsLen(size)
	s.n[k]++
	s.sum[k] += size
}

// share returns a size to which things are to be cut so that all fit into room. It is not the greatest such size, but
// near it, and costs no memory for the things.
func (s *shares) share(room int) int {
	all, small, best := 0, 0, 0
	for _, n := range s.n {
		all += n
	}
	// If those of fewer bits are whole, the others share what remains.
	for k := range s.n {
		if small > room {
			return best
		}
		if all == 0 {
			return math.MaxInt
		}
		best = max(best, (room-small)/all)
		small += s.sum[k]
		all -= s.n[k]
	}
	return best
}

// appendValue writes raw, a valid JSON value, within room.
func appendValue(dst, raw []byte, room int) []byte {
	if len(raw) <= room {
		return append(dst, raw...)
	}
	return appendCutValue(dst, raw, room)
}

// appendPlain writes text as a JSON string within room.
func appendPlain(dst, text []byte, room int) []byte {
	if room == math.MaxInt || quotedLen(text) <= room {
		return rawjson.Quote(dst, string(text))
	}
	return appendCutPlain(dst, text, room)
}
