package ndjson

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
)

func TestSchemaIsMadeFromTheShapes(t *testing.T) { golden(t, "schema.json", schema()) }

// compiled returns a validator of the schema.
func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc := must.Get(jsonschema.UnmarshalJSON(bytes.NewReader(Schema)))(t)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	must.Do(t, c.AddResource("urn:otelagent:ndjson:1", doc))
	s := must.Get(c.Compile("urn:otelagent:ndjson:1"))(t)
	return s
}

// valid returns what the schema has against a line.
func valid(t testing.TB, s *jsonschema.Schema, line []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return s.Validate(v)
}

// TestFixturesAreValid validates every line of testdata, which has no unknown keys.
func TestFixturesAreValid(t *testing.T) {
	s := compiled(t)
	for _, file := range fixtures(t) {
		text := must.Get(os.ReadFile(file))(t)
		n := 0
		for line := range bytes.Lines(text) {
			n++
			if err := valid(t, s, line); err != nil {
				t.Errorf("%s:%d: %v", file, n, err)
			}
		}
		evs, problems := readAll(string(text))
		if n == 0 || len(evs) != n || len(problems) > 0 { // an unknown key would be one more event
			t.Errorf("%s: %d events of %d lines, %v", file, len(evs), n, problems)
		}
	}
}

// fixtures are the files of testdata that hold lines without faults.
func fixtures(t testing.TB) []string {
	t.Helper()
	files := must.Get(filepath.Glob("testdata/*.ndjson"))(t)
	more := must.Get(filepath.Glob("testdata/producers/*.ndjson"))(t)
	files = append(files, more...)
	return slices.DeleteFunc(files, func(f string) bool { return strings.HasSuffix(f, "traps.ndjson") })
}

// TestSchemaAndDecoderAgree gives every key of every type, and of every object in one, a value of every type: both
// refuse it or none does.
func TestSchemaAndDecoderAgree(t *testing.T) {
	s := compiled(t)
	values := map[string]string{
		"null": "null", "boolean": "true", "negative": "-1", "zero": "0", "whole": "1.0", "integer": "7", "fraction": "1.5",
		"large":  "1e30",
		"string": `"x"`, "time": `"2026-11-20T09:00:00.5+01:00"`, "short hour": `"2026-11-20T9:00:00Z"`,
		"comma": `"2026-11-20T09:00:00,5Z"`, "array": "[]", "strings": `["x"]`, "numbers": "[1]", "nulls": "[null]",
		"object": "{}", "objects": "[{}]", "empty raw": `{"raw":null}`,
	}
	names := slices.Sorted(maps.Keys(values))
	refused := 0
	try := func(where, line string) {
		err := valid(t, s, []byte(line))
		_, problems := readAll(line)
		if (err != nil) != (len(problems) > 0) {
			t.Errorf("%s: schema: %v; decoder: %v\n%s", where, err, problems, line)
		}
		if err != nil {
			refused++
		}
	}
	for i := range kinds {
		k := &kinds[i]
		rows := rowsOf(k)
		for _, r := range rows {
			keys := []string{r.key}
			if r.holds == holdsJSON {
				keys = append(keys, r.key+asText)
				try(k.name+"."+r.key, fmt.Sprintf(`{"type":"otelagent.%s",%q:1,"%[2]s_text":"x"}`, k.name, r.key))
			}
			for _, key := range keys {
				for _, name := range names {
					if r.holds == holdsProvenances && strings.HasSuffix(name, "s") { // their number is that of the messages
						continue
					}
					try(k.name+"."+key+" "+name, fmt.Sprintf(`{"type":"otelagent.%s",%q:%s}`, k.name, key, values[name]))
				}
			}
			for _, o := range objects {
				if !strings.Contains(string(r.holds), o.name) {
					continue
				}
				for _, in := range rowsOf(&o) {
					for _, name := range names {
						object := fmt.Sprintf(`{%q:%s}`, in.key, values[name])
						if o.name == "message" && in.key != "raw" {
							object = fmt.Sprintf(`{"raw":{},%q:%s}`, in.key, values[name])
						}
						if strings.HasPrefix(string(r.holds), "array") {
							object = "[" + object + "]"
						}
						try(k.name+"."+r.key+"."+in.key+" "+name, fmt.Sprintf(`{"type":"otelagent.%s",%q:%s}`, k.name, r.key, object))
					}
				}
			}
		}
	}
	for _, name := range names {
		try("type "+name, fmt.Sprintf(`{"type":%s}`, values[name]))
	}
	try("no type", `{}`)
	try("unknown type", `{"type":"otelagent.of_tomorrow","ts":[]}`)
	try("no object", `[]`)
	if refused < 1000 {
		t.Errorf("only %d lines were refused", refused)
	}
}

// FuzzSchema reads any line: the schema accepts what a Decoder accepts.
func FuzzSchema(f *testing.F) {
	for _, file := range append(fixtures(f), "testdata/traps.ndjson") {
		text := must.Get(os.ReadFile(file))(f)
		for line := range bytes.Lines(text) {
			f.Add(line)
		}
	}
	s := compiled(f)
	f.Fuzz(func(t *testing.T, line []byte) {
		if evs, bad := Read(input.Settings{}, input.Line{Text: line, Seq: 1}); bad == nil {
			if err := valid(t, s, line); err != nil {
				t.Fatalf("%v gives %d events", err, len(evs))
			}
		}
	})
}
