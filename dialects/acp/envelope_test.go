package acp

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
)

// captured is a line of the sample: when it went which way.
type captured struct {
	TS        time.Time       `json:"ts"`
	Direction string          `json:"direction"`
	Message   json.RawMessage `json:"message"`
}

func (c captured) toAgent() bool { return c.Direction == "client_to_agent" }

func (c captured) pick(toAgent, toClient string) string {
	if c.toAgent() {
		return toAgent
	}
	return toClient
}

func sample(t *testing.T) (list []captured) {
	t.Helper()
	text, err := os.ReadFile("testdata/sample.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var c captured
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		list = append(list, c)
	}
	return list
}

// asIs is what events of a capture are compared without, where its envelope cannot tell it.
var (
	tsOf   = regexp.MustCompile(`"ts":"[^"]*",`)
	seqOf  = regexp.MustCompile(`"seq":\d+,`)
	waitOf = regexp.MustCompile(`"wait_ns":\d+,`)
	idOf   = regexp.MustCompile(`"body":\{"id":(\d+|"[^"]*"),`)
	runOf  = regexp.MustCompile(`prompt-([0-9a-z-]+)`)
)

// TestEnvelopes writes the sample in each form that captures are found in, and reads the same events.
func TestEnvelopes(t *testing.T) {
	list := sample(t)
	start := list[0].TS
	quote := func(c captured) string {
		b, _ := json.Marshal(string(c.Message))
		return string(b)
	}
	// A conductor and sacp-tee give requests ids of their own; the response has that of its request.
	var renamed []captured
	ids := map[string]string{}
	for i, c := range list {
		var m map[string]json.RawMessage
		if err := json.Unmarshal(c.Message, &m); err != nil {
			t.Fatal(err)
		}
		if m["id"] != nil {
			asking := c.toAgent() == (m["method"] != nil)
			key := fmt.Sprint(asking, string(m["id"]))
			if m["method"] != nil {
				ids[key] = fmt.Sprintf(`"0198-%04d"`, i)
			}
			m["id"] = json.RawMessage(ids[key])
			c.Message, _ = json.Marshal(m)
		}
		renamed = append(renamed, c)
	}
	part := func(c captured, key string) json.RawMessage {
		var m map[string]json.RawMessage
		_ = json.Unmarshal(c.Message, &m)
		return m[key]
	}
	conductor := func(c captured, from, to string) string {
		since := c.TS.Sub(start).Seconds()
		if method := part(c, "method"); method == nil {
			return fmt.Sprintf(`{"type":"response","ts":%g,"from":%q,"to":%q,"id":%s,"is_error":false,"payload":%s}`, since, from, to, part(c, "id"), part(c, "result"))
		} else if id := part(c, "id"); id != nil {
			return fmt.Sprintf(`{"type":"request","ts":%g,"protocol":"acp","from":%q,"to":%q,"id":%s,"method":%s,"session":null,"params":%s}`, since, from, to, id, method, part(c, "params"))
		} else {
			return fmt.Sprintf(`{"type":"notification","ts":%g,"protocol":"acp","from":%q,"to":%q,"method":%s,"params":%s}`, since, from, to, method, part(c, "params"))
		}
	}
	direct := func(c captured) string {
		return conductor(c, c.pick("Client", "Agent"), c.pick("Agent", "Client"))
	}
	forms := []struct {
		name   string
		head   string
		list   []captured
		format func(c captured) string
		drop   []*regexp.Regexp
	}{
		{"ts, direction, message", "", list, func(c captured) string {
			return fmt.Sprintf(`{"ts":%d,"direction":%q,"message":%s}`, c.TS.UnixMilli(), c.pick("clientToAgent", "agentToClient"), c.Message)
		}, nil},
		{"ACP Inspector", "", list, func(c captured) string {
			return fmt.Sprintf(`{"ts":%q,"direction":%q,"json":%s}`, c.TS.Format("2006-01-02T15:04:05.0000000-07:00"), c.pick("fromClient", "fromAgent"), quote(c))
		}, nil},
		{"sacp-tee", "", renamed, func(c captured) string {
			m := strings.Replace(string(c.Message), `"jsonrpc":"2.0",`, "", 1)
			way := "downstream"
			if part(c, "method") == nil {
				way = "upstream"
			}
			return fmt.Sprintf(`{"timestamp":%q,"direction":%q,"message":%s}`, c.TS.Format(time.RFC3339Nano), way, m)
		}, []*regexp.Regexp{runOf, idOf}},
		{"VS Code", "", list, func(c captured) string {
			return strings.TrimSuffix(string(c.Message), "}") + fmt.Sprintf(`,"_ahpLog":{"ts":%q,"dir":%q,"connectionId":"c1","transport":"local","byteLength":1}}`, c.TS.Format(time.RFC3339Nano), c.pick("c2s", "s2c"))
		}, nil},
		{"c2s in a text log", "", list, func(c captured) string {
			return fmt.Sprintf("%s [trace] %s %s", c.TS.Format(time.RFC3339Nano), c.pick("c2s", "s2c"), c.Message)
		}, nil},
		{"direction as key", "", list, func(c captured) string {
			return fmt.Sprintf(`{"time":%q,%q:%s}`, c.TS.Format(time.RFC3339Nano), c.pick("c2s", "s2c"), c.Message)
		}, nil},
		{"conductor without proxies", "", renamed, direct, []*regexp.Regexp{tsOf, runOf, idOf}},
		{"conductor with a proxy", "", renamed, func(c captured) string {
			near := conductor(c, c.pick("Client", "Proxy(1)"), "Proxy(0)")
			if part(c, "method") == nil {
				return near
			}
			far := conductor(c, c.pick("Proxy(0)", "Agent"), c.pick("Proxy(1)", "Proxy(1)"))
			return near + "\n" + strings.ReplaceAll(far, "0198-", "far-")
		}, []*regexp.Regexp{tsOf, runOf, idOf, seqOf}},
		{"conductor's debug log", debugLogHead + "\nStarted: " + start.Format(time.RFC3339Nano) + "\nComponents:\n  0: my-agent --acp\n========================\n", list,
			func(c captured) string {
				return fmt.Sprintf("C ! +1ms INFO connecting {\n0 %s +%dms %s\n1 %[1]s +%[2]dms %[3]s", c.pick("→", "←"), c.TS.Sub(start).Milliseconds(), c.Message)
			}, []*regexp.Regexp{seqOf}},
		{"bare", "", list, func(c captured) string { return string(c.Message) }, []*regexp.Regexp{tsOf, waitOf}},
		{"bare with ts", "", list, func(c captured) string {
			return fmt.Sprintf(`{"ts":%q,`, c.TS.Format(time.RFC3339Nano)) + string(c.Message[1:])
		}, nil},
		{"server-sent events", "", list, func(c captured) string {
			return fmt.Sprintf("data: {\"ts\":%q,\"dir\":%q,\"msg\":%s}\n", c.TS.Format(time.RFC3339Nano), c.pick("c2a", "a2c"), c.Message)
		}, []*regexp.Regexp{seqOf}},
	}
	read := func(text string, drop []*regexp.Regexp) []string {
		out := lines(text)
		for i := range out {
			for _, r := range drop {
				out[i] = r.ReplaceAllString(out[i], "")
			}
		}
		return out
	}
	golden := strings.Builder{}
	for _, c := range list {
		b, _ := json.Marshal(c)
		golden.Write(append(b, '\n'))
	}
	for _, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			var b strings.Builder
			b.WriteString(f.head)
			for _, c := range f.list {
				b.WriteString(f.format(c) + "\n")
			}
			if diff := gocmp.Diff(read(golden.String(), f.drop), read(b.String(), f.drop)); diff != "" {
				t.Errorf("other events (-want +got):\n%s", diff)
			}
			if why, ok := Recognise([]byte(b.String()[:min(b.Len(), 300)])); !ok || why == "" || f.head == "" && strings.Contains(why, "sample") {
				t.Errorf("not recognised from its beginning: %q %v", why, ok)
			}
		})
	}
}

