package ndjson_test

import (
	"errors"
	"fmt"
	"strings"

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
