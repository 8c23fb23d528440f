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

	"github.com/otelagent/otelagent/dialects/input"
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

// asIs is what events of a capture are compared without, where its envelope does not state it.
var (
	tsOf   = regexp.MustCompile(`"ts":"[^"]*",`)
	seqOf  = regexp.MustCompile(`"seq":\d+,`)
	waitOf = regexp.MustCompile(`"wait_ns":\d+,`)
	idOf   = regexp.MustCompile(`"body":\{"id":(\d+|"[^"]*"),`)
	runOf  = regexp.MustCompile(`prompt-([0-9a-z-]+)`)
)

// TestEnvelopes writes the sample in each form of capture that is read, and reads the same events.
func TestEnvelopes(t *testing.T) {
	list := sample(t)
	start := list[0].TS
	// A conductor gives requests ids of their own; the response has that of its request.
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
			return fmt.Sprintf(`{"type":"response","ts":%g,"from":%q,"to":%q,"id":%s,"is_error":false,"payload":%s}`, since,
				from, to, part(c, "id"), part(c, "result"))
		} else if id := part(c, "id"); id != nil {
			return fmt.Sprintf(`{"type":"request","ts":%g,"protocol":"acp","from":%q,"to":%q,"id":%s,"method":%s,`+
				`"session":null,"params":%s}`, since, from, to, id, method, part(c, "params"))
		} else {
			return fmt.Sprintf(`{"type":"notification","ts":%g,"protocol":"acp","from":%q,"to":%q,"method":%s,"params":%s}`,
				since, from, to, method, part(c, "params"))
		}
	}
	direct := func(c captured) string {
		return conductor(c, c.pick("Client", "Agent"), c.pick("Agent", "Client"))
	}
	forms := []struct {
		name   string
		list   []captured
		format func(c captured) string
		drop   []*regexp.Regexp
	}{
		{"ts, direction, message", list, func(c captured) string {
			return fmt.Sprintf(`{"ts":%d,"direction":%q,"message":%s}`, c.TS.UnixMilli(), c.Direction, c.Message)
		}, nil},
		{"conductor without proxies", renamed, direct, []*regexp.Regexp{tsOf, runOf, idOf}},
		{"conductor with a proxy", renamed, func(c captured) string {
			near := conductor(c, c.pick("Client", "Proxy(1)"), "Proxy(0)")
			if part(c, "method") == nil {
				return near
			}
			far := conductor(c, c.pick("Proxy(0)", "Agent"), c.pick("Proxy(1)", "Proxy(1)"))
			return near + "\n" + strings.ReplaceAll(far, "0198-", "far-")
		}, []*regexp.Regexp{tsOf, runOf, idOf, seqOf}},
		{"bare", list, func(c captured) string { return string(c.Message) }, []*regexp.Regexp{tsOf, waitOf}},
		{"bare with ts and direction", list, func(c captured) string {
			return fmt.Sprintf(`{"ts":%q,"direction":%q,`, c.TS.Format(time.RFC3339Nano), c.Direction) + string(c.Message[1:])
		}, nil},
		{"bare with ts", list, func(c captured) string {
			return fmt.Sprintf(`{"ts":%q,`, c.TS.Format(time.RFC3339Nano)) + string(c.Message[1:])
		}, nil},
		{"server-sent events", list, func(c captured) string {
			return fmt.Sprintf("data: {\"ts\":%q,\"direction\":%q,\"message\":%s}\n", c.TS.Format(time.RFC3339Nano),
				c.Direction, c.Message)
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
			for _, c := range f.list {
				b.WriteString(f.format(c) + "\n")
			}
			if diff := gocmp.Diff(read(golden.String(), f.drop), read(b.String(), f.drop)); diff != "" {
				t.Errorf("other events (-want +got):\n%s", diff)
			}
			first := strings.TrimPrefix(b.String(), "data: ")
			if why := Recognise(input.OutlineOf([]byte(first[:min(len(first), 300)]))); why == "" ||
				strings.Contains(why, "sample") {
				t.Errorf("not recognised from its beginning: %q", why)
			}
		})
	}
}

// TestConductorTimes keeps the distances of a trace that does not say when it began.
func TestConductorTimes(t *testing.T) {
	got := lines(
		`{"type":"request","ts":1.5,"protocol":"acp","from":"Client","to":"Agent","id":"a","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
{"type":"response","ts":2.25,"from":"Agent","to":"Client","id":"a","is_error":true,"payload":{"code":-32603,"message":"no"}}`,
	)
	first, last := got[0], got[len(got)-1]
	if !strings.Contains(first, `"ts":"1970-01-01T00:00:01.500000001Z"`) ||
		!strings.Contains(last, `"ts":"1970-01-01T00:00:02.250000001Z"`) {
		t.Errorf("times of\n%s\n%s", first, last)
	}
	if !strings.Contains(last, `"status":"error","status_word":"-32603"`) {
		t.Errorf("the end is %s", last)
	}
}
