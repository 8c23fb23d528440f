package viewer

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// event is a line of dialects/ndjson.
type event = map[string]any

// began is when the made-up sessions begin.
var began = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

func at(d time.Duration) string { return began.Add(d).Format(time.RFC3339Nano) }

// recordings are those of the real producers that the project keeps.
func recordings(t *testing.T) []string {
	t.Helper()
	var files []string
	for _, pattern := range []string{
		"dialects/phi/testdata/phi-core-*/*.events.ndjson", "dialects/clark/testdata/clark-agent-*/*.enveloped.ndjson",
		"dialects/acp/testdata/sdk/*.ndjson", "dialects/guide/testdata/ai-sdk/*.jsonl",
	} {
		found, err := filepath.Glob(filepath.Join("..", "..", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		files = append(files, found...)
	}
	return files
}

// events reads a stream of JSON objects.
func events(text string) (list []event) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	for {
		var e event
		if err := d.Decode(&e); err == io.EOF {
			return list
		} else if err != nil {
			panic(err)
		}
		list = append(list, e)
	}
}

// long is a session of n turns: each asks with a history of the last few, and calls a tool.
func long(session string, n int) []event {
	run := session + "-1"
	list := []event{{"type": "otelagent.run_started", "ts": at(0), "session": session, "run": run, "agent": "marathon",
		"model": "made-up-1", "provider": "anthropic"}}
	var history []event
	for i := range n {
		history = append(history, event{"role": "user", "content": fmt.Sprintf("Question %d: what is %d squared?", i, i)})
		history = history[max(0, len(history)-6):]
		reply := event{"role": "assistant", "content": fmt.Sprintf("%d squared is %d.", i, i*i)}
		turn := events(fmt.Sprintf(`{"type":"turn_started","at":0,"index":%d,"trigger":"user"}
			{"type":"request_prepared","at":5,"payload":{"model":"made-up-1","max_tokens":1024,"system":"Square."}}
			{"type":"reply_received","at":700}
			{"type":"tool_started","at":710,"call_id":"call-%[1]d","name":"square","args":{"n":%[1]d}}
			{"type":"tool_ended","at":900,"call_id":"call-%[1]d","name":"square","outcome":"ok","result":%[2]d}
			{"type":"turn_ended","at":950,"stop_reason":"end_turn",
			 "usage":{"input":%[3]d,"output":20,"cache_read":300,"rule":"includes_cache"}}`, i, i*i, 500+i%400))
		turn[1]["payload"].(event)["messages"] = history
		turn[5]["output"] = reply
		if i%97 == 0 {
			turn[4]["outcome"] = "error"
		}
		if i%500 == 499 {
			turn = append(turn, events(`{"type":"compaction_started","at":960,"kind":"summary","messages_before":6}
				{"type":"compaction_ended","at":990,"kind":"summary","messages_after":1,"applied":true,"summary":"Many."}`)...)
		}
		for _, e := range turn {
			ms, _ := e["at"].(json.Number).Int64()
			e["type"], e["run"] = "otelagent."+e["type"].(string), run
			e["ts"] = at(time.Duration(i)*2*time.Second + time.Duration(ms)*time.Millisecond)
			delete(e, "at")
		}
		history = append(history, reply)
		list = append(list, turn...)
	}
	end := at(time.Duration(n) * 2 * time.Second)
	return append(list, event{"type": "otelagent.run_ended", "ts": end, "run": run, "status": "completed"})
}

// hostileHTML, hostileBidi and hostileID are texts of a hostile model, tool or user.
const (
	hostileHTML = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>` +
		`<a href="javascript:window.pwned=1">click</a>`
	hostileBidi = "access\u202etxt.exe\u2066 and \u200bnothing"
	// hostileID has characters of paths, HTML and percent-encoding.
	hostileID = `a/b?c#d%2F..%3C<i onmouseover=window.pwned=1>&"'` + "\u202e"
)

// hostile is a session in which every text is hostile.
func hostile() []event {
	quoted := func(text string) string { b, _ := json.Marshal(text); return strings.Trim(string(b), `"`) }
	list := events(strings.NewReplacer("HTML", quoted(hostileHTML), "BIDI", quoted(hostileBidi), "ID", quoted(hostileID),
		"DEEP", strings.Repeat(`[`, 60)+strings.Repeat(`]`, 60), "LONG", strings.Repeat("long", 30_000)).Replace(`
		{"type":"run_started","session":"ID","agent":"HTML","model":"HTML","provider":"HTML",
		 "rules":[{"tool":"HTML","action":"ask"}]}
		{"type":"fact_stated","session":"ID","facts":[{"subject":"session","key":"title","value":"title HTMLBIDI"}]}
		{"type":"turn_started","trigger":"HTML"}
		{"type":"request_prepared","payload":{"model":"HTML","system":"system HTML",
		 "messages":[{"role":"HTML","content":"ask HTMLBIDI"}],"tools":[{"name":"HTML","input_schema":{}}]}}
		{"type":"permission_evaluated","tool":"HTML","call_id":"c1","pattern":"HTML","action":"allow","source":"HTML",
		 "decided_by":"HTML","reason":"HTML"}
		{"type":"tool_started","call_id":"c1","name":"HTML","args":{"HTML":"HTML","__proto__":{"pwned":1},"deep":"DEEP"}}
		{"type":"tool_ended","call_id":"c1","name":"HTML","outcome":"error","error":"HTML","result":"result HTMLLONG"}
		{"type":"turn_ended","stop_reason":"HTML","output":{"role":"assistant","content":"reply HTMLBIDI"},
		 "usage":{"input":9007199254740993,"output":1}}
		{"type":"compaction_started","kind":"HTML","trigger":"HTML"}
		{"type":"compaction_ended","kind":"HTML","summary":"summary HTML"}
		{"type":"other","event_type":"HTML","body":{"x":"HTML"}}
		{"type":"run_ended","status":"HTML","status_word":"HTML","error":"HTML"}`))
	for i, e := range list {
		e["type"], e["run"], e["ts"] = "otelagent."+e["type"].(string), "run <b>1</b>", at(time.Duration(i))
	}
	delete(list[1], "run")
	return list
}
