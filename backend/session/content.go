package session

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/spans"
)

// Tree is a session with what it takes to read its content. A copy of it shares everything.
type Tree struct {
	*Session
	// Blocks are the session's; nil has no content.
	Blocks *BlockSet
}

// BlockSet holds blocks of one session by their short ids, and makes bodies by recipes when they are asked for. The zero value
// is empty. It may be read concurrently, but not while something is added, and must not be copied.
type BlockSet struct {
	byShort map[spans.ShortID][]held
	recipes recipes
}

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
// body where it has none. A recipe that spans.ParseRecipe refuses is left out.
func (s *BlockSet) Add(b Block) {
	s.recipes.settled = false
	if b.Recipe {
		s.recipes.add(b.Body)
		return
	}
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
	s.recipes.held += int64(len(h.body))
}

// Len returns the number of bodies and recipes.
func (s *BlockSet) Len() int {
	if s == nil {
		return 0
	}
	n := len(s.recipes.all)
	for _, l := range s.byShort {
		n += len(l)
	}
	return n
}

// state says what is there of a block.
type state uint8

const (
	missing  state = iota // nothing
	whole                 // its body
	twins                 // bodies of several blocks that begin alike
	withheld              // that it was cut or withheld at the source
)

// found is what is there of a block that a reference names.
type found struct {
	state state
	id    spans.BlockID // of a body, and of one that was withheld where known
	known bool
	body  string
	twins []held
}

// look finds the block of ref; want says whether its body is wanted.
func (s *BlockSet) look(ref *Ref, want bool) found {
	if s == nil {
		return found{}
	}
	short, err := spans.ParseShortID(ref.Block)
	if err != nil {
		return found{}
	}
	var cut found
	switch l := s.byShort[short]; {
	case len(l) > 1:
		return found{state: twins, twins: l}
	case len(l) == 1 && !l[0].cut:
		return found{state: whole, id: l[0].id, known: true, body: l[0].body}
	case len(l) == 1:
		cut = found{state: withheld, id: l[0].id, known: true}
	}
	if len(s.recipes.all) == 0 {
		return cut
	}
	switch m, body, ok := s.maker(short, want); {
	case m == nil:
	case ok:
		return found{state: whole, id: m.id, known: true, body: body}
	case m.cut != nil && cut.state == missing:
		return found{state: withheld, id: m.cut.ID, known: m.cut.Full}
	}
	return cut
}

// Content is what a list refers to.
type Content struct {
	// Bodies of the items of the list, in order; empty where the body is not there.
	Bodies []string
	// Missing are the positions whose block did not arrive, or arrived as something else. Withheld are those that were cut or
	// withheld at the source, which says so: see BlockSet.Cut.
	Missing, Withheld []int
	// Broken says that the blocks are there but are not those the list was made of: its digest does not fit. Bodies
	// must not be used.
	Broken bool
}

// Whole reports whether all bodies are there and are what the list was made of. It is never true of a list that is not
// complete itself; see Refs.Complete.
func (c *Content) Whole() bool { return len(c.Missing) == 0 && len(c.Withheld) == 0 && !c.Broken }

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
	if s == nil || err != nil {
		return "", 0, false
	}
	if l := s.byShort[short]; len(l) == 1 && l[0].cut {
		return l[0].body, l[0].size, true
	}
	if f := s.look(&ref, false); f.state != withheld {
		return "", 0, false
	}
	m, _, _ := s.maker(short, false)
	return s.cutOf(m), m.cut.Size, true
}

// maxRead bounds the bodies of one list that Read gives. Recipes can make much of little.
const maxRead = 1 << 30

// Read returns what a list refers to and checks its digest where all is there. Of nil it returns empty content. Bodies come to
// 1 GiB at most, what is beyond that counts as missing.
//
// A short id that several blocks have is decided by the digest, which covers full ids.
func (s *BlockSet) Read(refs *Refs) Content {
	var c Content
	if refs == nil {
		return c
	}
	items := refs.Items()
	c.Bodies = make([]string, len(items))
	ids := make([]spans.BlockID, len(items))
	candidates := []held{{}}
	ambiguous, unknown, size := -1, false, 0
	for i := range items {
		f := s.look(&items[i], true)
		if size += len(f.body); size > maxRead {
			f = found{}
		}
		ids[i], c.Bodies[i] = f.id, f.body
		switch f.state {
		case missing:
			c.Missing = append(c.Missing, i)
		case withheld:
			c.Withheld = append(c.Withheld, i)
			unknown = unknown || !f.known
		case twins:
			if ambiguous >= 0 {
				c.Broken = true // two at once do not happen by chance
			}
			ambiguous, candidates = i, f.twins
		}
	}
	switch {
	case c.Broken:
		return c
	case ambiguous >= 0 && (len(c.Missing) > 0 || unknown): // nothing can decide
		c.Missing = append(c.Missing, ambiguous)
		slices.Sort(c.Missing)
		return c
	case len(c.Missing) > 0 || unknown:
		return c
	case !refs.Complete || refs.Digest == "":
		c.Broken = ambiguous >= 0
		return c
	}
	for _, h := range candidates {
		if ambiguous >= 0 {
			ids[ambiguous], c.Bodies[ambiguous] = h.id, h.body
		}
		var chain spans.Chain
		for i := range items {
			chain = chain.Add(ids[i], items[i].item())
		}
		if chain.Fits(refs.Digest) {
			if h.cut {
				c.Bodies[ambiguous] = ""
				c.Withheld = append(c.Withheld, ambiguous)
				slices.Sort(c.Withheld)
			}
			return c
		}
	}
	c.Broken = true
	return c
}

