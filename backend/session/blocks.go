package session

import (
	"cmp"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Tree is a session with the blocks of its content. A copy of it shares everything.
type Tree struct {
	*Session
	// Blocks are the session's; nil has no content.
	Blocks *BlockSet
}

// NewTree returns a session with blocks and those that came with its rows, or the first error of the sequence.
func NewTree(s *Session, blocks iter.Seq2[Block, error]) (Tree, error) {
	set, err := NewBlockSet(blocks)
	if err != nil {
		return Tree{}, err
	}
	for _, b := range s.LiveBlocks() {
		set.Add(b)
	}
	return Tree{Session: s, Blocks: set}, nil
}

// BlockSet holds blocks of one session by their short ids, and composes bodies of several blocks. The zero value is
// empty. It may be read concurrently, but not while something is added.
type BlockSet struct {
	byShort map[spans.ShortID]*held
	bytes   int64 // of all blocks

	mu       sync.Mutex
	composed map[spans.ShortID]struct{}
	work     int64 // bytes of the bodies in composed
}

const (
	// maxBody bounds a body that is composed of blocks: few bytes can refer to many.
	maxBody = 64 << 20
	// maxWork bounds the bytes of all bodies that a set composes, and workRatio adds that many times the bytes of its
	// blocks. Bodies beyond count as missing.
	maxWork   = 128 << 20
	workRatio = 8
	// maxRead bounds the bodies of one list.
	maxRead = 1 << 30
)

// held is a block whose id was computed from its body, or one that was cut, whose id only its sender knows.
type held struct {
	id    spans.BlockID
	body  string
	size  int64 // of the whole body, if it was cut, else 0
	twins bool  // several ids begin alike: none of the blocks is given
}

// NewBlockSet returns a set of blocks, or the first error of the sequence.
func NewBlockSet(blocks iter.Seq2[Block, error]) (*BlockSet, error) {
	s := &BlockSet{}
	for b, err := range blocks {
		if err != nil {
			return nil, err
		}
		s.Add(b)
	}
	return s, nil
}

// Add adds a block. Of two with one id it keeps a whole one (Size 0), whichever came first, else the one of the greater
// Size. It computes the id of a whole one, and of one that was cut and has no id, from the body.
func (s *BlockSet) Add(b Block) {
	h := &held{id: b.ID, body: b.Body, size: max(b.Size, 0)}
	if h.size == 0 || h.id == (spans.BlockID{}) {
		h.id = spans.BlockOfString(b.Body)
	}
	s.bytes += int64(len(b.Body))
	if s.byShort == nil {
		s.byShort = map[spans.ShortID]*held{}
	}
	switch old := s.byShort[h.id.Short()]; {
	case old == nil:
		s.byShort[h.id.Short()] = h
	case old.id != h.id:
		old.twins = true
	case old.size > 0 && (h.size == 0 || cmp.Or(cmp.Compare(h.size, old.size), strings.Compare(h.body, old.body)) > 0):
		h.twins = old.twins
		*old = *h
	}
}

// Len returns the number of blocks.
func (s *BlockSet) Len() int {
	if s == nil {
		return 0
	}
	return len(s.byShort)
}

// Bytes returns the size of all bodies.
func (s *BlockSet) Bytes() int64 {
	if s == nil {
		return 0
	}
	return s.bytes
}

// get returns the block of a short id; nil if it is missing, or if several ids begin alike.
func (s *BlockSet) get(id spans.ShortID) *held {
	if s == nil || s.byShort[id] == nil || s.byShort[id].twins {
		return nil
	}
	return s.byShort[id]
}

// state says what the set has of a body.
type state uint8

const (
	missing  state = iota // nothing, or several blocks whose ids begin alike
	whole                 // the body
	withheld              // that the source cut or withheld it
)

// found is what the set has of the body that a reference names.
type found struct {
	state state
	lost  spans.ShortID // of a missing body: the block that is missing
	texts []string      // that the body is made of; of one that was cut those before the cut
	size  int64         // of the whole body
}

// name returns the name of the block that is missing of ref.
func (f *found) name(ref *Ref) string {
	if f.lost != (spans.ShortID{}) {
		return f.lost.String()
	}
	return clip(ref.Block)
}

func (f *found) body() string {
	if f.state != whole {
		return ""
	}
	return strings.Join(f.texts, "")
}

// look finds the body of ref. Parts of a request in it count as empty.
func (s *BlockSet) look(ref *Ref) found {
	id, err := spans.ParseShortID(ref.Block)
	h := s.get(id)
	switch {
	case err != nil || s == nil:
		return found{}
	case h == nil:
		return found{lost: id}
	case h.size > 0:
		return found{state: withheld, texts: []string{h.body}, size: h.size}
	case spans.IsPlain(h.body) && !isRest(ref.Provenance):
		return found{state: whole, texts: []string{h.body}, size: int64(len(h.body))}
	}
	var parts []int64 // positions
	f := s.compose(h.body, maxBody, func(_ spans.Piece, at int64) string {
		if !isRest(ref.Provenance) {
			return ""
		}
		parts = append(parts, at)
		return "0"
	})
	switch {
	case f.state == missing && f.lost == (spans.ShortID{}) || f.state == whole && !s.mayCompose(id, f.size):
		return found{lost: id}
	case f.state == whole && isRest(ref.Provenance):
		f.texts = []string{members(f.body(), parts)}
	}
	return f
}

// compose puts the pieces of a template together, with what part returns for a part of a request at a position. A bad
// template, and one of more than most bytes, is missing.
func (s *BlockSet) compose(template string, most int64, part func(p spans.Piece, at int64) string) found {
	f := found{state: whole}
	err := spans.Pieces(template, func(p spans.Piece) bool {
		h := &held{body: p.Text}
		switch {
		case p.Part != 0:
			h.body = part(p, f.size)
		case p.Block != (spans.ShortID{}):
			if h = s.get(p.Block); h == nil {
				f = found{lost: p.Block}
				return false
			}
		}
		if f.size += max(h.size, int64(len(h.body))); h.size > 0 {
			f.state = withheld
		}
		if f.state == whole && f.size <= most {
			f.texts = append(f.texts, h.body)
		}
		return f.state == withheld || f.size <= most
	})
	if err != nil || f.state == whole && f.size > most {
		return found{}
	}
	return f
}

// members returns the members of a JSON object that hold none of those positions, as an object. It returns any other
// text as it is.
func members(text string, positions []int64) string {
	c := rawjson.NewCursor([]byte(text), rawjson.MaxDepth)
	if !c.Open('{') {
		return text
	}
	out := []byte{'{'}
	for c.More('}') {
		key, value := c.RawKey(), c.Value()
		end := int64(c.Pos())
		from := end - int64(len(value))
		if slices.ContainsFunc(positions, func(at int64) bool { return at >= from && at < end }) {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), value...)
	}
	if c.End() != nil {
		return text
	}
	return string(append(out, '}'))
}

