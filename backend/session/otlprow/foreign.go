package otlprow

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/backend/foreign"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/object"
	"github.com/otelagent/otelagent/spans"
)

// bodyKey stands for the body of a log record in the rules of package foreign.
const bodyKey = "log.body"

// eventName is the attribute that names the event of a log record whose field for it is empty.
const eventName = "event.name"

// maxScopes bounds Report.Scopes.
const maxScopes = 32

// others reads the records of other programs. It is the part of the decoder that does so.
type others struct {
	scope     foreign.Scope
	scopeName string
	resource  pcommon.Map
	outer     pcommon.Map   // of the span of an event, else the resource
	own       pcommon.Map   // of the current record
	logBody   pcommon.Value // of the current log record
	get       foreign.Get   // looks at own, outer and resource
	skipped   int           // records of the scope that no rule keeps
	kept      bool          // a record of the scope was kept
}

// enter begins a scope, and leave ends it.
func (d *decoder) enter(name string) {
	d.scope, d.scopeName, d.skipped, d.kept = d.table.Scope(name), name, 0, false
}

func (d *decoder) leave() {
	if d.skipped == 0 || d.kept || d.scope.Known() {
		return
	}
	name := cut(d.scopeName, maxKey)
	i := slices.IndexFunc(d.report.Scopes, func(s ScopeCount) bool { return s.Scope == name })
	if i < 0 && len(d.report.Scopes) < maxScopes {
		i, d.report.Scopes = len(d.report.Scopes), append(d.report.Scopes, ScopeCount{Scope: name})
	}
	if i >= 0 {
		d.report.Scopes[i].Records += d.skipped
	}
}

// lookup is the foreign.Get of the decoder.
func (d *decoder) lookup(key string) session.Value {
	for _, m := range [...]pcommon.Map{d.own, d.outer, d.others.resource} {
		if v, ok := get(m, key); ok {
			if s := scalar(v); !s.IsZero() {
				return s
			}
			return d.value(v, key)
		}
	}
	return session.Value{}
}

// otherSpan keeps a span of another program, and its events, where a rule says so.
func (d *decoder) otherSpan(span ptrace.Span) {
	row := session.Row{Trace: session.TraceID(span.TraceID()), Span: session.SpanID(span.SpanID()),
		Parent: session.SpanID(span.ParentSpanID()), Start: nanos(span.StartTimestamp()), End: nanos(span.EndTimestamp()),
		Failed: span.Status().Code() == ptrace.StatusCodeError}
	attrs := span.Attributes()
	kept := d.other(row, foreign.Span, span.Name(), attrs, d.others.resource)
	if kept == nil {
		return
	}
	switch text := span.Status().Message(); {
	case span.Status().Code() == ptrace.StatusCodeOk:
		add(kept, foreign.StatusOKKey, session.BoolValue(true))
	case row.Failed && !d.withoutContent:
		add(kept, foreign.StatusKey, session.StringValue(d.redactor(cut(text, d.limits.Attribute))))
	}
	for i := range min(span.Events().Len(), maxEvents) {
		e := span.Events().At(i)
		at := nanos(e.Timestamp())
		event := session.Row{Trace: kept.Trace, Parent: kept.Span, Session: kept.Session, Start: at, End: at, Seq: int64(i)}
		if d.other(event, foreign.SpanEvent, e.Name(), e.Attributes(), attrs) != nil {
			d.report.Events++
		}
	}
}

// otherRecord keeps a log record of another program where a rule says so.
func (d *decoder) otherRecord(r plog.LogRecord) {
	d.logBody = r.Body()
	name := cmp.Or(text(r.Attributes(), eventName), r.EventName())
	if name == "" && d.logBody.Type() == pcommon.ValueTypeStr {
		name = d.logBody.Str()
	}
	row := session.Row{Trace: session.TraceID(r.TraceID()), Parent: session.SpanID(r.SpanID()),
		Start: nanos(r.Timestamp())}
	kept := d.other(row, foreign.Log, name, r.Attributes(), d.others.resource)
	if kept != nil && kept.Start == 0 {
		kept.Start = nanos(r.ObservedTimestamp())
		kept.End = kept.Start
	}
}

