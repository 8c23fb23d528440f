package dialects_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/internal/must"
)

// TestFields walks every JSON path of every recording of the dialects that read what other programs write. A path
// without a row in testdata/fields.md fails, and so does, of clark-agent and the guide, a row without a path.
func TestFields(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		dialect string
		files   []string
		skip    *regexp.Regexp // of files
		root    func(w *walker, file string, v map[string]any)
		unmet   []string // rows, or beginnings of rows, that no recording has
		known   []string // paths that have no row
		paths   int      // that the recordings have at least
	}{
		{"phi", []string{"*.ndjson", "phi-core-*/*.ndjson", "phi-core-*/*.sessions.json", "phi-core-*/*.saved.json",
			"ledgers/*.json"}, regexp.MustCompile("traps"), phiRoot, nil,
			// These two were fields for five days and are kept like unknown ones.
			[]string{"Session.thinking_level", "Session.temperature"}, 235},
		{"clark", []string{"clark-agent-*/*.*ndjson", "clark-agent-*/*.jsonl", "sample.events.ndjson",
			"sample.trajectory.jsonl"}, nil, clarkRoot, []string{"clark block.alt"}, nil, 158},
		{"acp", []string{"sdk/*.ndjson", "sample.ndjson", "elicitation.ndjson"}, regexp.MustCompile(`\.raw\.`), acpRoot(),
			nil, nil, 138},
		// TestToolParts holds the first; the second, of a revert, is the export's.
		{"guide", []string{"*.jsonl", "session.canonical.json", "ai-sdk/*.jsonl"}, nil, guideRoot,
			[]string{"guide envelope.error_text", "guide own.hidden", "guide permission.", "guide defect."}, nil, 151},
		{"claudecode", []string{"*/*.jsonl", "*/*/*.jsonl", "*/*/*/*.jsonl"}, nil, claudeRoot, []string{"none"}, nil, 150},
		{"codex", []string{"traps.jsonl", "*/*.jsonl", "*/*/*.jsonl", "*/sessions/*/*/*/*.jsonl"}, nil, codexRoot, nil,
			nil, 100},
		{"pi", []string{"*/*.jsonl"}, nil, piRoot, nil, nil, 40},
		{"gemini", []string{"entire/*.json", "agtrace/*.json", "generated-*/tmp/ws/chats/*.jsonl",
			"generated-cli/tmp/ws/chats/*/*.jsonl"}, nil, geminiRoot,
			// The change log of traps.jsonl has it.
			[]string{"change.$rewindTo", "message.displayContent"}, nil, 37},
		{"opencode", []string{"generated/*.json", "storage-layout/storage/*/*/*.json"}, nil, openCodeRoot,
			[]string{"session.parentID", "session.permission", "session.revert"}, nil, 70},
	} {
		t.Run(test.dialect, func(t *testing.T) {
			w := &walker{tables: tables(t, test.dialect), met: map[string]bool{}, missing: map[string]string{}}
			files := 0
			for _, pattern := range test.files {
				list, err := filepath.Glob(filepath.Join(test.dialect, "testdata", pattern))
				if err != nil || len(list) == 0 {
					t.Fatal(pattern, err)
				}
				for _, file := range list {
					if test.skip == nil || !test.skip.MatchString(file) {
						files++
						w.file(t, file, test.root)
					}
				}
			}
			for path, where := range w.missing {
				if !slices.Contains(test.known, path) {
					t.Errorf("testdata/fields.md has no row for %s (%s)", path, where)
				}
			}
			for heading, table := range w.tables {
				for field := range table {
					path := heading + "." + field
					known := slices.ContainsFunc(test.unmet, func(p string) bool { return strings.HasPrefix(path, p) })
					if test.unmet != nil && !w.met[path] && !known {
						t.Errorf("testdata/fields.md has a row for %s, which no recording has", path)
					}
				}
			}
			if files < 5 || len(w.met) < test.paths {
				t.Errorf("%d files, %d paths, want %d", files, len(w.met), test.paths)
			}
		})
	}
}

var row = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| ([^|]*) \\|")

