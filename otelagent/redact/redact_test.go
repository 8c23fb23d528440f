package redact

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// rulesOf returns rules without the default set. Each is a name and then fields and their values, between blanks.
func rulesOf(t testing.TB, rules string) *Rules {
	t.Helper()
	c := Config{WithoutDefaults: true}
	for text := range strings.SplitSeq(rules, "; ") {
		f := strings.Fields(text)
		r := Rule{Name: f[0]}
		for i := 1; i < len(f); i += 2 {
			switch value := f[i+1]; f[i] {
			case "regexp":
				r.Regexp = value
			case "key":
				r.Key = value
			case "role":
				r.Role = append(r.Role, value)
			case "place":
				r.Place = append(r.Place, value)
			case "from":
				r.Provenance = append(r.Provenance, spans.ProvenanceKind(value))
			default:
				t.Fatalf("field %s", f[i])
			}
		}
		c.Rules = append(c.Rules, r)
	}
	r := must.Get(New(c))(t)
	return r
}

func apply(r *Rules, place, role string, from spans.ProvenanceKind, isJSON bool, body []byte) (out []byte, places int) {
	return r.Redact(spans.Redactable{Body: body, JSON: isJSON, Place: place, Role: role, Provenance: from})
}

// marks spells the marks of a test, <NAME>, as they are.
var marks = strings.NewReplacer("<", "[redacted:", ">", "]")

