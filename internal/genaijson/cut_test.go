package genaijson

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/rawjson"
)

// quoted returns text as JSON.
func quoted(text string) string { return string(rawjson.Quote(nil, text)) }

func user(text string) []byte { return []byte(`{"role":"user","content":` + quoted(text) + `}`) }

var update = flag.Bool("update", false, "write the golden files")

// TestCut compares what is left of things that are too large with testdata/cut.golden.
func TestCut(t *testing.T) {
	long := strings.Repeat("word ", 1000)
	numbers := "[" + strings.Repeat("1234567,", 999) + "1]"
	image := `{"role":"user","content":[{"type":"text","text":"look"},{"type":"image","mimeType":"image/png","data":"` +
		strings.Repeat("aB3/", 4000) + `aA=="}]}`
	var few [][]byte
	for i := range 9 {
		few = append(few, user(strconv.Itoa(i)))
	}
	messages := func(messages ...[]byte) func(max int) []byte {
		return func(max int) []byte { return appendMessages(nil, messages, max) }
	}
	raws := func(raws ...string) func(max int) []byte {
		var all [][]byte
		for _, raw := range raws {
			all = append(all, []byte(raw))
		}
		return messages(all...)
	}
	value := func(raw string) func(max int) []byte {
		return func(max int) []byte { return AppendValue(nil, []byte(raw), max) }
	}
	var got []byte
	for _, tt := range []struct {
		name string
		max  int
		f    func(max int) []byte
	}{
		{"messages: one long text", 400, messages(user("hi"), user(long), user("bye"))},
		{"messages: an image", 400, raws(image)},
		{"messages: more than fit", 400, messages(few...)},
		{"messages: more parts than fit", 320, raws(`"0"`, `["`+strings.Repeat(`x","`, 20)+`y"]`)},
		{"messages: not one fits", 320, raws(`"0"`, `{"role":"tool","tool_call_id":`+quoted(long)+
			`,"tool_name":`+quoted(long)+`,"content":`+quoted(long)+`}`)},
		{"messages: arguments", 320, raws(`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"write",` +
			`"input":{"path":"/a/b","text":` + quoted(long) + `,"mode":644}}]}`)},
		{"messages: a block of unknown type", 320, raws(`[{"x":` + quoted(long) + `,"type":"new"}]`)},
		{"messages: no JSON", 320, raws(`{"` + long)},
		{"messages: a long role and id", 400, raws(`{"role":` + quoted(long) +
			`,"content":[{"type":"tool_use","name":"f","id":` + quoted(long) + `,"input":{}}]}`)},
		{"output", 320, func(max int) []byte { return AppendOutput(nil, user(long), "stop", max) }},
		{"system", 320, func(max int) []byte { return AppendSystem(nil, []byte(quoted(long)), max) }},
		{"value: string", 320, value(quoted(long))},
		{"value: escapes", 320, value(`"` + strings.Repeat(`\n`, 1000) + `"`)},
		{"value: pairs of escapes", 320, value(`"` + strings.Repeat(`\ud83d\ude00`, 100) + `"`)},
		{"value: characters", 320, value(`"` + strings.Repeat("é", 500) + `"`)},
		{"value: fair", 320, value(`{"a":"short","b":` + quoted(long) + `,"c":[` + quoted(long) + `]}`)},
		{"value: base64", 320, value(`{"data":"` + strings.Repeat("aB3/", 1000) + `","text":` + quoted(long[:230]) + `}`)},
		{"value: many numbers", 320, value(numbers)},
		{"value: lists before words", 500, value(`{"rows":` + numbers + `,"more":` + numbers + `,"ok":true}`)},
		{"value: many members", 320, value(`{` + strings.Repeat(`"key":"some text",`, 50) + `"ok":true}`)},
		{"value: deep", 1000, value(strings.Repeat(`{"k":`, 199) + quoted(long) + strings.Repeat(`}`, 199))},
		{"value: a very long number", 320, value(strings.Repeat("7", 1000))},
		{"value: no JSON", 320, value(`{` + long)},
	} {
		out := tt.f(tt.max)
		if !json.Valid(out) || len(out) > tt.max {
			t.Errorf("%s: %d bytes, max %d: %s", tt.name, len(out), tt.max, out)
		}
		got = fmt.Appendf(got, "%s (%d of %d)\n%s\n\n", tt.name, len(out), tt.max, out)
		// A max that is just enough cuts nothing, and one byte less does.
		whole := tt.f(0)
		if exact := tt.f(len(whole)); !bytes.Equal(exact, whole) && !strings.Contains(tt.name, "long role") &&
			!strings.Contains(tt.name, "not one") {
			t.Errorf("%s: %d bytes fit, but were cut: %s", tt.name, len(whole), exact)
		}
		if less := tt.f(len(whole) - 1); len(less) >= len(whole) {
			t.Errorf("%s: %d bytes, max %d", tt.name, len(less), len(whole)-1)
		}
	}
	golden(t, "testdata/cut.golden", got)
}

