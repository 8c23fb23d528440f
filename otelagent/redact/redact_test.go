package redact

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

func mustNew(t testing.TB, rules ...Rule) *Rules {
	t.Helper()
	r, err := New(Config{Rules: rules, WithoutDefaults: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func apply(r *Rules, place, role string, from spans.ProvenanceKind, isJSON bool, body []byte) (out []byte, places int) {
	return r.Redact(otelagent.Piece{Body: body, JSON: isJSON, Place: place, Role: role, Provenance: from})
}

func TestApplyJSON(t *testing.T) {
	customers := Rule{Name: "customers", Regexp: `CUST-\d{6}`}
	for _, tt := range []struct {
		name     string
		rules    []Rule
		in, want string
		n        int
	}{
		{"spelling of the rest stays", []Rule{customers},
			" {\"b\" : 1.50e+1,\t\"a\":\"\\u00e9 \\/ CUST-123456 \\ud83d\\ude00 é\\n\", \"a\":[ ] }\n",
			" {\"b\" : 1.50e+1,\t\"a\":\"\\u00e9 \\/ [redacted:customers] \\ud83d\\ude00 é\\n\", \"a\":[ ] }\n", 1},
		{"escapes are seen through", []Rule{customers},
			`["\u0043UST-12345\u0036x","\ud83d\ude00\ud83dCUST-123456\t"]`,
			`["[redacted:customers]x","\ud83d\ude00\ud83d[redacted:customers]\t"]`, 2},
		{"keys", []Rule{customers}, `{"CUST-123456":{"CUST-12345\u0036":1}}`, `{"[redacted:customers]":{"[redacted:customers]":1}}`, 2},
		{"numbers and structure are no text", []Rule{{Name: "x", Regexp: `\d+|[{,:]`}}, `{"a":12,"b":true}`, `{"a":12,"b":true}`, 0},
		{"a group named secret", []Rule{{Name: "x", Regexp: `pin (?P<secret>\d+)|code \d+`}}, `"pin 1234, code 12"`, `"pin [redacted:x], [redacted:x]"`, 2},
		{"the mark is escaped", []Rule{{Name: `a"\b`, Regexp: `x`}}, `"axb"`, `"a[redacted:a\"\\b]b"`, 1},
		{"overlap is one place, of the first rule", []Rule{{Name: "one", Regexp: `bcd`}, {Name: "two", Regexp: `abc|de`}},
			`"xabcdex"`, `"x[redacted:one]x"`, 1},
		{"JSON in a string is text", []Rule{{Name: "x", Regexp: `"pin":\d+`}}, `{"arguments":"{\"pin\":12}"}`, `{"arguments":"{[redacted:x]}"}`, 1},
		{"no JSON after all", []Rule{customers, {Name: "k", Key: "a"}}, `{"a":"CUST-123456"`, `{"a":"[redacted:customers]"`, 1},
		{"deep", []Rule{customers}, strings.Repeat("[", 5000) + `"CUST-123456"` + strings.Repeat("]", 5000),
			strings.Repeat("[", 5000) + `"[redacted:customers]"` + strings.Repeat("]", 5000), 1},

		{"key", []Rule{{Name: "k", Key: "password"}},
			`{"password": {"x":1} ,"a":[{"password":12.0},{"passwords":1}],"p\u0061ssword" : null}`,
			`{"password": "[redacted:k]" ,"a":[{"password":"[redacted:k]"},{"passwords":1}],"p\u0061ssword" : "[redacted:k]"}`, 3},
		{"key that is not there", []Rule{{Name: "k", Key: "b"}}, `{"a":1}`, `{"a":1}`, 0},
		{"key in any case", []Rule{{Name: "k", Key: "headers.x-Key"}},
			`{"headers":[{"x-key":1},{"X-Key":2}],"x-key":3,"headers2":{"x-key":4}}`,
			`{"headers":[{"x-key":"[redacted:k]"},{"X-Key":"[redacted:k]"}],"x-key":3,"headers2":{"x-key":4}}`, 2},
		{"key at any depth", []Rule{{Name: "k", Key: "b.c"}}, `{"b":{"c":1},"a":{"b":{"c":2,"d":{"c":3}}},"c":4}`,
			`{"b":{"c":"[redacted:k]"},"a":{"b":{"c":"[redacted:k]","d":{"c":3}}},"c":4}`, 2},
		{"glob", []Rule{{Name: "k", Key: "x-*.v*e"}}, `{"x-":{"ve":1,"value":2,"evil":3},"y-x":{"ve":4},"x-y\nz":{"v.e":5,"ve":6}}`,
			`{"x-":{"ve":"[redacted:k]","value":"[redacted:k]","evil":3},"y-x":{"ve":4},"x-y\nz":{"v.e":5,"ve":"[redacted:k]"}}`, 3},
		{"glob of all members", []Rule{{Name: "k", Key: "a.*"}}, `{"a":{"b":1,"c":{"d":2}},"e":3}`,
			`{"a":{"b":"[redacted:k]","c":"[redacted:k]"},"e":3}`, 2},
		{"glob that leads", []Rule{{Name: "k", Key: "*.*.password"}}, `{"password":1,"a":{"password":2}}`,
			`{"password":"[redacted:k]","a":{"password":"[redacted:k]"}}`, 2},
		{"dots in a name", []Rule{{Name: "k", Key: "http.password"}}, `{"http.password":1,"a.http":{"password":2},"http":{"password.hint":3}}`,
			`{"http.password":"[redacted:k]","a.http":{"password":"[redacted:k]"},"http":{"password.hint":3}}`, 2},
		{"signs in a key are letters", []Rule{{Name: "k", Key: `a+(b)\d`}}, `{"a+(b)\\d":1,"aab1":2}`, `{"a+(b)\\d":"[redacted:k]","aab1":2}`, 1},
		{"no members", []Rule{{Name: "k", Key: "*"}}, `["a",{}]`, `["a",{}]`, 0},
		{"a key more than once", []Rule{{Name: "k", Key: "a.b"}},
			`{"a":{"b":1,"b":2,"b":3},"a":{"b":4},"c":{"b":5}}`,
			`{"a":{"b":"[redacted:k]","b":"[redacted:k]","b":"[redacted:k]"},"a":{"b":"[redacted:k]"},"c":{"b":5}}`, 4},
		{"the outer value counts", []Rule{{Name: "x", Regexp: "x"}, {Name: "in", Key: "a.b"}, {Name: "out", Key: "a"}},
			`{"a":{"b":"x"},"c":"x"}`, `{"a":"[redacted:out]","c":"[redacted:x]"}`, 2},
		{"the first key counts", []Rule{{Name: "one", Key: "a.b"}, {Name: "two", Key: "b"}}, `{"a":{"b":1},"b":2}`,
			`{"a":{"b":"[redacted:one]"},"b":"[redacted:two]"}`, 2},
		{"once is enough", []Rule{{Name: "k", Key: "a"}}, `{"a":"[redacted:k]"}`, `{"a":"[redacted:k]"}`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := []byte(tt.in)
			got, n := apply(mustNew(t, tt.rules...), "args", "", "", true, in)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" || n != tt.n {
				t.Errorf("%d places, want %d (-want +got):\n%s", n, tt.n, diff)
			}
			if string(in) != tt.in {
				t.Error("the input was changed")
			}
			if n == 0 && &got[0] != &in[0] {
				t.Error("nothing was found, but the body is another one")
			}
		})
	}
}

func TestApplyMessages(t *testing.T) {
	memory := Rule{Name: "memory", Provenance: []spans.ProvenanceKind{spans.ProvenanceMemoryTier, spans.ProvenanceIdentityBlock}}
	for _, tt := range []struct {
		name           string
		rule           Rule
		place, role    string
		provenance     spans.ProvenanceKind
		in, want       string
		isText, stands bool
	}{
		{name: "blocks", rule: memory, provenance: spans.ProvenanceMemoryTier,
			in: `{"role":"user","content": [{"text":"a"},{"text":"b"}] ,"timestamp":1}`, want: `{"role":"user","content": [{"type":"text","text":"[redacted:memory]"}] ,"timestamp":1}`},
		{name: "text", rule: memory, provenance: spans.ProvenanceIdentityBlock,
			in: `{"c\u006fntent":"a","id":"b"}`, want: `{"c\u006fntent":"[redacted:memory]","id":"b"}`},
		{name: "object", rule: memory, provenance: spans.ProvenanceIdentityBlock, in: `{"content":{"a":1}}`, want: `{"content":"[redacted:memory]"}`},
		{name: "null", rule: memory, provenance: spans.ProvenanceIdentityBlock, in: `{"content":null,"a":1}`, stands: true},
		{name: "no content", rule: memory, provenance: spans.ProvenanceIdentityBlock, in: `{"data":{"content":1}}`, want: `"[redacted:memory]"`},
		{name: "an array", rule: memory, provenance: spans.ProvenanceIdentityBlock, in: ` [1] `, want: ` [{"type":"text","text":"[redacted:memory]"}] `},
		{name: "an array of messages", rule: memory, provenance: spans.ProvenanceMemoryTier, in: `[{"content":"a"}]`, want: `[{"type":"text","text":"[redacted:memory]"}]`},
		{name: "a string", rule: memory, provenance: spans.ProvenanceIdentityBlock, in: `"a"`, want: `"[redacted:memory]"`},
		{name: "no JSON", rule: memory, provenance: spans.ProvenanceIdentityBlock, in: `{"content":"a`, want: `"[redacted:memory]"`},
		{name: "plain text", rule: memory, provenance: spans.ProvenanceIdentityBlock, isText: true, in: `a`, want: `[redacted:memory]`},
		{name: "other provenance", rule: memory, provenance: spans.ProvenanceSteering, in: `{"content":"a"}`, stands: true},
		{name: "no provenance", rule: memory, in: `{"content":"a"}`, stands: true},
		{name: "role", rule: Rule{Name: "r", Role: []string{"toolResult"}}, role: "toolResult", in: `{"content":"a"}`, want: `{"content":"[redacted:r]"}`},
		{name: "other role", rule: Rule{Name: "r", Role: []string{"toolResult"}}, role: "user", in: `{"content":"a"}`, stands: true},
		{name: "both", rule: Rule{Name: "r", Role: []string{"user"}, Provenance: memory.Provenance}, role: "user", in: `{"content":"a"}`, stands: true},
		{name: "expression for a role", rule: Rule{Name: "r", Regexp: "a", Role: []string{"user"}}, role: "user", in: `{"content":"abc"}`, want: `{"content":"[redacted:r]bc"}`},
		{name: "expression for another role", rule: Rule{Name: "r", Regexp: "a", Role: []string{"user"}}, role: "assistant", in: `{"content":"abc"}`, stands: true},
		{name: "place", rule: Rule{Name: "r", Regexp: "b", Place: []string{"args", "result"}}, place: "result", in: `{"content":"abc"}`, want: `{"content":"a[redacted:r]c"}`},
		{name: "other place", rule: Rule{Name: "r", Key: "*", Place: []string{"args", "result"}}, place: "message", in: `{"content":"abc"}`, stands: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, places := tt.want, 1
			if tt.stands {
				want, places = tt.in, 0
			}
			got, n := apply(mustNew(t, tt.rule), tt.place, tt.role, tt.provenance, !tt.isText, []byte(tt.in))
			if diff := cmp.Diff(want, string(got)); diff != "" || n != places {
				t.Errorf("%d places, want %d (-want +got):\n%s", n, places, diff)
			}
			again, n := apply(mustNew(t, tt.rule), tt.place, tt.role, tt.provenance, !tt.isText, got)
			if n != 0 && tt.rule.Regexp == "" {
				t.Errorf("once more: %d places, %s", n, again)
			}
		})
	}
}

