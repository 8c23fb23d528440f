package export

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// JSON writes s as one document in the canonical form of the agent guide (README.md): the session row, and the
// messages by created_at, each with its parts by index, and after them the rows of further types. Each row has a line
// of its own.
//
// Without opts.Partial it writes nothing where content is missing, and returns a *MissingError that names it. It
// returns the same list as Guide.Missing. It does not close w; an error of w ends it.
func JSON(w io.Writer, s session.Tree, opts Options) ([]Missing, error) {
	return write(w, s, opts, true, func(w *bufio.Writer) (func(*Row), func()) {
		d := &document{w: w}
		return d.put, d.end
	})
}

// JSONL writes s as JSON does, one row a line: {"type":...,"data":ROW}.
func JSONL(w io.Writer, s session.Tree, opts Options) ([]Missing, error) {
	return write(w, s, opts, true, func(w *bufio.Writer) (func(*Row), func()) {
		return func(r *Row) {
			typ := string(r.Type)
			if r.Type == rowDocument {
				typ = r.Digest
			}
			put(w, `{"type":`, string(quote(typ)), `,"data":`, string(r.JSON), furtherMembers(r), "}\n")
		}, func() {}
	})
}

// CSV writes s with one row a part, in the form of RFC 4180, after a row of names. A message without parts has a row as
// well. The five counts are the tree's (input includes cached tokens, output includes reasoning). They and the cost are
// cells of the first part of each turn alone, so that the sums of the columns are the usage of the session. Otherwise
// it is as JSON; CSV always makes its rows from the tree.
func CSV(w io.Writer, s session.Tree, opts Options) ([]Missing, error) {
	opts.CallMessage = nil // CSV has no place for the session's row
	return write(w, s, opts, false, func(w *bufio.Writer) (func(*Row), func()) {
		t := &table{w: csv.NewWriter(w), session: s.ID}
		_ = t.w.Write(csvHeader)
		return t.put, t.w.Flush
	})
}

// write writes the rows of a session in a format: what writes a row, and what ends the document. Errors stick in the
// bufio.Writer.
func write(w io.Writer, s session.Tree, opts Options, sources bool,
	format func(*bufio.Writer) (put func(*Row), end func()),
) ([]Missing, error) {
	g, err := newGuide(s, opts, sources)
	if err = cmp.Or(err, g.missed()); err != nil {
		return g.missing, err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	put, end := format(out)
	for row := range g.Rows() {
		put(&row)
	}
	end()
	return g.Missing(), flushed(out, s.Session)
}

// flushed writes the rest.
func flushed(w *bufio.Writer, s *session.Session) error {
	if err := w.Flush(); err != nil {
		return fmt.Errorf("export: write session %s: %w", s.ID, err)
	}
	return nil
}

// put writes texts.
func put(w *bufio.Writer, texts ...string) {
	for _, text := range texts {
		_, _ = w.WriteString(text)
	}
}

// document writes rows as one object.
type document struct {
	w       *bufio.Writer
	message string // what ends the message that is open
	part    string // what is before its next part
	further []member
}

// member is a member of the object after the messages: a list of the rows of a type, else one value.
type member struct {
	key    string
	isList bool
	rows   []string
}

// lists names the lists of rows of further types.
var lists = map[RowType]string{RowSystemPrompt: "system_prompts", RowToolCatalog: "tool_catalogs",
	RowPermission: "permissions", RowDefect: "defects"}

func (d *document) put(r *Row) {
	row := string(r.JSON)
	switch r.Type {
	case RowSession:
		put(d.w, `{"session":`, row, ",\n\"messages\":[")
	case RowMessage:
		if d.message != "" {
			put(d.w, d.message, ",")
		}
		put(d.w, "\n{\"message\":", row, `,"parts":[`)
		d.message, d.part = "]"+furtherMembers(r)+"}", "\n"
	case RowPart:
		put(d.w, d.part, row)
		d.part = ",\n"
	default:
		key, isList := r.Digest, r.Type != rowDocument
		if isList {
			key = cmp.Or(lists[r.Type], string(r.Type))
		}
		i := slices.IndexFunc(d.further, func(m member) bool { return m.isList && isList && m.key == key })
		if i < 0 {
			i, d.further = len(d.further), append(d.further, member{key: key, isList: isList})
		}
		d.further[i].rows = append(d.further[i].rows, row)
	}
}

// furtherMembers returns the further members of the line of a row, as they are after others.
func furtherMembers(r *Row) string {
	if len(r.Further) == 0 {
		return ""
	}
	return "," + string(r.Further[1:len(r.Further)-1])
}

func (d *document) end() {
	put(d.w, d.message, "]")
	for _, m := range d.further {
		value := strings.Join(m.rows, ",\n")
		if m.isList {
			value = "[\n" + value + "]"
		}
		put(d.w, ",\n", string(quote(m.key)), ":", value)
	}
	put(d.w, "}\n")
}

// csvHeader names the columns of CSV.
var csvHeader = []string{"session_id", "message_id", "part_index", "role", "type", "tool", "tool_state", "duration_ms",
	"model", "input", "output", "reasoning", "cache_read", "cache_write", "cost", "currency"}

// table writes CSV.
type table struct {
	w             *csv.Writer
	session, role string
}

func (t *table) put(r *Row) {
	switch p := r.Part; {
	case r.Type == RowMessage:
		if t.role = r.Message.Role; r.cells != nil { // else its parts follow
			_ = t.w.Write(r.cells.append([]string{t.session, r.Message.ID, "", t.role, "", "", "", ""}))
		}
	case r.Type == RowPart:
		_ = t.w.Write(r.cells.append([]string{t.session, p.MessageID, strconv.FormatInt(p.Index, 10), t.role, p.Type,
			toolName(p.Type, []byte(p.DataJSON)), deref(p.ToolState), durationOf(r.cells.call)}))
	}
}

// toolName returns the name of the tool that a part is a call of.
func toolName(typ string, data []byte) string {
	if name, ok := strings.CutPrefix(typ, "tool-"); ok {
		return name
	}
	if typ == "dynamic-tool" {
		return parse(data).Text("toolName")
	}
	return ""
}

func durationOf(c *session.ToolCall) string {
	if c == nil || c.Known != spans.KnownObserved || c.End.Before(c.Start) {
		return ""
	}
	return strconv.FormatFloat(float64(c.End.Sub(c.Start))/float64(time.Millisecond), 'f', -1, 64)
}

// append adds the model, the counts and the cost.
func (c *cells) append(record []string) []string {
	counts, cost := make([]string, 5), ""
	if u := c.usage; u != nil {
		for i, n := range []int64{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite} {
			counts[i] = strconv.FormatInt(n, 10)
		}
	}
	currency := ""
	if c.cost != nil {
		cost, currency = string(encode(*c.cost)), c.currency // trees have finite costs
	}
	return append(append(append(record, c.model), counts...), cost, currency)
}
