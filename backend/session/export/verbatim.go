package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/spans"
)

// A session that came in the form of the guide keeps the rows of its producer as facts (package dialects/guide): they are written as
// they came, so that nothing is lost that the tree has no place for.

// Keys and subjects of such facts.
const (
	factRow     = "guide.row"
	factLine    = "guide.line"
	factFurther = "guide."
)

// verbatim are the rows of a producer, in the order of the guide.
type verbatim struct {
	session  *session.Fact
	messages []verbatimMessage
	lines    []verbatimLine
	document []verbatimMember
}

type verbatimMessage struct {
	id      string
	created int64
	fact    *session.Fact
	parts   []verbatimPart
}

type verbatimPart struct {
	id    string
	index int64
	fact  *session.Fact
}

// verbatimLine is a row of another type than the three.
type verbatimLine struct {
	typ  RowType
	fact *session.Fact
}

// verbatimMember is what stood beside session and messages in a document.
type verbatimMember struct {
	key  string
	fact *session.Fact
}

// producers reports whether all there is of a session was told from rows of the guide.
func producers(s *session.Session) bool {
	if s.Fact("session", factRow) == nil {
		return false
	}
	return !slices.ContainsFunc(s.Runs, func(r *session.Run) bool { return r.Recording != spans.RecordingLedger })
}

// readVerbatim finds the rows of the producer, where the session is its.
func (g *Guide) readVerbatim() error {
	v := &verbatim{session: g.s.Fact("session", factRow)}
	if !producers(g.s) || v.session.Value == nil { // without capture there are only the facts that there are rows
		return nil
	}
	var latest []*session.Fact // of each subject and key
	for i := range g.s.Facts {
		f := &g.s.Facts[i]
		if i+1 < len(g.s.Facts) && g.s.Facts[i+1].Subject == f.Subject && g.s.Facts[i+1].Key == f.Key || !strings.HasPrefix(f.Key, factFurther) {
			continue
		}
		latest = append(latest, f)
	}
	// In the order of arrival, in which the bodies stand.
	slices.SortStableFunc(latest, func(a, b *session.Fact) int { return cmp.Compare(a.Seq, b.Seq) })
	byID := map[string]int{}
	type orphan struct {
		verbatimPart
		message string
	}
	var parts []orphan
	for i, f := range latest {
		if err := g.ctx.Err(); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if err := g.loadFact(f, latest[i:]); err != nil {
			return err
		}
		row, ok := g.factBody(f)
		if !ok {
			continue
		}
		switch kind, id, _ := strings.Cut(f.Subject, "/"); {
		case f.Key == factLine:
			v.lines = append(v.lines, verbatimLine{RowType(kind), f})
		case f.Subject == "document":
			v.document = append(v.document, verbatimMember{strings.TrimPrefix(f.Key, factFurther), f})
		case f.Key != factRow:
		case kind == "message":
			byID[id] = len(v.messages)
			v.messages = append(v.messages, verbatimMessage{id: id, created: placeOf(row).created, fact: f})
		case kind == "part":
			at := placeOf(row)
			parts = append(parts, orphan{verbatimPart{id, at.index, f}, at.message})
		}
	}
	for _, p := range parts {
		i, ok := byID[p.message]
		if !ok {
			g.miss("part/"+p.id, "its message")
			continue
		}
		v.messages[i].parts = append(v.messages[i].parts, p.verbatimPart)
	}
	slices.SortStableFunc(v.messages, func(a, b verbatimMessage) int {
		return cmp.Or(cmp.Compare(a.created, b.created), strings.Compare(a.id, b.id))
	})
	for i := range v.messages {
		slices.SortStableFunc(v.messages[i].parts, func(a, b verbatimPart) int {
			return cmp.Or(cmp.Compare(a.index, b.index), strings.Compare(a.id, b.id))
		})
	}
	g.verbatim = v
	return nil
}

// rowPlace is what orders a row.
type rowPlace struct {
	created, index int64
	message        string
}

func placeOf(row []byte) rowPlace {
	var p rowPlace
	c := rawjson.NewCursor(row, rawjson.MaxDepth)
	if !c.Open('{') {
		return p
	}
	for c.More('}') {
		key := string(c.Key())
		v := c.Value()
		switch key {
		case "created_at":
			p.created = columns{{"", v}}.int("")
		case "index":
			p.index = columns{{"", v}}.int("")
		case "message_id":
			p.message, _ = rawjson.String(v)
		}
	}
	return p
}

// loadFact makes the value of a fact readable; next are those that will be needed after it.
func (g *Guide) loadFact(f *session.Fact, next []*session.Fact) error {
	if f.Value == nil {
		return nil
	}
	return g.window.load(g.ctx, appendID(nil, *f.Value), func(ids []spans.ShortID) []spans.ShortID {
		for _, n := range next {
			if n.Value != nil && n != f && len(ids) < aheadMost {
				ids = appendID(ids, *n.Value)
			}
		}
		return ids
	})
}

