package acp

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
	heading, ours := "", false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "# ") {
			ours = line == "# "+Dialect
		}
		if !ours {
			continue
		}
		if strings.HasPrefix(line, "#") {
			heading = ""
		}
		if h, ok := strings.CutPrefix(line, "### acp "); ok {
			heading = h
			tables[h] = map[string]string{}
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		field := strings.TrimSpace(cells[0])
		if heading == "" || !strings.HasPrefix(field, "`") {
			continue
		}
		field = strings.Trim(field, "`")
		if len(cells) != 3 || strings.TrimSpace(cells[1]) == "" || strings.TrimSpace(cells[2]) == "" {
			t.Fatalf("testdata/fields.md: %s, %s: want three columns, none empty", heading, field)
		}
		if tables[heading][field] != "" {
			t.Fatalf("testdata/fields.md: %s, %s stands there twice", heading, field)
		}
		tables[heading][field] = strings.TrimSpace(cells[1])
	}
	return tables
}

// TestDialectsHasARowForEveryPath walks every JSON path of every message of every recorded capture, and of one by hand. A path without a row fails.
func TestDialectsHasARowForEveryPath(t *testing.T) {
	tables := dialectTables(t)
	files, err := filepath.Glob("testdata/sdk/*.ndjson")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	missing := map[string]string{}
	met := map[string]bool{}
	for _, file := range append(files, "testdata/sample.ndjson", "testdata/elicitation.ndjson") {
		if strings.HasSuffix(file, ".raw.ndjson") {
			continue // the same messages
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		asked := map[string]string{}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			var l struct {
				Direction string
				Message   struct {
					ID             json.RawMessage
					Method         string
					Params, Result map[string]any
					Error          map[string]any
				}
			}
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(file, n, err)
			}
			m := l.Message
			walk := func(table string, o map[string]any) {
				if strings.HasPrefix(table, "_") {
					return // an extension, which is kept whole
				}
				met[table] = true
				walkFields(tables[table], table, "", o, func(path string) {
					if missing[path] == "" {
						missing[path] = fmt.Sprintf("%s:%d", file, n)
					}
				})
			}
			asking := fmt.Sprint(l.Direction, string(m.ID))
			switch {
			case m.Method == mUpdate:
				walk(mUpdate, m.Params)
				update := m.Params["update"].(map[string]any)
				walk(update["sessionUpdate"].(string), update)
			case m.Method != "":
				asked[asking] = m.Method
				walk(m.Method, m.Params)
			case m.Error != nil:
				walk("error", m.Error)
			default:
				other := strings.NewReplacer("client_to_agent", "agent_to_client", "agent_to_client", "client_to_agent").Replace(asking)
				walk(asked[other]+" result", m.Result)
			}
		}
	}
	for path, where := range missing {
		t.Errorf("testdata/fields.md has no row for %s (%s)", path, where)
	}
	for _, table := range []string{
		mPrompt, mUpdate, "tool_call_update", mPermission + " result", "terminal/output result", "error",
	} {
		if !met[table] {
			t.Errorf("no capture has %s", table)
		}
	}
}

// walkFields goes over the members of o, which table lists, and calls miss for each without a row.
func walkFields(table map[string]string, name, prefix string, o map[string]any, miss func(string)) {
	for key, value := range o {
		field := prefix + key
		holds := table[field]
		inner, isObject := value.(map[string]any)
		switch {
		case holds == "":
			miss(name + "." + field)
		case holds == "free" || value == nil:
		case holds == "object" && isObject:
			walkFields(table, name, field+".", inner, miss)
		default:
			if got := fmt.Sprintf("%T", value); got != map[string]string{"string": "string", "number": "float64", "boolean": "bool"}[holds] {
				miss(fmt.Sprintf("%s.%s as %s", name, field, got))
			}
		}
	}
}

// TestDialectsHasATableForEveryMethod compares the tables with what the reader knows.
func TestDialectsHasATableForEveryMethod(t *testing.T) {
	tables := dialectTables(t)
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
		if tables["tool_call"][key] == "" || tables["tool_call_update"][key] == "" {
			t.Errorf("testdata/fields.md has no row for %s of a tool call", key)
		}
	}
}