// other decides from a record alone whether its row is kept, gives the row its place, and appends it; else it returns
// nil. A damaged record of this format is of no other program.
func (d *decoder) other(row session.Row, sig foreign.Signal, name string, attrs, outer pcommon.Map) *session.Row {
	var marks foreign.Marks
	for key := range attrs.All() {
		marks |= d.scope.Mark(key)
	}
	d.own, d.outer = attrs, outer
	src, id := d.scope.Match(sig, name, marks, d.get)
	if src == nil || hasAddress(attrs) {
		if sig != foreign.SpanEvent {
			d.report.Foreign++
			d.skipped++
		}
		return nil
	}
	trace, span, body := row.Trace, row.Parent, ""
	if sig == foreign.Log {
		body = d.json(d.logBody)
		row.Start = cmp.Or(row.Start, src.Time(d.get))
		row.End = row.Start
	}
	switch none := trace == (session.TraceID{}); {
	case sig == foreign.SpanEvent: // it has that of its span
	case none && id == "":
		d.reject(ReasonNoSession, name, pcommon.TraceID(trace), pcommon.SpanID(cmp.Or(row.Span, span)), attrs)
		return nil
	default:
		row.Session = session.Key{Tenant: d.tenant, ID: cmp.Or(boundID(id), foreign.TraceSession(trace))}
		if none {
			row.Trace = foreign.TraceOf(row.Session)
		}
	}
	if row.Span == (session.SpanID{}) {
		row.Span = hashOf(fmt.Sprint(trace, span, row.Seq, " "+name), row.Start, attrs, body)
	}
	kept := d.keep(row, src, sig, name)
	if body != "" && src.Class(bodyKey) >= foreign.Content {
		d.attribute(kept, src, name, bodyKey, d.logBody)
	}
	return kept
}

