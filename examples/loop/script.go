package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sync/atomic"
)

// script is what the model says to the keeper, turn by turn.
var script = []string{
	`{"role":"assistant","content":"Let me see what there is.","tool_calls":[{"id":"call_1","type":"function",` +
		`"function":{"name":"list_files","arguments":"{}"}}]}`,
	`{"role":"assistant","content":null,"tool_calls":[
		{"id":"call_2","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"spring.md\"}"}},
		{"id":"call_3","type":"function","function":{"name":"read_file","arguments":"{\"path\":\".secrets\"}"}},
		{"id":"call_4","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"winter.md\"}"}}]}`,
	`{"role":"assistant","content":"Somebody else should look at autumn.","tool_calls":[{"id":"call_5",` +
		`"type":"function","function":{"name":"review","arguments":"{\"path\":\"autumn.md\"}"}}]}`,
	`{"role":"assistant","content":"Spring has an open question.","tool_calls":[{"id":"call_6","type":"function",` +
		`"function":{"name":"write_file","arguments":"{\"path\":\"spring.md\",` +
		`\"text\":\"# Spring (needs work)\\n\\nOpen: when do the swallows come?\\n\"}"}}]}`,
	`{"role":"assistant","content":"spring.md needs work: it asks when the swallows come."}`,
}

// reviewerScript is what it says to the reviewer.
var reviewerScript = []string{
	`{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function",` +
		`"function":{"name":"read_file","arguments":"{\"path\":\"autumn.md\"}"}}]}`,
	`{"role":"assistant","content":"autumn.md is ready."}`,
}

// scripted is an endpoint that plays the scripts. It looks at no more of a request than whose system prompt it has.
func scripted() http.Handler {
	var keeperTurn, reviewerTurn atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		script, turn := script, &keeperTurn
		if bytes.Contains(body, message("system", reviewer.system)) {
			script, turn = reviewerScript, &reviewerTurn
		}
		n := int(turn.Add(1)) - 1
		if n >= len(script) {
			http.Error(w, "the script is over", http.StatusServiceUnavailable)
			return
		}
		stop := "tool_calls"
		if n == len(script)-1 {
			stop = "stop"
		}
		in, cached := len(body)/4, 0
		if n > 0 {
			cached = in / 2
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"id":"chatcmpl-%d","object":"chat.completion","model":"scripted-1","choices":[{"index":0,`+
			`"message":%s,"finish_reason":%q}],`+
			`"usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d,`+
			`"prompt_tokens_details":{"cached_tokens":%d}}}`,
			n, script[n], stop, in, len(script[n])/4, in+len(script[n])/4, cached)
	})
	return mux
}
