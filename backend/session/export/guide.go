package export

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// Guide makes the rows of one session in the form of the agent guide: chat_sessions, chat_messages and chat_parts, and
// further rows for content that these cannot hold. README.md describes them; JSON, JSONL, CSV and the tables of
// package sqlitestore consist of them.
//
// It holds the content of the session. Not safe for concurrent use.
type Guide struct {
	*content
	runs    map[*session.Run]*runPlan
	units   []*unit
	names   map[string]string // by block: see same
	texts   []Row             // system prompts and tool catalogues, each once
	digests map[textOf]string // of these
	sources []Row             // of a session that came in the guide's form; then there are no units

	uncaptured map[*session.Run]spans.Capture
	noted      map[Missing]bool
}

// miss notes missing content, once.
func (g *Guide) miss(where, what string) {
	if m := (Missing{Where: where, What: what}); !g.noted[m] {
		g.noted[m] = true
		g.content.miss(where, what)
	}
}

// NewGuide reads the content of s and plans its rows. Missing content is an error of type *MissingError unless
// opts.Partial is set; content that was never captured is no error. Guide.Missing names both. A session without runs
// and facts gives ErrEmpty.
//
// A session that came in the form of the guide has the rows that it came in.
func NewGuide(s session.Tree, opts Options) (*Guide, error) {
	g, err := newGuide(s, opts, true)
	return g, cmp.Or(err, g.missed())
}

// newGuide is NewGuide but that missing content is no error; without sources it makes all rows from the tree.
func newGuide(s session.Tree, opts Options, sources bool) (*Guide, error) {
	g := &Guide{
		content: &content{s: s.Session, blocks: s.Blocks, opts: opts}, names: map[string]string{},
		runs: map[*session.Run]*runPlan{}, uncaptured: map[*session.Run]spans.Capture{}, digests: map[textOf]string{},
		noted: map[Missing]bool{},
	}
	if len(s.Runs) == 0 && len(s.Facts) == 0 {
		return g, fmt.Errorf("export: session %s: no run: %w", s.ID, ErrEmpty)
	}
	if sources {
		g.sources = g.sourceRows()
	}
	if g.sources == nil {
		g.plan()
	}
	return g, nil
}

// CallMessage returns the id of the message row of s that holds a tool call, "" where there is none.
func CallMessage(s session.Tree, callID string) (string, error) {
	g, err := NewGuide(s, Options{Partial: true})
	if err != nil {
		return "", err
	}
	for row := range g.Rows() {
		if row.Type == RowPart && deref(row.Part.ToolCallID) == callID {
			return row.Part.MessageID, nil
		}
	}
	return "", nil
}

// Missing names content that is not there: first the missing content, then, one a run, content that was not captured.
func (g *Guide) Missing() []Missing {
	l := slices.Clip(g.missing)
	for _, r := range g.s.Runs {
		if c, ok := g.uncaptured[r]; ok {
			l = append(l, Missing{Where: whereRun(r), What: fmt.Sprintf("texts: captured with %q", c)})
		}
	}
	return l
}

// read returns the bodies of a list of a run, or of a turn, that are there. It notes the others.
func (g *Guide) read(r *session.Run, t *session.Turn, name string, refs *session.Refs) []body {
	capture := r.Capture
	if t != nil {
		capture = t.Capture
	}
	return g.list(name, refs, func(what string) {
		if isCaptured(capture) {
			g.miss(whereTurn(r, t), what)
		} else {
			g.uncaptured[r] = capture
		}
	})
}

// runValue returns the one body of a list of a run; nil where it is not there or no JSON.
func (g *Guide) runValue(r *session.Run, name string, refs *session.Refs) json.RawMessage {
	if refs.Len() != 1 || !isCaptured(r.Capture) {
		return nil
	}
	if l := g.read(r, nil, name, refs); len(l) > 0 && json.Valid(l[0].body) {
		return l[0].body
	}
	return nil
}

// same returns equal names for messages of equal value.
func (g *Guide) same(ref session.Ref) string {
	name, ok := g.names[ref.Block]
	if !ok {
		name = g.blocks.Same(ref)
		g.names[ref.Block] = name
	}
	return name
}

// timeFact returns the time, in milliseconds, that a fact about a message states: 0 for one that takes an earlier one
// back. known is false when there is none, or its value is not there.
func (g *Guide) timeFact(u *unit, key string) (ms int64, known bool) {
	if f := g.messageFact(u, key); f != nil {
		if v := g.fact(f); v != nil {
			return factTime(v, f.At), true
		}
	}
	return 0, false
}

// messageFact returns the fact of a key about a message, which it may name by the id of its row or by its own.
func (g *Guide) messageFact(u *unit, key string) *session.Fact {
	if len(g.s.Facts) == 0 {
		return nil
	}
	if f := g.s.Fact("message/"+u.id, key); f != nil || u.own == "" {
		return f
	}
	return g.s.Fact("message/"+u.own, key)
}

// factTime is session.FactTime in milliseconds; 0 where the value states none.
func factTime(v json.RawMessage, at time.Time) int64 {
	t := session.FactTime(string(v), at)
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// textOf names a text of the last request of a turn.
type textOf struct {
	turn *session.Turn
	kind spans.ProvenanceKind
}

var textTypes = map[spans.ProvenanceKind]RowType{
	spans.ProvenanceSystem: RowSystemPrompt, spans.ProvenanceTools: RowToolCatalog,
}

// requestTexts notes the system prompt and the tool catalogue of the last request of a turn. The text of a prompt is
// that of a JSON string, else the JSON itself.
func (g *Guide) requestTexts(r *session.Run, t *session.Turn) {
	q := t.LastRequest()
	if q == nil {
		return
	}
	for _, ref := range q.Params.Items() {
		kind := spans.ProvenanceKind(ref.Provenance)
		row := Row{Type: textTypes[kind]}
		body, isThere := g.body(ref)
		if row.Type == "" {
			continue
		} else if !isThere {
			if isCaptured(t.Capture) {
				g.miss(whereTurn(r, t), spans.ListParams+": "+string(kind)+": block "+ref.Block)
			}
			continue
		}
		row.Body = body
		if s, isText := text([]byte(body)); isText && kind == spans.ProvenanceSystem {
			row.Body = s
		}
		sum := sha256.Sum256([]byte(row.Body))
		row.Digest = hex.EncodeToString(sum[:])
		row.JSON = fields("digest", &row.Digest, "body", &row.Body)
		g.digests[textOf{t, kind}] = row.Digest
		isSame := func(o Row) bool { return o.Type == row.Type && o.Digest == row.Digest }
		if !slices.ContainsFunc(g.texts, isSame) {
			g.texts = append(g.texts, row)
		}
	}
}

// digestOf returns the digest of the prompt or catalogue of a turn: of its text where that is there, else the digest
// that the turn states.
func (g *Guide) digestOf(t *session.Turn, kind spans.ProvenanceKind) string {
	digest, ok := g.digests[textOf{t, kind}]
	switch {
	case ok:
		return digest
	case kind == spans.ProvenanceTools:
		return t.ToolsDigest()
	}
	return t.PromptDigest
}
