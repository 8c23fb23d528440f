package writer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

const samples = "testdata/apis"

func sample(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(samples, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// compact returns JSON without blanks between its tokens.
func compact(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// asValue compares the JSON of messages by its value: a stream spells it in its own way.
var asValue = cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Raw" },
	cmp.Transformer("json", func(raw []byte) (v any) {
		if raw != nil && json.Unmarshal(raw, &v) != nil {
			return "no JSON: " + string(raw)
		}
		return v
	}))

// assistant is the output of a reply.
func assistant(raw string) *writer.Message {
	return &writer.Message{Role: "assistant", Raw: []byte(raw)}
}

type replyCase struct {
	whole   string
	output  string // what Raw of the output says
	streams []string
	want    writer.TurnResult // Raw excepted
}

var replies = []replyCase{
	{
		whole: "anthropic.reply.json", output: "anthropic.output.json", streams: []string{"anthropic.stream.txt"},
		want: writer.TurnResult{
			Model: "claude-sonnet-4-5-20250929", ResponseID: "msg_01", StopReason: "tool_use",
			Usage: &writer.Usage{
				Input: 9, Output: 57, CacheRead: 2000, CacheWrite: 100, Rule: spans.UsageRuleExcludesCache,
			},
			Output: &writer.Message{Role: "assistant"},
		},
	},
	{
		whole: "openai-chat.reply.json", output: "openai-chat.output.json", streams: []string{"openai-chat.stream.txt"},
		want: writer.TurnResult{
			Model: "gpt-5-mini-2025-08-07", ResponseID: "chatcmpl-1", StopReason: "tool_calls",
			Usage: &writer.Usage{
				Input: 1200, Output: 90, Reasoning: 64, CacheRead: 1024, Total: 1290, Rule: spans.UsageRuleIncludesCache,
			},
			Output: &writer.Message{Role: "assistant"},
		},
	},
	{
		whole: "openai-responses.reply.json", output: "openai-responses.output.json",
		streams: []string{"openai-responses.stream.txt"},
		want: writer.TurnResult{
			Model: "gpt-5.1-2025-11-13", ResponseID: "resp_1", StopReason: "completed",
			Usage: &writer.Usage{
				Input: 400, Output: 70, Reasoning: 32, CacheRead: 256, Total: 470, Rule: spans.UsageRuleIncludesCache,
			},
			Output: &writer.Message{Role: "assistant"},
		},
	},
	{
		whole: "gemini.reply.json", output: "gemini.output.json", streams: []string{"gemini.stream.txt", "gemini.array.json"},
		want: writer.TurnResult{
			Model: "gemini-3-pro-preview", ResponseID: "r-1", StopReason: "STOP",
			Usage: &writer.Usage{
				Input: 600, Output: 40, Reasoning: 120, CacheRead: 512, Total: 760, Rule: spans.UsageRuleExcludesReasoning,
			},
			Output: &writer.Message{Role: "model"},
		},
	},
	{
		whole: "phi-core.reply.json", output: "phi-core.reply.json",
		streams: []string{"phi-core.lines.ndjson", "phi-core.stream.txt"},
		want: writer.TurnResult{
			Model: "claude-sonnet-4-5", Provider: "anthropic", StopReason: "toolUse",
			Usage: &writer.Usage{
				Input: 10, Output: 20, CacheRead: 300, CacheWrite: 40, Rule: spans.UsageRuleExcludesCache,
			},
			Output: &writer.Message{Role: "assistant", Time: time.UnixMilli(1779703202000).UTC()},
		},
	},
}

// result returns the whole value that the reply gives.
func (tt *replyCase) result(t testing.TB) writer.TurnResult {
	t.Helper()
	want, output := tt.want, *tt.want.Output
	output.Raw = sample(t, tt.output)
	want.Output = &output
	return want
}

// A reply and its stream give the same value.
func TestParseReply(t *testing.T) {
	for _, tt := range replies {
		for _, name := range append([]string{tt.whole}, tt.streams...) {
			t.Run(name, func(t *testing.T) {
				body := sample(t, name)
				kept := bytes.Clone(body)
				got, err := writer.ParseReply(body)
				if err != nil {
					t.Error(err)
				}
				if d := cmp.Diff(tt.result(t), got, asValue); d != "" {
					t.Errorf("-want +got:\n%s", d)
				}
				if !bytes.Equal(body, kept) {
					t.Error("the body was changed")
				}
			})
		}
	}
}

// A whole reply keeps its output as it is spelled.
func TestParseReplySpelling(t *testing.T) {
	for _, tt := range replies {
		got, err := writer.ParseReply(compact(t, sample(t, tt.whole)))
		if err != nil {
			t.Error(err)
		}
		raw := got.Output.Raw
		if tt.whole == "anthropic.reply.json" {
			raw = bytes.TrimSuffix(bytes.TrimPrefix(raw, []byte(`{"role":"assistant",`)), []byte(`}`))
		}
		if !bytes.Contains(compact(t, sample(t, tt.whole)), raw) {
			t.Errorf("%s: %s", tt.whole, got.Output.Raw)
		}
	}
}

// What is cut gives what it says up to there and io.ErrUnexpectedEOF, wherever it is cut.
func TestParseReplyCut(t *testing.T) {
	for _, tt := range replies {
		for _, name := range append([]string{tt.whole}, tt.streams...) {
			body := bytes.TrimSpace(sample(t, name))
			for n := range body {
				got, err := writer.ParseReply(body[:n])
				if err == nil {
					got.Usage = tt.want.Usage // it may come after the end of the message
					if d := cmp.Diff(tt.result(t), got, asValue); d != "" {
						t.Errorf("%s, %d bytes: no error, but -want +got:\n%s", name, n, d)
					}
				}
				if got.Output != nil && !json.Valid(got.Output.Raw) {
					t.Errorf("%s, %d bytes: output %s", name, n, got.Output.Raw)
				}
			}
		}
	}
}

// Replies that say that a call failed or ended early, and what servers spell in their own way.
func TestParseReplyVariants(t *testing.T) {
	const phi = `{"role":"assistant","content":[],"stopReason":"error","model":"m","provider":"unknown",
		"usage":{},"error_message":"Cancelled"}`
	type result = writer.TurnResult
	for _, tt := range []struct {
		name, body string
		want       result
	}{
		{
			"an error of Anthropic", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
			result{Failed: true, Error: "overloaded_error: Overloaded"},
		},
		{
			"an error of OpenAI", `{"error":{"message":"No","type":"invalid_request_error","code":"model_not_found"}}`,
			result{Failed: true, Error: "invalid_request_error: No"},
		},
		{
			"an error of Gemini", `[{"error":{"code":429,"message":"Slow down","status":"RESOURCE_EXHAUSTED"}}]`,
			result{Failed: true, Error: "RESOURCE_EXHAUSTED: Slow down"},
		},
		{"an error that is a text", `{"error":"no model is loaded"}`, result{Failed: true, Error: "no model is loaded"}},
		{
			"an error in a stream of Anthropic",
			`data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[]}}` + "\n\n" +
				`data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}` + "\n\n",
			result{
				ResponseID: "m", Failed: true, Error: "overloaded_error: Overloaded",
				Output: assistant(`{"role":"assistant","content":[]}`),
			},
		},
		{
			"an error in a stream of Responses", `data: {"type":"error","code":"server_error","message":"Sorry"}`,
			result{Failed: true, Error: "server_error: Sorry"},
		},
		{
			"a failed response",
			`{"object":"response","status":"failed","error":{"code":"server_error","message":"Sorry"},"output":[]}`,
			result{StopReason: "failed", Failed: true, Error: "server_error: Sorry"},
		},
		{
			"a cancelled response", `{"object":"response","status":"cancelled","output":[]}`,
			result{StopReason: "cancelled", Failed: true, Cancelled: true},
		},
		{
			"an incomplete response",
			`{"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[]}`,
			result{StopReason: "max_output_tokens"},
		},
		{
			"a response that is cut after an item",
			`data: {"type":"response.output_item.done","output_index":4,"item":{"type":"reasoning"}}` + "\n\n",
			result{Output: assistant(`[{"type":"reasoning"}]`)},
		},
		{
			"a prompt that Gemini blocks",
			`{"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4,"toolUsePromptTokenCount":3}}`,
			result{StopReason: "SAFETY", Usage: &writer.Usage{Input: 7, Rule: spans.UsageRuleExcludesReasoning}},
		},
		{
			"phi-core, cancelled", phi,
			result{Model: "m", StopReason: "error", Failed: true, Cancelled: true, Error: "Cancelled", Output: assistant(phi)},
		},
		{"a count that is none", `{"choices":[],"usage":{"prompt_tokens":-1,"completion_tokens":4}}`, result{}},
		{
			"the first choice", `{"choices":[{"index":1,"message":{"content":"b"}},{"index":0,"message":{"content":"a"}}]}`,
			result{Output: &writer.Message{Raw: []byte(`{"content":"a"}`)}},
		},
		{
			"a chunk with the message, and data in two lines",
			"data: {\"choices\":[{\"message\":\ndata: {\"content\":\"a\"},\"finish_reason\":\"stop\"}]}",
			result{StopReason: "stop", Output: &writer.Message{Raw: []byte(`{"content":"a"}`)}},
		},
	} {
		got, err := writer.ParseReply([]byte(tt.body))
		if d := cmp.Diff(tt.want, got, asValue); d != "" {
			t.Errorf("%s: %v; -want +got:\n%s", tt.name, err, d)
		}
		if wrong := strings.Contains(tt.name, "count") || strings.Contains(tt.name, "cut"); wrong != (err != nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Errors name the key, and what is allowed there; they hold nothing of the text.
func TestParseErrors(t *testing.T) {
	const known = "no reply of a known API: want one of the keys choices, candidates, output, error, " +
		"or content with type message or role assistant"
	const aCount = ": want an integer from 0 to 9223372036854775807"
	for _, tt := range []struct{ body, want string }{
		{``, "the body is empty: unexpected EOF"},
		{`{}`, known},
		{`hello`, "want a JSON object, an array or lines of these, or server-sent events"},
		{`{"a":`, "rawjson: JSON ends too early at byte 5: unexpected EOF"},
		{`{"a":}`, "rawjson: no JSON value at byte 5"},
		{`[]`, "want a JSON object, an array or lines of these, or server-sent events"},
		{`[1]`, "event 1: want an object, got a number"},
		{`{"choices":{}}`, "choices: want an array, got an object"},
		{`{"choices":[7]}`, "choices[0]: want an object, got a number"},
		{`{"choices":[{"message":"hi"}]}`, "choices[0].message: want an object, got a string"},
		{`{"model":5,"choices":[]}`, "model: want a string, got a number"},
		{`{"choices":[],"usage":{"prompt_tokens":"9"}}`, "usage.prompt_tokens" + aCount + ", got a string"},
		{
			`{"choices":[],"usage":{"prompt_tokens_details":{"cached_tokens":1.5}}}`,
			"usage.prompt_tokens_details.cached_tokens" + aCount,
		},
		{"data: {\"type\":\"ping\"}\n\ndata: {x}\n\n", "event 2: rawjson: object key is no JSON string at byte 1"},
		{"data: {\"type\":\"ping\"}\n\n", known},
		{`{"type":"content_block_delta","delta":{"text":"x"}}`, "event 1: index: missing"},
		{`{"type":"message_start","message":[]}`, "event 1: message: want an object, got an array"},
		{`{"choices":` + strings.Repeat("[", 300), "rawjson: JSON nested too deeply at byte 218"},
	} {
		if _, err := writer.ParseReply([]byte(tt.body)); err == nil || err.Error() != "otelagent: reply: "+tt.want {
			t.Errorf("%.60s: got %v, want %s", tt.body, err, tt.want)
		}
	}
	for _, tt := range []struct{ body, want string }{
		{``, "rawjson: JSON ends too early at byte 0"},
		{`[]`, "want an object, got an array"},
		{`{"messages":"hi"}`, "messages: want an array, got a string"},
		{`{"input":{}}`, "input: want an array, got an object"},
		{`{"model":["m"]}`, "model: want a string, got an array"},
		{`{"temperature":"hot"}`, "temperature: want a number, got a string"},
		{`{"max_tokens":1.5}`, "max_tokens: want an integer of 64 bits"},
		{`{"reasoning":{"effort":3}}`, "reasoning.effort: want a string, got a number"},
		{`{"generationConfig":{"maxOutputTokens":"9"}}`, "generationConfig.maxOutputTokens: want an integer, got a string"},
	} {
		if _, err := writer.ParseRequest([]byte(tt.body)); err == nil || err.Error() != "otelagent: request: "+tt.want {
			t.Errorf("%s: got %v, want %s", tt.body, err, tt.want)
		}
	}
}

// ptr returns a pointer to v.
func ptr[T any](v T) *T { return &v }

func TestParseRequest(t *testing.T) {
	for _, tt := range []struct {
		name     string
		want     writer.Request // but for what refers to the payload
		messages []writer.Message
		system   string
	}{
		{
			name: "anthropic",
			want: writer.Request{
				Parameters: writer.Parameters{Model: "claude-sonnet-4-5", Level: "medium",
					MaxTokens: ptr[int64](2048), Temperature: ptr(1.0)},
			},
			messages: []writer.Message{
				{Role: "user"}, {Role: "assistant"}, {Role: "user", ToolCallID: "toolu_1"}, {Role: "assistant"}, {Role: "user"},
			},
			system: "system",
		},
		{
			name: "openai-chat",
			want: writer.Request{
				Parameters: writer.Parameters{Model: "gpt-5-mini", Level: "low", Format: "json_schema",
					MaxTokens: ptr[int64](300), Temperature: ptr(0.5)},
			},
			messages: []writer.Message{
				{Role: "developer"}, {Role: "user"}, {Role: "assistant"}, {Role: "tool", ToolCallID: "call_1"},
			},
		},
		{
			name: "openai-responses",
			want: writer.Request{
				Parameters: writer.Parameters{Model: "gpt-5.1", Level: "high", Format: "text",
					MaxTokens: ptr[int64](500), Temperature: ptr(0.0)},
			},
			messages: []writer.Message{
				{Role: "user"}, {Role: "assistant"}, {Role: "assistant"}, {Role: "tool", ToolCallID: "call_1"},
			},
			system: "instructions",
		},
		{
			name: "gemini",
			want: writer.Request{
				Parameters: writer.Parameters{Level: "LOW", Format: "application/json",
					MaxTokens: ptr[int64](800), Temperature: ptr(0.25)},
			},
			messages: []writer.Message{{Role: "user"}, {Role: "model"}, {Role: "user", ToolCallID: "fc_1"}},
			system:   "systemInstruction",
		},
		{
			name: "phi-core",
			want: writer.Request{Parameters: writer.Parameters{Model: "claude-sonnet-4-5", Level: "high",
				Format: "json-object", MaxTokens: ptr[int64](4096), Temperature: ptr(0.7)}},
			messages: []writer.Message{{Role: "user"}, {Role: "assistant"}, {Role: "toolResult", ToolCallID: "c1"}},
			system:   "system_prompt",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			payload := compact(t, sample(t, tt.name+".request.json"))
			var top map[string]json.RawMessage
			if err := json.Unmarshal(payload, &top); err != nil {
				t.Fatal(err)
			}
			want := tt.want
			want.Payload, want.Bytes, want.Tools, want.System = payload, int64(len(payload)), top["tools"], top[tt.system]
			var raws []json.RawMessage
			for _, key := range []string{"messages", "input", "contents"} {
				if list := top[key]; list != nil && json.Unmarshal(list, &raws) != nil {
					t.Fatal(key)
				}
			}
			for i, raw := range raws {
				m := tt.messages[i]
				m.Raw = raw
				want.Messages = append(want.Messages, m)
			}
			got, err := writer.ParseRequest(payload)
			if err != nil {
				t.Error(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	got, err := writer.ParseRequest([]byte(`{"model":"m","input":"hi"}`))
	want := []writer.Message{{Raw: []byte(`"hi"`), Role: "user"}}
	if d := cmp.Diff(want, got.Messages); d != "" || err != nil {
		t.Errorf("%v; -want +got:\n%s", err, d)
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
		"pieces":   strings.Repeat(`{"type":"content_block_delta","index":0,"delta":{"partial_json":"["}}`+"\n", n),
		"brackets": strings.Repeat("[", n),
		"nesting": strings.Repeat(`{"choices":[{"delta":`+strings.Repeat(`{"a":`, 190)+"1"+
			strings.Repeat("}", 190)+"}]}\n", 500),
	} {
		start := time.Now()
		_, err := writer.ParseReply([]byte(body))
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("%s: %v for %d bytes", name, took, len(body))
		}
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func addSamples(f *testing.F) {
	files, err := filepath.Glob(samples + "/*")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, file := range files {
		f.Add(sample(f, filepath.Base(file)))
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
		if d := cmp.Diff(got, again); d != "" || !bytes.Equal(body, kept) {
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
