package ndjson

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

var update = flag.Bool("update", false, "write golden files, the schema, and the generated sections of the documentation anew")

// row is one key that a shape visits.
type row struct {
	key   string
	holds holds
	brief string
	at    any // pointer to the value
}

// holds is what the value of a key is, in the words of the documentation.
type holds string

const (
	holdsString      holds = "string"
	holdsInteger     holds = "integer"
	holdsNumber      holds = "number"
	holdsBoolean     holds = "boolean"
	holdsTime        holds = "time"
	holdsMoment      holds = "moment"
	holdsJSON        holds = "any JSON"
	holdsUsage       holds = "usage"
	holdsMessage     holds = "message"
	holdsFrame       holds = "frame"
	holdsProvenance  holds = "provenance"
	holdsStrings     holds = "array of strings"
	holdsMessages    holds = "array of messages"
	holdsSections    holds = "array of sections"
	holdsFacts       holds = "array of facts"
	holdsProvenances holds = "array of provenances"
)

// describer collects what a shape visits.
type describer struct{ rows []row }

func (d *describer) add(key string, h holds, brief string, at any) {
	d.rows = append(d.rows, row{key, h, brief, at})
}

func (d *describer) meta(m *otelagent.Meta) {
	d.time("ts", &m.Time, "when it happened; absent: not told")
	d.count("seq", &m.Seq, "its position in the input; absent: the number of the line")
	d.text("session", &m.Session, "", "the session; absent: that of the run")
	d.text("run", &m.Run, "", "the run; absent: the one that is open, the innermost where the open runs spawned each other")
}

func (d *describer) text(key string, p *string, _, brief string) { d.add(key, holdsString, brief, p) }
func (d *describer) count(key string, p *int64, brief string)    { d.add(key, holdsInteger, brief, p) }
func (d *describer) small(key string, p *int, brief string)      { d.add(key, holdsInteger, brief, p) }
func (d *describer) known(key string, p *int64, _ int64, brief string) {
	d.add(key, holdsInteger, brief, p)
}
func (d *describer) limit(key string, p **int64, brief string)    { d.add(key, holdsInteger, brief, p) }
func (d *describer) number(key string, p **float64, brief string) { d.add(key, holdsNumber, brief, p) }
func (d *describer) flag(key string, p *bool, brief string)       { d.add(key, holdsBoolean, brief, p) }
func (d *describer) maybe(key string, p **bool, brief string)     { d.add(key, holdsBoolean, brief, p) }
func (d *describer) nanos(key string, p *time.Duration, brief string) {
	d.add(key, holdsInteger, brief, p)
}
func (d *describer) time(key string, p *time.Time, brief string) { d.add(key, holdsTime, brief, p) }
func (d *describer) words(key string, p *[]string, brief string) { d.add(key, holdsStrings, brief, p) }
func (d *describer) usage(key string, p **otelagent.Usage, brief string) {
	d.add(key, holdsUsage, brief, p)
}
func (d *describer) json(key string, p *[]byte, _ bool, brief string) {
	d.add(key, holdsJSON, brief, p)
}
func (d *describer) moment(key string, p *otelagent.Moment, brief string) {
	d.add(key, holdsMoment, brief, p)
}
func (d *describer) message(key string, p *otelagent.Message, brief string) {
	d.add(key, holdsMessage, brief, p)
}
func (d *describer) reply(key string, p **otelagent.Message, brief string) {
	d.add(key, holdsMessage, brief, p)
}
func (d *describer) messages(key string, p *[]otelagent.Message, brief string) {
	d.add(key, holdsMessages, brief, p)
}
func (d *describer) facts(key string, p *[]otelagent.Fact, brief string) {
	d.add(key, holdsFacts, brief, p)
}
func (d *describer) provenance(key string, p *spans.Provenance, brief string) {
	d.add(key, holdsProvenance, brief, p)
}
func (d *describer) origins(key string, p *otelagent.Request, brief string) bool {
	d.add(key, holdsProvenances, brief, &p.Messages)
	return false
}

// rowsOf returns the rows of a kind and the event that they point into.
func rowsOf(k *kind) ([]row, otelagent.Event) {
	var d describer
	ev := k.make()
	k.shape(&d, ev)
	return d.rows, ev
}

// objects are the shapes of objects inside lines, with where they land.
var objects = []struct {
	name, title, brief string
	rows               func() ([]row, any)
}{
	{"usage", "Usage", "Counts in tokens as they are reported.", func() ([]row, any) { return object(usageShape) }},
	{"moment", "Moment", "A time, or an object of these.", func() ([]row, any) { return object(momentShape) }},
	{"message", "Message", "Any JSON: the message itself; or an object of these, of which `raw` or `raw_text` is there.", func() ([]row, any) { return object(messageShape) }},
	{"fact", "Fact", "One thing that is true from a time on.", func() ([]row, any) { return object(factShape) }},
}

func object[T any](shape func(visitor, *T)) ([]row, any) {
	var d describer
	v := new(T)
	shape(&d, v)
	return d.rows, v
}

// fieldOf names the field of root that at points to.
func fieldOf(t *testing.T, root, at any) string {
	t.Helper()
	var find func(path string, v reflect.Value) string
	find = func(path string, v reflect.Value) string {
		// Words are visited as strings, durations as they are.
		if typ := reflect.TypeOf(at).Elem(); v.Addr().Pointer() == reflect.ValueOf(at).Pointer() && (v.Type() == typ || v.Kind() == reflect.String && typ.Kind() == reflect.String) {
			return path
		}
		if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
			for i := range v.NumField() {
				if found := find(strings.TrimPrefix(path+"."+v.Type().Field(i).Name, "."), v.Field(i)); found != "" {
					return found
				}
			}
		}
		return ""
	}
	found := find("", reflect.ValueOf(root).Elem())
	if found == "" {
		t.Fatalf("no field of %T is visited", root)
	}
	// Go needs no name of an embedded struct where that is clear.
	if outer, inner, ok := strings.Cut(found, "."); ok && outer != "Meta" {
		typ := reflect.TypeOf(root).Elem()
		if f, _ := typ.FieldByName(outer); f.Anonymous {
			if _, clear := typ.FieldByName(inner); clear {
				return inner
			}
		}
	}
	return found
}

