package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
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

// sourceRows returns the rows of the source, in the order of the guide; nil for a session of which a run comes from
// events too: its rows are made from the tree.
func (g *Guide) sourceRows() []Row {
	row := g.s.Fact("session", factRow)
	ofEvents := func(r *session.Run) bool { return r.Recording != spans.RecordingLedger }
	if row == nil || row.Value == nil || slices.ContainsFunc(g.s.Runs, ofEvents) {
		return nil
	}
	var facts []*session.Fact // the latest of each subject and key
	for i := range g.s.Facts {
		if f := &g.s.Facts[i]; strings.HasPrefix(f.Key, factFurther) && g.s.Fact(f.Subject, f.Key) == f {
			facts = append(facts, f)
		}
	}
	var members []any // further members of the session's line
	var messages, lines, document []Row
	for _, f := range facts {
		if v := g.fact(f); f.Subject == "session" && f != row && v != nil {
			members = append(members, strings.TrimPrefix(f.Key, factFurther), []byte(v))
		}
	}
	slices.SortStableFunc(facts, func(a, b *session.Fact) int { return cmp.Compare(a.Seq, b.Seq) })
	var ofMessages []*session.Fact
	for _, f := range facts {
		body := g.factLine(f)
		kind, _, _ := strings.Cut(f.Subject, "/")
		switch o := parse(body); {
		case body == nil:
		case f.Key == factLine:
			lines = append(lines, Row{Type: RowType(kind), JSON: body, Digest: o.Text("digest"), Body: o.Text("body")})
		case f.Subject == "document":
			document = append(document, Row{Type: rowDocument, Digest: strings.TrimPrefix(f.Key, factFurther), JSON: body})
		case f.Key == factRow && f != row:
			ofMessages = append(ofMessages, f)
		}
	}
	created := func(f *session.Fact) float64 {
		lines := append(elements(g.factLine(f)), nil)
		at, _ := strconv.ParseFloat(string(parse(lines[0]).Object("data").Raw("created_at")), 64) // 0: unknown
		return at
	}
	slices.SortStableFunc(ofMessages, func(a, b *session.Fact) int {
		return cmp.Or(cmp.Compare(created(a), created(b)), strings.Compare(a.Subject, b.Subject))
	})
	for _, f := range ofMessages {
		for _, raw := range elements(g.factLine(f)) {
			line := parse(raw)
			messages = append(messages, g.sourceRow(RowType(line.Text("type")), line.Spelled("data"),
				edited(line, []string{"type", "data"})))
		}
	}
	rows := []Row{g.sourceRow(RowSession, g.factLine(row), fields(members...))}
	rows = slices.Concat(rows, messages, lines, document)
	return slices.DeleteFunc(rows, func(r Row) bool { return r.JSON == nil })
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

// sourceRow makes a row of the source with the further members of its line; without JSON where it is no object.
func (g *Guide) sourceRow(typ RowType, raw, further []byte) Row {
	r := Row{Type: typ, JSON: raw}
	if string(further) != "{}" {
		r.Further = further
	}
	if !r.parse() {
		r.JSON = nil
	}
	return r
}