func TestRedact(t *testing.T) {
	const customers, memory = `c regexp CUST-\d{6}`, `m from memory-tier from identity-block`
	deep := func(s string) string { return strings.Repeat("[", 5000) + s + strings.Repeat("]", 5000) }
	same := "\x00" // as it was
	for _, tt := range []struct{ rules, piece, in, want string }{
		// Expressions. The rest stays as it is spelled, also in a string with a find.
		{customers, "", " {\"b\" : 1.50e+1,\t\"a\":\"\\u00e9 \\/ CUST-123456 \\ud83d\\ude00 é\\n\", \"a\":[ ] }\n",
			" {\"b\" : 1.50e+1,\t\"a\":\"\\u00e9 \\/ <c> \\ud83d\\ude00 é\\n\", \"a\":[ ] }\n"},
		{customers, "", `["\u0043UST-12345\u0036x","\ud83d\ude00\ud83dCUST-123456\t"]`,
			`["<c>x","\ud83d\ude00\ud83d<c>\t"]`}, // they see through escapes
		{customers, "", `{"CUST-123456":{"CUST-12345\u0036":1}}`, `{"<c>":{"<c>":1}}`},
		{`x regexp \d+|[{,:]`, "", `{"a":12,"b":true}`, same}, // numbers and structure are no text
		{`x regexp pin\s(?P<secret>\d+)|code\s\d+`, "", `"pin 1234, code 12"`, `"pin <x>, <x>"`},
		{`a"\b regexp x`, "", `"axb"`, `"a<a\"\\b>b"`},
		{`1 regexp bcd; 2 regexp abc|de`, "", `"xabcdex"`, `"x<1>x"`},                       // overlap: the first rule
		{`x regexp "pin":\d+`, "", `{"arguments":"{\"pin\":12}"}`, `{"arguments":"{<x>}"}`}, // JSON in a string is text
		{customers + "; k key a", "", `{"a":"CUST-123456"`, `{"a":"<c>"`},                   // no JSON after all
		{customers, "", deep(`"CUST-123456"`), deep(`"<c>"`)},

		// Keys.
		{`k key password`, "", `{"password": {"x":1} ,"a":[{"password":12.0},{"passwords":1}],"p\u0061ssword" : null}`,
			`{"password": "<k>" ,"a":[{"password":"<k>"},{"passwords":1}],"p\u0061ssword" : "<k>"}`},
		{`k key b`, "", `{"a":1}`, same},
		{`k key headers.x-Key`, "", `{"headers":[{"x-key":1},{"X-Key":2}],"x-key":3,"headers2":{"x-key":4}}`,
			`{"headers":[{"x-key":"<k>"},{"X-Key":"<k>"}],"x-key":3,"headers2":{"x-key":4}}`},
		{`k key b.c`, "", `{"b":{"c":1},"a":{"b":{"c":2,"d":{"c":3}}},"c":4}`,
			`{"b":{"c":"<k>"},"a":{"b":{"c":"<k>","d":{"c":3}}},"c":4}`},
		{`k key x-*.v*e`, "", `{"x-":{"ve":1,"value":2,"evil":3},"y-x":{"ve":4},"x-y\nz":{"v.e":5,"ve":6}}`,
			`{"x-":{"ve":"<k>","value":"<k>","evil":3},"y-x":{"ve":4},"x-y\nz":{"v.e":5,"ve":"<k>"}}`},
		{`k key a.*`, "", `{"a":{"b":1,"c":{"d":2}},"e":3}`, `{"a":{"b":"<k>","c":"<k>"},"e":3}`},
		{`k key *.*.password`, "", `{"password":1,"a":{"password":2}}`, `{"password":"<k>","a":{"password":"<k>"}}`},
		{`k key http.password`, "", `{"http.password":1,"a.http":{"password":2},"http":{"password.hint":3}}`,
			`{"http.password":"<k>","a.http":{"password":"<k>"},"http":{"password.hint":3}}`}, // dots in a name
		{`k key a+(b)\d`, "", `{"a+(b)\\d":1,"aab1":2}`, `{"a+(b)\\d":"<k>","aab1":2}`}, // no expression
		{`k key *`, "", `["a",{}]`, same},
		{`k key a.b`, "", `{"a":{"b":1,"b":2,"b":3},"a":{"b":4},"c":{"b":5}}`,
			`{"a":{"b":"<k>","b":"<k>","b":"<k>"},"a":{"b":"<k>"},"c":{"b":5}}`},
		{`x regexp x; in key a.b; out key a`, "", `{"a":{"b":"x"},"c":"x"}`, `{"a":"<out>","c":"<x>"}`},
		{`1 key a.b; 2 key b`, "", `{"a":{"b":1},"b":2}`, `{"a":{"b":"<1>"},"b":"<2>"}`},
		{`k key a`, "", `{"a":"[redacted:k]"}`, same}, // once is enough

		// Whole messages.
		{memory, "from memory-tier", `{"role":"user","content": [{"text":"a"},{"text":"b"}] ,"timestamp":1}`,
			`{"role":"user","content": [{"type":"text","text":"<m>"}] ,"timestamp":1}`},
		{memory, "from identity-block", `{"c\u006fntent":"a","id":"b"}`, `{"c\u006fntent":"<m>","id":"b"}`},
		{memory, "from memory-tier", `{"content":{"a":1}}`, `{"content":"<m>"}`},
		{memory, "from memory-tier", `{"content":null,"a":1}`, same},
		{memory, "from memory-tier", `{"data":{"content":1}}`, `"<m>"`}, // no content
		{memory, "from memory-tier", ` [1] `, ` [{"type":"text","text":"<m>"}] `},
		{memory, "from memory-tier", `[{"content":"a"}]`, `[{"type":"text","text":"<m>"}]`},
		{memory, "from memory-tier", `"a"`, `"<m>"`},
		{memory, "from memory-tier", `{"content":"a`, `"<m>"`}, // no JSON
		{memory, "from memory-tier text", `a`, `<m>`},
		{memory, "from steering", `{"content":"a"}`, same},
		{memory, "", `{"content":"a"}`, same},
		{`r role toolResult`, "role toolResult", `{"content":"a"}`, `{"content":"<r>"}`},
		{`r role toolResult`, "role user", `{"content":"a"}`, same},
		{`r role user from memory-tier`, "role user", `{"content":"a"}`, same},

		// Limits of other rules.
		{`r regexp a role user`, "role user", `{"content":"abc"}`, `{"content":"<r>bc"}`},
		{`r regexp a role user`, "role assistant", `{"content":"abc"}`, same},
		{`r regexp b place args place result`, "place result", `{"content":"abc"}`, `{"content":"a<r>c"}`},
		{`r key * place args place result`, "place message", `{"content":"abc"}`, same},
	} {
		piece := spans.Redactable{Body: []byte(tt.in), JSON: !strings.HasSuffix(tt.piece, "text")}
		kind, value, _ := strings.Cut(strings.TrimSuffix(tt.piece, " text"), " ")
		switch kind {
		case "from":
			piece.Provenance = spans.ProvenanceKind(value)
		case "role":
			piece.Role = value
		case "place":
			piece.Place = value
		}
		want, places := marks.Replace(tt.want), strings.Count(tt.want, "<")
		if tt.want == same {
			want = tt.in
		}
		got, n := rulesOf(t, tt.rules).Redact(piece)
		if diff := cmp.Diff(want, string(got)); diff != "" || n != places {
			t.Errorf("%s: %d places, want %d (-want +got):\n%s", tt.rules, n, places, diff)
		}
		if string(piece.Body) != tt.in || n == 0 && &got[0] != &piece.Body[0] {
			t.Errorf("%s: the input was changed or copied", tt.rules)
		}
	}
}