// checker is one CheckContent. Lists share their beginnings, so what was found of one node holds for all.
type checker struct {
	blocks *BlockSet
	nodes  map[*node]*tally
}

// tally is what was found of the items of a list up to one of them.
type tally struct {
	chain                       spans.Chain
	missing, withheld, doubtful int // doubtful: several blocks begin alike, or the full id is not known
	names                       []string
}

func (t *tally) add(blocks *BlockSet, ref *Ref) {
	const most = 4 // names
	switch f := blocks.look(ref, false); f.state {
	case missing:
		t.missing++
		if t.missing <= most {
			t.names = append(slices.Clip(t.names), clip(ref.Block))
		}
	case withheld:
		t.withheld++
		if !f.known {
			t.doubtful++
		}
		t.chain = t.chain.Add(f.id, ref.item())
	case twins:
		t.doubtful++
	default:
		t.chain = t.chain.Add(f.id, ref.item())
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
	var t *tally
	if refs.end != nil && refs.known == refs.end.pos {
		t = c.upTo(refs.end)
	} else {
		t = &tally{}
		for _, ref := range refs.Items() {
			t.add(c.blocks, &ref)
		}
	}
	broken := false
	if t.doubtful > 0 {
		content := c.blocks.Read(refs)
		broken = content.Broken
	} else if t.missing == 0 && refs.Complete && refs.Digest != "" {
		broken = !t.chain.Fits(refs.Digest)
	}
	if broken {
		*d = append(*d, Defect{Code: spans.DefectListBroken, Detail: name + brokenDigest})
		return
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

// CheckContent adds to s what only the blocks of the session can tell: block_missing where a list names blocks that are
// not in the set, block_withheld where its blocks were cut or withheld at the source, list_broken where a list is not made of the
// blocks that it names, and which tool calls of a reply are missing where some are. Lists of spans that were captured without bodies
// are passed over. What an earlier check found is forgotten first.
//
// It costs what came over the wire, not the lists written out.
func (s *Session) CheckContent(blocks *BlockSet) {
	checks := checker{blocks: blocks, nodes: map[*node]*tally{}}
	check := checks.check
	tools := func(l []*ToolCall, capture spans.Capture) {
		for _, t := range l {
			forgetContent(&t.Defects)
			check(&t.Defects, capture, spans.ListArgs, t.Args)
			check(&t.Defects, capture, spans.ListResult, t.Result)
		}
	}
	compactions := func(l []*Compaction, capture spans.Capture) {
		for _, c := range l {
			forgetContent(&c.Defects)
			check(&c.Defects, capture, spans.ListSummary, c.Summary)
			check(&c.Defects, capture, spans.ListBefore, c.Before)
			check(&c.Defects, capture, spans.ListAfter, c.After)
		}
	}
	for _, r := range s.Runs {
		forgetContent(&r.Defects)
		check(&r.Defects, r.Capture, spans.ListMetadata, r.Metadata)
		check(&r.Defects, r.Capture, spans.ListRules, r.Rules)
		check(&r.Defects, r.Capture, spans.ListMessages, r.Messages)
		check(&r.Defects, r.Capture, spans.ListOutside, r.Outside)
		tools(r.ToolCalls, r.Capture)
		compactions(r.Compactions, r.Capture)
		for _, t := range r.Turns {
			forgetContent(&t.Defects)
			for _, q := range t.Requests {
				check(&t.Defects, t.Capture, requestName(spans.ListRequest, q.Attempt), q.Messages)
				check(&t.Defects, t.Capture, requestName(spans.ListParams, q.Attempt), q.Params)
				check(&t.Defects, t.Capture, requestName(spans.ListSections, q.Attempt), q.Sections)
			}
			check(&t.Defects, t.Capture, spans.ListInput, t.Input)
			check(&t.Defects, t.Capture, spans.ListOutput, t.Output)
			check(&t.Defects, t.Capture, spans.ListResults, t.Results)
			tools(t.ToolCalls, t.Capture)
			compactions(t.Compactions, t.Capture)
			t.nameMissingCalls(blocks)
		}
	}
}

// brokenDigest ends the detail of a list_broken that CheckContent adds; those of Assemble end otherwise.
const brokenDigest = ": digest"

// forgetContent takes out what CheckContent adds.
func forgetContent(d *[]Defect) {
	*d = slices.DeleteFunc(*d, func(x Defect) bool {
		return x.Code == spans.DefectBlockMissing || x.Code == spans.DefectBlockWithheld || x.Code == spans.DefectListBroken && strings.HasSuffix(x.Detail, brokenDigest)
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
