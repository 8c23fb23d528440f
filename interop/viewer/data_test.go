package viewer

import (
	"fmt"
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

// long is a session of n turns: each asks with a history of the last few, and calls a tool.
func long(session string, n int) []event {
	events := []event{{"type": "otelagent.run_started", "ts": at(0), "session": session, "run": session + "-1", "agent": "marathon", "model": "made-up-1", "provider": "anthropic"}}
	var history []event
	for i := range n {
		start := time.Duration(i) * 2 * time.Second
		ts := func(ms int) string { return at(start + time.Duration(ms)*time.Millisecond) }
		history = append(history, event{"role": "user", "content": fmt.Sprintf("Question %d of many: what is %d squared?", i, i)})
		if len(history) > 6 {
			history = history[len(history)-6:]
		}
		run, call := session+"-1", fmt.Sprintf("call-%d", i)
		events = append(events,
			event{"type": "otelagent.turn_started", "ts": ts(0), "run": run, "index": i, "trigger": "user"},
			event{"type": "otelagent.request_prepared", "ts": ts(5), "run": run, "payload": event{"model": "made-up-1", "max_tokens": 1024, "system": "You square numbers.", "messages": history}},
			event{"type": "otelagent.reply_received", "ts": ts(700), "run": run},
			event{"type": "otelagent.tool_started", "ts": ts(710), "run": run, "call_id": call, "name": "square", "args": event{"n": i}},
			event{"type": "otelagent.tool_ended", "ts": ts(900), "run": run, "call_id": call, "name": "square", "outcome": []string{"ok", "error"}[min(i%97, 1)^1], "result": i * i})
		reply := event{"role": "assistant", "content": fmt.Sprintf("%d squared is %d.", i, i*i)}
		history = append(history, reply)
		events = append(events, event{"type": "otelagent.turn_ended", "ts": ts(950), "run": run, "stop_reason": "end_turn", "output": reply,
			"usage": event{"input": 500 + i%400, "output": 20 + i%60, "cache_read": 300 + i%100, "rule": "includes_cache"}})
		if i%500 == 499 {
			events = append(events,
				event{"type": "otelagent.compaction_started", "ts": ts(960), "run": run, "kind": "summary", "trigger": "auto", "messages_before": 6},
				event{"type": "otelagent.compaction_ended", "ts": ts(990), "run": run, "kind": "summary", "messages_before": 6, "messages_after": 1, "applied": true, "summary": "Many numbers were squared."})
		}
	}
	return append(events, event{"type": "otelagent.run_ended", "ts": at(time.Duration(n) * 2 * time.Second), "run": session + "-1", "status": "completed"})
}

// What a hostile model, tool or user would write.
const (
	hostileHTML = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script><a href="javascript:window.pwned=1">click</a>`
	hostileBidi = "access\u202etxt.exe\u2066 and \u200bnothing"
	// hostileID has in it what paths, HTML and percent-encoding take for their own.
	hostileID = `a/b?c#d%2F..%3C<i onmouseover=window.pwned=1>&"'` + "\u202e"
)

// hostile is a session in which everything that somebody can write is hostile.
func hostile() []event {
	deep := strings.Repeat(`[`, 60) + strings.Repeat(`]`, 60)
	run := "run <b>1</b>"
	return []event{
		{"type": "otelagent.run_started", "ts": at(0), "session": hostileID, "run": run, "agent": hostileHTML, "model": hostileHTML, "provider": hostileHTML, "rules": []event{{"tool": hostileHTML, "action": "ask"}}},
		{"type": "otelagent.fact_stated", "ts": at(1), "session": hostileID, "facts": []event{{"subject": "session", "key": "title", "value": "title " + hostileHTML + hostileBidi}}},
		{"type": "otelagent.turn_started", "ts": at(2), "run": run, "trigger": hostileHTML},
		{"type": "otelagent.request_prepared", "ts": at(3), "run": run, "payload": event{"model": hostileHTML, "system": "system " + hostileHTML,
			"messages": []event{{"role": hostileHTML, "content": "ask " + hostileHTML + hostileBidi}}, "tools": []event{{"name": hostileHTML, "input_schema": event{}}}}},
		{"type": "otelagent.permission_evaluated", "ts": at(4), "run": run, "tool": hostileHTML, "call_id": "c1", "pattern": hostileHTML, "action": "allow", "source": hostileHTML, "decided_by": hostileHTML, "reason": hostileHTML},
		{"type": "otelagent.tool_started", "ts": at(5), "run": run, "call_id": "c1", "name": hostileHTML, "args": event{hostileHTML: hostileHTML, "__proto__": event{"pwned": 1}, "deep": deep}},
		{"type": "otelagent.tool_ended", "ts": at(6), "run": run, "call_id": "c1", "name": hostileHTML, "outcome": "error", "error": hostileHTML, "result": "result " + hostileHTML + strings.Repeat("long", 30_000)},
		{"type": "otelagent.turn_ended", "ts": at(7), "run": run, "stop_reason": hostileHTML, "output": event{"role": "assistant", "content": "reply " + hostileHTML + hostileBidi}, "usage": event{"input": 9_007_199_254_740_993, "output": 1}},
		{"type": "otelagent.compaction_started", "ts": at(8), "run": run, "kind": hostileHTML, "trigger": hostileHTML},
		{"type": "otelagent.compaction_ended", "ts": at(9), "run": run, "kind": hostileHTML, "summary": "summary " + hostileHTML},
		{"type": "otelagent.other", "ts": at(9), "run": run, "event_type": hostileHTML, "body": event{"x": hostileHTML}},
		{"type": "otelagent.run_ended", "ts": at(10), "run": run, "status": hostileHTML, "status_word": hostileHTML, "error": hostileHTML},
	}
}