func TestRedactNothing(t *testing.T) {
	for _, r := range []*Rules{nil, {}, Defaults()} {
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
	r := rulesOf(t, `mine regexp [a-z]+@corp\.example; key key password`)
	r.defaults = true
	in := spell(`{"text":"\u0073k-`, "proj-", alnum, `\nPASS`, `WORD=hunter\u0032\n"}`)
	for in, want := range map[string]string{
		in: `{"text":"<api-key>\nPASSWORD=<secret>\n"}`,
		`{"a":"x@corp.example y@b.example","b":1}`: `{"a":"<mine> <email>","b":1}`,
		`{"a":"y@b.example","password":"x"}`:       `{"a":"<email>","password":"<key>"}`,
	} {
		got, n := apply(r, "message", "user", "", true, []byte(in))
		if diff := cmp.Diff(marks.Replace(want), string(got)); diff != "" || n != 2 {
			t.Errorf("%d places (-want +got):\n%s", n, diff)
		}
	}
}

func FuzzApply(f *testing.F) {
	for _, seed := range []string{
		`{"content":[{"text":"a@b.example","type":"text"}],"password":"x","password":1}`,
		`{"a":"\u0073k-0123456789abcdefghijkl\ud83d\ude00\ud83d\n"}`, `"-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA7abcd"`,
		`{"a":"password=\"hunter2\" https://u:p@h/ Bearer 0123456789abcdef0"}`, `[[[`, "\xff\xfe", `{"a":"\ud83dx"}`,
		`{"content":null}`, `{"x":{"v":1,"k":[1,2]},"x":{"v":2}}`, `:// @ eyJ basic authorization:`, `"token=x\\"`,
	} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	r := rulesOf(f, `é" regexp x(?P<secret>.?)|\PL{3}; p key x.*v*; q key password; role role toolResult`)
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		before := string(body)
		for _, role := range []string{"user", "toolResult"} {
			for _, rules := range []*Rules{r, Defaults()} {
				got, n := apply(rules, "message", role, "", isJSON, body)
				if string(body) != before {
					t.Fatal("the input was changed")
				}
				if (n == 0) != (string(got) == before) {
					t.Fatalf("%d places, %q became %q", n, body, got)
				}
				if isJSON && json.Valid(body) && !json.Valid(got) {
					t.Fatalf("%q became %q, which is no JSON", body, got)
				}
			}
		}
	})
}

func TestScoped(t *testing.T) {
	for rules, want := range map[string]bool{
		"x regexp a+; y key a": false, "x regexp b; y key a place args": true, "x role user": false, "x from steering": true,
	} {
		if got := rulesOf(t, rules).Scoped(); got != want {
			t.Errorf("%s: %v", rules, got)
		}
	}
	if (*Rules)(nil).Scoped() || Defaults().Scoped() {
		t.Error("no rules are scoped")
	}
}
