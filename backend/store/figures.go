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
	// Columns are those of the fields of the record type, in their order: session first.
	Columns []string

	record reflect.Type // of session.TurnFigures and the like
	list   int          // field of session.Figures with the records
}

// The tables of figures.
var (
	TurnTable = newFigureTable("turns", "Turns", `run run_start_ns turn start_ns end_ns model_call_ns first_chunk_ns
		agent provider model response_model stop_reason failed error_type attempts
		input output reasoning cache_read cache_write lower_bound purpose
		cost currency request_messages request_bytes tool_calls trace`)
	ToolCallTable = newFigureTable("tool_calls", "ToolCalls",
		`run run_start_ns turn call start_ns end_ns agent model tool outcome failed`)
	CompactionTable = newFigureTable("compactions", "Compactions",
		`run run_start_ns turn start_ns end_ns kind trigger input_tokens output_tokens messages_before messages_after
		used_input used_output lower_bound cost currency`)
	PermissionTable = newFigureTable("permission_evaluations", "Permissions",
		`run run_start_ns turn at_ns wait_ns tool action source`)

	// FigureTables are all of them.
	FigureTables = []*FigureTable{TurnTable, ToolCallTable, CompactionTable, PermissionTable}
)

func newFigureTable(name, field, columns string) *FigureTable {
	f, _ := reflect.TypeFor[session.Figures]().FieldByName(field)
	t := &FigureTable{Name: name, Start: "start_ns", Columns: strings.Fields("session " + columns),
		record: f.Type.Elem(), list: f.Index[0]}
	if slices.Contains(t.Columns, "at_ns") {
		t.Start = "at_ns"
	}
	if len(t.Columns) != t.record.NumField() {
		panic("store: columns of " + name)
	}
	return t
}

// Nullable reports whether empty text of a column is NULL: that of all but the names of records.
func (t *FigureTable) Nullable(column int) bool {
	return !slices.Contains([]string{"session", "run", "call"}, t.Columns[column])
}

// New returns an empty record, a *session.TurnFigures or the like, and its fields as columns: *string, *int64, *bool,
// *session.Opt[int64] or *session.Opt[float64]. An Opt that is not known is NULL.
func (t *FigureTable) New() (record any, fields []any) {
	v := reflect.New(t.record)
	return v.Interface(), fieldsOf(v.Elem())
}

// Of yields the fields of the records that f has for the table.
func (t *FigureTable) Of(f *session.Figures) iter.Seq[[]any] {
	list := reflect.ValueOf(f).Elem().Field(t.list)
	return func(yield func([]any) bool) {
		for i := range list.Len() {
			if !yield(fieldsOf(list.Index(i))) {
				return
			}
		}
	}
}

func fieldsOf(record reflect.Value) (fields []any) {
	for i := range record.NumField() {
		fields = append(fields, record.Field(i).Addr().Interface())
	}
	return fields
}

// Chosen returns the indexes of the columns that q reads.
func (t *FigureTable) Chosen(q *FigureQuery) (columns []int) {
	for i, c := range t.Columns {
		if q.Columns == nil || slices.Contains(q.Columns, c) {
			columns = append(columns, i)
		}
	}
	return columns
}

// Conditions returns the text that q selects by, by column.
func (t *FigureTable) Conditions(q *FigureQuery) map[int]string {
	out := map[int]string{}
	for name, text := range map[string]string{"session": q.Session, "agent": q.Agent, "provider": q.Provider,
		"model": q.Model, "tool": q.Tool} {
		if i := slices.Index(t.Columns, name); i >= 0 && text != "" {
			out[i] = text
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
