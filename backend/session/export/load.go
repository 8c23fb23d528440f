package export

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// loadTurn makes the content of a turn readable, and where its results may be in the next one.
func (g *Guide) loadTurn(p *runPlan, i int) error {
	need := p.appendTurn(nil, i)
	if i+1 < len(p.turns) {
		need = appendIDs(need, p.turns[i+1].Input)
	}
	return g.window.load(g.ctx, need, g.ahead(p, i+1))
}

// loadMessage makes the message of a row readable.
func (g *Guide) loadMessage(u *unit) error {
	return g.window.load(g.ctx, appendID(nil, u.ref), g.ahead(g.runs[u.run], max(u.position, 0)))
}

// ahead returns a function that appends the blocks of the turns from i on, of this run and those behind it.
func (g *Guide) ahead(p *runPlan, i int) func([]spans.ShortID) []spans.ShortID {
	return func(ids []spans.ShortID) []spans.ShortID {
		for j := i; j < len(p.turns) && len(ids) < aheadMost; j++ {
			ids = p.appendTurn(ids, j)
		}
		for _, r := range g.s.Runs[p.n+1:] {
			for _, t := range r.Turns {
				if len(ids) >= aheadMost {
					return ids
				}
				ids = appendTurn(ids, t)
			}
		}
		return ids
	}
}

// appendTurn appends the blocks that the rows of a turn are made of.
func (p *runPlan) appendTurn(ids []spans.ShortID, i int) []spans.ShortID {
	for _, ref := range p.outside[i] {
		ids = appendID(ids, ref)
	}
	return appendTurn(ids, p.turns[i])
}

func appendTurn(ids []spans.ShortID, t *session.Turn) []spans.ShortID {
	ids = appendIDs(ids, t.Input, t.Output, t.Results)
	for _, c := range t.ToolCalls {
		ids = appendIDs(ids, c.Args, c.Result)
	}
	for _, kind := range []spans.ProvenanceKind{spans.ProvenanceSystem, spans.ProvenanceTools} {
		if ref := requestText(t, kind); ref != nil {
			ids = appendID(ids, *ref)
		}
	}
	return ids
}

// requestText returns the system prompt or the tool catalogue of the last request of a turn.
func requestText(t *session.Turn, kind spans.ProvenanceKind) *session.Ref {
	if len(t.Requests) == 0 {
		return nil
	}
	for _, ref := range t.Requests[len(t.Requests)-1].Params.Items() {
		if ref.Provenance == string(kind) {
			return &ref
		}
	}
	return nil
}

// texts are system prompts or tool catalogues, each once, in the order of their first use.
type texts struct {
	digest map[string]string // by block
	refs   []session.Ref
	seen   map[string]bool
}

// add adds what a block says.
func (x *texts) add(ref session.Ref, body string) {
	if x.digest == nil {
		x.digest, x.seen = map[string]string{}, map[string]bool{}
	}
	sum := sha256.Sum256([]byte(body))
	digest := hex.EncodeToString(sum[:])
	x.digest[ref.Block] = digest
	if !x.seen[digest] {
		x.seen[digest] = true
		x.refs = append(x.refs, ref)
	}
}

// promptText returns the text of a system prompt: of a JSON string what it says, of anything else the JSON itself.
func promptText(body string) string {
	if s, ok := text([]byte(body)); ok {
		return s
	}
	return body
}

// requestTexts notes the system prompt and the catalogue of a turn, whose content is loaded.
func (g *Guide) requestTexts(r *session.Run, t *session.Turn) {
	for _, kind := range []spans.ProvenanceKind{spans.ProvenanceSystem, spans.ProvenanceTools} {
		texts := &g.prompts
		if kind == spans.ProvenanceTools {
			texts = &g.catalogs
		}
		ref := requestText(t, kind)
		if ref == nil || texts.digest[ref.Block] != "" {
			continue
		}
		body, ok := g.window.set.Body(*ref)
		switch {
		case ok && kind == spans.ProvenanceSystem:
			texts.add(*ref, promptText(body))
		case ok:
			texts.add(*ref, body)
		case t.Capture == spans.CaptureContent || t.Capture == "":
			g.miss(whereTurn(r, t), spans.ListParams+": "+string(kind)+": block "+ref.Block)
		}
	}
}

// digest returns the digest of the prompt or catalogue of a turn: of its text where that is there, else what the turn
// says.
func (x *texts) digestOf(t *session.Turn, kind spans.ProvenanceKind) string {
	if ref := requestText(t, kind); ref != nil && x.digest[ref.Block] != "" {
		return x.digest[ref.Block]
	}
	if kind == spans.ProvenanceTools {
		return t.ToolsDigest()
	}
	return t.PromptDigest
}
