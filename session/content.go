package session

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/spans"
)

// BlockSet holds blocks of one session by their short ids. The zero value is empty. It must not be changed while it is
// read.
type BlockSet struct {
	byShort map[spans.ShortID][]held
}

// held is a block whose body is known to have its id.
type held struct {
	id   spans.BlockID
	body string
	cut  bool
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

// Add adds a block. Of two with one body a whole one (Size 0) stays, whichever came first. The id is computed from the
// body, never believed.
func (s *BlockSet) Add(b Block) {
	id := spans.BlockOfString(b.Body)
	l := s.byShort[id.Short()]
	for i := range l {
		if l[i].id == id {
			l[i].cut = l[i].cut && b.Size > 0
			return
		}
	}
	if s.byShort == nil {
		s.byShort = map[spans.ShortID][]held{}
	}
	s.byShort[id.Short()] = append(s.byShort[id.Short()], held{id: id, body: b.Body, cut: b.Size > 0})
}

// Len returns the number of blocks.
func (s *BlockSet) Len() int {
	n := 0
	if s != nil {
		for _, l := range s.byShort {
			n += len(l)
		}
	}
	return n
}

// Content is what a list refers to.
type Content struct {
	// Bodies of the items of the list, in order; empty where the body is missing.
	Bodies []string
	// Missing are the positions whose block did not arrive, or was cut or withheld at the source.
	Missing []int
	// Broken says that the blocks are there but are not those the list was made of: its digest does not fit. Bodies
	// must not be used.
	Broken bool
}

// Whole reports whether all bodies are there and are what the list was made of. It is never true of a list that is not
// complete itself; see Refs.Complete.
func (c *Content) Whole() bool { return len(c.Missing) == 0 && !c.Broken }

// Body returns the body of a single reference. That of an ambiguous short id (two blocks that begin alike) is not given.
func (s *BlockSet) Body(ref Ref) (string, bool) {
	l := s.find(ref)
	if len(l) != 1 || l[0].cut {
		return "", false
	}
	return l[0].body, true
}

func (s *BlockSet) find(ref Ref) []held {
	if s == nil {
		return nil
	}
	short, err := spans.ParseShortID(ref.Block)
	if err != nil {
		return nil
	}
	return s.byShort[short]
}

// Read returns what a list refers to and checks its digest where all is there. Of nil it returns empty content.
//
// A short id that several blocks have is decided by the digest, which covers full ids.
func (s *BlockSet) Read(refs *Refs) Content {
	var c Content
	if refs == nil {
		return c
	}
	c.Bodies = make([]string, len(refs.Items))
	picked := make([]held, len(refs.Items))
	ambiguous := -1
	for i, ref := range refs.Items {
		l := s.find(ref)
		if len(l) == 0 || len(l) == 1 && l[0].cut {
			c.Missing = append(c.Missing, i)
			continue
		}
		if len(l) > 1 {
			if ambiguous >= 0 {
				c.Broken = true // two at once do not happen by chance
			}
			ambiguous = i
		}
		picked[i] = l[0]
		c.Bodies[i] = l[0].body
	}
	if c.Broken || len(c.Missing) > 0 && ambiguous < 0 || !refs.Complete || refs.Digest == "" {
		c.Broken = c.Broken || ambiguous >= 0
		return c
	}
	if len(c.Missing) > 0 {
		c.Missing = append(c.Missing, ambiguous) // nothing can decide
		c.Bodies[ambiguous] = ""
		return c
	}
	candidates := picked[:0:0]
	if ambiguous >= 0 {
		candidates = s.find(refs.Items[ambiguous])
	} else {
		candidates = append(candidates, held{})
	}
	for _, h := range candidates {
		if ambiguous >= 0 {
			picked[ambiguous] = h
			c.Bodies[ambiguous] = h.body
		}
		var chain spans.Chain
		for i := range refs.Items {
			chain = chain.Add(picked[i].id, refs.Items[i].item())
		}
		if chain.String() == refs.Digest {
			return c
		}
	}
	c.Broken = true
	return c
}

// CheckContent adds to s what only the blocks of the session can tell: block_missing where a list names blocks that are
// not in the set, list_broken where a list is not made of the blocks that it names, and which tool calls of a reply are
// missing where some are. Lists of spans that were captured without bodies are passed over. What an earlier check found
// missing or broken is forgotten first.
func (s *Session) CheckContent(blocks *BlockSet) {
	check := func(d *[]Defect, capture spans.Capture, name string, refs *Refs) {
		if refs == nil || capture == spans.CaptureDigests {
			return
		}
		switch c := blocks.Read(refs); {
		case c.Broken:
			*d = append(*d, Defect{Code: spans.DefectListBroken, Detail: name + brokenDigest})
		case len(c.Missing) > 0:
			ids := make([]string, 0, 4)
			for _, i := range c.Missing {
				if len(ids) == 4 {
					ids = append(ids, "...")
					break
				}
				ids = append(ids, clip(refs.Items[i].Block))
			}
			detail := fmt.Sprintf("%s: %d of %d, %s", name, len(c.Missing), len(refs.Items), strings.Join(ids, " "))
			*d = append(*d, Defect{Code: spans.DefectBlockMissing, Detail: detail})
		}
	}
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
				at := ""
				if q.Attempt != 0 {
					at = fmt.Sprintf(" of attempt %d", q.Attempt)
				}
				check(&t.Defects, t.Capture, spans.ListRequest+at, q.Messages)
				check(&t.Defects, t.Capture, spans.ListParams+at, q.Params)
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
		return x.Code == spans.DefectBlockMissing || x.Code == spans.DefectListBroken && strings.HasSuffix(x.Detail, brokenDigest)
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
