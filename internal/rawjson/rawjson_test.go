package rawjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// texts are seeds for the tests of acceptance: each also is inside an array, an object and before blanks.
var texts = []string{
	`null`, `true`, `false`, `nul`, `truE`, `0`, `-0`, `01`, `-`, `1.`, `.5`, `1e`, `1e+`, `1E-7`, `12.50e3`, `+1`, `1x`,
	`""`, `"a"`, `"a`, `"\"`, `"\n\t\\\/\b\f\r\""`, `"\x"`, `"\u12"`, `"\u00e9"`,
	`"\uD834\uDD1E"`, `"\ud800"`, `"\ud800\u0041"`,
	"\"\x01\"", "\"\x1f\"", "\"\x7f\"", "\"tab\there\"", "\"\xff\"", "\"\xc3\xa9\"",
	"\"12345678\"", "\"1234567\x00\"", "\"12345678é\\\\\"",
	`[]`, `[1]`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[`, `]`, `[[]]`, `[{}]`,
	`{}`, `{"a":1}`, `{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1,"b":{"c":[1,{"d":null}]}}`,
	`{`, `}`, `{"a":1,"a":2}`,
	` 1`, "\t1\r\n", `1 2`, ``, ` `, "\x00", "{\x00", "[\x00", "{\"a\"\x00", "\ufeff1", "1\f",
}

func TestValidAcceptsWhatEncodingJSONDoes(t *testing.T) {
	for _, text := range texts {
		for _, s := range []string{text, "[" + text + "]", `{"k":` + text + "}", "  " + text + " \n", text + ","} {
			same(t, []byte(s))
		}
	}
}

// same fails t unless every way through raw gives the verdict of encoding/json and unicode/utf8.
func same(t *testing.T, raw []byte) {
	t.Helper()
	want := json.Valid(raw) && utf8.Valid(raw)
	err := Valid(raw, 10_000)
	if (err == nil) != want {
		t.Fatalf("Valid(%q) = %v, encoding/json says %v", raw, err, want)
	}
	if err != nil {
		var bad *SyntaxError
		if !errors.As(err, &bad) || bad.Offset < 0 || bad.Offset > len(raw) || bad.Reason == "" {
			t.Fatalf("Valid(%q): error %#v", raw, err)
		}
	}
	if err := Valid(raw, MaxDepth); err != nil && want {
		if reason(err) != tooDeep {
			t.Fatalf("Valid(%q) at MaxDepth: %v", raw, err)
		}
		return
	}
	body, err := AppendCanonical([]byte("x"), raw, []string{"k", "a"})
	if (err == nil) != want {
		t.Fatalf("AppendCanonical(%q): %v, encoding/json says %v", raw, err, want)
	}
	if err != nil {
		if string(body) != "x" {
			t.Fatalf("AppendCanonical(%q) after an error: %q", raw, body)
		}
		return
	}
	if !json.Valid(body[1:]) {
		t.Fatalf("AppendCanonical(%q) = %q", raw, body)
	}
	whole, err := AppendCanonical(nil, raw, nil)
	if err != nil {
		t.Fatalf("AppendCanonical(%q): %v", raw, err)
	}
	if !reflect.DeepEqual(decoded(t, whole), decoded(t, raw)) && !duplicates(raw) {
		t.Fatalf("AppendCanonical(%q) = %q is another value", raw, whole)
	}
	again, err := AppendCanonical(nil, whole, nil)
	if err != nil || !bytes.Equal(again, whole) {
		t.Fatalf("AppendCanonical(%q) = %q (%v), not stable", whole, again, err)
	}
	if s, ok := String(bytes.TrimSpace(raw)); ok {
		var want string
		if err := json.Unmarshal(raw, &want); err != nil || s != want {
			t.Fatalf("String(%q) = %q, want %q (%v)", raw, s, want, err)
		}
		var back string
		if err := json.Unmarshal(Quote(nil, s), &back); err != nil || back != want {
			t.Fatalf("Quote(%q) reads as %q (%v)", s, back, err)
		}
	}
}

// reason returns the reason of a *SyntaxError, nothing of other errors.
func reason(err error) string {
	var bad *SyntaxError
	if errors.As(err, &bad) {
		return bad.Reason
	}
	return ""
}

func decoded(t *testing.T, raw []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// duplicates reports whether an object of raw has a key twice. The order of equal keys is kept, so the last one that
// encoding/json takes is the same; only objects merged into one another by it are not.
func duplicates(raw []byte) bool {
	seen := map[string]bool{}
	twice := false
	c := NewCursor(raw, MaxDepth)
	if c.Open('{') {
		for c.More('}') {
			key := string(c.Key())
			twice = twice || seen[key]
			seen[key] = true
			twice = duplicates(c.Value()) || twice
		}
	} else if c.Open('[') {
		for c.More(']') {
			twice = duplicates(c.Value()) || twice
		}
	}
	return twice
}

func TestErrorsTellWhereAndNotWhat(t *testing.T) {
	for _, test := range []struct {
		raw    string
		offset int
		cut    bool
	}{
		{`{"secret":tru`, 13, true},
		{`{"secret":"sec`, 14, true},
		{`{"secret":"a"`, 13, true},
		{`{"secret"`, 9, true},
		{`{"a":1,`, 7, true},
		{`[1,`, 3, true},
		{"{\"secret\":\"\xe2\x82", 11, true},
		{`{"secret":xyz}`, 10, false},
		{`{"secret":"\q"}`, 11, false},
		{"{\"secret\":\"\xffsecret\"}", 11, false},
		{`[1] secret`, 4, false},
	} {
		err := Valid([]byte(test.raw), MaxDepth)
		var bad *SyntaxError
		ok := errors.As(err, &bad)
		if !ok || bad.Offset != test.offset || bad.Cut != test.cut || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v (cut %v), want offset %d, cut %v", test.raw, err, ok && bad.Cut, test.offset, test.cut)
		}
	}
}

func TestAppendCanonical(t *testing.T) {
	for _, test := range []struct{ raw, body string }{
		{`{"b":1,"a":[ {"z":1.0,"y":"\u0041"} ]}`, `{"a":[{"y":"\u0041","z":1.0}],"b":1}`},
		{`{"turnId":{"b":1,"a":2},"role":"user","nodeId":3}`, `{"role":"user"}`},
		{`{"nodeId":3}`, `{}`},
		{`{"x":{"nodeId":3}}`, `{"x":{"nodeId":3}}`},
		{`{"\u006eodeId":3,"a":1}`, `{"a":1}`},
		{`{"b":1,"\u0061":2}`, `{"\u0061":2,"b":1}`},
		{`{"a":2,"a":1}`, `{"a":2,"a":1}`},
		{` [ ] `, `[]`},
		{`"s"`, `"s"`},
		{`{}`, `{}`},
	} {
		body, err := AppendCanonical(nil, []byte(test.raw), []string{"turnId", "nodeId"})
		if err != nil || string(body) != test.body {
			t.Errorf("AppendCanonical(%s) = %s, %v; want %s", test.raw, body, err, test.body)
		}
	}
}

func FuzzRawJSON(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
		f.Add([]byte(`{"b":` + text + `,"a":[` + text + `]}`))
	}
	f.Fuzz(func(t *testing.T, raw []byte) { same(t, raw) })
}
