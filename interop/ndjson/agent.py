"""An agent loop that tells what it does, one JSON object a line. Nothing says when, nor which run: the reader knows those."""
import json

def tell(event, **keys):
    print(json.dumps({"type": "otelagent." + event, **keys}, ensure_ascii=False, separators=(",", ":")))

tools = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
history = [{"role": "user", "content": "Wie wird das Wetter in Köln?"}]
call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Köln"}'}}
script = [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "assistant", "content": "Sonnig, 21 °C."}]

tell("run_started", agent="forecaster", model="gpt-5-mini", provider="openai", rules=[{"tool": "weather", "action": "ask"}])
tell("message_added", message=history[0])
for n, reply in enumerate(script):
    tell("turn_started", trigger="continuation" if n else "user")
    tell("request_prepared", payload={"model": "gpt-5-mini", "messages": history, "tools": tools, "temperature": 0.2})
    history, results = history + [reply], []
    for c in reply.get("tool_calls", []):
        name, args = c["function"]["name"], json.loads(c["function"]["arguments"])
        tell("permission_evaluated", tool=name, call_id=c["id"], action="allow", source="session", decided_by="user")
        tell("tool_started", call_id=c["id"], name=name, args=args)
        results.append({"role": "tool", "tool_call_id": c["id"], "content": '{"sky": "clear", "celsius": 21}'})
        tell("tool_ended", call_id=c["id"], name=name, result=json.loads(results[-1]["content"]))
    history += results
    usage = {"input": 90 + 40 * n, "output": 20, "cache_read": 64 * n, "total": 110 + 40 * n}
    tell("turn_ended", output=reply, results=results, stop_reason="stop" if n else "tool_calls", usage=usage, cost=0.0001, currency="USD")
tell("compaction_ended", kind="summary", messages_before=len(history), messages_after=1, summary="It will be sunny in Cologne.")
tell("run_ended")