func TestApplyNothing(t *testing.T) {
	var none *Rules
	for _, r := range []*Rules{none, mustNew(t), Defaults()} {
		for _, body := range [][]byte{nil, {}, []byte(`"a"`)} {
			got, n := apply(r, "", "", "", true, body)
			if n != 0 || string(got) != string(body) || (got == nil) != (body == nil) {
				t.Errorf("Redact(%q) = %q, %d", body, got, n)
			}
		}
	}
}

// The default set sees the text of JSON, not its spelling, and applies after the rules.
func TestDefaultsInJSON(t *testing.T) {
	r, err := New(Config{Rules: []Rule{{Name: "mine", Regexp: `[a-z]+@corp\.example`}, {Name: "key", Key: "password"}}})
	if err != nil {
		t.Fatal(err)
	}
	for in, want := range map[string]string{
		spell(`{"text":"\u0073k-`, "proj-", alnum, `\nPASS`, `WORD=hunter\u0032\n"}`): `{"text":"[redacted:api-key]\nPASSWORD=[redacted:secret]\n"}`,
		`{"a":"x@corp.example y@b.example","b":1}`:                                    `{"a":"[redacted:mine] [redacted:email]","b":1}`,
		`{"a":"y@b.example","password":"x"}`:                                          `{"a":"[redacted:email]","password":"[redacted:key]"}`,
	} {
		got, n := apply(r, "message", "user", "", true, []byte(in))
		if diff := cmp.Diff(want, string(got)); diff != "" || n != 2 {
			t.Errorf("%d places (-want +got):\n%s", n, diff)
		}
	}
}

