package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// A session that came in the guide's form keeps the lines of its source as facts (package dialects/guide). Its rows are
// these lines, so that nothing is lost that the tree has no place for, and an export that was imported gives the same
// export again.

// Keys of such facts. The session has its row, a message an array of its line and those of its parts, and further
// lines have facts of their own. factFurther begins the key of a further member, of the session's line or of a
// document.
const (
	factRow     = "guide.row"
	factLine    = "guide.line"
	factFurther = "guide."
)

// sources are those facts, in the order of the guide.
type sources struct {
	session  *session.Fact
	members  []*session.Fact // further members of the session's line
	messages []*session.Fact
	further  []*session.Fact // lines of further types, then members of a document
}

// readSources finds the lines of the source. A session of which a run comes from events too is made from the tree.
func (g *Guide) readSources() {
	row := g.s.Fact("session", factRow)
	ofEvents := func(r *session.Run) bool { return r.Recording != spans.RecordingLedger }
	if row == nil || row.Value == nil || slices.ContainsFunc(g.s.Runs, ofEvents) {
		return
	}
	src := &sources{session: row}
	created := map[*session.Fact]float64{}
	var facts, document []*session.Fact // the latest of each subject and key
	for i := range g.s.Facts {
		if f := &g.s.Facts[i]; strings.HasPrefix(f.Key, factFurther) && g.s.Fact(f.Subject, f.Key) == f {
			facts = append(facts, f)
		}
	}
	for _, f := range facts {
		if f.Subject == "session" && f != row {
			src.members = append(src.members, f)
		}
	}
	slices.SortStableFunc(facts, func(a, b *session.Fact) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, f := range facts {
		body := g.factLine(f)
		switch {
		case body == nil:
		case f.Key == factLine:
			src.further = append(src.further, f)
		case f.Subject == "document":
			document = append(document, f)
		case f.Key == factRow && f != row:
			src.messages = append(src.messages, f)
			if lines := elements(body); len(lines) > 0 {
				created[f] = parse(lines[0]).object("data").number("created_at")
			}
		}
	}
	src.further = append(src.further, document...)
	slices.SortStableFunc(src.messages, func(a, b *session.Fact) int {
		return cmp.Or(cmp.Compare(created[a], created[b]), strings.Compare(a.Subject, b.Subject))
	})
	g.sources = src
}

// factLine returns the value of a fact on one line, nil where it is not there.
func (g *Guide) factLine(f *session.Fact) []byte {
	what := "the row was not captured"
	if f.Value != nil {
		var line bytes.Buffer
		if body, _ := g.body(*f.Value); json.Compact(&line, []byte(body)) == nil && line.Len() > 0 {
			return line.Bytes()
		}
		what = "block " + f.Value.Block
	}
	g.miss(f.Subject, what)
	return nil
}

// sourceRows puts the lines of the source.
func (e *emitter) sourceRows() {
	src := e.sources
	var further object
	for _, f := range src.members {
		if value := e.fact(f); value != nil {
			further = append(further, member{strings.TrimPrefix(f.Key, factFurther), value})
		}
	}
	e.line(RowSession, e.factLine(src.session), further)
	for _, f := range src.messages {
		for _, raw := range elements(e.factLine(f)) {
			line := parse(raw)
			e.line(RowType(line.text("type")), line.get("data"), line.without("type", "data"))
		}
	}
	for _, f := range src.further {
		if e.opts.Strict || e.stopped {
			return
		}
		r := Row{Type: rowDocument, Digest: strings.TrimPrefix(f.Key, factFurther), JSON: e.factLine(f)}
		if f.Key == factLine {
			kind, _, _ := strings.Cut(f.Subject, "/")
			o := parse(r.JSON)
			r.Type, r.Digest, r.Body = RowType(kind), o.text("digest"), o.text("body")
		}
		if r.JSON != nil {
			e.put(r)
		}
	}
}

// line puts a row of the source with the further members of its line.
func (e *emitter) line(typ RowType, raw []byte, further object) {
	r := Row{Type: typ, JSON: raw}
	if e.opts.Strict {
		r.JSON = withoutExtension(raw)
	} else if len(further) > 0 {
		r.Further = further.bytes()
	}
	if r.JSON != nil && r.parse() {
		e.put(r)
	}
}

// withoutExtension returns a row without the key of otelagent in its metadata.
func withoutExtension(row []byte) []byte {
	o := parse(row)
	for i, m := range o {
		if m.key != "metadata_json" && m.key != "metadata" {
			continue
		}
		inner, isText := text(m.value)
		if !isText {
			inner = string(m.value)
		}
		meta := parse([]byte(inner))
		if meta.get(extensionKey) == nil {
			continue
		}
		if o[i].value = meta.without(extensionKey).bytes(); isText {
			o[i].value = quote(string(o[i].value))
		}
	}
	if o == nil {
		return nil
	}
	return o.bytes()
}