// keep appends the row of a record of which d.own has the attributes.
func (d *decoder) keep(row session.Row, src *foreign.Source, sig foreign.Signal, name string) *session.Row {
	d.kept = true
	row.Kind, row.Turn, row.Known, row.Service = session.KindForeign, session.NoTurn, spans.KnownObserved, d.service
	d.attrs = d.attrs[:0]
	text := func(key, s string) {
		d.attrs = append(d.attrs, session.Attr{Key: key, Value: session.StringValue(s)})
	}
	text(foreign.SourceKey, src.Name)
	text(foreign.ScopeKey, cut(d.scopeName, maxKey))
	text(foreign.NameKey, cut(name, maxKey))
	text(foreign.SignalKey, string(sig))
	if src.Rules != "" {
		text(foreign.RulesKey, src.Rules)
	}
	spread := members{}
	for key, v := range d.own.All() {
		if !d.spread(spread, src, key, v) {
			d.attribute(&row, src, name, key, v)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(spread)) {
		list := pcommon.NewValueEmpty()
		_ = list.FromRaw(nested(spread[key])) // it holds what AsRaw returned
		d.attribute(&row, src, name, key, list)
	}
	for key, v := range d.others.resource.All() {
		if _, own := get(d.own, key); !own {
			d.attribute(&row, src, name, key, v)
		}
	}
	d.settle(nil)
	row.Attrs = slices.Clone(d.attrs)
	d.batch.Rows = append(d.batch.Rows, row)
	return &d.batch.Rows[len(d.batch.Rows)-1]
}

// attribute keeps an attribute of a record of a name as the rules class it.
func (d *decoder) attribute(row *session.Row, src *foreign.Source, name, key string, v pcommon.Value) {
	class := src.Class(key)
	if class == foreign.Drop || class.IsContent() && d.withoutContent {
		return
	}
	if class < foreign.Content {
		value := d.value(v, key)
		if class.IsContent() && value.Type() == session.TypeString {
			value = session.StringValue(d.redactor(value.Str()))
		}
		d.attrs = append(d.attrs, session.Attr{Key: valid(key), Value: value})
		return
	}
	bodies := []string{d.json(v)}
	var raw []json.RawMessage
	if member := src.Member(key); member != "" && json.Valid([]byte(bodies[0])) {
		bodies[0] = cmp.Or(string(object.Of("", []byte(bodies[0])).Spelled(member)), bodies[0])
	}
	switch {
	case class == foreign.Content:
		bodies[0] = withRole(name, bodies[0])
	case v.Type() == pcommon.ValueTypeSlice:
		bodies = nil
		for _, e := range v.Slice().All() {
			bodies = append(bodies, d.json(e))
		}
	case json.Unmarshal([]byte(bodies[0]), &raw) == nil && raw != nil:
		bodies = nil
		for _, r := range raw {
			bodies = append(bodies, string(r))
		}
	}
	l := session.List{Name: cut(key, maxKey), Count: int64(len(bodies))}
	for _, body := range bodies {
		body = spans.Template(d.redactor(valid(body)))
		d.body(row, body)
		l.Items = append(l.Items, spans.BlockOfString(body).Short().String())
	}
	row.Lists = append(row.Lists, l)
}

// roleName is the name of an event that the conventions name after the role of its message.
var roleName = regexp.MustCompile(`(?:^|\.)(system|user|assistant)\.message$`)

// withRole returns the body of an event of such a name as a message with that role.
func withRole(name, body string) string {
	of := roleName.FindStringSubmatch(name)
	if of == nil {
		return body
	}
	var m members
	if json.Unmarshal([]byte(body), &m) != nil || m == nil { // null is an object to the library
		m = members{"content": body}
		if json.Valid([]byte(body)) {
			m["content"] = json.RawMessage(body)
		}
	}
	m["role"] = cmp.Or(m["role"], any(of[1]))
	text, _ := json.Marshal(m) // all of it is JSON
	return string(text)
}

// members are those of an object of JSON.
type members = map[string]any

// wrappers are the objects in which OpenInference wraps each element of a list.
var wrappers = strings.NewReplacer(".message.", ".", ".message_content.", ".", ".tool_call.", ".", ".tool.", ".")

// spread takes an attribute of a list of messages that is spread over keys LIST.N.PATH, as older instrumentations write
// them: it puts the value into lists, as members named by the steps of the path. It returns false for any other one.
func (d *decoder) spread(lists members, src *foreign.Source, key string, v pcommon.Value) bool {
	i := 0
	for i < len(key) && (key[i] != '.' || src.Class(key[:i]) != foreign.Messages) {
		i++
	}
	if i+1 >= len(key) || key[i+1] < '0' || key[i+1] > '9' {
		return false
	}
	path := append([]string{key[:i]}, strings.Split(wrappers.Replace(key[i+1:]), ".")...)
	if len(path) > maxDepth || deep(v, maxDepth-len(path)) {
		return true
	}
	for _, step := range path[:len(path)-1] {
		next, ok := lists[step].(members)
		if !ok {
			next = members{}
			lists[step] = next
		}
		lists = next
	}
	lists[path[len(path)-1]] = v.AsRaw()
	return true
}

// nested returns a tree of members with lists where all names are numbers.
func nested(v any) any {
	m, ok := v.(members)
	if !ok {
		return v
	}
	var list []any
	isList := true
	for _, name := range slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	}) {
		m[name] = nested(m[name])
		list, isList = append(list, m[name]), isList && strings.Trim(name, "0123456789") == ""
	}
	if isList {
		return list
	}
	return m
}

// json returns a value as text: a string as it is, any other as JSON; empty where it is nested too deep.
func (d *decoder) json(v pcommon.Value) string {
	if deep(v, maxDepth) {
		d.report.Cut++
		return ""
	}
	return v.AsString()
}

// hashOf returns an id for a record that has none: it follows from what the record says.
func hashOf(name string, at int64, attrs pcommon.Map, body string) session.SpanID {
	said := map[string]any{}
	for key, v := range attrs.All() {
		if !deep(v, maxDepth) {
			said[key] = v.AsRaw()
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %q %#v", name, at, body, said)) // maps are written in the order of keys
	return session.SpanID(sum[:8])
}

// nanos returns a time on the wire; 0 for one that no row can hold.
func nanos(t pcommon.Timestamp) int64 {
	if t > math.MaxInt64 {
		return 0
	}
	return int64(t)
}

// ScopeCount counts the records of an instrumentation scope that no rule of package foreign describes.
type ScopeCount struct {
	Scope   string
	Records int
}
