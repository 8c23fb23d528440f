package acp

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
		heading, body, _ := strings.Cut(strings.TrimPrefix(section, "acp "), "\n")
		tables[heading] = map[string]bool{}
		for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)`").FindAllStringSubmatch(body, -1) {
			tables[heading][m[1]] = true
		}
	}
	return tables
}

// TestDialectsHasATableForEveryMethod compares the tables with what the reader knows.
func TestDialectsHasATableForEveryMethod(t *testing.T) {
	tables := fieldTables(t)
	for name := range methods {
		if name == mFork || name == "session/set_model" {
			continue // not of the released protocol
		}
		if tables[name] == nil {
			t.Errorf("testdata/fields.md has no table for %s", name)
		}
	}
	for _, name := range []string{
		"$/cancel_request", "authenticate", "session/delete", "elicitation/complete",
	} {
		if tables[name] == nil {
			t.Errorf("testdata/fields.md has no table for %s", name)
		}
	}
	for _, key := range []string{
		"sessionUpdate", "toolCallId", "title", "name", "kind", "status", "content", "locations", "rawInput", "rawOutput",
	} {
		if !tables["tool_call"][key] || !tables["tool_call_update"][key] {
			t.Errorf("testdata/fields.md has no row for %s of a tool call", key)
		}
	}
}