// golden compares got with a file, which -update writes.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		must.Do(t, os.WriteFile(file, got, 0o644))
	}
	want := must.Get(os.ReadFile(file))(t)
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// check fails t unless all functions keep their promises for raw, which is anything.
func check(t *testing.T, raw []byte, max int) {
	t.Helper()
	messages := [][]byte{raw, raw[:len(raw)/2], raw, raw}
	for name, f := range map[string]func(dst []byte, max int) []byte{
		"AppendMessages": func(dst []byte, max int) []byte { return appendMessages(dst, messages, max) },
		"AppendOutput":   func(dst []byte, max int) []byte { return AppendOutput(dst, raw, string(raw), max) },
		"AppendSystem":   func(dst []byte, max int) []byte { return AppendSystem(dst, raw, max) },
		"AppendValue":    func(dst []byte, max int) []byte { return AppendValue(dst, raw, max) },
	} {
		whole := f([]byte("x"), 0)
		got := f([]byte("x"), max)
		for _, b := range [][]byte{whole, got} {
			if b[0] != 'x' || !json.Valid(b[1:]) || !utf8.Valid(b) {
				t.Fatalf("%s of %q, max %d: not JSON: %s", name, raw, max, b)
			}
		}
		if most := limit(max); max > 0 && len(got)-1 > most {
			t.Fatalf("%s of %q: %d bytes, max %d: %s", name, raw, len(got)-1, most, got)
		}
		// No role, reason or id of a short input takes more than its tenth of the bound.
		if len(whole)-1 <= max && !bytes.Equal(got, whole) && len(quoted(string(raw))) <= limit(max)/10 {
			t.Fatalf("%s of %q, max %d: %s would fit, got %s", name, raw, max, whole, got)
		}
		if name == "AppendMessages" || name == "AppendOutput" {
			checkMessages(t, got[1:])
		}
	}
}

// checkMessages fails t unless raw is what the schemas of the standard ask for.
func checkMessages(t *testing.T, raw []byte) {
	t.Helper()
	var messages []struct {
		Role  *string            `json:"role"`
		Parts *[]json.RawMessage `json:"parts"`
	}
	if err := json.Unmarshal(raw, &messages); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	required := map[string][]string{
		"text": {"content"}, "reasoning": {"content"}, "tool_call": {"name"}, "tool_call_response": {"response"},
		"blob": {"modality", "content"}, "uri": {"modality", "uri"}, "file": {"modality", "file_id"},
	}
	for _, m := range messages {
		if m.Role == nil || m.Parts == nil {
			t.Fatalf("a message without role or parts: %s", raw)
		}
		for _, raw := range *m.Parts {
			var part map[string]json.RawMessage
			if err := json.Unmarshal(raw, &part); err != nil {
				t.Fatalf("%v: %s", err, raw)
			}
			if typ := part["type"]; len(typ) == 0 || typ[0] != '"' {
				t.Fatalf("a part without type: %s", raw)
			}
			for _, key := range required[strings.Trim(string(part["type"]), `"`)] {
				if part[key] == nil {
					t.Fatalf("a part without %s: %s", key, raw)
				}
			}
		}
	}
}

var seeds = []string{
	`{"role":"user","content":[{"type":"image","data":"aGk=","mimeType":"image/png"},` +
		`{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"x"}]}]}`,
	`{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}}],` +
		`"refusal":"no","audio":{}}`,
	`{"role":"user","kind":"k","data":[1,2,{"a":"\ud83d\ude00\n"}]}`,
	`{"type":"function_call","call_id":"1","name":"f","arguments":"[1]"}`,
	`[{"name":"f","description":"d","input_schema":{}},{"type":"x","name":"y"},{"function":{"name":"f"}}]`,
	`{"content":[{"type":"file","file":{"file_data":"data:a;base64,aa"}},{"type":"image","source":{"source":{}}}],` +
		`"role":"a"}`,
	`{"role":"user","content":"look","images":["aGk=",1]}`,
	`"text"`, `[`, ``, `null`, "\xff", `{"role":"user","content":"\ud800"}`, `{"type":"x"}`, `[[[[["a"]]]]]`,
}

func FuzzAll(f *testing.F) {
	for i, s := range seeds {
		f.Add([]byte(s), i*100, uint8(i), "x")
	}
	f.Add([]byte(`"role":"user","kind":"k"`), 267, uint8(0), "")
	f.Fuzz(func(t *testing.T, raw []byte, max int, times uint8, text string) {
		check(t, raw, max)
		// The same with long strings and lists.
		if text != "" && len(raw)*int(times) < 1<<16 {
			check(t, bytes.ReplaceAll(raw, []byte(text), bytes.Repeat([]byte(text), int(times))), max)
		}
		check(t, []byte("["+strings.Repeat(string(raw)+",", int(times)%32)+string(raw)+"]"), max)
	})
}

// TestHostile feeds inputs on which code whose cost is not linear takes minutes.
func TestHostile(t *testing.T) {
	const n = 1 << 16
	nested := strings.Repeat(`{"content":[`, 90) + "%s" + strings.Repeat(`]}`, 90)
	for name, raw := range map[string]string{
		"blocks":   `{"role":"user","content":[` + strings.Repeat(`{},`, n) + `1]}`,
		"escapes":  `{"role":"user","content":"` + strings.Repeat(`\u00e9`, n) + `"}`,
		"nesting":  fmt.Sprintf(nested, strings.Repeat(`{},`, n)+`1`),
		"brackets": strings.Repeat(`[`, n),
		"numbers":  `[{"role":"tool","content":[` + strings.Repeat(`1,`, n) + `1]}]`,
		"calls": `{"role":"assistant","tool_calls":[` +
			strings.Repeat(`{"function":{"name":"f","arguments":"{}"}},`, n/8) + `1]}`,
		"arguments": `{"role":"assistant","function_call":{"name":"f","arguments":"` + strings.Repeat(`[`, n) + `"}}`,
	} {
		for _, max := range []int{0, 2000, n} {
			start := time.Now()
			appendMessages(nil, [][]byte{[]byte(raw), []byte(raw)}, max)
			AppendValue(nil, []byte(raw), max)
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("%s, max %d: %v for %d bytes", name, max, took, len(raw))
			}
		}
	}
}