// tables reads the tables of a dialect's testdata/fields.md: by heading, then by field, what it holds.
func tables(t *testing.T, dialect string) map[string]map[string]string {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(dialect, "testdata/fields.md")))(t)
	found := map[string]map[string]string{}
	for _, section := range strings.Split(string(text), "\n### ")[1:] {
		heading, body, _ := strings.Cut(section, "\n")
		body, _, _ = strings.Cut(body, "\n#")
		heading = strings.TrimPrefix(heading, "acp ")
		found[heading] = map[string]string{}
		for _, m := range row.FindAllStringSubmatch(body, -1) {
			if _, twice := found[heading][m[1]]; twice {
				t.Errorf("%s.%s stands there twice", heading, m[1])
			}
			found[heading][m[1]] = strings.TrimSpace(m[2])
		}
	}
	return found
}

// walker goes over the members of recordings.
type walker struct {
	tables  map[string]map[string]string
	met     map[string]bool
	missing map[string]string // path to where it was met first
	where   string
}

func (w *walker) miss(path string) {
	if w.missing[path] == "" {
		w.missing[path] = w.where
	}
}

// file calls root with each object of a file: its lines, or the documents in it.
func (w *walker) file(t *testing.T, file string, root func(w *walker, file string, v map[string]any)) {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	w.where = file
	if filepath.Ext(file) == ".json" {
		var list []map[string]any
		if text = bytes.TrimSpace(text); text[0] != '[' {
			text = slices.Concat([]byte{'['}, text, []byte{']'})
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(file, err)
		}
		for _, v := range list {
			root(w, file, v)
		}
		return
	}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		w.where = fmt.Sprintf("%s:%d", file, n)
		var v map[string]any
		if json.Unmarshal(line, &v) == nil { // some recordings are cut
			root(w, file, v)
		}
	}
}

// table returns the table of a shape, and its heading.
func (w *walker) table(shape string) (string, map[string]string) {
	for _, heading := range []string{shape, "guide " + shape} {
		if table := w.tables[heading]; table != nil {
			return heading, table
		}
	}
	return "", nil
}

// object goes over the members of an object of a shape, under that prefix in its table.
func (w *walker) object(shape, prefix string, o map[string]any) {
	heading, table := w.table(shape)
	if table == nil && len(o) > 0 {
		w.miss(shape)
		return
	}
	for name, v := range o {
		field := prefix + name
		holds, ok := table[field]
		path := heading + "." + field
		if !ok {
			w.miss(path)
			continue
		}
		w.met[path] = true
		if text, isText := v.(string); isText && strings.HasPrefix(holds, "JSON of ") {
			holds = strings.TrimPrefix(holds, "JSON of ")
			if err := json.Unmarshal([]byte(text), &v); err != nil {
				w.miss(path + " that is no JSON")
			}
		}
		if holds == "row" { // of the type of its line
			holds = "guide " + fmt.Sprint(o["type"])
		}
		inner, list := strings.CutPrefix(holds, "[")
		items, isList := v.([]any)
		switch {
		case list && v != nil && !isList:
			w.miss(path + " that is no array")
		case list || isList && holds == "blocks":
			for _, item := range items {
				w.value(heading, field, strings.TrimSuffix(inner, "]"), item)
			}
		default:
			w.value(heading, field, holds, v)
		}
	}
}

// value goes over a value of a field.
func (w *walker) value(shape, field, holds string, v any) {
	o, isObject := v.(map[string]any)
	typ := fmt.Sprint(o["type"])
	_, table := w.table(holds)
	switch {
	case v == nil, holds == "free", holds == "event", holds == "Continuation" && !isObject:
	case isObject && holds == "object":
		w.object(shape, field+".", o)
	case isObject && holds == "blocks":
		w.object("clark block", "", o)
	case isObject && holds == "AI part" && (typ == "dynamic-tool" || strings.HasPrefix(typ, "tool-")):
		w.object("guide tool part", "", o)
	case isObject && holds == "AI part" && typ == "data-compaction":
		w.object("guide compaction part", "", o)
	case isObject && holds == "AI part":
		w.object("guide other part", "", o)
	case holds == "envelope or any":
		if typ == "output" || typ == "error" {
			w.object("guide envelope", "", o)
		}
	case isObject && table != nil:
		w.object(holds, "", o)
	default:
		want := map[string]string{"string": "string", "blocks": "string", "number": "float64", "boolean": "bool"}[holds]
		if got := fmt.Sprintf("%T", v); got != want {
			w.miss(fmt.Sprintf("%s.%s as %s", shape, field, got))
		}
	}
}

