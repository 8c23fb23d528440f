package ndjson

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// notInALine are fields that a line does not carry, with the reason.
var notInALine = map[string]string{
	"Meta.Arrived": "when this process read the line, which is none of the producer's business",
}

// fieldsOf calls fn with the path and the value of every field of v that is no struct, through pointers and one element
// of each slice, which it makes where they are not there. Moment.Closed is left out: a line reports what it is about.
func fieldsOf(path string, v reflect.Value, fn func(path string, v reflect.Value)) {
	switch v.Interface().(type) {
	case time.Time, []byte:
		fn(path, v)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if name == "Closed" && v.Type() == reflect.TypeFor[event.Moment]() {
				continue
			}
			fieldsOf(strings.TrimPrefix(path+"."+name, "."), v.Field(i), fn)
		}
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fieldsOf(path, v.Elem(), fn)
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		fieldsOf(path+"[]", v.Index(0), fn)
	default:
		fn(path, v)
	}
}

// fill sets v to a value that is not zero and differs with n.
func fill(t *testing.T, path string, v reflect.Value, n int) {
	t.Helper()
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000+int64(n), 123456789).UTC()))
		return
	case []byte:
		v.SetBytes(fmt.Appendf(nil, `{"n":%d}`, n))
		return
	case spans.ProvenanceKind:
		v.SetString(string(spans.ProvenanceMemoryTier))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("%s \"%d\"", path[strings.LastIndex(path, ".")+1:], n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(n))
	case reflect.Float64:
		v.SetFloat(float64(n) + 0.25)
	default:
		t.Fatalf("%s: cannot fill a %s", path, v.Type())
	}
}

func newEvent(k *shape) event.Event { return reflect.New(k.typ).Interface().(event.Event) }

// filled returns an event of a kind with all fields set, and how many those are. A message has only a provenance that
// can be.
func filled(t *testing.T, k *shape) (event.Event, int) {
	ev, n := newEvent(k), 0
	fieldsOf("", reflect.ValueOf(ev).Elem(), func(path string, v reflect.Value) {
		n++
		if notInALine[path] != "" || aside(path) {
			return
		}
		fill(t, path, v, n)
	})
	return ev, n
}

// aside reports whether a field is one of a provenance that a memory tier does not have: TestProvenances has those.
func aside(path string) bool {
	_, field, ok := strings.Cut(path, "Provenance.")
	return ok && field != "Kind" && field != "Tier" && field != "RecordID"
}

// read reads one line that must give one event.
func read(t *testing.T, line string) event.Event {
	t.Helper()
	evs, problems := readAll(line, input.Settings{Rule: ""})
	if len(problems) > 0 || len(evs) != 1 {
		t.Fatalf("%s\n%d events, problems %v", line, len(evs), problems)
	}
	return evs[0]
}

// readAll reads text. The events are copies.
func readAll(text string, opts ...input.Settings) (evs []event.Event, problems []error) {
	for ev, err := range NewDecoder(opts...).Events(strings.NewReader(text)) {
		if err != nil {
			problems = append(problems, err)
			continue
		}
		evs = append(evs, clone(ev))
	}
	return evs, problems
}

// clone copies an event.
func clone(ev event.Event) event.Event {
	return deep(reflect.ValueOf(ev)).Interface().(event.Event)
}

func deep(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(deep(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(deep(v.Index(i)))
			}
		}
	case reflect.Struct:
		out.Set(v)
		if v.Type() != reflect.TypeFor[time.Time]() {
			for i := range v.NumField() {
				out.Field(i).Set(deep(v.Field(i)))
			}
		}
	default:
		out.Set(v)
	}
	return out
}

// spelled is v as encoding/json writes it for a producer: by the keys of its shape.
func spelled(v reflect.Value) any {
	switch p := v.Interface().(type) {
	case time.Time:
		return p.Format(time.RFC3339Nano)
	case []byte:
		return json.RawMessage(p)
	case spans.Provenance:
		return json.RawMessage(p.AppendJSON(nil))
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return spelled(v.Elem())
	case reflect.Slice:
		list := make([]any, v.Len())
		for i := range list {
			list[i] = spelled(v.Index(i))
		}
		return list
	case reflect.Struct:
		object := map[string]any{}
		for _, f := range shapeOf[v.Type()].fields {
			at := v.FieldByIndex(f.at)
			if !f.origins && (!at.IsZero() || f.likeAt != nil || f.key == "dialect" || f.key == "raw") {
				object[f.key] = spelled(at)
			}
		}
		return object
	}
	return v.Interface()
}

