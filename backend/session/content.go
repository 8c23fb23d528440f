package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// Tree is a session with what it takes to read its content. A copy of it shares everything.
type Tree struct {
	*Session
	// Blocks are the session's; nil has no content.
	Blocks *BlockSet
}

// BlockSet holds blocks of one session by their short ids, and puts together what they refer to. The zero value
// is empty. It may be read concurrently, but not while something is added, and must not be copied.
type BlockSet struct {
	byShort map[spans.ShortID][]held
	held    int64 // bytes of all bodies

	mu   sync.Mutex
	made map[spans.ShortID]struct{} // templates that were put together
	work int64                      // bytes that they came to
}

// Bounds of what templates come to: few bytes can ask for many.
const (
	// maxMade bounds one body.
	maxMade = 64 << 20
	// maxWork bounds the bytes of all bodies of a set that are put together, and workRatio adds so many times what the set holds. Bodies beyond
	// count as not there.
	maxWork   = 128 << 20
	workRatio = 8
)

// held is a block whose body is known to have its id, or one that was cut, of which the id is what somebody said.
type held struct {
	id   spans.BlockID
	body string
	cut  bool
	size int64 // of what was cut
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

// Add adds a block. Of two with one id a whole one (Size 0) stays, whichever came first, else the one of the greater Size. The id of
// a whole one is computed from the body, never believed; one that was cut (Size > 0) is known by the id that it has, or by that of its
// body where it has none.
func (s *BlockSet) Add(b Block) {
	h := held{id: b.ID, body: b.Body, cut: b.Size > 0, size: b.Size}
	if !h.cut || h.id == (spans.BlockID{}) {
		h.id = spans.BlockOfString(b.Body)
	}
	l := s.byShort[h.id.Short()]
	for i := range l {
		if old := &l[i]; old.id == h.id {
			if old.cut && (!h.cut || cmp.Or(cmp.Compare(h.size, old.size), strings.Compare(h.body, old.body)) > 0) {
				*old = h
			}
			return
		}
	}
	if s.byShort == nil {
		s.byShort = map[spans.ShortID][]held{}
	}
	s.byShort[h.id.Short()] = append(l, h)
	s.held += int64(len(h.body))
}

// Len returns the number of blocks.
func (s *BlockSet) Len() int {
	if s == nil {
		return 0
	}
	n := 0
	for _, l := range s.byShort {
		n += len(l)
	}
	return n
}

// state says what is there of a block.
type state uint8

const (
	missing  state = iota // nothing, or several blocks whose ids begin alike
	whole                 // its body
	withheld              // that it was cut or withheld at the source
)

// found is what is there of a block that a reference names.
type found struct {
	state state
	lost  spans.ShortID // of one that is missing: the block that is
	body  string
}

// look finds the block of ref; want says whether its body is wanted.
func (s *BlockSet) look(ref *Ref, want bool) found {
	short, err := spans.ParseShortID(ref.Block)
	if s == nil || err != nil {
		return found{}
	}
	switch l := s.byShort[short]; {
	case len(l) != 1:
		return found{lost: short}
	case l[0].cut:
		return found{state: withheld}
	default:
		f := s.expand(short, l[0].body, want)
		if want && f.state == whole && isRest(ref.Provenance) {
			f.body = others(l[0].body, s)
		}
		return f
	}
}

// isRest reports whether an item with that provenance is what says how a request is put together.
func isRest(provenance string) bool {
	return provenance == string(spans.ProvenanceRest) || provenance == string(spans.ProvenanceComposed)
}

// expand puts together what a template refers to; parts of a request count as nothing. Without want it is only looked for.
func (s *BlockSet) expand(short spans.ShortID, template string, want bool) (f found) {
	if spans.IsPlain(template) {
		return found{state: whole, body: template}
	}
	f.state = whole
	size := int64(0)
	err := spans.Pieces(template, func(p spans.Piece) bool {
		size += int64(len(p.Text))
		if p.Block == (spans.ShortID{}) {
			return true
		}
		switch l := s.byShort[p.Block]; {
		case len(l) != 1:
			f = found{lost: p.Block}
			return false
		case l[0].cut:
			f.state = withheld
		default:
			size += int64(len(l[0].body))
		}
		return true
	})
	switch {
	case err != nil || size > maxMade:
		return found{lost: short}
	case f.state != whole || !want:
		return f
	case !s.affords(short, size):
		return found{lost: short}
	}
	var b strings.Builder
	b.Grow(int(size))
	_ = spans.Pieces(template, func(p spans.Piece) bool { // it was read before
		b.WriteString(s.text(p))
		return true
	})
	f.body = b.String()
	return f
}

// text returns a text, or that of a block which is there; of parts nothing.
func (s *BlockSet) text(p spans.Piece) string {
	if p.Block == (spans.ShortID{}) {
		return p.Text
	}
	return s.byShort[p.Block][0].body
}

// affords reports whether a template may be put together, which comes to that size. One that was may be again.
func (s *BlockSet) affords(short spans.ShortID, size int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.made[short]; ok {
		return true
	}
	if s.work+size > maxWork+workRatio*s.held {
		return false
	}
	if s.made == nil {
		s.made = map[spans.ShortID]struct{}{}
	}
	s.made[short] = struct{}{}
	s.work += size
	return true
}

// placeKeys are the members of a message that say where it stands. The last four do where it has an id.
var placeKeys = []string{"turnId", "nodeId", "parentId", "tags", "provenanceHint", "messageId", "id", "timestamp", "created_at", "createdAt"}

// Same returns equal names for messages of equal value, whatever their spelling and position, as an event and a request have them. Of a body
// that is not there it is the name of its block.
func (s *BlockSet) Same(ref Ref) string {
	if body, ok := s.Body(ref); ok {
		if id, ok := SameMessage(body); ok {
			return id.String()
		}
	}
	return ref.Block
}

// SameMessage returns equal ids for messages of equal value, without the members that say where a message stands. It reports false for a body that
// is not JSON.
func SameMessage(body string) (spans.ShortID, bool) {
	keys := placeKeys
	if !strings.Contains(body, `"id"`) {
		keys = keys[:6]
	}
	text, _, err := rawjson.AppendCanonical(nil, []byte(body), keys)
	return spans.BlockOf(text).Short(), err == nil
}

// Content is what a list refers to.
type Content struct {
	// Bodies of the items of the list, in order; empty where the body is not there.
	Bodies []string
	// Missing are the positions whose block did not arrive, or arrived as something else. Withheld are those that were cut or
	// withheld at the source, which says so: see BlockSet.Cut.
	Missing, Withheld []int

	lost []spans.ShortID // of the items that are missing: the block that is
}

// Whole reports whether all bodies are there. A list may still be incomplete itself; see Refs.Complete.
func (c *Content) Whole() bool { return len(c.Missing) == 0 && len(c.Withheld) == 0 }

// Body returns the body of a single reference. That of an ambiguous short id (two blocks that begin alike) is not given, nor
// one that was cut.
func (s *BlockSet) Body(ref Ref) (string, bool) {
	f := s.look(&ref, true)
	return f.body, f.state == whole
}

// Cut returns what is there of a body that was cut or withheld at the source: its beginning, which may be empty and which nothing
// confirms, and the size of the whole; ok is false for any other block.
func (s *BlockSet) Cut(ref Ref) (beginning string, size int64, ok bool) {
	short, err := spans.ParseShortID(ref.Block)
	if s == nil || err != nil || len(s.byShort[short]) != 1 {
		return "", 0, false
	}
	h := &s.byShort[short][0]
	if h.cut {
		return h.body, h.size, true
	}
	if s.look(&ref, false).state != withheld {
		return "", 0, false
	}
	var b strings.Builder
	_ = spans.Pieces(h.body, func(p spans.Piece) bool { // look read it
		text := s.text(p)
		size += int64(len(text))
		if p.Block != (spans.ShortID{}) && s.byShort[p.Block][0].cut {
			size += s.byShort[p.Block][0].size - int64(len(text))
			ok = true
		} else if !ok && b.Len()+len(text) <= maxMade {
			b.WriteString(text)
		}
		return true
	})
	return b.String(), size, ok
}

// maxRead bounds the bodies of one list that Read gives. Templates can make much of little.
const maxRead = 1 << 30

// Read returns what a list refers to. Of nil it returns empty content. Bodies come to 1 GiB at most; what is beyond that counts as missing.
func (s *BlockSet) Read(refs *Refs) Content {
	var c Content
	if refs == nil {
		return c
	}
	items := refs.Items()
	c.Bodies, c.lost = make([]string, len(items)), make([]spans.ShortID, len(items))
	size := 0
	for i := range items {
		f := s.look(&items[i], true)
		if size += len(f.body); size > maxRead {
			f = found{}
		}
		c.Bodies[i], c.lost[i] = f.body, f.lost
		switch f.state {
		case missing:
			c.Missing = append(c.Missing, i)
		case withheld:
			c.Withheld = append(c.Withheld, i)
		}
	}
	return c
}

// checker is one CheckContent. Lists share their beginnings, so what was found of one node holds for all.
type checker struct {
	blocks *BlockSet
	nodes  map[*node]*tally
}

// tally is what was found of the items of a list up to one of them.
type tally struct {
	missing, withheld int
	names             []string
}

func (t *tally) add(blocks *BlockSet, ref *Ref) {
	const most = 4 // names
	switch f := blocks.look(ref, false); f.state {
	case missing:
		t.missing++
		if t.missing <= most {
			name := clip(ref.Block)
			if f.lost != (spans.ShortID{}) {
				name = f.lost.String()
			}
			t.names = append(slices.Clip(t.names), name)
		}
	case withheld:
		t.withheld++
	}
}

// upTo returns the tally of n, which is resolved.
func (c *checker) upTo(n *node) *tally {
	var path []*node
	for c.nodes[n] == nil && n.pos > 0 {
		path = append(path, n)
		n = n.parent
	}
	t := c.nodes[n]
	if t == nil {
		t = &tally{}
	}
	for _, n := range slices.Backward(path) {
		next := *t
		ref, _ := parseRef(n.item)
		next.add(c.blocks, &ref)
		t = &next
		c.nodes[n] = t
	}
	return t
}

func (c *checker) check(d *[]Defect, capture spans.Capture, name string, refs *Refs) {
	if refs == nil || capture == spans.CaptureDigests {
		return
	}
	t := &tally{}
	if refs.end != nil && refs.known == refs.end.pos {
		t = c.upTo(refs.end)
	} else {
		for _, ref := range refs.Items() {
			t.add(c.blocks, &ref)
		}
	}
	if t.missing > 0 {
		names := strings.Join(t.names, " ")
		if t.missing > len(t.names) {
			names += " ..."
		}
		detail := fmt.Sprintf("%s: %d of %d, %s", name, t.missing, refs.Len(), names)
		*d = append(*d, Defect{Code: spans.DefectBlockMissing, Detail: detail})
	}
	if t.withheld > 0 {
		*d = append(*d, Defect{Code: spans.DefectBlockWithheld, Detail: fmt.Sprintf("%s: %d of %d", name, t.withheld, refs.Len())})
	}
}

// CheckContent adds to s what needs the blocks of the session: block_missing where a list names blocks that are not in
// the set, block_withheld where its blocks were cut or withheld at the source, and the missing tool calls of a reply. It
// skips lists of spans that were captured without bodies. It first removes what an earlier check found.
//
// Its time grows with what came over the wire, not with the length of all lists.
func (s *Session) CheckContent(blocks *BlockSet) {
	c := checker{blocks: blocks, nodes: map[*node]*tally{}}
	for n := range s.Walk() {
		capture := n.Run.Capture
		if n.Turn != nil {
			capture = n.Turn.Capture
		}
		d := n.Defects()
		forgetContent(d)
		switch n.Kind() {
		case KindRun:
			c.check(d, capture, spans.ListMetadata, n.Run.Metadata)
			c.check(d, capture, spans.ListRules, n.Run.Rules)
			c.check(d, capture, spans.ListMessages, n.Run.Messages)
			c.check(d, capture, spans.ListOutside, n.Run.Outside)
		case KindTurn:
			for _, q := range n.Turn.Requests {
				c.check(d, capture, requestName(spans.ListRequest, q.Attempt), q.Messages)
				c.check(d, capture, requestName(spans.ListParams, q.Attempt), q.Params)
			}
			c.check(d, capture, spans.ListInput, n.Turn.Input)
			c.check(d, capture, spans.ListOutput, n.Turn.Output)
			c.check(d, capture, spans.ListResults, n.Turn.Results)
			n.Turn.nameMissingCalls(blocks)
		case KindToolCall:
			c.check(d, capture, spans.ListArgs, n.Call.Args)
			c.check(d, capture, spans.ListResult, n.Call.Result)
		case KindCompaction:
			c.check(d, capture, spans.ListSummary, n.Compaction.Summary)
			c.check(d, capture, spans.ListBefore, n.Compaction.Before)
			c.check(d, capture, spans.ListAfter, n.Compaction.After)
		}
	}
}

// forgetContent removes what CheckContent adds.
func forgetContent(d *[]Defect) {
	*d = slices.DeleteFunc(*d, func(x Defect) bool {
		return x.Code == spans.DefectBlockMissing || x.Code == spans.DefectBlockWithheld
	})
}

// nameMissingCalls completes the defect tool_call_missing of a turn with the ids of calls that the reply asked for.
func (t *Turn) nameMissingCalls(blocks *BlockSet) {
	const (
		naming = "; missing: "
		most   = 16 // names
	)
	for i := range t.Defects {
		d := &t.Defects[i]
		if d.Code != spans.DefectToolCallMissing || strings.Contains(d.Detail, naming) || t.Output == nil {
			continue
		}
		have := map[string]bool{}
		for _, c := range t.ToolCalls {
			have[c.ID] = true
		}
		var missing []string
		for _, body := range blocks.Read(t.Output).Bodies {
			for _, id := range callIDs(body) {
				if !have[id] {
					missing = append(missing, clip(id))
				}
			}
		}
		if len(missing) > most {
			missing = append(missing[:most], "...")
		}
		if len(missing) > 0 {
			d.Detail += naming + strings.Join(missing, ", ")
		}
	}
}

// callIDs returns the ids of the tool calls in a reply, in the spellings of phi-core and Anthropic (content blocks) and
// of OpenAI (tool_calls).
func callIDs(message string) []string {
	type call struct {
		Type string `json:"type"`
		ID   string `json:"id"`
	}
	var m struct {
		Content   json.RawMessage `json:"content"`
		ToolCalls []call          `json:"tool_calls"`
	}
	if json.Unmarshal([]byte(message), &m) != nil {
		return nil
	}
	var content []call
	_ = json.Unmarshal(m.Content, &content) // text alone is no list
	var ids []string
	for _, c := range content {
		if c.ID != "" && (c.Type == "toolCall" || c.Type == "tool_use" || c.Type == "tool_call") {
			ids = append(ids, c.ID)
		}
	}
	for _, c := range m.ToolCalls {
		if c.ID != "" {
			ids = append(ids, c.ID)
		}
	}
	return ids
}
