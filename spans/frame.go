package spans

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"sync"

	"github.com/otelagent/otelagent/internal/rawjson"
)

// Frame says how a request is put together again byte for byte from its blocks: the order of the keys of the payload, what
// stands under which of them, and in which order the loop spells the keys of the objects inside messages, whose blocks
// have sorted keys. It stands in the params list as JSON, with provenance `frame`.
//
// A payload is `{KEY:VALUE,...}` without blanks. Under the key System stands the body of `system`, under Tools that of
// `tools`, under Messages the array of messages, under Provenance the array of their provenances (Provenance.AppendJSON),
// under any other key its value in `rest`.
type Frame struct {
	// Keys of the payload in order, as they are spelled between their quotes.
	Keys []string `json:"keys"`
	// The keys that have a meaning; empty where there is none.
	System     string `json:"system,omitempty"`
	Messages   string `json:"messages,omitempty"`
	Provenance string `json:"provenance,omitempty"`
	Tools      string `json:"tools,omitempty"`
	// Shapes are the orders of keys inside messages: an object whose keys are exactly those of a shape has them in its order,
	// any other has them sorted.
	Shapes Shapes `json:"shapes,omitempty"`
}

// Bounds of a frame.
const (
	maxFrame     = 64 << 10 // bytes
	MaxFrameKeys = 1024     // of the payload
	maxShapes    = 64
	maxShapeKeys = 64
)

// Encode returns the JSON of the frame.
func (f *Frame) Encode() []byte {
	b, _ := json.Marshal(f) // strings only
	return b
}

// ParseFrame reads what Encode wrote. A frame that names a key twice, or a shape that Learn would not make, is refused: it could
// give bytes that nobody sent. Errors wrap ErrEncoding.
func ParseFrame(body string) (*Frame, error) {
	if len(body) > maxFrame {
		return nil, fmt.Errorf("spans: frame of %d bytes, at most %d: %w", len(body), maxFrame, ErrEncoding)
	}
	var f Frame
	if err := json.Unmarshal([]byte(body), &f); err != nil {
		return nil, fmt.Errorf("spans: frame: %w: %w", ErrEncoding, err)
	}
	if len(f.Shapes) > maxShapes || slices.ContainsFunc(f.Shapes, func(s []string) bool { return !validShape(s) }) {
		return nil, fmt.Errorf("spans: frame: shapes: %w", ErrEncoding)
	}
	for i, k := range f.Keys {
		if slices.Contains(f.Keys[:i], k) || len(f.Keys) > MaxFrameKeys {
			return nil, fmt.Errorf("spans: frame: keys: %w", ErrEncoding)
		}
	}
	return &f, nil
}

// Shapes are orders of keys, as they are spelled between their quotes. The zero value is empty.
type Shapes [][]string

// Learn adds the orders of keys of all objects in the JSON value raw that are not sorted, and reports whether s grew. An
// object whose keys are known in another order adds nothing, nor does one with a key twice or with escapes in a key, nor what
// goes beyond 64 shapes of 64 keys, nor what is no JSON: AppendSpelled then gives other bytes, and the caller compares.
func (s *Shapes) Learn(raw []byte) bool {
	before := len(*s)
	c := rawjson.NewCursor(raw, rawjson.MaxDepth)
	f := finder{shapes: *s}
	f.learn(&c)
	*s = f.shapes
	return len(*s) > before
}

func (f *finder) learn(c *rawjson.Cursor) {
	if c.Open('[') {
		for c.More(']') {
			f.learn(c)
		}
		return
	}
	if !c.Open('{') {
		c.Value()
		return
	}
	var fixed [16][]byte
	keys := fixed[:0]
	for c.More('}') {
		key := c.RawKey()
		if key == nil {
			return
		}
		if len(keys) <= maxShapeKeys {
			keys = append(keys, key[1:len(key)-1])
		}
		f.learn(c)
	}
	if len(keys) > maxShapeKeys || slices.IsSortedFunc(keys, bytes.Compare) || len(f.shapes) == maxShapes || c.Err() != nil || f.find(keys) >= 0 {
		return
	}
	shape := make([]string, len(keys))
	for i, k := range keys {
		shape[i] = string(k)
	}
	if validShape(shape) {
		f.shapes = append(f.shapes, shape)
	}
}

// validShape reports whether a shape says one order of an object's keys and nothing else: few keys, none of them twice. Keys
// with escapes are left out, since two spellings can be one key and bodies are sorted by what keys say.
func validShape(shape []string) bool {
	if len(shape) > maxShapeKeys {
		return false
	}
	for i, k := range shape {
		if strings.Contains(k, "\\") || slices.Contains(shape[:i], k) {
			return false
		}
	}
	return true
}

// finder looks for the shape of an object. Keys are compared only with those of a shape that has the same sum of hashes, so that
// what many objects cost is bounded by what there is to read.
type finder struct {
	shapes Shapes
	sums   [maxShapes]uint64
	summed int
}

// shapeSeed makes sums that nobody can foresee.
var shapeSeed = maphash.MakeSeed()

