package foreign

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// The tests decode OTLP JSON by themselves: they hold the rules, and otlprow has tests of its own.

type otlpAttr struct {
	Key   string
	Value otlpValue
}

type otlpValue struct {
	StringValue *string
	IntValue    json.RawMessage
	DoubleValue *float64
	BoolValue   *bool
	ArrayValue  *struct{ Values []otlpValue }
	Kvlist      json.RawMessage `json:"kvlistValue"`
}

func (v *otlpValue) value() session.Value {
	switch {
	case v.StringValue != nil:
		return session.StringValue(*v.StringValue)
	case v.IntValue != nil:
		n, err := strconv.ParseInt(strings.Trim(string(v.IntValue), `"`), 10, 64)
		if err != nil {
			panic(err)
		}
		return session.IntValue(n)
	case v.DoubleValue != nil:
		return session.DoubleValue(*v.DoubleValue)
	case v.BoolValue != nil:
		return session.BoolValue(*v.BoolValue)
	case v.ArrayValue != nil:
		var l []string
		for _, e := range v.ArrayValue.Values {
			l = append(l, e.value().Text())
		}
		return session.StringsValue(l)
	case v.Kvlist != nil:
		return session.StringValue(string(v.Kvlist))
	}
	return session.Value{}
}

type otlpRecord struct {
	Name, EventName                    string
	TraceID, SpanID, ParentSpanID      string
	StartTimeUnixNano, EndTimeUnixNano json.Number
	TimeUnixNano, ObservedTimeUnixNano json.Number
	Body                               otlpValue
	Attributes                         []otlpAttr
	Status                             struct{ Code int }
	Events                             []otlpRecord
}

type otlpScope struct {
	Scope             struct{ Name string }
	Spans, LogRecords []otlpRecord
}

type otlpFile struct {
	ResourceSpans, ResourceLogs []struct {
		Resource              struct{ Attributes []otlpAttr }
		ScopeSpans, ScopeLogs []otlpScope
	}
}

func attrsOf(l []otlpAttr) map[string]session.Value {
	m := map[string]session.Value{}
	for _, a := range l {
		m[a.Key] = a.Value.value()
	}
	return m
}

func number(n json.Number) int64 { v, _ := n.Int64(); return v }

// decode returns one row of each record of OTLP JSON that the table keeps.
func decode(tb testing.TB, table *Table, data []byte) (rows []session.Row) {
	tb.Helper()
	var file otlpFile
	must.Do(tb, json.Unmarshal(data, &file))
	for _, res := range slices.Concat(file.ResourceSpans, file.ResourceLogs) {
		resource := attrsOf(res.Resource.Attributes)
		for _, ss := range slices.Concat(res.ScopeSpans, res.ScopeLogs) {
			scope := table.Scope(ss.Scope.Name)
			for _, r := range ss.Spans {
				row, ok := keep(scope, ss.Scope.Name, Span, r.Name, &r, []map[string]session.Value{resource}, nil)
				if !ok {
					continue
				}
				rows = append(rows, row)
				for i := range r.Events {
					e := &r.Events[i]
					maps := []map[string]session.Value{resource, attrsOf(r.Attributes)}
					if row, ok := keep(scope, ss.Scope.Name, SpanEvent, e.Name, e, maps, &row); ok {
						rows = append(rows, row)
					}
				}
			}
			for _, r := range ss.LogRecords {
				var body string
				if r.Body.StringValue != nil {
					body = *r.Body.StringValue
				}
				name := cmp.Or(attrsOf(r.Attributes)["event.name"].Str(), r.EventName, body)
				if row, ok := keep(scope, ss.Scope.Name, Log, name, &r, []map[string]session.Value{resource}, nil); ok {
					rows = append(rows, row)
				}
			}
		}
	}
	return rows
}

