package ndjson

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

var update = flag.Bool("update", false, "write golden files, the schema, and the generated sections of the "+
	"documentation anew")

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
	holdsProvenance  holds = "provenance"
	holdsStrings     holds = "array of strings"
	holdsMessages    holds = "array of messages"
	holdsFacts       holds = "array of facts"
	holdsProvenances holds = "array of provenances"
)

// row is one field with what its value is, and what README.md says of it.
type row struct {
	field
	holds holds
	brief string
}

// briefs are what README.md says of each shape, by its name, and of each key, by that name, a dot and the key.
var briefs = func() map[string]string {
	text, err := os.ReadFile("README.md")
	if err != nil {
		panic(err)
	}
	found := map[string]string{}
	for _, section := range strings.Split(string(text), "\n### ")[1:] {
		heading, body, _ := strings.Cut(section, "\n\n")
		name := strings.ToLower(strings.TrimPrefix(heading, input.OwnPrefix))
		found[name], _, _ = strings.Cut(body, "\n")
		for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]* \\| (.*) \\|$").FindAllStringSubmatch(body, -1) {
			found[name+"."+m[1]] = m[2]
		}
	}
	return found
}()

// common is how many keys every line may have.
const common = 4

var holdsOf = map[reflect.Type]holds{
	reflect.TypeFor[time.Time](): holdsTime, reflect.TypeFor[event.Moment](): holdsMoment,
	reflect.TypeFor[[]byte](): holdsJSON, reflect.TypeFor[[]string](): holdsStrings,
	reflect.TypeFor[*event.Usage](): holdsUsage, reflect.TypeFor[event.Message](): holdsMessage,
	reflect.TypeFor[*event.Message](): holdsMessage, reflect.TypeFor[[]event.Message](): holdsMessages,
	reflect.TypeFor[[]event.Fact](): holdsFacts, reflect.TypeFor[spans.Provenance](): holdsProvenance,
	reflect.TypeFor[*float64](): holdsNumber, reflect.TypeFor[*int64](): holdsInteger,
	reflect.TypeFor[*bool](): holdsBoolean,
}

// rowsOf returns the rows of a shape.
func rowsOf(s *shape) (rows []row) {
	for i, f := range s.fields {
		section := s.name
		if _, isEvent := reflect.New(s.typ).Interface().(event.Event); isEvent && i < common {
			section = "every line"
		}
		typ := s.typ.FieldByIndex(f.at).Type
		holds, known := holdsOf[typ]
		switch {
		case f.origins:
			holds = holdsProvenances
		case known:
		case typ.Kind() == reflect.String:
			holds = holdsString
		case typ.Kind() == reflect.Bool:
			holds = holdsBoolean
		default:
			holds = holdsInteger
		}
		rows = append(rows, row{f, holds, briefs[section+"."+f.key]})
	}
	return rows
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
	case holdsTime, holdsMoment, holdsUsage:
		return orNull(ref(string(h)))
	case holdsMessage:
		return ref("message")
	case holdsStrings:
		return list(ordered{{"type", "string"}})
	case holdsMessages:
		return list(ref("message"))
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
			props = append(props, entry{r.key + asText, ordered{{"description", "in place of " + r.key +
				", what is no JSON in one line"}, {"type", []string{"string", "null"}}}})
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
	return strings.NewReplacer("`", "").Replace(brief)
}

// schema returns the JSON Schema of a line, made from the shapes.
func schema() []byte {
	var cases []any
	var defs ordered
	for i := range kinds {
		k := &kinds[i]
		cases = append(cases, ordered{
			{"if", ordered{{"properties", ordered{{"type", ordered{{"const", input.OwnPrefix + k.name}}}}}}},
			{"then", ref(k.name)},
		})
		rows := rowsOf(k)
		defs = append(defs, entry{k.name, append(ordered{{"description", plain(briefs[k.name])}}, properties(rows)...)})
	}
	for i := range objects {
		o := &objects[i]
		inner := properties(rowsOf(o))
		def := append(ordered{{"description", plain(briefs[o.name])}, {"type", "object"}}, inner...)
		switch o.name {
		case "moment":
			def = ordered{{"description", plain(briefs[o.name])}, {"anyOf", []any{ref("time"),
				append(ordered{{"type", "object"}}, inner...)}}}
		case "message":
			def = ordered{{"description", plain(briefs[o.name])},
				{"if", ordered{{"type", "object"}, {"anyOf", []any{ordered{{"required", []string{"raw"}}},
					ordered{{"required", []string{"raw_text"}}}}}}},
				{"then", inner}}
		}
		defs = append(defs, entry{o.name, def})
	}
	text := ordered{{"type", []string{"string", "null"}}}
	keys := list(text)
	defs = append(defs,
		entry{"time", ordered{
			{"description", "RFC 3339, or a number of nanoseconds, microseconds, milliseconds or seconds since 1970, by " +
				"its size; from 1678 to 2261"},
			{"anyOf", []any{ordered{{"type", "string"}, {"format", "date-time"}},
				ordered{{"type", "number"}, {"exclusiveMinimum", 0}, {"maximum", json.Number("9223372036854775807")}}}}}},
		entry{"frame", ordered{
			{"description", "how a request is put together from its parts"},
			{"type", "object"},
			{"properties", ordered{{"keys", keys}, {"system", text}, {"messages", text}, {"provenance", text}, {"tools", text},
				{"shapes", list(keys)}}}}})
	s := ordered{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", "urn:otelagent:ndjson:1"},
		{"title", "otelagent events"},
		{"description", "One line of NDJSON: one event. Unknown types and keys are kept. Null is absent, but for " +
			"arguments, results, bodies and the values of facts."},
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
		must.Do(t, os.WriteFile(path, got, 0o644))
	}
	want := must.Get(os.ReadFile(path))(t)
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
