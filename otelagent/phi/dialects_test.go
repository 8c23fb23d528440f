package phi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dialectRow is one row of a table of docs/dialects.md.
type dialectRow struct {
	holds string
	met   bool
}

// dialectTables reads the tables of docs/dialects.md: by heading, then by field.
func dialectTables(t *testing.T) map[string]map[string]*dialectRow {
	t.Helper()
	text, err := os.ReadFile("../../docs/dialects.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]map[string]*dialectRow{}
	heading := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			heading = ""
		}
		if h, ok := strings.CutPrefix(line, "### "); ok {
			heading = h
			tables[h] = map[string]*dialectRow{}
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		field := strings.TrimSpace(cells[0])
		if heading == "" || !strings.HasPrefix(field, "`") {
			continue
		}
		field = strings.Trim(field, "`")
		if len(cells) != 3 || strings.TrimSpace(cells[2]) == "" {
			t.Fatalf("docs/dialects.md: %s, %s: want three columns, none empty", heading, field)
		}
		if tables[heading][field] != nil {
			t.Fatalf("docs/dialects.md: %s, %s stands there twice", heading, field)
		}
		tables[heading][field] = &dialectRow{holds: strings.TrimSpace(cells[1])}
	}
	return tables
}

// TestDialectsHasARowForEveryField compares the tables with the keys that the reader knows.
func TestDialectsHasARowForEveryField(t *testing.T) {
	tables := dialectTables(t)
	for _, v := range variants[1:] {
		for k, name := range keyNames {
			row := tables[v.name][name]
			if has := v.keys&(1<<k) != 0; has != (row != nil) {
				t.Errorf("docs/dialects.md: %s.%s: row %v, read %v", v.name, name, row != nil, has)
			}
		}
	}
}

// TestDialectsHasARowForEveryPath walks every JSON path of every recorded stream. A path without a row fails.
func TestDialectsHasARowForEveryPath(t *testing.T) {
	tables := dialectTables(t)
	files, err := filepath.Glob("testdata/*.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("testdata/phi-core-*/*.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	missing := map[string]string{}
	miss := func(where, path string) {
		if missing[path] == "" {
			missing[path] = where
		}
	}
	for _, file := range append(files, more...) {
		if filepath.Base(file) == "traps.ndjson" { // full of unknown things, on purpose
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for line := range bytes.Lines(text) {
			n++
			where := fmt.Sprintf("%s:%d", file, n)
			var event map[string]any
			if json.Unmarshal(line, &event) != nil {
				continue // cut streams are told as such
			}
			if inner, ok := event["event"].(map[string]any); ok && event["type"] == nil {
				walk(tables, "Log", "", event, func(path string) { miss(where, path) })
				event = inner
			}
			name, _ := event["type"].(string)
			if tables[name] == nil {
				miss(where, name)
				continue
			}
			walk(tables, name, "", event, func(path string) { miss(where, path) })
		}
	}
	for path, where := range missing {
		t.Errorf("docs/dialects.md has no row for %s (%s)", path, where)
	}
}

// walk goes over the members of value, which has the given shape, and calls miss for each without a row.
func walk(tables map[string]map[string]*dialectRow, shape, prefix string, value map[string]any, miss func(string)) {
	for name, v := range value {
		field := prefix + name
		row := tables[shape][field]
		if row == nil {
			miss(shape + "." + field)
			continue
		}
		row.met = true
		holds, list := strings.CutPrefix(row.holds, "[")
		holds = strings.TrimSuffix(holds, "]")
		items := []any{v}
		if list {
			var ok bool
			if items, ok = v.([]any); !ok && v != nil {
				miss(shape + "." + field + " that is no array")
			}
		}
		for _, item := range items {
			inner, isObject := item.(map[string]any)
			switch {
			case holds == "free" || holds == "event" || item == nil:
			case isObject && tables[holds] != nil:
				walk(tables, holds, "", inner, miss)
			case isObject && holds == "object":
				walk(tables, shape, field+".", inner, miss)
			case holds == "Continuation" && !isObject:
			default:
				if got := fmt.Sprintf("%T", item); got != map[string]string{"string": "string", "number": "float64", "boolean": "bool"}[holds] {
					miss(fmt.Sprintf("%s.%s as %s", shape, field, got))
				}
			}
		}
	}
}
