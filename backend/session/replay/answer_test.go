package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/message"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// reply reads a reply as `otelagent request --send` does.
func reply(t testing.TB, raw []byte) *Answer {
	t.Helper()
	res, err := otelagent.ParseReply(raw)
	if err != nil {
		return nil
	}
	return NewAnswer(Answer{ID: res.ResponseID, Model: res.Model, StopReason: res.StopReason}, res.Output.Raw, res.Usage)
}

// One answer in the three forms, which the official SDKs take too (`make interop-replay`).
func TestNewAnswer(t *testing.T) {
	usage := session.Usage{Input: 115, Output: 20, Reasoning: 7, CacheRead: 100}
	call := func(id, args string) []Call {
		return []Call{{ID: id, Name: "read_file", Args: session.RawJSON(args)}}
	}
	withWrite := usage
	withWrite.CacheWrite = 5
	want := map[message.API]Answer{
		message.Anthropic: {ID: "msg_1", Model: "claude-sonnet-4-5-20250929", Text: "I read it.",
			Reasoning: "Look first.", Calls: call("toolu_9", `{"path": "src/lib.rs"}`),
			Other: []string{"block of type server_tool_use"}, StopReason: "tool_use", Usage: &withWrite},
		message.OpenAIChat: {ID: "chatcmpl-1", Model: "gpt-5.1", Text: "I read it.",
			Calls: call("call_9", `{"path": "src/lib.rs"}`), StopReason: "tool_calls", Usage: &usage},
		message.OpenAIResponses: {ID: "resp_1", Model: "gpt-5.1", Text: "I read it.", Reasoning: "Look first.",
			Calls: call("call_9", `{"path":"src/lib.rs"}`), StopReason: "completed", Usage: &usage},
	}
	for form, want := range want {
		raw := must.Get(os.ReadFile(filepath.Join("testdata", "answers", string(form)+".json")))(t)
		got := reply(t, raw)
		for i := range got.Calls { // blanks do not matter
			got.Calls[i].Args = session.RawJSON(strings.Join(strings.Fields(string(got.Calls[i].Args)), ""))
			want.Calls[i].Args = session.RawJSON(strings.Join(strings.Fields(string(want.Calls[i].Args)), ""))
		}
		if d := cmp.Diff(&want, got); d != "" {
			t.Errorf("%s: -want +got:\n%s", form, d)
		}
	}
}

// Input includes cached tokens and output reasoning, whatever the provider's rule is.
func TestNewAnswerUsage(t *testing.T) {
	want := session.Usage{Input: 115, Output: 20, Reasoning: 7, CacheRead: 100, CacheWrite: 5}
	for rule, u := range map[spans.UsageRule]spans.Usage{
		spans.UsageRuleIncludesCache:             {Input: 115, Output: 20},
		spans.UsageRuleExcludesCache:             {Input: 10, Output: 20},
		spans.UsageRuleExcludesReasoning:         {Input: 115, Output: 13},
		spans.UsageRuleExcludesCacheAndReasoning: {Input: 10, Output: 13},
	} {
		u.Reasoning, u.CacheRead, u.CacheWrite, u.Rule = 7, 100, 5, rule
		if got := NewAnswer(Answer{}, []byte(`"hi"`), &u); *got.Usage != want || got.Text != "hi" {
			t.Errorf("%s: %+v", rule, got)
		}
	}
	gemini := reply(t, []byte(`{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]}}],`+
		`"usageMetadata":{"promptTokenCount":9,"candidatesTokenCount":2,"thoughtsTokenCount":3}}`))
	if gemini.Text != "hi" || *gemini.Usage != (session.Usage{Input: 9, Output: 5, Reasoning: 3}) {
		t.Errorf("Gemini: %+v, %+v", gemini, gemini.Usage)
	}
}

func TestCompare(t *testing.T) {
	call := func(name, args string) Call { return Call{ID: name + args, Name: name, Args: session.RawJSON(args)} }
	recorded := &Answer{Text: "one\ntwo\n", Calls: []Call{call("a", `{"x":1,"y":2}`), call("b", `{}`), call("a",
		`{"x":2}`), call("c", `not JSON`)}}
	answered := &Answer{Text: "one\nthree\n", Calls: []Call{call("a", `{"x":3}`), call("a", `{"y":2, "x":1}`), call("d",
		`{}`), call("c", `not JSON`)}}
	want := &Comparison{
		Diff: `--- recorded
+++ answered
@@ -1,12 +1,12 @@
 one
-two
+three
 
 call a {
   "x": 1,
   "y": 2
 }
 call a {
-  "x": 2
+  "x": 3
 }
-call b {}
 call c not JSON
+call d {}
`,
		Recorded: recorded, Answered: answered, Whole: true,
	}
	if d := cmp.Diff(want, Compare(recorded, true, answered)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	again := &Answer{Text: recorded.Text, Calls: []Call{call("c", `not JSON`), call("a", `{"x":2}`), call("b", `{}`),
		call("a", `{"y":2,"x":1}`)}}
	if c := Compare(recorded, true, again); !c.Same || c.Diff != "" {
		t.Errorf("the same in another order: %+v", c)
	}
	if c := Compare(nil, false, again); c.Same || c.Diff != "" {
		t.Errorf("nothing recorded: %+v", c)
	}
	long := strings.Repeat("line\n", maxDiff/4)
	if got := Lines("a", "b", long, long+"x"); !strings.Contains(got, "too long") {
		t.Errorf("a long text: %.80s", got)
	}
}

func TestResultText(t *testing.T) {
	for body, want := range map[string]string{
		`{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"details":null}`: "a\nb",
		`{"content":"plain","is_error":true}`:                                                "plain (error)",
		`[{"type":"text","text":"a"},{"type":"image","data":"aGk=","mimeType":"image/png"}]`: "a\n[image]",
		`"text"`:         "text",
		`{"stdout":"x"}`: `{"stdout":"x"}`,
		`{"output":{"type":"error-text","value":"no"}}`: "no (error)",
		`not JSON`: "not JSON",
	} {
		p := message.ReadResult([]byte(body))
		got := message.JoinText(p.Parts, true)
		if p.IsError {
			got += " (error)"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

// Whatever a server sends as a message, comparing it does not panic.
func FuzzNewAnswer(f *testing.F) {
	files, err := filepath.Glob("testdata/answers/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, file := range files {
		raw := must.Get(os.ReadFile(file))(f)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		a := NewAnswer(Answer{}, body, nil)
		if c := Compare(a, true, a); !c.Same {
			t.Fatalf("an answer is not the same as itself: %+v", c)
		}
		message.ReadResult(body)
	})
}