// ordered is a JSON object with its keys in order.
type ordered []entry

type entry struct {
	key   string
	value any
}

func (o ordered) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", m.key, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func ref(name string) ordered { return ordered{{"$ref", "#/$defs/" + name}} }

func list(items any) ordered { return ordered{{"type", []string{"array", "null"}}, {"items", items}} }

func orNull(o ordered) ordered { return ordered{{"anyOf", []any{o, ordered{{"type", "null"}}}}} }

// schemaOf returns the schema of a value.
func schemaOf(h holds) ordered {
	switch h {
	case holdsString, holdsNumber, holdsBoolean:
		return ordered{{"type", []string{string(h), "null"}}}
	case holdsInteger:
		return ordered{{"type", []string{"integer", "null"}}, {"minimum", 0}, {"maximum", json.Number("9223372036854775807")}}
	case holdsTime, holdsMoment, holdsUsage, holdsFrame:
		return orNull(ref(string(h)))
	case holdsMessage:
		return ref("message")
	case holdsStrings:
		return list(ordered{{"type", "string"}})
	case holdsMessages:
		return list(ref("message"))
	case holdsSections:
		return list(ref("section"))
	case holdsFacts:
		return list(ref("fact"))
	case holdsProvenances:
		return list(ordered{})
	default: // any JSON, and provenances, of which unknown ones are kept
		return ordered{}
	}
}

// properties returns what the schema of an object says of its keys.
func properties(rows []row) ordered {
	var props ordered
	var both []any
	for _, r := range rows {
		props = append(props, entry{r.key, append(ordered{{"description", plain(r.brief)}}, schemaOf(r.holds)...)})
		if r.holds == holdsJSON {
			props = append(props, entry{r.key + asText, ordered{{"description", "in place of " + r.key + ", what is no JSON in one line"}, {"type", []string{"string", "null"}}}})
			both = append(both, ordered{{"required", []string{r.key, r.key + asText}}})
		}
	}
	out := ordered{{"properties", props}}
	if both != nil {
		out = append(out, entry{"not", ordered{{"anyOf", both}}})
	}
	return out
}

// plain is text without what makes it Markdown.
func plain(brief string) string {
	return strings.NewReplacer("`", "", "[lists](#lists)", "lists in docs/formats.md").Replace(brief)
}

// schema returns the JSON Schema of a line, made from the shapes.
func schema() []byte {
	var cases []any
	var defs ordered
	for i := range kinds {
		k := &kinds[i]
		cases = append(cases, ordered{
			{"if", ordered{{"properties", ordered{{"type", ordered{{"const", prefix + k.name}}}}}}},
			{"then", ref(k.name)},
		})
		rows, _ := rowsOf(k)
		defs = append(defs, entry{k.name, append(ordered{{"description", plain(k.brief)}}, properties(rows)...)})
	}
	for _, o := range objects {
		rows, _ := o.rows()
		inner := properties(rows)
		def := append(ordered{{"description", plain(o.brief)}, {"type", "object"}}, inner...)
		switch o.name {
		case "moment":
			def = ordered{{"description", plain(o.brief)}, {"anyOf", []any{ref("time"), append(ordered{{"type", "object"}}, inner...)}}}
		case "message":
			def = ordered{{"description", plain(o.brief)},
				{"if", ordered{{"type", "object"}, {"anyOf", []any{ordered{{"required", []string{"raw"}}}, ordered{{"required", []string{"raw_text"}}}}}}},
				{"then", inner}}
		}
		defs = append(defs, entry{o.name, def})
	}
	text := ordered{{"type", []string{"string", "null"}}}
	keys := list(text)
	defs = append(defs,
		entry{"time", ordered{
			{"description", "RFC 3339, or a number of nanoseconds, microseconds, milliseconds or seconds since 1970, told apart by its size; from 1678 to 2261"},
			{"anyOf", []any{ordered{{"type", "string"}, {"format", "date-time"}}, ordered{{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", json.Number("9223372036854775807")}}}}}},
		entry{"frame", ordered{
			{"description", "how a request is put together from its parts"},
			{"type", "object"},
			{"properties", ordered{{"keys", keys}, {"system", text}, {"messages", text}, {"provenance", text}, {"tools", text}, {"shapes", list(keys)}}}}})
	s := ordered{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", "urn:otelagent:ndjson:1"},
		{"title", "otelagent events"},
		{"description", "One line of NDJSON: one event. Unknown types and keys are kept. Null is absent, but for arguments, results, bodies and the values of facts."},
		{"type", "object"},
		{"required", []string{"type"}},
		{"properties", ordered{{"type", ordered{{"type", "string"}, {"pattern", `^otelagent\.`}}}}},
		{"allOf", cases},
		{"$defs", defs},
	}
	out, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		panic(err)
	}
	return append(out, '\n')
}

// golden compares got with a file, or writes it with -update.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g) || i >= len(w):
			t.Fatalf("%s: got %d lines, want %d (-update writes it anew)", path, len(g), len(w))
		case g[i] != w[i]:
			t.Fatalf("%s:%d: got\n%s\nwant\n%s\n(-update writes it anew)", path, i+1, g[i], w[i])
		}
	}
}