func phiRoot(w *walker, file string, v map[string]any) {
	switch inner, logged := v["event"].(map[string]any); {
	case strings.HasPrefix(filepath.Base(file), "messages"):
		w.object("Message", "", v)
	case filepath.Ext(file) == ".json":
		w.object("Session", "", v)
		loops, _ := v["loops"].([]any)
		for _, l := range loops {
			events, _ := l.(map[string]any)["events"].([]any)
			for _, e := range events {
				stored := e.(map[string]any)["event"].(map[string]any)
				w.object(stored["type"].(string), "", stored)
			}
		}
	case logged && v["type"] == nil:
		w.object("Log", "", v)
		w.object(fmt.Sprint(inner["type"]), "", inner)
	default:
		w.object(fmt.Sprint(v["type"]), "", v)
	}
}

// clarkRecords are the headings of records whose kind is also the type of an event.
var clarkRecords = map[any]string{
	"provider_request_prepared": "clark request record", "context_transform_applied": "clark transform record",
	"tool_gate_applied": "clark gate record", "tool_gate_conflict_resolved": "clark conflict record",
	"output_tokens_escalation": "clark escalation record",
}

func clarkRoot(w *walker, _ string, v map[string]any) {
	if inner, ok := v["event"].(map[string]any); ok {
		w.object("clark envelope", "", v)
		v = inner
	}
	payload, ok := v["payload"].(map[string]any)
	switch heading := clarkRecords[payload["kind"]]; {
	case !ok || v["type"] != nil:
		w.object(fmt.Sprint(v["type"]), "", v)
		return
	case heading != "":
		w.object(heading, "", payload)
	default:
		w.object(fmt.Sprint(payload["kind"]), "", payload)
	}
	w.object("clark record", "", v)
}

// acpRoot remembers the requests, whose methods name the shapes of the responses.
func acpRoot() func(w *walker, file string, v map[string]any) {
	asked := map[string]string{}
	return func(w *walker, file string, v map[string]any) {
		m := v["message"].(map[string]any)
		of := func(key string) map[string]any { o, _ := m[key].(map[string]any); return o }
		method, _ := m["method"].(string)
		answers := v["direction"] == "client_to_agent"
		switch {
		case method == "session/update":
			w.object(method, "", of("params"))
			update := of("params")["update"].(map[string]any)
			w.object(update["sessionUpdate"].(string), "", update)
			return
		case method != "":
			asked[fmt.Sprint(file, !answers, m["id"])] = method
			if m["params"] == nil {
				return
			}
			m = of("params")
		case m["error"] != nil:
			m, method = of("error"), "error"
		default:
			method = asked[fmt.Sprint(file, answers, m["id"])] + " result"
			m = of("result")
		}
		if !strings.HasPrefix(method, "_") && m != nil { // an extension is kept whole
			w.object(method, "", m)
		}
	}
}

// claudeRoot goes over a line, its message, and the blocks of that where it has some.
func claudeRoot(w *walker, _ string, v map[string]any) {
	w.object("line", "", v)
	message, _ := v["message"].(map[string]any)
	blocks, _ := message["content"].([]any)
	for _, b := range blocks {
		w.object("block", "", b.(map[string]any))
	}
}

func guideRoot(w *walker, file string, v map[string]any) {
	switch {
	case filepath.Ext(file) == ".json":
		w.object("guide document", "", v)
	case !strings.HasPrefix(fmt.Sprint(v["type"]), "otelagent."):
		w.object("guide line", "", v)
	}
}

func geminiRoot(w *walker, _ string, v map[string]any) {
	switch {
	case v["$set"] != nil || v["$rewindTo"] != nil:
		w.object("change", "", v)
	case v["sessionId"] != nil:
		w.object("session", "", v)
	default:
		w.object("message", "", v)
	}
}

func codexRoot(w *walker, _ string, v map[string]any) {
	w.object("line", "", v)
	shape := fmt.Sprint(v["type"])
	if short := map[string]string{"response_item": "item", "event_msg": "event"}[shape]; short != "" {
		shape = short
	}
	if shape != "world_state" && shape != "a_new_record" { // these are kept whole
		w.object(shape, "", v["payload"].(map[string]any))
	}
}

func piRoot(w *walker, _ string, v map[string]any) {
	if v["type"] == "session" {
		w.object("header", "", v)
	} else {
		w.object("entry", "", v)
	}
}

func openCodeRoot(w *walker, file string, v map[string]any) {
	shape := "export"
	if v["info"] == nil { // session, message or part
		shape = filepath.Base(filepath.Dir(filepath.Dir(file)))
	}
	w.object(shape, "", v)
}
