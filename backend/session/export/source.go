package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// A session that came in the guide's form keeps the lines of its source as facts (package dialects/guide). It is
// written from those, so that nothing is lost that the tree has no place for, and an export that was imported is the
// same again.

// Keys of such facts. The session has its row, a message an array of its line and those of its parts, and further
// lines stand alone. factFurther begins the key of a further member, of the session's line or of a document.
const (
	factRow     = "guide.row"
	factLine    = "guide.line"
	factFurther = "guide."
)

// sources are those facts, in the order of the guide.
type sources struct {
	session  *session.Fact
	messages []*session.Fact
	further  []*session.Fact // lines of further types, then members of a document
}

// readSources finds the lines of the source. There are none to write where a run comes from events too.
func (g *Guide) readSources() error {
	row := g.s.Fact("session", factRow)
	ofEvents := func(r *session.Run) bool { return r.Recording != spans.RecordingLedger }
	if row == nil || row.Value == nil || slices.ContainsFunc(g.s.Runs, ofEvents) {
		return nil
	}
	src := &sources{session: row}
	var latest []*session.Fact // of each subject and key
	for i := range g.s.Facts {
		f := &g.s.Facts[i]
		if strings.HasPrefix(f.Key, factFurther) && g.s.Fact(f.Subject, f.Key) == f {
			latest = append(latest, f)
		}
	}
	slices.SortStableFunc(latest, func(a, b *session.Fact) int { return cmp.Compare(a.Seq, b.Seq) }) // as bodies stand
	created := map[*session.Fact]float64{}
	var document []*session.Fact
	for i, f := range latest {
		body, err := g.factBody(f, latest[i+1:])
		switch {
		case err != nil:
			return err
		case body == nil:
		case f.Key == factLine:
			src.further = append(src.further, f)
		case f.Subject == "document":
			document = append(document, f)
		case f.Key == factRow && f != row:
			src.messages = append(src.messages, f)
			created[f] = createdAt(body)
		}
	}
	src.further = append(src.further, document...)
	slices.SortStableFunc(src.messages, func(a, b *session.Fact) int {
		return cmp.Or(cmp.Compare(created[a], created[b]), strings.Compare(a.Subject, b.Subject))
	})
	g.sources = src
	return nil
}

// createdAt returns the created_at of the first of the lines of a message.
func createdAt(lines []byte) float64 {
	var l []struct{ Data json.RawMessage }
	if json.Unmarshal(lines, &l) != nil || len(l) == 0 {
		return 0
	}
	at, _ := strconv.ParseFloat(string(find(members(l[0].Data), "created_at")), 64)
	return at
}

// factBody returns the value of a fact on one line, nil where it is not there, which is noted while the plan is made.
// next are those that will be needed after it.
func (g *Guide) factBody(f *session.Fact, next []*session.Fact) ([]byte, error) {
	what := "the row was not captured"
	if f.Value != nil {
		err := g.window.load(g.ctx, appendID(nil, *f.Value), func(ids []spans.ShortID) []spans.ShortID {
			for _, n := range next[:min(len(next), aheadMost)] {
				if n.Value != nil {
					ids = appendID(ids, *n.Value)
				}
			}
			return ids
		})
		if err != nil {
			return nil, err
		}
		body, _ := g.window.set.Body(*f.Value)
		var line bytes.Buffer
		if json.Compact(&line, []byte(body)) == nil {
			return line.Bytes(), nil
		}
		what = "block " + f.Value.Block
	}
	if !g.planned {
		g.miss(f.Subject, what)
	}
	return nil, nil
}

// sources puts the lines of the source.
func (e *emitter) sources() {
	g, src := e.g, e.g.sources
	body := e.body(src.session, nil)
	var further object
	for i := range g.s.Facts { // members of its line
		f := &g.s.Facts[i]
		key, ok := strings.CutPrefix(f.Key, factFurther)
		if !ok || f.Subject != "session" || f.Key == factRow || g.s.Fact(f.Subject, f.Key) != f {
			continue
		}
		value, err := g.fact(f)
		if e.fail(err); value != nil {
			further.raw(key, value)
		}
	}
	e.row(RowSession, body, &further)
	for i, f := range src.messages {
		if err := g.ctx.Err(); err != nil {
			e.fail(fmt.Errorf("export: %w", err))
		}
		var lines []json.RawMessage
		_ = json.Unmarshal(e.body(f, src.messages[i+1:]), &lines)
		for _, line := range lines {
			var further object
			typ, data := "", []byte(nil)
			for _, m := range members(line) {
				switch m.key {
				case "type":
					typ, _ = text(m.value)
				case "data":
					data = m.value
				default:
					further.raw(m.key, m.value)
				}
			}
			e.row(RowType(typ), data, &further)
		}
		if f := g.opts.Progress; f != nil && e.going() {
			f(i+1, len(src.messages))
		}
	}
	for i, f := range src.further {
		if g.opts.Strict || !e.going() {
			return
		}
		r := Row{JSON: e.body(f, src.further[i+1:])}
		if key := strings.TrimPrefix(f.Key, factFurther); f.Key != factLine {
			r.Type, r.Digest = rowDocument, key
		} else {
			kind, _, _ := strings.Cut(f.Subject, "/")
			cols := columns(members(r.JSON))
			r.Type, r.Digest, r.Body = RowType(kind), cols.text("digest"), cols.text("body")
		}
		if r.JSON != nil {
			e.put(r)
		}
	}
}

// body is factBody while rows are put.
func (e *emitter) body(f *session.Fact, next []*session.Fact) []byte {
	if !e.going() {
		return nil
	}
	body, err := e.g.factBody(f, next)
	e.fail(err)
	return body
}

// row puts a row of the source with the further members of its line.
func (e *emitter) row(typ RowType, raw []byte, further *object) {
	if raw == nil || !e.going() {
		return
	}
	r := Row{Type: typ, Further: further.buf}
	if e.g.opts.Strict {
		raw, r.Further = withoutExtension(raw), nil
	}
	if r.JSON = raw; r.parse() {
		e.put(r)
	}
}

// withoutExtension returns a row without the key of otelagent in its metadata.
func withoutExtension(row []byte) []byte {
	var o object
	for _, m := range members(row) {
		if m.key == "metadata_json" || m.key == "metadata" {
			inner, isText := text(m.value)
			if !isText {
				inner = string(m.value)
			}
			meta := members([]byte(inner))
			if find(meta, extensionKey) == nil {
				o.raw(m.key, m.value)
				continue
			}
			var rest object
			for _, m := range meta {
				if m.key != extensionKey {
					rest.raw(m.key, m.value)
				}
			}
			m.value = rest.bytes()
			if isText {
				m.value = quote(string(m.value))
			}
		}
		o.raw(m.key, m.value)
	}
	return o.bytes()
}