// lineOf returns an event as a line.
func lineOf(t *testing.T, k *shape, ev event.Event) string {
	t.Helper()
	members := spelled(reflect.ValueOf(ev).Elem()).(map[string]any)
	members["type"] = input.OwnPrefix + k.name
	line := must.Get(json.Marshal(members))(t)
	return string(line)
}

// TestEveryFieldOfEveryEvent sets each field of each event alone, and all of them, and reads back a line with its key.
// A field that a line does not carry fails.
func TestEveryFieldOfEveryEvent(t *testing.T) {
	for i := range kinds {
		k := &kinds[i]
		t.Run(k.name, func(t *testing.T) {
			all, n := filled(t, k)
			if n < 5 { // those of every line
				t.Errorf("%d fields found", n)
			}
			line := lineOf(t, k, all)
			if diff := cmp.Diff(all, read(t, line)); diff != "" {
				t.Errorf("%s\n%s", line, diff)
			}
			empty := newEvent(k)
			metaOf(empty).Seq = 1
			for _, f := range k.fields {
				if f.key == "dialect" {
					reflect.ValueOf(empty).Elem().FieldByIndex(f.at).SetString(Dialect)
				}
			}
			if diff := cmp.Diff(empty, read(t, `{"type":"`+input.OwnPrefix+k.name+`"}`)); diff != "" {
				t.Errorf("without keys: %s", diff)
			}
			for one := range n {
				ev, at := read(t, `{"type":"`+input.OwnPrefix+k.name+`"}`), 0
				fieldsOf("", reflect.ValueOf(ev).Elem(), func(path string, v reflect.Value) {
					if at++; at == one+1 && notInALine[path] == "" && !strings.Contains(path, "Provenance.") {
						fill(t, path, v, at)
					}
				})
				line := lineOf(t, k, ev)
				if diff := cmp.Diff(ev, read(t, line), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s\n%s", line, diff)
				}
			}
		})
	}
	if len(notInALine) > 1 {
		t.Errorf("%d fields that no line carries", len(notInALine))
	}
}

// TestProvenances reads back a provenance of every kind, and what is none.
func TestProvenances(t *testing.T) {
	all := []spans.Provenance{
		{},
		{Kind: spans.ProvenanceSystem}, {Kind: spans.ProvenanceTools}, {Kind: spans.ProvenanceRest},
		{Kind: spans.ProvenanceComposed},
		{Kind: spans.ProvenanceSystemPrompt}, {Kind: spans.ProvenanceSteering},
		{Kind: spans.ProvenanceFollowUp}, {Kind: spans.ProvenanceUnknown},
		{Kind: spans.ProvenanceIdentityBlock, Name: "me \"x\"", Order: 3},
		{Kind: spans.ProvenanceMemoryTier, Tier: "long-term", RecordID: "mem-7"},
		{Kind: spans.ProvenanceLoopTurn, TurnIndex: 4, Role: "tool-call-result", MessageIndex: 2},
		{Raw: `{"kind":"of another loop"}`}, {Raw: `{"kind":"steering","more":1}`},
		{Raw: `{"kind":"memory-tier","tier":"x"}`}, {Raw: `"steering"`}, {Raw: `[1]`},
	}
	ev := &event.RequestPrepared{Meta: event.Meta{Seq: 1}}
	for _, p := range all {
		ev.Messages = append(ev.Messages, event.Message{Raw: []byte(`{"role":"user","content":"x"}`), Role: "user",
			Provenance: p})
	}
	line := lineOf(t, kindOf["request_prepared"], ev)
	if diff := cmp.Diff(event.Event(ev), read(t, line)); diff != "" {
		t.Errorf("%s\n%s", line, diff)
	}
}