func keep(scope Scope, scopeName string, sig Signal, name string, r *otlpRecord, outer []map[string]session.Value,
	span *session.Row) (session.Row, bool) {
	own := attrsOf(r.Attributes)
	var marks Marks
	for _, a := range r.Attributes {
		marks |= scope.Mark(a.Key)
	}
	get := func(key string) session.Value {
		if v, ok := own[key]; ok {
			return v
		}
		for _, m := range slices.Backward(outer) {
			if v, ok := m[key]; ok {
				return v
			}
		}
		return session.Value{}
	}
	src, id := scope.Match(sig, name, marks, get)
	if src == nil {
		return session.Row{}, false
	}
	row := session.Row{Kind: session.KindForeign, Known: spans.KnownObserved, Turn: session.NoTurn,
		Failed: r.Status.Code == 2, Service: get("service.name").Str()}
	hexID := func(dst []byte, s string) { _, _ = hex.Decode(dst, []byte(s)) }
	hexID(row.Trace[:], r.TraceID)
	hexID(row.Span[:], r.SpanID)
	hexID(row.Parent[:], r.ParentSpanID)
	row.Start, row.End = number(r.StartTimeUnixNano), number(r.EndTimeUnixNano)
	row.Session.ID = id
	if sig != Span {
		row.Parent = row.Span
		if span != nil {
			row.Trace, row.Parent, row.Session = span.Trace, span.Span, span.Session
		}
		text, _ := json.Marshal(r)
		sum := sha256.Sum256(append([]byte(name), text...))
		row.Span = session.SpanID(sum[:8])
		row.Start = cmp.Or(number(r.TimeUnixNano), src.Time(get), number(r.ObservedTimeUnixNano))
		row.End = row.Start
		if row.Trace == (session.TraceID{}) && id != "" {
			row.Trace = TraceOf(row.Session)
		}
	}
	if row.Session.ID == "" {
		row.Session.ID = TraceSession(row.Trace)
	}
	row.Attrs = []session.Attr{{Key: SourceKey, Value: session.StringValue(src.Name)},
		{Key: ScopeKey, Value: session.StringValue(scopeName)}, {Key: NameKey, Value: session.StringValue(name)},
		{Key: SignalKey, Value: session.StringValue(string(sig))}}
	add := func(key string, v session.Value) {
		switch c := src.Class(key); c {
		case Drop:
		case Fact, Text:
			row.Attrs = append(row.Attrs, session.Attr{Key: key, Value: v})
		default:
			items := []string{v.Text()}
			var l []json.RawMessage
			if c == Messages && json.Unmarshal([]byte(items[0]), &l) == nil && len(l) > 0 {
				items = nil
				for _, e := range l {
					items = append(items, string(e))
				}
			}
			for i := range items {
				items[i] = ItemOf(items[i])
			}
			row.Lists = append(row.Lists, session.List{Name: key, Count: int64(len(items)), Items: items})
		}
	}
	for key, v := range own {
		add(key, v)
	}
	for key, v := range outer[0] {
		if _, ok := own[key]; !ok {
			add(key, v)
		}
	}
	slices.SortFunc(row.Attrs, func(a, b session.Attr) int { return strings.Compare(a.Key, b.Key) })
	slices.SortFunc(row.Lists, func(a, b session.List) int { return strings.Compare(a.Name, b.Name) })
	return row, true
}

// sample returns a file of testdata, which may be compressed.
func sample(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		return data
	}
	packed := must.Get(os.ReadFile(filepath.Join("testdata", name+".zst")))(tb)
	d := must.Get(zstd.NewReader(nil))(tb)
	defer d.Close()
	data = must.Get(d.DecodeAll(packed, nil))(tb)
	return data
}

// assemble maps rows and returns the trees that are not empty, by id.
func assemble(table *Table, rows []session.Row) []*session.Session {
	keys := map[session.Key]bool{}
	for i := range rows {
		keys[rows[i].Session] = true
		if s := TraceSession(rows[i].Trace); rows[i].Kind == session.KindForeign {
			keys[session.Key{Tenant: rows[i].Session.Tenant, ID: s}] = true
		}
	}
	var out []*session.Session
	for key := range keys {
		if mapped := table.Map(rows, key); len(mapped) > 0 {
			out = append(out, session.Assemble(mapped))
		}
	}
	slices.SortFunc(out, func(a, b *session.Session) int { return strings.Compare(a.ID, b.ID) })
	return out
}

// tree returns trees as text.
func tree(l []*session.Session) string {
	var b strings.Builder
	for _, s := range l {
		text, err := json.Marshal(s)
		fmt.Fprintln(&b, string(text), err)
	}
	return b.String()
}
