package store

import (
	"context"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// FigureQuery selects records of one table of figures, over all sessions of a tenant. Empty text and zero times select
// all.
type FigureQuery struct {
	// Table is the table that is read; nil is TurnTable.
	Table  *FigureTable
	Tenant string
	// Session is the id of one session.
	Session string
	// Since selects records that begin at that time or later.
	Since time.Time
	// Agent, Provider, Model and Tool select equal text. A table without such a column ignores the field.
	Agent, Provider, Model, Tool string
	// Columns are those that are read, by the names of FigureTable and "session"; the other fields of a record are
	// zero. Nil reads all. Fewer columns are faster.
	Columns []string
}

// FigureTable describes a table of figures. backend/store/stats/README.md documents the tables for users.
type FigureTable struct {
	Name string
	// Start is the column with the time at which a record begins.
	Start string
	// Columns are all columns but that of the session, in the order of the fields of the record type.
	Columns []FigureColumn

	record reflect.Type // of session.TurnFigures and the like: Session, then a field for each column
	list   int          // field of session.Figures with the records
}

// FigureColumn is a column of a FigureTable. Text that is empty is NULL, unless Key is set.
type FigureColumn struct {
	Name string
	// Key marks text that names a record and is never NULL.
	Key bool
}

// The tables of figures.
var (
	TurnTable = newFigureTable("turns", "Turns", `run run_start_ns turn start_ns end_ns model_call_ns first_chunk_ns
		agent provider model response_model stop_reason failed error_type attempts
		input output reasoning cache_read cache_write cost currency request_messages request_bytes tool_calls`)
	ToolCallTable = newFigureTable("tool_calls", "ToolCalls",
		`run run_start_ns turn call start_ns end_ns agent model tool outcome failed`)
	CompactionTable = newFigureTable("compactions", "Compactions",
		`run run_start_ns turn start_ns end_ns kind trigger input_tokens output_tokens messages_before messages_after`)
	PermissionTable = newFigureTable("permission_evaluations", "Permissions",
		`run run_start_ns turn at_ns wait_ns tool action source`)

	// FigureTables are all of them.
	FigureTables = []*FigureTable{TurnTable, ToolCallTable, CompactionTable, PermissionTable}
)

func newFigureTable(name, field, columns string) *FigureTable {
	f, _ := reflect.TypeFor[session.Figures]().FieldByName(field)
	t := &FigureTable{Name: name, Start: "start_ns", record: f.Type.Elem(), list: f.Index[0]}
	for _, c := range strings.Fields(columns) {
		t.Columns = append(t.Columns, FigureColumn{Name: c, Key: c == "run" || c == "call"})
		if c == "at_ns" {
			t.Start = c
		}
	}
	if len(t.Columns)+1 != t.record.NumField() {
		panic("store: columns of " + name)
	}
	return t
}

// A FigureRecord is one record of a table, by its fields: *string, *int64, *bool, *session.Opt[int64] or
// *session.Opt[float64]. An Opt that is not known is NULL.
type FigureRecord struct {
	// Pointer is a *session.TurnFigures or the like.
	Pointer any
	Session *string
	// Fields are those of the columns, in their order.
	Fields []any
	value  reflect.Value
}

// Clear sets all fields to zero.
func (r *FigureRecord) Clear() { r.value.SetZero() }

func (r *FigureRecord) set(v reflect.Value) {
	r.value, r.Pointer, r.Fields = v, v.Addr().Interface(), r.Fields[:0]
	r.Session = v.Field(0).Addr().Interface().(*string)
	for i := 1; i < v.NumField(); i++ {
		r.Fields = append(r.Fields, v.Field(i).Addr().Interface())
	}
}

// Equal reports whether two records of one table are equal but for their session.
func (r *FigureRecord) Equal(o *FigureRecord) bool {
	for i := 1; i < r.value.NumField(); i++ {
		if !r.value.Field(i).Equal(o.value.Field(i)) {
			return false
		}
	}
	return true
}

// Names returns the names of the columns.
func (t *FigureTable) Names() (names []string) {
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	return names
}

// New returns an empty record.
func (t *FigureTable) New() *FigureRecord {
	r := &FigureRecord{}
	r.set(reflect.New(t.record).Elem())
	return r
}

// Of yields the records that f has for the table. A record is valid until the next step.
func (t *FigureTable) Of(f *session.Figures) iter.Seq[*FigureRecord] {
	list := reflect.ValueOf(f).Elem().Field(t.list)
	return func(yield func(*FigureRecord) bool) {
		var r FigureRecord
		for i := range list.Len() {
			if r.set(list.Index(i)); !yield(&r) {
				return
			}
		}
	}
}

// Len returns how many records f has for the table.
func (t *FigureTable) Len(f *session.Figures) int {
	return reflect.ValueOf(f).Elem().Field(t.list).Len()
}

// Chosen returns the indexes of the columns that q reads, and whether it reads the session.
func (t *FigureTable) Chosen(q *FigureQuery) (columns []int, id bool) {
	for i, c := range t.Columns {
		if q.Columns == nil || slices.Contains(q.Columns, c.Name) {
			columns = append(columns, i)
		}
	}
	return columns, q.Columns == nil || slices.Contains(q.Columns, "session")
}

// A FigureCondition is text that a column must be equal to.
type FigureCondition struct {
	Column int
	Text   string
}

// Conditions returns the text that q selects by.
func (t *FigureTable) Conditions(q *FigureQuery) (out []FigureCondition) {
	for i, c := range t.Columns {
		text := ""
		switch c.Name {
		case "agent":
			text = q.Agent
		case "provider":
			text = q.Provider
		case "model":
			text = q.Model
		case "tool":
			text = q.Tool
		}
		if text != "" {
			out = append(out, FigureCondition{i, text})
		}
	}
	return out
}

// From returns the table that q reads.
func (q *FigureQuery) From() *FigureTable {
	if q.Table == nil {
		return TurnTable
	}
	return q.Table
}

// Figures yields what q selects, as records of the type of q.Table.
func Figures[T any](ctx context.Context, st Store, q FigureQuery) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for p, err := range st.Figures(ctx, q) {
			var v T
			if err == nil {
				v = *p.(*T)
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
