package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/spans"
)

// checker is one call of CheckContent. Lists share their beginnings, so a tally up to one node holds for all.
type checker struct {
	blocks *BlockSet
	nodes  map[*node]*tally
}

// tally counts the items of a list up to one of them.
type tally struct {
	missing, withheld int
	names             []string
}

func (t *tally) add(blocks *BlockSet, ref *Ref) {
	const most = 4 // names
	switch f := blocks.look(ref); f.state {
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
	names := ", " + strings.Join(t.names, " ")
	if t.missing > len(t.names) {
		names += " ..."
	}
	add := func(code spans.DefectCode, n int, names string) {
		if n > 0 {
			*d = append(*d, Defect{Code: code, Detail: fmt.Sprintf("%s: %d of %d%s", name, n, refs.Len(), names)})
		}
	}
	add(spans.DefectBlockMissing, t.missing, names)
	add(spans.DefectBlockWithheld, t.withheld, "")
}

// CheckContent adds to s what needs the blocks of the session: block_missing where a list names blocks that are not
// in the set, block_withheld where its blocks were cut or withheld at the source, and the missing tool calls of a
// reply. It skips lists of spans that were captured without bodies. It first removes what an earlier check found.
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
			for _, part := range Sayings(body) {
				if part.Kind == SaidCall && part.ID != "" && !have[part.ID] {
					missing = append(missing, clip(part.ID))
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