// find returns the index of the shape with exactly these keys, or -1.
func (f *finder) find(keys [][]byte) int {
	if len(f.shapes) == 0 || len(keys) > maxShapeKeys {
		return -1
	}
	for ; f.summed < min(len(f.shapes), maxShapes); f.summed++ {
		for _, k := range f.shapes[f.summed] {
			f.sums[f.summed] += maphash.String(shapeSeed, k)
		}
	}
	sum := uint64(0)
	for _, k := range keys {
		sum += maphash.Bytes(shapeSeed, k)
	}
next:
	for i, shape := range f.shapes[:f.summed] {
		if f.sums[i] != sum || len(shape) != len(keys) {
			continue
		}
		for _, k := range shape {
			if !slices.ContainsFunc(keys, func(b []byte) bool { return string(b) == k }) {
				continue next
			}
		}
		return i
	}
	return -1
}

// AppendSpelled appends the JSON value body, with the members of the object envelope (which may be empty) added at its top
// level, in the orders of s: what a loop wrote before it was made canonical, if s fits. Bodies that are no JSON come as they are.
func (s Shapes) AppendSpelled(dst, body, envelope []byte) []byte {
	start := len(dst)
	w := spellers.Get().(*speller)
	w.finder, w.bad = finder{shapes: s}, false
	defer w.free()
	c := rawjson.NewCursor(body, rawjson.MaxDepth)
	dst = w.value(dst, &c, envelope)
	if w.bad || c.End() != nil {
		return append(dst[:start], body...)
	}
	return dst
}

// speller spells one body, in one pass.
type speller struct {
	finder
	members []span // of the objects that are open, outermost first
	bad     bool   // the envelope is no object
}

var spellers = sync.Pool{New: func() any { return new(speller) }}

func (w *speller) free() {
	w.finder = finder{}
	if w.members = w.members[:0]; cap(w.members) <= 1024 {
		spellers.Put(w)
	}
}

// span is one member of an open object as it stands in what was written: its key without quotes, and where it ends.
type span struct{ key, keyEnd, end int }

func (w *speller) value(dst []byte, c *rawjson.Cursor, envelope []byte) []byte {
	switch c.Peek() {
	case '[':
		c.Open('[')
		dst = append(dst, '[')
		for n := 0; c.More(']'); n++ {
			if n > 0 {
				dst = append(dst, ',')
			}
			dst = w.value(dst, c, nil)
		}
		return append(dst, ']')
	case '{':
		return w.object(dst, c, envelope)
	}
	return append(dst, c.Value()...)
}

func (w *speller) object(dst []byte, c *rawjson.Cursor, envelope []byte) []byte {
	start, first := len(dst), len(w.members)
	dst = append(dst, '{')
	dst = w.add(dst, c, first)
	if len(envelope) > 0 && !w.bad {
		e := rawjson.NewCursor(envelope, rawjson.MaxDepth)
		dst = w.add(dst, &e, first)
		w.bad = w.bad || e.End() != nil
		members := w.members[first:]
		slices.SortStableFunc(members, func(a, b span) int { return bytes.Compare(dst[a.key:a.keyEnd], dst[b.key:b.keyEnd]) })
		dst = w.arrange(dst, start, first, nil)
	}
	if shape := w.of(dst, w.members[first:]); shape != nil && !w.bad {
		dst = w.arrange(dst, start, first, shape)
	}
	w.members = w.members[:first]
	return append(dst, '}')
}

// add writes the members of the next object.
func (w *speller) add(dst []byte, c *rawjson.Cursor, first int) []byte {
	if !c.Open('{') {
		w.bad = true
		return dst
	}
	for c.More('}') {
		if len(w.members) > first {
			dst = append(dst, ',')
		}
		key := c.RawKey()
		if key == nil { // no JSON
			w.bad = true
			return dst
		}
		m := span{key: len(dst) + 1}
		dst = append(dst, key...)
		m.keyEnd = len(dst) - 1
		dst = append(dst, ':')
		at := len(w.members)
		w.members = append(w.members, m)
		dst = w.value(dst, c, nil)
		w.members[at].end = len(dst)
	}
	return dst
}

// arrange writes the members from first on, which stand behind start, in the order of shape; nil: in theirs.
func (w *speller) arrange(dst []byte, start, first int, shape []string) []byte {
	members, end := w.members[first:], len(dst)
	for i := range members {
		m := &members[i]
		if shape != nil {
			m = &members[slices.IndexFunc(members, func(m span) bool { return string(dst[m.key:m.keyEnd]) == shape[i] })]
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, dst[m.key-1:m.end]...)
	}
	moved := copy(dst[start+1:], dst[end:])
	if shape == nil { // others may follow
		at := start + 1
		for i := range members {
			m := &members[i]
			n := m.end - m.key + 1
			*m = span{at + 1, at + 1 + m.keyEnd - m.key, at + n}
			at += n + 1
		}
	}
	return dst[:start+1+moved]
}

// of returns the shape of an object with these members, nil when there is none.
func (w *speller) of(dst []byte, members []span) []string {
	var fixed [16][]byte
	keys := fixed[:0]
	for _, m := range members {
		keys = append(keys, dst[m.key:m.keyEnd])
	}
	if i := w.find(keys); i >= 0 {
		return w.shapes[i]
	}
	return nil
}
