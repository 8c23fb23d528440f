package session

import (
	"fmt"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/spans"
)

// checkList adds a defect for bodies of a list that are missing, and one for those that were withheld. Of a request it
// looks at the items that the one before does not have.
func checkList(blocks *BlockSet, d *[]Defect, name string, refs *Refs) {
	const most = 4 // names
	if refs == nil {
		return
	}
	lost, cut, names := 0, 0, ""
	for _, ref := range refs.From(refs.Same) {
		switch f := blocks.look(&ref); f.state {
		case missing:
			if lost++; lost <= most {
				names += " " + f.name(&ref)
			}
		case withheld:
			cut++
		}
	}
	if lost > most {
		names += " ..."
	}
	if lost > 0 {
		*d = append(*d, Defect{spans.DefectBlockMissing, fmt.Sprintf("%s: %d of %d,%s", name, lost, refs.Len(), names)})
	}
	if cut > 0 {
		*d = append(*d, Defect{spans.DefectBlockWithheld, fmt.Sprintf("%s: %d of %d", name, cut, refs.Len())})
	}
}

// CheckContent adds to s what needs the blocks of the session: block_missing where a list names blocks that are not
// in the set, block_withheld where its blocks were cut or withheld at the source, and the missing tool calls of a
// reply. A request has these only for items that the request before (Request.Before) does not have. CheckContent skips
// lists of spans that were captured without bodies. It first removes what an earlier check found.
//
// Its time grows with what came over the wire, not with the length of all lists.
func (s *Session) CheckContent(blocks *BlockSet) {
	for n := range s.Walk() {
		capture := n.Run.Capture
		if n.Turn != nil {
			capture = n.Turn.Capture
		}
		kind, p := n.part()
		d := &p.remarks().Defects
		*d = slices.DeleteFunc(*d, func(x Defect) bool {
			return x.Code == spans.DefectBlockMissing || x.Code == spans.DefectBlockWithheld
		})
		check := func(name string, refs *Refs) {
			if capture != spans.CaptureDigests {
				checkList(blocks, d, name, refs)
			}
		}
		if kind == KindTurn {
			for _, q := range n.Turn.Requests {
				check(requestName(spans.ListRequest, q.Attempt), q.Messages)
				check(requestName(spans.ListParams, q.Attempt), q.Params)
			}
			n.Turn.nameMissingCalls(blocks)
		}
		fields, dst := fieldsIn(p)
		for _, l := range fields.lists {
			check(l.name, *l.of(dst))
		}
	}
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
			for _, part := range MessageParts(body) {
				if part.Kind == PartCall && part.ID != "" && !have[part.ID] {
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