// mayCompose reports whether the set may compose that body, in view of the others.
func (s *BlockSet) mayCompose(id spans.ShortID, size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.composed[id]; ok {
		return true
	}
	if s.work+size > maxWork+workRatio*s.bytes {
		return false
	}
	if s.composed == nil {
		s.composed = map[spans.ShortID]struct{}{}
	}
	s.composed[id] = struct{}{}
	s.work += size
	return true
}

// isRest reports whether an item with that provenance states how a request is composed.
func isRest(provenance string) bool {
	return provenance == string(spans.ProvenanceRest) || provenance == string(spans.ProvenanceComposed)
}

// Body returns the body of a single reference. It does not return one that was cut, nor that of an ambiguous short id
// (two blocks that begin alike).
func (s *BlockSet) Body(ref Ref) (string, bool) {
	f := s.look(&ref)
	return f.body(), f.state == whole
}

// Cut returns what is there of a body that was cut or withheld at the source: its beginning, which may be empty and
// which nothing confirms, and the size of the whole; ok is false for any other block.
func (s *BlockSet) Cut(ref Ref) (beginning string, size int64, ok bool) {
	f := s.look(&ref)
	if f.state != withheld {
		return "", 0, false
	}
	return strings.Join(f.texts, ""), f.size, true
}

// Content is what a list refers to.
type Content struct {
	// Bodies of the items of the list, in order; empty where the body is not there.
	Bodies []string
	// Missing are the positions whose block did not arrive, or arrived with another id, and those that the source cut or
	// withheld: see BlockSet.Cut. They have no Part. Block is the one that is missing of a body in several blocks.
	Missing []MissingPart
}

// Whole reports whether all bodies are there. A list may still be incomplete itself; see Refs.Complete.
func (c *Content) Whole() bool { return len(c.Missing) == 0 }

// Read returns the content of a list, which is empty for nil. Bodies have 1 GiB in total at most; others count as
// missing.
func (s *BlockSet) Read(refs *Refs) Content {
	var c Content
	if refs == nil {
		return c
	}
	items := refs.Items()
	c.Bodies = make([]string, len(items))
	size := 0
	for i := range items {
		f := s.look(&items[i])
		body := f.body()
		if size += len(body); f.state == whole && size <= maxRead {
			c.Bodies[i] = body
			continue
		}
		c.Missing = append(c.Missing, MissingPart{Position: i, Block: f.name(&items[i]), Withheld: f.state == withheld})
	}
	return c
}

// PlaceKeys are the members of a message that state its position and are no content. The first five are phi-core's, the
// last four state it in a message with an id.
var PlaceKeys = []string{
	"turnId", "nodeId", "parentId", "tags", "provenanceHint", "messageId", "id", "timestamp", "created_at", "createdAt",
}

// Same returns equal names for messages of equal value, whatever their spelling and position, as an event and a request
// have them. For a body that is not there it returns the name of its block.
func (s *BlockSet) Same(ref Ref) string {
	if body, ok := s.Body(ref); ok {
		if id, ok := SameMessage(body); ok {
			return id.String()
		}
	}
	return ref.Block
}

// SameMessage returns equal ids for messages of equal value, without the members that state a position. It reports
// false for a body that is not JSON.
func SameMessage(body string) (spans.ShortID, bool) {
	keys := PlaceKeys
	if !strings.Contains(body, `"id"`) {
		keys = keys[:6]
	}
	text, err := rawjson.AppendCanonical(nil, []byte(body), keys)
	return spans.BlockOf(text).Short(), err == nil
}
