package search

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/otelagent/otelagent/backend/session"
)

func TestPlain(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"", ""},
		{`{"content":[{"type":"text"}],"a" : {"b" : "c"}}`, "type: text\nb: c\n"},
		{"as it is: \\n \"x\"", "as it is: \\n \"x\""},
		{`"a\nb"`, "a\nb\n"},
		{`{"command":"rm -rf \"$X\"","n":[1,-2.5e3],"ok":true,"none":null}`,
			"command: rm -rf \"$X\"\n1\n-2.5e3\nok: true\nnone: null\n"},
		{` [ { "text" : "caf\u00e9 \ud83d\ude00 \/ \t" } ] `, "text: café 😀 / \t\n"},
		{`["\ud83d alone"]`, "\ufffd alone\n"},
		{`["\u12", "\x"]`, `["\u12", "\x"]`},
		{`{"never ends`, `{"never ends`},
		{`{"a":"b\`, `{"a":"b\`},
	} {
		if got := plain(c.body); got != c.want {
			t.Errorf("%q: %q, want %q", c.body, got, c.want)
		}
	}
}

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		name, text string
		o          Options
		want       snippet
	}{
		{"text", "one two one", Options{Text: "one"}, snippet{"", "one", " two one", 2}},
		{"of a line", "above\nsay one thing\nbelow", Options{Text: "one"}, snippet{"say ", "one", " thing", 1}},
		{"case", "ONE", Options{Text: "one"}, snippet{}},
		{"any case", "ÄONE", Options{Text: "äone", IgnoreCase: true}, snippet{"", "ÄONE", "", 1}},
		{"text is no expression", "a.c abc", Options{Text: "a.c", IgnoreCase: true}, snippet{"", "a.c", " abc", 1}},
		{"expression", "abc a.c", Options{Text: "a.c", Regexp: true}, snippet{"", "abc", " a.c", 2}},
		{"matches of nothing", "aab", Options{Text: "a*", Regexp: true}, snippet{"", "aa", "b", 1}},
		{"nothing but matches of nothing", "bbb", Options{Text: "a*", Regexp: true}, snippet{}},
		{"a match after many of nothing", strings.Repeat("b", 5000) + "a", Options{Text: "a*", Regexp: true},
			snippet{"…" + strings.Repeat("b", 80), "a", "", 1}},
		{"over lines", "a\nb", Options{Text: "a\nb"}, snippet{"", "a\nb", "", 1}},
		{"long", strings.Repeat("é", 100) + "x" + strings.Repeat("é", 100), Options{Text: "x"},
			snippet{"…" + strings.Repeat("é", 40), "x", strings.Repeat("é", 40) + "…", 1}},
		{"a long match", strings.Repeat("é", 300), Options{Text: "é+", Regexp: true},
			snippet{"", strings.Repeat("é", 100) + "…", "", 1}},
		{"bytes that are no text", "\xff\xfex\xff", Options{Text: "x"}, snippet{"\ufffd", "x", "\ufffd", 1}},
		{"many", strings.Repeat("x", 5000), Options{Text: "x"}, snippet{"", "x", strings.Repeat("x", 80) + "…", 1000}},
	} {
		m, err := newMatcher(c.o)
		if err != nil {
			t.Fatal(c.name, err)
		}
		got, ok := m.find(c.text)
		if got != c.want || ok != (c.want.matches > 0) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	for _, o := range []Options{{}, {Text: strings.Repeat("x", 1001)}, {Text: "(", Regexp: true}} {
		if _, err := newMatcher(o); !errors.Is(err, ErrText) {
			t.Errorf("%.20q: %v", o.Text, err)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add(`{"a":"b\u00e9\ud83d"}`, "b")
	f.Add("\xff\n\"", "\n")
	f.Fuzz(func(t *testing.T, body, text string) {
		m, err := newMatcher(Options{Text: text, IgnoreCase: len(body)%2 == 0})
		if err != nil {
			return
		}
		s, ok := m.find(plain(body))
		if ok != (s.matches > 0) || !utf8.ValidString(s.before+s.match+s.after) || len(s.before)+
			len(s.after) > 3*2*(around+4) {
			t.Errorf("%q in %q: %+v", text, body, s)
		}
	})
}

// TestAbout holds that about returns the same speaker for every spelling of a message.
func TestAbout(t *testing.T) {
	for body, want := range map[string]string{
		`{"role":"user","content":"a"}`:                                                      session.ByUser,
		`{"role":"developer","content":"a"}`:                                                 session.BySystem,
		`{"role":"assistant","content":[{"type":"thinking","thinking":"a"}]}`:                session.ByModel,
		`{"role":"toolResult","toolCallId":"c","content":[{"type":"text","text":"a"}]}`:      session.ByTool,
		`{"role":"tool_result","tool_call_id":"c","content":[{"type":"text","text":"a"}]}`:   session.ByTool,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"a"}]}`: session.ByTool,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"a"},` +
			`{"type":"text","text":"and b"}]}`: session.ByUser,
		`{"command":"ls"}`: session.ByNobody,
	} {
		if by, _ := about(body); by != want {
			t.Errorf("about(%s) = %q, want %q", body, by, want)
		}
	}
	if _, message := about(`{"role":"user","message_id":"m"}`); message != "m" {
		t.Errorf("the row of message m is of %q", message)
	}
}
