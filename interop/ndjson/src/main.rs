//! An agent loop that tells what it does, one JSON object a line, with times, session, run and turn numbers. Its model and its
//! clock are scripted, so that it says the same each time.

use serde_json::{json, Value};

/// Teller writes events of one run.
struct Teller {
    /// Nanoseconds since 1970; every event is 40 ms later than the one before.
    now: u64,
}

impl Teller {
    /// Writes one event: keys are the members of an object.
    fn tell(&mut self, event: &str, mut keys: Value) {
        self.now += 40_000_000;
        keys["type"] = format!("otelagent.{event}").into();
        keys["ts"] = self.now.into();
        keys["session"] = "trip-1".into();
        keys["run"] = "trip-1/plan".into();
        println!("{keys}"); // keys are sorted: the type stands near the end
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn main() {
    let mut out = Teller { now: 1_795_165_200_000_000_000 };
    let tools = json!([{"name": "trains", "description": "Finds trains.", "input_schema": {"type": "object"}}]);
    let mut history = vec![user("A train from Lyon to Turin, please.")];
    let mut from = vec![json!({"kind": "steering"})];
    // Reply, tokens (input, output, cache read, cache write), stop reason.
    let script = [
        (
            json!({"role": "assistant", "content": [
                {"type": "text", "text": "I will look."},
                {"type": "tool_use", "id": "toolu_1", "name": "trains", "input": {"from": "Lyon", "to": "Turin"}},
                {"type": "tool_use", "id": "toolu_2", "name": "trains", "input": {"from": "Lyon", "to": "Torino", "buy": true}}]}),
            [12, 80, 0, 900],
            "tool_use",
        ),
        (
            json!({"role": "assistant", "content": [{"type": "text", "text": "The 08:12 takes four hours."}]}),
            [30, 18, 900, 0],
            "end_turn",
        ),
    ];

    out.tell("run_started", json!({"agent": "planner", "agent_id": "planner-7", "model": "claude-sonnet-4-5",
        "provider": "anthropic", "config": {"max_turns": 4}, "metadata": {"ticket": "T-1"}}));
    out.tell("message_added", json!({"message": history[0]}));
    for (index, (reply, tokens, stop_reason)) in script.into_iter().enumerate() {
        out.tell("turn_started", json!({"index": index, "trigger": if index == 0 { "user" } else { "continuation" }}));
        let payload = json!({"model": "claude-sonnet-4-5", "max_tokens": 1024, "system": "You plan trips.",
            "messages": history, "tools": tools});
        out.tell("request_prepared", json!({"payload": payload, "provenance": from}));
        if index == 1 {
            // The first reply was cut: asked again, with more room.
            out.tell("attempt_discarded", json!({"reason": "max_tokens", "usage": {"input": 30, "output": 1024, "cache_read": 900, "rule": "excludes_cache"}}));
            out.tell("request_prepared", json!({"attempt": 1, "payload": {"model": "claude-sonnet-4-5", "max_tokens": 4096,
                "system": "You plan trips.", "messages": history, "tools": tools}, "provenance": from}));
        }
        out.tell("reply_delta", json!({"bytes": 9}));
        out.tell("reply_received", json!({}));
        history.push(reply.clone());
        from.push(json!({"kind": "loop-turn", "turn_index": index, "role": "assistant-response", "message_index": 0}));

        let calls: Vec<&Value> = reply["content"].as_array().unwrap().iter().filter(|c| c["type"] == "tool_use").collect();
        let mut results = vec![];
        for call in calls {
            let allowed = call["input"]["buy"].is_null();
            let (id, name) = (&call["id"], &call["name"]);
            out.tell("tool_started", json!({"call_id": id, "name": name, "tool_type": "function", "args": call["input"]}));
            let (action, text, outcome) = if allowed {
                ("allow", "08:12, 4 h 05", "ok")
            } else {
                ("deny", "Tickets are bought by people.", "denied")
            };
            out.tell("permission_evaluated", json!({"tool": name, "call_id": id, "pattern": "trains *", "action": action,
                "source": "project", "decided_by": "user", "wait_ns": 30_000_000, "outcome": "selected", "option": action,
                "options": [{"optionId": "allow"}, {"optionId": "deny"}]}));
            let result = json!({"type": "tool_result", "tool_use_id": id, "content": text});
            out.tell("tool_ended", json!({"call_id": id, "name": name, "outcome": outcome, "result": result["content"]}));
            results.push(result);
        }
        let [input, output, cache_read, cache_write] = tokens;
        out.tell("turn_ended", json!({"model": "claude-sonnet-4-5-20250929", "response_id": format!("msg_{index}"), "output": reply,
            "results": results, "stop_reason": stop_reason, "cost": 0.0125, "currency": "USD", "model_call_ns": 70_000_000,
            "first_chunk_ns": 30_000_000, "usage": {"input": input, "output": output, "cache_read": cache_read,
            "cache_write": cache_write, "rule": "excludes_cache"}}));
        if !results.is_empty() {
            history.push(json!({"role": "user", "content": results}));
            from.push(json!({"kind": "loop-turn", "turn_index": index, "role": "tool-call-result", "message_index": 1}));
        }
    }
    out.tell("compaction_started", json!({"kind": "summary", "trigger": "manual", "messages_before": history.len()}));
    out.tell("compaction_ended", json!({"kind": "summary", "messages_before": history.len(), "messages_after": 1,
        "input_tokens": 940, "output_tokens": 12, "applied": true, "summary": "A train at 08:12.", "after": [user("A train at 08:12.")]}));
    out.tell("run_ended", json!({"status": "completed"}));
}