func FuzzApply(f *testing.F) {
	for _, seed := range []string{
		`{"content":[{"text":"a@b.example","type":"text"}],"password":"x","password":1}`,
		`{"a":"\u0073k-0123456789abcdefghijkl\ud83d\ude00\ud83d\n"}`, `"-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA7abcd"`,
		`{"a":"password=\"hunter2\" https://u:p@h/ Bearer 0123456789abcdef0"}`, `[[[`, "\xff\xfe", `{"a":"\ud83dx"}`, `"token=x\\"`,
		`{"content":null}`, `{"x":{"v":1,"k":[1,2]},"x":{"v":2}}`, `:// @ eyJ basic authorization:`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	r, err := New(Config{Rules: []Rule{
		{Name: "é\"", Regexp: `x(?P<secret>.?)|\PL{3}`},
		{Name: "p", Key: `x.*v*`},
		{Name: "q", Key: `password`},
		{Name: "role", Role: []string{"toolResult"}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		before := string(body)
		for _, role := range []string{"user", "toolResult"} {
			for _, rules := range []*Rules{r, Defaults()} {
				got, n := apply(rules, "message", role, "", isJSON, body)
				if string(body) != before {
					t.Fatal("the input was changed")
				}
				if n == 0 && string(got) != before {
					t.Fatalf("no places, but %q became %q", body, got)
				}
				if n > 0 && string(got) == before {
					t.Fatalf("%d places, but nothing changed", n)
				}
				if isJSON && json.Valid(body) && !json.Valid(got) {
					t.Fatalf("%q became %q, which is no JSON", body, got)
				}
			}
		}
	})
}

func TestScoped(t *testing.T) {
	for _, want := range []bool{false, true} {
		for _, r := range map[bool][]Rule{
			false: {{Name: "x", Regexp: "a+"}, {Name: "x", Key: "a"}},
			true:  {{Name: "x", Key: "a", Place: []string{"args"}}, {Name: "x", Role: []string{"user"}}},
		}[want] {
			if got := mustNew(t, Rule{Name: "first", Regexp: "b+"}, r).Scoped(); got != want {
				t.Errorf("%+v: %v", r, got)
			}
		}
	}
	if (*Rules)(nil).Scoped() || Defaults().Scoped() {
		t.Error("no rules are scoped")
	}
}
