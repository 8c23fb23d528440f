package export

import (
	"bufio"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// JSON writes s as one document in the canonical form of the agent guide (docs/formats.md says what stands in it): the session row, and
// the messages by created_at, each with its parts by index; unless opts.Strict, behind them what the rows cannot hold. Each row stands on a line
// of its own.
//
// Without opts.Partial nothing is written where content is missing, and the error is a *MissingError that names it. It returns what is
// missing as Guide.Missing does. bodies are those of the session. A message at a time is in memory, and what Guide says. It does not
// close w; an error of w ends it.
func JSON(ctx context.Context, w io.Writer, s *session.Session, bodies Bodies, opts Options) ([]Missing, error) {
	g, err := NewGuide(ctx, s, bodies, opts)
	if err != nil {
		return missingOf(err), err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	d := document{w: out}
	for row, err := range g.Rows(ctx) {
		if err != nil {
			return g.Missing(), err
		}
		if err := d.put(&row); err != nil {
			return g.Missing(), fmt.Errorf("export: write session %s: %w", s.ID, err)
		}
	}
	d.end()
	return g.Missing(), flushed(out, s)
}

func missingOf(err error) []Missing {
	if e, ok := err.(*MissingError); ok { //nolint:errorlint // it is made here and not wrapped
		return e.Missing
	}
	return nil
}

// flushed writes the rest. Errors of a bufio.Writer stick, so those before it come out here.
func flushed(w *bufio.Writer, s *session.Session) error {
	if err := w.Flush(); err != nil {
		return fmt.Errorf("export: write session %s: %w", s.ID, err)
	}
	return nil
}

// document writes rows as one object. What fails sticks in w.
type document struct {
	w        *bufio.Writer
	messages int
	parts    int
	further  []byte  // of the message that is open
	list     RowType // of further rows that is open
	closed   bool    // messages are
}

// lists names where rows of further types stand.
var lists = map[RowType]string{
	RowSystemPrompt: "system_prompts", RowToolCatalog: "tool_catalogs", RowPermission: "permissions", RowDefect: "defects",
}

func (d *document) put(r *Row) error {
	w := d.w
	switch r.Type {
	case RowSession:
		_, _ = w.WriteString(`{"session":`)
		_, _ = w.Write(r.JSON)
		_, _ = w.WriteString(",\n\"messages\":[")
	case RowMessage:
		d.endMessage()
		if d.messages > 0 {
			_ = w.WriteByte(',')
		}
		_, _ = w.WriteString("\n{\"message\":")
		_, _ = w.Write(r.JSON)
		_, _ = w.WriteString(`,"parts":[`)
		d.messages++
		d.parts, d.further = 0, r.Further
	case RowPart:
		if d.parts > 0 {
			_ = w.WriteByte(',')
		}
		_ = w.WriteByte('\n')
		_, _ = w.Write(r.JSON)
		d.parts++
	case rowDocument:
		d.endList()
		_, _ = w.WriteString(",\n")
		_, _ = w.Write(quote(r.Digest))
		_ = w.WriteByte(':')
		_, _ = w.Write(r.JSON)
	default:
		if d.list != r.Type {
			d.endList()
			name := lists[r.Type]
			if name == "" {
				name = string(r.Type)
			}
			_, _ = w.WriteString(",\n")
			_, _ = w.Write(quote(name))
			_, _ = w.WriteString(":[\n")
			d.list = r.Type
		} else {
			_, _ = w.WriteString(",\n")
		}
		_, _ = w.Write(r.JSON)
	}
	_, err := w.Write(nil) // the error that sticks
	return err
}

func (d *document) endMessage() {
	if d.messages == 0 {
		return
	}
	_ = d.w.WriteByte(']')
	if len(d.further) > 0 {
		_ = d.w.WriteByte(',')
		_, _ = d.w.Write(d.further[1:])
	}
	_ = d.w.WriteByte('}')
}

// endList ends the list of messages, or that of further rows.
func (d *document) endList() {
	if !d.closed {
		d.endMessage()
		_ = d.w.WriteByte(']')
		d.closed = true
	}
	if d.list != "" {
		_ = d.w.WriteByte(']')
		d.list = ""
	}
}

func (d *document) end() {
	d.endList()
	_, _ = d.w.WriteString("}\n")
}

// JSONL writes s as JSON does, one row a line: {"type":...,"data":ROW}.
func JSONL(ctx context.Context, w io.Writer, s *session.Session, bodies Bodies, opts Options) ([]Missing, error) {
	g, err := NewGuide(ctx, s, bodies, opts)
	if err != nil {
		return missingOf(err), err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	for row, err := range g.Rows(ctx) {
		if err != nil {
			return g.Missing(), err
		}
		_, _ = out.WriteString(`{"type":`)
		if row.Type == rowDocument {
			_, _ = out.Write(quote(row.Digest))
		} else {
			_, _ = out.Write(quote(string(row.Type)))
		}
		_, _ = out.WriteString(`,"data":`)
		_, _ = out.Write(row.JSON)
		if len(row.Further) > 0 {
			_ = out.WriteByte(',')
			_, _ = out.Write(row.Further[1:])
		}
		if _, err := out.WriteString("}\n"); err != nil {
			return g.Missing(), fmt.Errorf("export: write session %s: %w", s.ID, err)
		}
	}
	return g.Missing(), flushed(out, s)
}

// csvHeader names the columns of CSV.
var csvHeader = []string{
	"session_id", "message_id", "part_index", "role", "type", "tool", "tool_state", "duration_ms", "model",
	"input", "output", "reasoning", "cache_read", "cache_write", "cost", "currency",
}

// CSV writes s with one row a part, as RFC 4180 says, behind a row of names. A message without parts has a row as well. The five counts
// are the tree's (input includes what was cached, output includes reasoning) and stand, with the cost, on the first part of each turn
// alone: the sums of the columns are what the session used. Otherwise it is as JSON; rows are always made from the tree.
func CSV(ctx context.Context, w io.Writer, s *session.Session, bodies Bodies, opts Options) ([]Missing, error) {
	opts.Strict = true // there is no place for more
	g, err := newGuide(ctx, s, bodies, opts, false)
	if err != nil {
		return missingOf(err), err
	}
	out := csv.NewWriter(w)
	fail := func(err error) error { return fmt.Errorf("export: write session %s: %w", s.ID, err) }
	if err := out.Write(csvHeader); err != nil {
		return g.Missing(), fail(err)
	}
	role := ""
	for row, err := range g.Rows(ctx) {
		if err != nil {
			return g.Missing(), err
		}
		var record []string
		switch {
		case row.Type == RowMessage:
			if role = row.Message.Role; row.cells == nil {
				continue // its parts follow
			}
			record = []string{s.ID, row.Message.ID, "", role, "", "", "", ""}
		case row.Type == RowPart:
			p := row.Part
			record = []string{s.ID, p.MessageID, strconv.FormatInt(p.Index, 10), role, p.Type, toolOf(p), deref(p.ToolState), durationOf(row.cells.call)}
		default:
			continue
		}
		if err := out.Write(row.cells.append(record)); err != nil {
			return g.Missing(), fail(err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return g.Missing(), fail(err)
	}
	return g.Missing(), nil
}

// toolOf returns the name of the tool that a part is a call of.
func toolOf(p *PartRow) string { return toolName(p.Type, []byte(p.DataJSON)) }

func toolName(typ string, data []byte) string {
	if name, ok := strings.CutPrefix(typ, "tool-"); ok {
		return name
	}
	if typ == "dynamic-tool" {
		return columns(members(data)).text("toolName")
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
	record = append(record, c.model)
	if u := c.usage; u != nil {
		for _, n := range []int64{u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite} {
			record = append(record, strconv.FormatInt(n, 10))
		}
	} else {
		record = append(record, "", "", "", "", "")
	}
	if c.cost == nil {
		return append(record, "", "")
	}
	return append(record, string(number(*c.cost)), c.currency)
}
