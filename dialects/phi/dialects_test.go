package phi

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/dialects/event"
)

// fieldTables reads the tables of testdata/fields.md: by heading, which fields have a row.
func fieldTables(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile("testdata/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]map[string]bool{}
	for _, section := range strings.Split(string(text), "\n### ")[1:] {
		heading, body, _ := strings.Cut(section, "\n")
		tables[heading] = map[string]bool{}
		for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(body, -1) {
			tables[heading][m[1]] = true
		}
	}
	return tables
}

// TestDialectsHasARowForEveryField compares the tables with the keys that the reader knows: any other key comes back as
// an unknown one.
func TestDialectsHasARowForEveryField(t *testing.T) {
	tables := fieldTables(t)
	keys := map[string]bool{}
	for name := range variants {
		for key := range tables[name] {
			keys[key] = true
		}
	}
	necessary := map[string]string{"loop_id": `"l"`, "tool_call_id": `"c"`, "payload": "{}", "loop_ids": "[]",
		"selected_loop_id": `"l"`, "message": `{"role":"user"}`}
	for name, v := range variants {
		if !tables[name]["type"] {
			t.Errorf("testdata/fields.md: no row for %s.type", name)
		}
		for key := range keys {
			if strings.Contains(key, ".") || key == "type" {
				continue
			}
			line := `{"type":"` + name + `"`
			for k, value := range necessary {
				if k == key || tables[name][k] {
					line += `,"` + k + `":` + value
				}
			}
			if necessary[key] == "" {
				line += `,"` + key + `":null`
			}
			d := NewDecoder()
			unknown := false
			for ev, err := range d.Events(strings.NewReader(line + "}")) {
				if err != nil {
					t.Fatal(line, err)
				}
				if other, ok := ev.(*event.Other); ok && strings.HasSuffix(other.Type, unknownKeys) {
					unknown = true
				}
			}
			unknown = unknown || d.Stats().IgnoredKeys > 0
			wholeBody := strings.HasSuffix(name, "Update") && !strings.HasPrefix(name, "Message") || name == "ProgressMessage"
			if row := tables[name][key]; row == unknown && !(wholeBody && !row) {
				t.Errorf("testdata/fields.md: %s.%s: row %v, unknown %v (%+v)", name, key, row, unknown, v)
			}
		}
	}
}

// TestDialectsHasARowForEveryLedgerField compares the tables of ledgers with the fields that the reader knows.
func TestDialectsHasARowForEveryLedgerField(t *testing.T) {
	tables := fieldTables(t)
	for shape, fields := range map[string][]string{
		"Session": sessionFields, "LoopRecord": loopFields, "Turn": turnFields, "ChildLoopRef": refFields,
		"ParallelGroupRecord": groupFields,
	} {
		for _, field := range fields {
			if !tables[shape][field] {
				t.Errorf("testdata/fields.md: no row for %s.%s", shape, field)
			}
		}
		for field := range tables[shape] {
			if !slices.Contains(fields, field) {
				t.Errorf("testdata/fields.md: %s.%s is not read", shape, field)
			}
		}
	}
}