// TestConductorTimes keeps the distances of a trace that does not say when it began.
func TestConductorTimes(t *testing.T) {
	got := lines(`{"type":"request","ts":1.5,"protocol":"acp","from":"Client","to":"Agent","id":"a","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
{"type":"response","ts":2.25,"from":"Agent","to":"Client","id":"a","is_error":true,"payload":{"code":-32603,"message":"no"}}`)
	first, last := got[0], got[len(got)-1]
	if !strings.Contains(first, `"ts":"1970-01-01T00:00:01.500000001Z"`) || !strings.Contains(last, `"ts":"1970-01-01T00:00:02.250000001Z"`) {
		t.Errorf("times of\n%s\n%s", first, last)
	}
	if !strings.Contains(last, `"status":"error","status_word":"-32603"`) {
		t.Errorf("the end is %s", last)
	}
}

// TestSacpTeeErrors reads an error that sacp-tee writes as text in the place of the result.
func TestSacpTeeErrors(t *testing.T) {
	got := lines(`{"timestamp":"2026-01-05T10:00:00+00:00","direction":"downstream","message":{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}}
{"timestamp":"2026-01-05T10:00:01+00:00","direction":"upstream","message":{"id":1,"result":{"error":"it broke"}}}`)
	if last := got[len(got)-1]; !strings.Contains(last, `"status":"error"`) || !strings.Contains(last, `"error":"it broke"`) {
		t.Errorf("the end is %s", last)
	}
}

func TestRecognise(t *testing.T) {
	for _, text := range []string{
		"", "{}", "[]", "hello\n", `{"type":"AgentStart","loop_id":"l","direction":"north"}`, `{"role":"user","content":"jsonrpc"}`,
		`{"session":{"id":"s"},"messages":[]}`, `{"type":"session","data":{}}`, `{"direction":"c2s"}`, `{"type":"otelagent.run_started"}`, "SQLite format 3\x00",
		`{"ts":1,"seq":2,"run_id":"r","event":{"TurnStart":{}}}`,
	} {
		if why, ok := Recognise([]byte(text)); ok {
			t.Errorf("%s is taken for a capture: %s", text, why)
		}
	}
	text, err := os.ReadFile("testdata/sample.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	own := `{"type":"otelagent.fact_stated","session":"s","facts":[]}` + "\n"
	for _, head := range []string{string(text), "\xef\xbb\xbf" + string(text), own + string(text), "data: " + string(text), "\r\n" + string(text), string(text[:200])} {
		if why, ok := Recognise([]byte(head)); !ok || strings.Contains(why, "sample") {
			t.Errorf("%.60q is not recognised (%q)", head, why)
		}
	}
}
