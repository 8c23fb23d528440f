package clark

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dialectTables reads the tables of clark-agent's part of testdata/fields.md: by heading, then by field, what it holds.
func dialectTables(t *testing.T) map[string]map[string]string {
	t.Helper()
	text, err := os.ReadFile("testdata/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]map[string]string{}
	heading, ours := "", false
	for text := range strings.Lines(string(text)) {
		text = strings.TrimSpace(text)
		if strings.HasPrefix(text, "# ") {
			ours = text == "# "+Dialect
		}
		if !ours {
			continue
		}
		if strings.HasPrefix(text, "#") {
			heading = ""
		}
		if h, ok := strings.CutPrefix(text, "### "); ok {
			heading = h
			tables[h] = map[string]string{}
		}
		cells := strings.Split(strings.Trim(text, "|"), "|")
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

// recordTables are the headings of records whose kind is also the type of an event.
var recordTables = map[string]string{
	"provider_request_prepared": "clark request record", "context_transform_applied": "clark transform record", "tool_gate_applied": "clark gate record",
	"tool_gate_conflict_resolved": "clark conflict record", "output_tokens_escalation": "clark escalation record",
}

// TestDialectsHasARowForEveryField compares the tables with the keys that the reader knows.
func TestDialectsHasARowForEveryField(t *testing.T) {
	tables := dialectTables(t)
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

// TestDialectsHasARowForEveryPath walks every JSON path of every recording. A path without a row fails, and a row that no recording has must be one
// of those that are known to be missing.
func TestDialectsHasARowForEveryPath(t *testing.T) {
	w := walker{tables: dialectTables(t), met: map[string]bool{}, missing: map[string]string{}}
	files := append(glob(t, "testdata/clark-agent-*/*.*ndjson"), glob(t, "testdata/clark-agent-*/*.jsonl")...)
	files = append(files, "testdata/sample.events.ndjson", "testdata/sample.trajectory.jsonl")
	for _, file := range files {
		n := 0
		for text := range bytes.Lines(readFile(t, file)) {
			n++
			w.where = fmt.Sprintf("%s:%d", filepath.Base(file), n)
			var l map[string]any
			if err := json.Unmarshal(text, &l); err != nil {
				t.Fatalf("%s: %v", w.where, err)
			}
			w.line(l)
		}
	}
	for path, where := range w.missing {
		t.Errorf("testdata/fields.md has no row for %s (%s)", path, where)
	}
	for heading, table := range w.tables {
		for field := range table {
			switch path := heading + "." + field; path {
			case "clark block.alt": // of the crate, and set by no scenario
			default:
				if !w.met[path] {
					t.Errorf("testdata/fields.md: no recording has %s", path)
				}
			}
		}
	}
}

type walker struct {
	tables  map[string]map[string]string
	met     map[string]bool
	missing map[string]string // path to where it was met first
	where   string
}

func (w *walker) line(l map[string]any) {
	if event, ok := l["event"].(map[string]any); ok {
		w.object("clark envelope", l)
		l = event
	}
	if payload, ok := l["payload"].(map[string]any); ok && l["type"] == nil {
		w.object("clark record", l)
		kind, _ := payload["kind"].(string)
		if other := recordTables[kind]; other != "" {
			kind = other
		}
		w.object(kind, payload)
		return
	}
	name, _ := l["type"].(string)
	w.object(name, l)
}

func (w *walker) miss(path string) {
	if w.missing[path] == "" {
		w.missing[path] = w.where
	}
}

func (w *walker) object(shape string, members map[string]any) {
	table := w.tables[shape]
	if table == nil {
		w.miss(shape)
		return
	}
	for name, v := range members {
		path := shape + "." + name
		holds := table[name]
		if holds == "" {
			w.miss(path)
			continue
		}
		w.met[path] = true
		w.value(path, holds, v)
	}
}

func (w *walker) value(path, holds string, v any) {
	if inner, list := strings.CutPrefix(holds, "["); list && v != nil {
		items, ok := v.([]any)
		if !ok {
			w.miss(path + " that is no array")
		}
		for _, item := range items {
			w.value(path, strings.TrimSuffix(inner, "]"), item)
		}
		return
	}
	switch v := v.(type) {
	case nil:
	case map[string]any:
		if holds != "free" && holds != "event" {
			w.object(holds, v)
		}
	default:
		if items, ok := v.([]any); ok && holds == "blocks" {
			for _, item := range items {
				w.value(path, "clark block", item)
			}
			return
		}
		got := fmt.Sprintf("%T", v)
		want := map[string]string{"string": "string", "blocks": "string", "number": "float64", "boolean": "bool"}[holds]
		if holds != "free" && got != want {
			w.miss(path + " as " + got)
		}
	}
}
