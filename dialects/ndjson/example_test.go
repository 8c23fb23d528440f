package ndjson_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/ndjson"
)

func ExampleDecoder() {
	const lines = `{"type":"otelagent.tool_started","call_id":"c1","name":"bash","args":{"command":"ls"}}
{"type":"otelagent.tool_ended","call_id":"c1","truncated":"no"}
{"type":"otelagent.tool_ended","call_id":"c1","result":"a.go","exit_code":0}
`
	for ev, err := range ndjson.NewDecoder().Events(strings.NewReader(lines)) {
		var bad *input.LineError
		switch {
		case errors.As(err, &bad):
			fmt.Println(bad)
		case err != nil:
			fmt.Println("gave up:", err)
		default:
			switch ev := ev.(type) {
			case *event.ToolStarted:
				fmt.Printf("%s %s\n", ev.Name, ev.Args)
			case *event.ToolEnded:
				fmt.Printf("-> %s\n", ev.Result)
			case *event.Other:
				fmt.Printf("%s %s\n", ev.Type, ev.Body)
			}
		}
	}
	// Output:
	// bash {"command":"ls"}
	// otelagent: line 2: otelagent.tool_ended: truncated: want a boolean, got a string
	// otelagent.tool_ended.unknown_keys {"exit_code":0}
	// -> "a.go"
}

func ExampleAppendEvent() {
	cost := 0.0021
	line := ndjson.AppendEvent(nil, &event.TurnEnded{
		Meta: event.Meta{Session: "s1", Run: "r1", Time: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)},
		TurnResult: event.TurnResult{
			Usage: &event.Usage{Input: 40, Output: 60}, Cost: &cost, Currency: "USD",
			Output: &event.Message{Raw: []byte(`{"role":"assistant","content":"Done."}`), Role: "assistant"},
		},
	})
	begin, end, _ := strings.Cut(string(line), `"usage"`) // for the width of this page
	fmt.Printf("%s\n\"usage\"%s\n", begin, end)
	// Output:
	// {"type":"otelagent.turn_ended","ts":"2026-11-20T09:00:00Z","session":"s1","run":"r1",
	// "usage":{"input":40,"output":60},"cost":0.0021,"currency":"USD","output":{"role":"assistant","content":"Done."}}
}
