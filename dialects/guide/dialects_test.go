package guide_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// dialectTables reads the tables of testdata/fields.md: by heading, then by field, what it holds.
func dialectTables(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]map[string]string{}
	heading := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			heading = ""
		}
		if h, ok := strings.CutPrefix(line, "### "); ok {
			heading = h
			tables[h] = map[string]string{}
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		field := strings.TrimSpace(cells[0])
		if heading == "" || !strings.HasPrefix(field, "`") {
			continue
		}
		field = strings.Trim(field, "`")
		if len(cells) != 3 || strings.TrimSpace(cells[2]) == "" {
			t.Fatalf("testdata/fields.md: %s, %s: want three columns, none empty", heading, field)
		}
		if tables[heading][field] != "" {
			t.Fatalf("testdata/fields.md: %s, %s stands there twice", heading, field)
		}
		tables[heading][field] = strings.TrimSpace(cells[1])
	}
	if len(tables) < 15 {
		t.Fatalf("testdata/fields.md: only %d tables", len(tables))
	}
	return tables
}

// TestDialectsHasARowForEveryPath walks every JSON path of every fixture, also inside strings of JSON. A path without a row fails, and a row
// that no fixture has must be one of those that other tests hold.
func TestDialectsHasARowForEveryPath(t *testing.T) {
	w := walker{t: t, tables: dialectTables(t), met: map[string]bool{}, missing: map[string]string{}}
	for _, file := range fixtures(t) {
		w.where = file
		text := read(t, file)
		if strings.HasSuffix(file, ".json") {
			w.object("guide document", decoded(t, text))
			continue
		}
		for line := range bytes.Lines(text) {
			if row := decoded(t, line); !strings.HasPrefix(fmt.Sprint(row["type"]), "otelagent.") {
				w.object("guide line", row)
			}
		}
	}
	for path, where := range w.missing {
		t.Errorf("testdata/fields.md has no row for %s (%s)", path, where)
	}
	var notMet []string
	for heading, table := range w.tables {
		for field := range table {
			if path := heading + "." + field; !w.met[path] {
				notMet = append(notMet, path)
			}
		}
	}
	slices.Sort(notMet)
	// TestToolParts holds the one; the other, of a revert, is the export's.
	want := []string{"guide envelope.error_text", "guide own.hidden"}
	for _, path := range want {
		if !slices.Contains(notMet, path) {
			t.Errorf("%s is in a fixture", path)
		}
	}
	for _, path := range notMet {
		if !slices.Contains(want, path) && !strings.HasPrefix(path, "guide permission.") && !strings.HasPrefix(path, "guide defect.") {
			t.Errorf("testdata/fields.md has a row for %s, which no fixture has", path)
		}
	}
}

func decoded(t *testing.T, text []byte) (v map[string]any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

type walker struct {
	t       *testing.T
	tables  map[string]map[string]string
	met     map[string]bool
	missing map[string]string
	where   string
}

func (w *walker) miss(path string) {
	if w.missing[path] == "" {
		w.missing[path] = w.where
	}
}

// object walks over the members of an object of a shape.
func (w *walker) object(shape string, object map[string]any) {
	for name, v := range object {
		w.member(shape, name, v, object)
	}
}

func (w *walker) member(shape, name string, v any, of map[string]any) {
	holds, ok := w.tables[shape][name]
	path := shape + "." + name
	if !ok {
		w.miss(path)
		return
	}
	w.met[path] = true
	if v == nil || holds == "free" {
		return
	}
	if text, isText := v.(string); isText && strings.HasPrefix(holds, "JSON of ") {
		holds = strings.TrimPrefix(holds, "JSON of ")
		var inner any
		if err := json.Unmarshal([]byte(text), &inner); err != nil {
			w.t.Fatal(err)
		}
		v = inner
	}
	if elem, list := strings.CutPrefix(holds, "["); list {
		items, isList := v.([]any)
		if !isList {
			w.miss(path + " that is no array")
			return
		}
		for _, item := range items {
			w.value(path, strings.TrimSuffix(elem, "]"), item, of)
		}
		return
	}
	w.value(path, holds, v, of)
}

func (w *walker) value(path, holds string, v any, of map[string]any) {
	inner, isObject := v.(map[string]any)
	switch {
	case holds == "row" && isObject: // of the type of its line
		if shape := "guide " + fmt.Sprint(of["type"]); w.tables[shape] != nil {
			w.object(shape, inner)
		} else {
			w.miss("a line of type " + fmt.Sprint(of["type"]))
		}
	case holds == "AI part" && isObject:
		w.object(aiShape(fmt.Sprint(inner["type"])), inner)
	case holds == "free" && isObject:
	case isObject && w.tables["guide "+holds] != nil:
		w.object("guide "+holds, inner)
	case isObject && w.tables[holds] != nil:
		w.object(holds, inner)
	case holds == "envelope or any": // distinguished by its type
		if isObject && (inner["type"] == "output" || inner["type"] == "error") {
			w.object("guide envelope", inner)
		}
	default:
		if got := fmt.Sprintf("%T", v); got != map[string]string{"string": "string", "number": "float64", "boolean": "bool"}[holds] {
			w.miss(fmt.Sprintf("%s as %s", path, got))
		}
	}
}

// aiShape is the table of a part of the AI SDK.
func aiShape(typ string) string {
	switch {
	case typ == "dynamic-tool" || strings.HasPrefix(typ, "tool-"):
		return "guide tool part"
	case typ == "data-compaction":
		return "guide compaction part"
	}
	return "guide other part"
}
