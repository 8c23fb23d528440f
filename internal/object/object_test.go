package object_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/object"
)

// parse parses a line that is an object.
func parse(t testing.TB, line string) *object.Object {
	t.Helper()
	o, err := object.Parse([]byte(line))
	if err != nil {
		t.Fatalf("%.100s: %v", line, err)
	}
	return o
}

type obj = *object.Object

// spelled are raw values as strings.
func spelled(list [][]byte) []string {
	if list == nil {
		return nil
	}
	out := make([]string, len(list))
	for i, raw := range list {
		out[i] = string(raw)
	}
	return out
}

var update = flag.Bool("update", false, "write testdata/getters.golden")

// TestGetters compares with testdata/getters.golden what a getter returns of a line, the problems, and the members that
// stay unread.
func TestGetters(t *testing.T) {
	show := func(v any) string {
		switch v := v.(type) {
		case *object.Object:
			return fmt.Sprint("object ", v != nil)
		case []byte:
			return string(v)
		}
		text, _ := json.Marshal(v) // pointers are null or what they point to
		return string(text)
	}
	var got strings.Builder
	for _, test := range []struct {
		name, line string
		get        func(o *object.Object) any
	}{
		{"string", `{"a":"x","b":1}`, func(o obj) any { return o.String("a") }},
		{"string with escapes", `{"a":"\u00e4\n\ud83d\ude00"}`, func(o obj) any { return o.String("a") }},
		{"a key with escapes", `{"\u0061":"x"}`, func(o obj) any { return o.String("a") }},
		{"string, absent", `{}`, func(o obj) any { return o.String("a") }},
		{"string, null", `{"a":null}`, func(o obj) any { return o.String("a") }},
		{"string, number", `{"a":1}`, func(o obj) any { return o.String("a") }},
		{"count", `{"a":9223372036854775807}`, func(o obj) any { return *o.Count("a") }},
		{"count, zero", `{"a":0}`, func(o obj) any { return *o.Count("a") }},
		{"count, absent", `{}`, func(o obj) any { return o.Count("a") }},
		{"count, negative", `{"a":-1}`, func(o obj) any { return o.Count("a") }},
		{"count, too large", `{"a":9223372036854775808}`, func(o obj) any { return o.Count("a") }},
		{"count, fraction", `{"a":1.5}`, func(o obj) any { return o.Count("a") }},
		{"count, string", `{"a":"1"}`, func(o obj) any { return o.Count("a") }},
		{"int", `{"a":-5}`, func(o obj) any { return *o.Int("a") }},
		{"int, too small", `{"a":-9223372036854775809}`, func(o obj) any { return o.Int("a") }},
		{"float", `{"a":1.5e1}`, func(o obj) any { return *o.Float("a") }},
		{"float, too large", `{"a":1e400}`, func(o obj) any { return o.Float("a") }},
		{"bool", `{"a":true,"b":false}`, func(o obj) any { return []bool{*o.Bool("a"), *o.Bool("b")} }},
		{"bool, array", `{"a":[]}`, func(o obj) any { return o.Bool("a") }},
		{"time", `{"a":"2026-08-15T10:00:00.0000005Z"}`, func(o obj) any { return o.Time("a") }},
		{"time, number", `{"a":1}`, func(o obj) any { return o.Time("a") }},
		{"time, no time", `{"a":"yesterday"}`, func(o obj) any { return o.Time("a") }},
		{"raw", `{"a": [1, {"b":2}] ,"c":3}`, func(o obj) any { return string(o.Raw("a")) }},
		{"raw, null is read and nil", `{"a":null,"c":3}`, func(o obj) any { return o.Raw("a") }},
		{"use", `{"a":1,"b":2,"c":3}`, func(o obj) any { o.Use("a", "c", "d"); return nil }},
		{"has", `{"a":1,"b":null}`, func(o obj) any { return []bool{o.Has("a"), o.Has("b"), o.Has("c")} }},
		{"list", `{"a":[1,"x",{},null]}`, func(o obj) any { return spelled(o.List("a")) }},
		{"list, empty", `{"a":[]}`, func(o obj) any { return spelled(o.List("a")) }},
		{"list, object", `{"a":{}}`, func(o obj) any { return spelled(o.List("a")) }},
		{"object", `{"a":{"b":"x","c":1}}`, func(o obj) any {
			in := o.Object("a")
			return in.String("b") + string(in.Rest())
		}},
		{"object, problem inside", `{"a":{"b":{"c":1}}}`, func(o obj) any { return o.Object("a").Object("b").String("c") }},
		{"object, string", `{"a":"x"}`, func(o obj) any { return o.Object("a") }},
		{"objects", `{"a":[{"b":"x"},{"b":"y"}]}`, func(o obj) any {
			l := o.Objects("a")
			return l[0].String("b") + l[1].String("b")
		}},
		{"objects, problem inside", `{"a":[{},{"b":{"c":true}}]}`, func(o obj) any {
			return o.Objects("a")[1].Object("b").Count("c")
		}},
		{"objects, one is none", `{"a":[{},5]}`, func(o obj) any { return o.Objects("a")[1] }},
		{"objects, absent", `{}`, func(o obj) any { return o.Objects("a") == nil }},
		{"required", `{"a":1}`, func(o obj) any { return o.Require("a") }},
		{"required, null", `{"a":null}`, func(o obj) any { return o.Require("a") }},
		{"required, inside", `{"a":{}}`, func(o obj) any { return o.Object("a").Require("b") }},
		{"the last of two counts", `{"a":1,"b":2,"a":3}`, func(o obj) any { return *o.Count("a") }},
		{"twice", `{"a":1,"b":2,"a":3}`, func(o obj) any { return strings.Join(o.Twice(), " ") }},
		{"none twice", `{"a":1,"b":2}`, func(o obj) any { return strings.Join(o.Twice(), " ") }},
		{"keys in their order", `{"b":1,"a":2,"b":3,"\n":4}`, func(o obj) any { return o.Keys() }},
		{"fail names the object", `{"a":{}}`, func(o obj) any { o.Object("a").Fail("", "odd"); return nil }},
	} {
		o := parse(t, test.line)
		fmt.Fprintf(&got, "%s: %s\n  %s", test.name, test.line, show(test.get(o)))
		for _, p := range o.Problems() {
			fmt.Fprintf(&got, "; %s: %s", p.Path, p.Reason)
		}
		fmt.Fprintf(&got, "; rest %s\n", o.Rest())
		if len(o.Problems()) != o.Failed() {
			t.Errorf("%s: %d problems, %d counted", test.name, len(o.Problems()), o.Failed())
		}
	}
	const golden = "testdata/getters.golden"
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want := must.Get(os.ReadFile(golden))(t)
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestProblemsAreBounded keeps eight problems of a line and counts all.
func TestProblemsAreBounded(t *testing.T) {
	o := parse(t, `{"a":{}}`)
	for i := range 20 {
		o.Object("a").Fail(strconv.Itoa(i), "odd")
	}
	var paths []string
	for _, p := range o.Problems() {
		paths = append(paths, p.Path)
	}
	want := []string{"a.0", "a.1", "a.2", "a.3", "a.4", "a.5", "a.6", "a.7"}
	if diff := cmp.Diff(want, paths); diff != "" || o.Failed() != 20 {
		t.Errorf("%d failed (-want +got):\n%s", o.Failed(), diff)
	}
}

func TestParseRejects(t *testing.T) {
	nested := func(n int) string { return `{"a":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}" }
	for _, test := range []struct{ name, line, want string }{
		{"empty", ``, "JSON ends too early"},
		{"cut", `{"a":`, "JSON ends too early"},
		{"array", ` [{}]`, "want an object, got an array"},
		{"string", `"SECRET"`, "want an object, got a string"},
		{"no JSON", `SECRET`, "no JSON value"},
		{"two values", `{} {}`, "text after the JSON value"},
		{"no UTF-8", "{\"a\":\"SECRET\xff\"}", "text that is not UTF-8"},
		{"too deep", nested(object.MaxDepth), "JSON nested too deeply"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := object.Parse([]byte(test.line))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
	if _, err := object.Parse([]byte(nested(object.MaxDepth - 1))); err != nil {
		t.Errorf("%d levels: %v", object.MaxDepth, err)
	}
}

func TestBounds(t *testing.T) {
	var b strings.Builder
	for i := range object.MaxMembers + 3 {
		fmt.Fprintf(&b, `,"k%d":%d`, i, i)
	}
	o := parse(t, "{"+b.String()[1:]+"}")
	if len(o.Keys()) != object.MaxMembers || o.Failed() != 3 ||
		o.Problems()[0] != (object.Problem{Reason: "more than 1024 keys"}) {
		t.Errorf("%d keys, %d problems, %v", len(o.Keys()), o.Failed(), o.Problems())
	}
	if last := "k" + strconv.Itoa(object.MaxMembers-1); !o.Has(last) || o.Has("k"+strconv.Itoa(object.MaxMembers)) {
		t.Errorf("%s should be the last", last)
	}

	o = parse(t, `{"a":[`+strings.Repeat("0,", object.MaxElements+2)+"0]}")
	if n := len(o.List("a")); n != object.MaxElements || o.Problems()[0] != (object.Problem{Path: "a",
		Reason: "more than 65536 elements"}) {
		t.Errorf("%d elements, %v", n, o.Problems())
	}
}

// TestNil reads an object that is not there.
func TestNil(t *testing.T) {
	var o *object.Object
	o.Use("a")
	o.Fail("a", "odd")
	got := []any{o.String("a"), o.Count("a"), o.Object("a").Objects("b"), o.List("a"), o.Raw("a"), o.Time("a"),
		o.Bool("a"), o.Keys(), o.Twice(), o.Rest(),
		o.Problems(), o.Failed(), o.Has("a"), o.Require("a")}
	want := []any{"", (*int64)(nil), []*object.Object(nil), [][]byte(nil), []byte(nil), time.Time{}, (*bool)(nil),
		[]string(nil), []string(nil), []byte(nil),
		[]object.Problem(nil), 0, false, false}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%#v, want %#v", got, want)
	}
	if object.Of("a", []byte("[]")) != nil || object.Of("a", nil) != nil {
		t.Error("no object is one")
	}
}

// An object is read again in its memory, and has nothing of the line before.
func TestParseAgain(t *testing.T) {
	var o object.Object
	for i, c := range []struct{ line, value, problems string }{
		{`{"a":{"b":{"c":"x"}},"d":1}`, "x", ""},
		{`{"a":{"b":{"c":2}}}`, "", "a.b.c: want a string, got a number"},
		{`{"a":`, "", ""},
		{`[1]`, "", ""},
		{`{"a":{"b":{"c":"y"}},"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1}`, "y", ""},
	} {
		err := o.Parse([]byte(c.line))
		_, want := object.Parse([]byte(c.line))
		got, problems := o.Object("a").Object("b").String("c"), ""
		for _, p := range o.Problems() {
			problems += p.Path + ": " + p.Reason
		}
		if got != c.value || problems != c.problems || fmt.Sprint(err) != fmt.Sprint(want) || o.Has("d") != (i == 0) {
			t.Errorf("%s: %q, %q, %v, want %v", c.line, got, problems, err, want)
		}
	}
	line := []byte(`{"a":{"b":{"c":1}},"d":"e"}`)
	if n := testing.AllocsPerRun(100, func() {
		_ = o.Parse(line)
		_ = o.Object("a").Raw("b")
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
