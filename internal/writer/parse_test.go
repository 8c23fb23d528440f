package writer_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
)

var update = flag.Bool("update", false, "write testdata/parse.golden")

// samples returns the bodies of testdata/apis by name, those whose names contain part.
func samples(t testing.TB, part string) (names []string, bodies map[string][]byte) {
	t.Helper()
	files, err := filepath.Glob("testdata/apis/*" + part + "*")
	if err != nil || len(files) == 0 {
		t.Fatal(part, err)
	}
	bodies = make(map[string][]byte)
	for _, file := range files {
		name := filepath.Base(file)
		names = append(names, name)
		if bodies[name], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return names, bodies
}

// replies returns the samples of replies, whole and streamed.
func replies(t testing.TB) (names []string, bodies map[string][]byte) {
	all, bodies := samples(t, "")
	for _, name := range all {
		if !strings.Contains(name, ".request.") {
			names = append(names, name)
		}
	}
	return names, bodies
}

// Replies that say that a call failed or ended early, what servers spell in their own way, and what is no reply. Each
// is a name and a body.
var variants = []string{
	"an error of Anthropic", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
	"an error of OpenAI", `{"error":{"message":"No","type":"invalid_request_error","code":"model_not_found"}}`,
	"an error of Gemini", `[{"error":{"code":429,"message":"Slow down","status":"RESOURCE_EXHAUSTED"}}]`,
	"an error that is a text", `{"error":"no model is loaded"}`,
	"an error in a stream of Anthropic",
	`data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[]}}` + "\n\n" +
		`data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}` + "\n\n",
	"an error in a stream of Responses", `data: {"type":"error","code":"server_error","message":"Sorry"}`,
	"a failed response",
	`{"object":"response","status":"failed","error":{"code":"server_error","message":"Sorry"},"output":[]}`,
	"a cancelled response", `{"object":"response","status":"cancelled","output":[]}`,
	"an incomplete response",
	`{"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`,
	"a response that is cut after an item",
	`data: {"type":"response.output_item.done","output_index":4,"item":{"type":"reasoning"}}` + "\n\n",
	"a prompt that Gemini blocks",
	`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4,"toolUsePromptTokenCount":3}}`,
	"phi-core, cancelled", `{"role":"assistant","content":[],"stopReason":"error","model":"m","provider":"unknown",` +
		`"usage":{},"error_message":"Cancelled"}`,
	"a count that is none", `{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":4}}`,
	"an error in a stream of Ollama", `{"message":{"role":"assistant","content":"a"},"done":false}` + "\n" +
		`{"error":"out of memory"}`,
	"a prompt that Ollama finds in its cache", `{"message":{"content":"a"},"done":true,"eval_count":4}`,
	"a first line of Ollama", `{"message":{"content":"a"},"done":false}`,
	"the first choice", `{"choices":[{"index":1,"message":{"content":"b"}},{"index":0,"message":{"content":"a"}}]}`,
	"a chunk with the message, and data in two lines",
	"data: {\"choices\":[{\"message\":\ndata: {\"content\":\"a\"},\"finish_reason\":\"stop\"}]}",
	"a finish reason that is empty until the end, and a cut",
	"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"\"}]}\n\n",
	"a finish reason that is empty after the end",
	"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"\"}],\"usage\":{\"prompt_tokens\":3}}\n\ndata: [DONE]\n\n",
	"nothing", ``, "no members", `{}`, "a text", `hello`, "cut", `{"a":`, "no JSON", `{"a":}`, "no events", `[]`,
	"a number as an event", `[1]`, "choices that are no array", `{"choices":{}}`, "a choice", `{"choices":[7]}`,
	"a message", `{"choices":[{"message":"hi"}]}`, "a model", `{"model":5,"choices":[]}`,
	"a count that is a string", `{"choices":[],"usage":{"prompt_tokens":"9"}}`,
	"half a token", `{"choices":[],"usage":{"prompt_tokens_details":{"cached_tokens":1.5}}}`,
	"an event that is no JSON", "data: {\"type\":\"ping\"}\n\ndata: {x}\n\n",
	"events that say nothing", "data: {\"type\":\"ping\"}\n\n",
	"no index", `{"type":"content_block_delta","delta":{"text":"x"}}`,
	"a start", `{"type":"message_start","message":[]}`, "too deep", `{"choices":` + strings.Repeat("[", 300),
}

var badRequests = []string{``, `[]`, `{"messages":"hi"}`, `{"input":{}}`, `{"model":["m"]}`, `{"temperature":"hot"}`,
	`{"max_tokens":1.5}`, `{"reasoning":{"effort":3}}`, `{"generationConfig":{"maxOutputTokens":"9"}}`,
	`{"model":"m","input":"hi"}`, `{"options":{"num_predict":"9"},"think":true,"format":"json"}`}

// TestParse compares what is read of replies and requests with testdata/parse.golden. An error names the key, and what
// is allowed there.
func TestParse(t *testing.T) {
	var got strings.Builder
	reply := func(name string, body []byte) {
		kept := bytes.Clone(body)
		r, err := writer.ParseReply(body)
		fmt.Fprintf(&got, "%s: %s %s %s %q, failed %t, cancelled %t: %s\n", name, r.Provider, r.Model, r.ResponseID,
			r.StopReason, r.Failed, r.Cancelled, r.Error)
		if r.Usage != nil {
			fmt.Fprintf(&got, "  usage %s\n", strings.Replace(fmt.Sprintf("%+v", *r.Usage), " LowerBound:false", "", 1))
		}
		if m := r.Output; m != nil {
			fmt.Fprintf(&got, "  %s %v %s\n", m.Role, m.Time, m.Raw)
		}
		if err != nil {
			fmt.Fprintf(&got, "  error %v\n", err)
		}
		if !bytes.Equal(body, kept) {
			t.Errorf("%s: the body was changed", name)
		}
	}
	names, bodies := replies(t)
	for _, name := range names {
		reply(name, bodies[name])
	}
	for i := 0; i < len(variants); i += 2 {
		reply(variants[i], []byte(variants[i+1]))
	}
	request := func(name string, body []byte) {
		r, err := writer.ParseRequest(body)
		number := func(p any) any { return reflect.Indirect(reflect.ValueOf(p)) }
		fmt.Fprintf(&got, "%s: %s, level %s, format %s, at most %v, temperature %v, %d bytes\n  system %s\n  tools %s\n",
			name, r.Model, r.Level, r.Format, number(r.MaxTokens), number(r.Temperature), r.Bytes, r.System, r.Tools)
		for _, m := range r.Messages {
			fmt.Fprintf(&got, "  %s %q %s\n", m.Role, m.ToolCallID, m.Raw)
		}
		if err != nil {
			fmt.Fprintf(&got, "  error %v\n", err)
		}
	}
	names, bodies = samples(t, ".request.")
	for _, name := range names {
		var body bytes.Buffer
		must.Do(t, json.Compact(&body, bodies[name]))
		request(name, body.Bytes())
	}
	for _, body := range badRequests {
		request(cmp.Or(body, "nothing"), []byte(body))
	}
	const golden = "testdata/parse.golden"
	if *update {
		must.Do(t, os.WriteFile(golden, []byte(got.String()), 0o644))
	}
	want := must.Get(os.ReadFile(golden))(t)
	if d := gocmp.Diff(string(want), got.String()); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// value returns a result with the JSON of its output by value: a stream spells it in its own way.
func value(t *testing.T, r writer.TurnResult) []any {
	t.Helper()
	var output any
	if r.Output != nil {
		if err := json.Unmarshal(r.Output.Raw, &output); err != nil {
			t.Fatalf("output %s: %v", r.Output.Raw, err)
		}
	}
	r.Output = nil
	return []any{r, output}
}

// A reply and its stream give the same value. A body that is cut gives an error, or all but the usage, which may come
// after the message.
func TestParseReplyCut(t *testing.T) {
	names, bodies := replies(t)
	whole := make(map[string][]any)
	for _, name := range names {
		body, api := bytes.TrimSpace(bodies[name]), name[:strings.Index(name, ".")]
		r, err := writer.ParseReply(body)
		if err != nil {
			t.Error(name, err)
		}
		if whole[api] == nil {
			whole[api] = value(t, r)
		} else if d := gocmp.Diff(whole[api], value(t, r)); d != "" {
			t.Errorf("%s: another value than that of other spellings:\n%s", name, d)
		}
		for n := range body {
			got, err := writer.ParseReply(body[:n])
			v := value(t, got)
			if err == nil && !reflect.DeepEqual(v[1], whole[api][1]) {
				t.Errorf("%s, %d bytes: no error, but %v", name, n, v)
			}
		}
	}
}

// TestParseReplyHostile feeds inputs on which code whose cost is not linear takes minutes.
func TestParseReplyHostile(t *testing.T) {
	const n = 1 << 16
	lines := func(format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format+"\n", i)
		}
		return b.String()
	}
	keys := new(strings.Builder)
	for i := range 1024 {
		fmt.Fprintf(keys, `"k%d":"","`, i)
	}
	wide := `{"choices":[{"delta":{` + strings.ReplaceAll(keys.String(), `,"`, ",") + `"x":""}}]}` + "\n"
	for name, body := range map[string]string{
		"data": strings.Repeat("data:\n", n*8),
		"indexes": `{"type":"message_start","message":{"content":[` + strings.Repeat("{},", n) + "{}]}}\n" +
			lines(`{"type":"content_block_delta","index":%d00000,"delta":{"text":"x"}}`),
		"keys":     lines(`{"choices":[{"delta":{"key %d":"x"}}]}`),
		"wide":     strings.Repeat(wide, 200),
		"choices":  `{"choices":[` + strings.Repeat(`{"index":1},`, n) + `{}]}`,
		"parts":    strings.Repeat(`{"candidates":[{"content":{"parts":[{"text":"x"},{"a":1},{"text":""}]}}]}`+"\n", n),
		"text":     strings.Repeat(`{"candidates":[{"content":{"parts":[{"text":"x"}]}}]}`+"\n", n),
		"lines":    strings.Repeat(`{"message":{"content":"x","tool_calls":[{"id":"a"}]},"done":false}`+"\n", n),
		"pieces":   strings.Repeat(`{"type":"content_block_delta","index":0,"delta":{"partial_json":"["}}`+"\n", n),
		"brackets": strings.Repeat("[", n),
		"nesting": strings.Repeat(`{"choices":[{"delta":`+strings.Repeat(`{"a":`, 190)+"1"+
			strings.Repeat("}", 190)+"}]}\n", 500),
	} {
		start := time.Now()
		_, err := writer.ParseReply([]byte(body))
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s: %v for %d bytes", name, took, len(body))
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func addSamples(f *testing.F) {
	_, bodies := samples(f, "")
	for _, body := range bodies {
		f.Add(body)
	}
	for _, text := range []string{
		`{"input":"hi"}`, `{"error":{"message":"x"}}`, `[{"error":1}]`, "data: [DONE]\n\n", "data: {\ndata: }\n\n",
		`{"messages":[[],{"parts":[7]}]}`,
		`{"choices":[{"delta":{"a":[{"index":9,"b":{"c":["d"]}}],"a":"x"}}],"object":"chat.completion.chunk"}`,
		`[{"candidates":[{"content":{"parts":["x",{"text":"a"},{"text":7}]}}]}]`,
	} {
		f.Add([]byte(text))
	}
}

// FuzzParseReply: what is read is JSON, reading it changes nothing, and the same bytes give the same value.
func FuzzParseReply(f *testing.F) {
	addSamples(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		kept := bytes.Clone(body)
		got, err := writer.ParseReply(body)
		if err == nil && got.Output == nil && !got.Failed && len(body) == 0 {
			t.Error("a reply of nothing")
		}
		if m := got.Output; m != nil && !json.Valid(m.Raw) {
			t.Errorf("output %q", m.Raw)
		}
		if u := got.Usage; u != nil && min(u.Input, u.Output, u.Reasoning, u.CacheRead, u.CacheWrite, u.Total) < 0 {
			t.Errorf("usage %+v", *u)
		}
		again, _ := writer.ParseReply(body)
		if d := gocmp.Diff(got, again); d != "" || !bytes.Equal(body, kept) {
			t.Errorf("read twice: %s", d)
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	addSamples(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		kept := bytes.Clone(body)
		got, err := writer.ParseRequest(body)
		for _, m := range got.Messages {
			if !json.Valid(m.Raw) {
				t.Errorf("message %q", m.Raw)
			}
		}
		for _, raw := range [][]byte{got.System, got.Tools} {
			if raw != nil && !json.Valid(raw) {
				t.Errorf("part %q", raw)
			}
		}
		if !bytes.Equal(got.Payload, kept) || got.Bytes != int64(len(kept)) {
			t.Errorf("%v, %d bytes", err, got.Bytes)
		}
	})
}

// A stream in pieces of any size is the same reply as the whole body, where it is cut, too.
func TestReplyReader(t *testing.T) {
	names, bodies := samples(t, ".stream.")
	for _, name := range names {
		body := bodies[name]
		for _, body := range [][]byte{body, body[:len(body)/2], bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n"))} {
			if body[0] == '[' {
				continue // an array is read whole
			}
			want, wantErr := writer.ParseReply(body)
			for _, size := range []int{1, 7, 1 << 20} {
				var r writer.ReplyReader
				events := 0
				for piece := range slices.Chunk(body, size) {
					piece = bytes.Clone(piece)
					r.Write(piece, func(event []byte) {
						events++
						clear(event)
					})
					clear(piece) // whose memory is of the caller
				}
				r.End()
				got, err := r.Reply()
				if diff := gocmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) || events == 0 {
					t.Errorf("%s in pieces of %d bytes: %v, want %v, %d events (-want +got):\n%s", name, size, err, wantErr,
						events, diff)
				}
			}
		}
	}
	for _, last := range []string{"data: [DONE]", `data: {"type":"message_stop"}`, `{"message":{},"done":true}`,
		`data: {"type":"response.completed","response":{}}`} {
		var r writer.ReplyReader
		r.Write([]byte("data: {\"type\":\"error\",\"error\":{\"message\":\"[DONE] message_stop\"}}\n\n"), func([]byte) {})
		if r.Ended() {
			t.Errorf("%s: it ended before", last)
		}
		if r.Write([]byte(last+"\n\n"), func([]byte) {}); !r.Ended() {
			t.Errorf("%s is not the last", last)
		}
	}
	var r writer.ReplyReader
	r.Write([]byte(": ping\n\nevent: ping\n\ndata:\n\n"), func(event []byte) { t.Errorf("event %q", event) })
	r.End()
	if _, err := r.Reply(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}