// factBody returns the value of a fact that is loaded. What is not there is noted, while the plan is made.
func (g *Guide) factBody(f *session.Fact) ([]byte, bool) {
	if f.Value != nil {
		if body, ok := g.window.set.Body(*f.Value); ok && json.Valid([]byte(body)) {
			return []byte(body), true
		}
	}
	if !g.planned {
		what := "the row was not captured"
		if f.Value != nil {
			what = "block " + f.Value.Block
		}
		g.miss(f.Subject, what)
	}
	return nil, false
}

// verbatim puts the rows of the producer.
func (e *emitter) verbatim() {
	g, v := e.g, e.g.verbatim
	put := func(typ RowType, f *session.Fact, next []*session.Fact) bool {
		if err := g.loadFact(f, next); err != nil {
			e.fail(err)
			return false
		}
		raw, ok := g.factBody(f)
		if !ok {
			return e.going()
		}
		if g.opts.Strict {
			raw = withoutExtension(raw)
		}
		r, ok := parseRow(typ, raw)
		if !ok {
			return e.going() // the guide's reader lets no such row in
		}
		if r.JSON, ok = oneLine(raw); !ok {
			return e.going()
		}
		if r.Further, ok = e.furtherOf(f); !ok {
			return false
		}
		return e.put(r)
	}
	if !put(RowSession, v.session, nil) {
		return
	}
	for i := range v.messages {
		if err := g.ctx.Err(); err != nil {
			e.fail(fmt.Errorf("export: %w", err))
			return
		}
		m := &v.messages[i]
		var next []*session.Fact
		for j := i; j < len(v.messages) && len(next) < aheadMost; j++ {
			next = append(next, v.messages[j].fact)
			for k := range v.messages[j].parts {
				next = append(next, v.messages[j].parts[k].fact)
			}
		}
		if !put(RowMessage, m.fact, next) {
			return
		}
		for k := range m.parts {
			if !put(RowPart, m.parts[k].fact, next) {
				return
			}
		}
		if f := g.opts.Progress; f != nil {
			f(i+1, len(v.messages))
		}
	}
	if g.opts.Strict {
		return
	}
	var next []*session.Fact
	for _, l := range v.lines {
		next = append(next, l.fact)
	}
	for i, l := range v.lines {
		raw, ok := e.factLine(l.fact, next[i:])
		if !ok {
			return
		}
		cols := columns(members(raw))
		if raw != nil && !e.put(Row{Type: l.typ, JSON: raw, Digest: cols.text("digest"), Body: cols.text("body")}) {
			return
		}
	}
	for _, m := range v.document {
		raw, ok := e.factLine(m.fact, nil)
		if !ok {
			return
		}
		if raw != nil && !e.put(Row{Type: rowDocument, JSON: raw, Digest: m.key}) {
			return
		}
	}
}

// factLine returns the value of a fact on one line, nil where it is not there; ok is false when it cannot be read.
func (e *emitter) factLine(f *session.Fact, next []*session.Fact) (raw []byte, ok bool) {
	if err := e.g.loadFact(f, next); err != nil {
		e.fail(err)
		return nil, false
	}
	if raw, ok = e.g.factBody(f); !ok {
		return nil, true
	}
	raw, _ = oneLine(raw)
	return raw, true
}

// furtherOf returns what stood beside a row on its line; ok is false when that cannot be read.
func (e *emitter) furtherOf(f *session.Fact) (further []byte, ok bool) {
	g := e.g
	if g.opts.Strict {
		return nil, true
	}
	var o object
	at, _ := slices.BinarySearchFunc(g.s.Facts, f.Subject, func(f session.Fact, subject string) int { return strings.Compare(f.Subject, subject) })
	for ; at < len(g.s.Facts) && g.s.Facts[at].Subject == f.Subject; at++ {
		x := g.s.Fact(f.Subject, g.s.Facts[at].Key)
		key, ok := strings.CutPrefix(x.Key, factFurther)
		if x != &g.s.Facts[at] || !ok || x.Key == factRow || x.Value == nil {
			continue
		}
		body, err := g.fact(x)
		if err != nil {
			e.fail(err)
			return nil, false
		}
		if body != nil {
			o.raw(key, body)
		}
	}
	return o.buf, true
}

// oneLine returns JSON without blanks between its tokens.
func oneLine(raw []byte) ([]byte, bool) {
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		return nil, false
	}
	return out.Bytes(), true
}

// withoutExtension takes the key of ours out of the metadata of a row.
func withoutExtension(row []byte) []byte {
	l := members(row)
	changed := false
	for i := range l {
		if l[i].key != "metadata_json" && l[i].key != "metadata" {
			continue
		}
		inner, isText := text(l[i].value)
		if !isText {
			inner = string(l[i].value)
		}
		meta := members([]byte(inner))
		if find(meta, extensionKey) == nil {
			continue
		}
		var o object
		for _, m := range meta {
			if m.key != extensionKey {
				o.raw(m.key, m.value)
			}
		}
		changed = true
		l[i].value = o.bytes()
		if isText {
			l[i].value = quote(string(o.bytes()))
		}
	}
	if !changed {
		return row
	}
	var o object
	for _, m := range l {
		o.raw(m.key, m.value)
	}
	return o.bytes()
}
