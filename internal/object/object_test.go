package object_test

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// TestGetters reads each member by one getter: its value, the problem, and the members that stay unread.
func TestGetters(t *testing.T) {
	at := time.Date(2026, 8, 15, 10, 0, 0, 500, time.UTC)
	for _, test := range []struct {
		name, line string
		get        func(o *object.Object) any
		want       any
		problem    string // PATH: REASON
		rest       string
	}{
		{"string", `{"a":"x","b":1}`, func(o obj) any { return o.String("a") }, "x", "", `{"b":1}`},
		{"string with escapes", `{"a":"\u00e4\n\ud83d\ude00"}`, func(o obj) any { return o.String("a") }, "ä\n😀", "", ""},
		{"a key with escapes", `{"\u0061":"x"}`, func(o obj) any { return o.String("a") }, "x", "", ""},
		{"string, absent", `{}`, func(o obj) any { return o.String("a") }, "", "", ""},
		{"string, null", `{"a":null}`, func(o obj) any { return o.String("a") }, "", "", ""},
		{"string, number", `{"a":1}`, func(o obj) any { return o.String("a") }, "", "a: want a string, got a number", ""},

		{"count", `{"a":9223372036854775807}`, func(o obj) any { return *o.Count("a") },
			int64(9223372036854775807), "", ""},
		{"count, zero", `{"a":0}`, func(o obj) any { return *o.Count("a") }, int64(0), "", ""},
		{"count, absent", `{}`, func(o obj) any { return o.Count("a") }, (*int64)(nil), "", ""},
		{"count, negative", `{"a":-1}`, func(o obj) any { return o.Count("a") },
			(*int64)(nil), "a: want an integer from 0 to 9223372036854775807", ""},
		{"count, too large", `{"a":9223372036854775808}`, func(o obj) any { return o.Count("a") }, (*int64)(nil),
			"a: want an integer from 0 to 9223372036854775807", ""},
		{"count, fraction", `{"a":1.5}`, func(o obj) any { return o.Count("a") },
			(*int64)(nil), "a: want an integer from 0 to 9223372036854775807", ""},
		{"count, string", `{"a":"1"}`, func(o obj) any { return o.Count("a") }, (*int64)(nil),
			"a: want an integer from 0 to 9223372036854775807, got a string", ""},

		{"int", `{"a":-5}`, func(o obj) any { return *o.Int("a") }, int64(-5), "", ""},
		{"int, too small", `{"a":-9223372036854775809}`, func(o obj) any { return o.Int("a") },
			(*int64)(nil), "a: want an integer of 64 bits", ""},
		{"float", `{"a":1.5e1}`, func(o obj) any { return *o.Float("a") }, 15.0, "", ""},
		{"float, too large", `{"a":1e400}`, func(o obj) any { return o.Float("a") },
			(*float64)(nil), "a: want a number that a float of 64 bits holds", ""},
		{"bool", `{"a":true,"b":false}`, func(o obj) any { return []bool{*o.Bool("a"), *o.Bool("b")} },
			[]bool{true, false}, "", ""},
		{"bool, array", `{"a":[]}`, func(o obj) any { return o.Bool("a") },
			(*bool)(nil), "a: want a boolean, got an array", ""},
		{"time", `{"a":"2026-08-15T10:00:00.0000005Z"}`, func(o obj) any { return o.Time("a") }, at, "", ""},
		{"time, number", `{"a":1}`, func(o obj) any { return o.Time("a") },
			time.Time{}, "a: want a time in RFC 3339 between 1678 and 2262, got a number", ""},
		{"time, no time", `{"a":"yesterday"}`, func(o obj) any { return o.Time("a") },
			time.Time{}, "a: want a time in RFC 3339 between 1678 and 2262", ""},

		{"raw", `{"a": [1, {"b":2}] ,"c":3}`, func(o obj) any { return string(o.Raw("a")) }, `[1, {"b":2}]`, "", `{"c":3}`},
		{"raw, null is read and nil", `{"a":null,"c":3}`, func(o obj) any { return o.Raw("a") },
			[]byte(nil), "", `{"c":3}`},
		{"use", `{"a":1,"b":2,"c":3}`, func(o obj) any { o.Use("a", "c", "d"); return nil }, nil, "", `{"b":2}`},
		{"has", `{"a":1,"b":null}`, func(o obj) any { return []bool{o.Has("a"), o.Has("b"), o.Has("c")} },
			[]bool{true, false, false}, "",
			`{"a":1,"b":null}`},
		{"list", `{"a":[1,"x",{},null]}`, func(o obj) any { return spelled(o.List("a")) },
			[]string{"1", `"x"`, "{}", "null"}, "", ""},
		{"list, empty", `{"a":[]}`, func(o obj) any { return spelled(o.List("a")) }, []string{}, "", ""},
		{"list, object", `{"a":{}}`, func(o obj) any { return spelled(o.List("a")) },
			[]string(nil), "a: want an array, got an object", ""},

		{"object", `{"a":{"b":"x","c":1}}`, func(o obj) any {
			in := o.Object("a")
			return in.String("b") + string(in.Rest())
		}, `x{"c":1}`, "", ""},
		{"object, problem inside", `{"a":{"b":{"c":1}}}`, func(o obj) any { return o.Object("a").Object("b").String("c") },
			"",
			"a.b.c: want a string, got a number", ""},
		{"object, string", `{"a":"x"}`, func(o obj) any { return o.Object("a") },
			obj(nil), "a: want an object, got a string", ""},
		{"objects", `{"a":[{"b":"x"},{"b":"y"}]}`, func(o obj) any {
			l := o.Objects("a")
			return l[0].String("b") + l[1].String("b")
		}, "xy", "", ""},
		{"objects, problem inside", `{"a":[{},{"b":{"c":true}}]}`, func(o obj) any {
			return o.Objects("a")[1].Object("b").Count("c")
		}, (*int64)(nil),
			"a[1].b.c: want an integer from 0 to 9223372036854775807, got a boolean", ""},
		{"objects, one is none", `{"a":[{},5]}`, func(o obj) any { return o.Objects("a")[1] }, obj(nil),
			"a[1]: want an object, got a number", ""},
		{"objects, absent", `{}`, func(o obj) any { return o.Objects("a") == nil }, true, "", ""},

		{"required", `{"a":1}`, func(o obj) any { return o.Require("a") }, true, "", `{"a":1}`},
		{"required, null", `{"a":null}`, func(o obj) any { return o.Require("a") }, false, "a: missing", `{"a":null}`},
		{"required, inside", `{"a":{}}`, func(o obj) any { return o.Object("a").Require("b") }, false, "a.b: missing", ""},
		{"the last of two counts", `{"a":1,"b":2,"a":3}`, func(o obj) any { return *o.Count("a") },
			int64(3), "", `{"a":1,"b":2}`},
		{"twice", `{"a":1,"b":2,"a":3}`, func(o obj) any { return o.Twice() }, "a", "", `{"a":1,"b":2,"a":3}`},
		{"none twice", `{"a":1,"b":2}`, func(o obj) any { return o.Twice() }, "", "", `{"a":1,"b":2}`},
		{"keys in their order", `{"b":1,"a":2,"b":3,"\n":4}`, func(o obj) any { return o.Keys() },
			[]string{"b", "a", "b", "\n"}, "",
			`{"b":1,"a":2,"b":3,"\n":4}`},
		{"fail names the object", `{"a":{}}`, func(o obj) any { o.Object("a").Fail("", "odd"); return nil },
			nil, "a: odd", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := parse(t, test.line)
			if diff := cmp.Diff(test.want, test.get(o)); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
			var problem string
			for _, p := range o.Problems() {
				problem += p.Path + ": " + p.Reason
			}
			if problem != test.problem || o.Failed() != min(len(problem), 1) {
				t.Errorf("%d problems %q, want %q", o.Failed(), problem, test.problem)
			}
			if got := string(o.Rest()); got != test.rest {
				t.Errorf("rest %s, want %s", got, test.rest)
			}
		})
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
		[]string(nil), "", []byte(nil),
		[]object.Problem(nil), 0, false, false}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("%#v, want %#v", got, want)
	}
	if object.Of("a", []byte("[]")) != nil || object.Of("a", nil) != nil {
		t.Error("no object is one")
	}
}
