package clark

import (
	"os"
	"regexp"
	"strings"
	"testing"
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

// recordTables are the headings of records whose kind is also the type of an event.
var recordTables = map[string]string{
	"provider_request_prepared": "clark request record", "context_transform_applied": "clark transform record",
	"tool_gate_applied":           "clark gate record",
	"tool_gate_conflict_resolved": "clark conflict record", "output_tokens_escalation": "clark escalation record",
}

// TestDialectsHasARowForEveryField compares the tables with the keys that the reader knows.
func TestDialectsHasARowForEveryField(t *testing.T) {
	tables := fieldTables(t)
	compare := func(heading, first, keys string) {
		want := map[string]bool{first: true}
		for _, key := range strings.Fields(keys) {
			key, _, _ := strings.Cut(key, ":")
			want[key] = true
		}
		for name := range tables[heading] {
			if !want[name] {
				t.Errorf("testdata/fields.md: %s.%s is not read", heading, name)
			}
			delete(want, name)
		}
		for name := range want {
			switch heading + "." + name {
			case "clark request record.system_prompt", "clark request record.messages", "clark request record.temperature",
				"clark request record.max_output_tokens", "clark transform record.before", "clark transform record.after",
				"turn_ended.message", "run_ended.messages": // of the event only
			default:
				t.Errorf("testdata/fields.md has no row for %s.%s", heading, name)
			}
		}
	}
	for variant, s := range shapes {
		compare(variant, "type", s.keys)
		if s.record == "" {
			continue
		}
		heading := s.record
		if other := recordTables[heading]; other != "" {
			heading = other
		}
		compare(heading, "kind", s.keys+" "+s.more)
	}
}
