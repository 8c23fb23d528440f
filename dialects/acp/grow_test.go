package acp

import (
	"testing"
	"time"

	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
)

// TestMessage reads a wire of which direction and times are known, as a proxy on it does.
func TestMessage(t *testing.T) {
	start := time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC)
	d := NewDecoder(input.Settings{Live: true})
	var wait time.Duration
	var first, asked time.Time
	n := int64(0)
	for _, m := range []struct {
		dir  Direction
		text string
	}{
		{ToAgent, `{"jsonrpc":"2.0","id":0,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`},
		{ToClient, `{"jsonrpc":"2.0","id":0,"method":"session/request_permission","params":{"sessionId":"s",` +
			`"toolCall":{"toolCallId":"c"},"options":[]}}`},
		{ToAgent, `{"jsonrpc":"2.0","id":0,"result":{"outcome":{"outcome":"cancelled"}}}`},
		{ToClient, `not a message`},
		{ToClient, `{"jsonrpc":"2.0","id":0,"error":{"code":1,"message":"of the prompt, though both had the id 0"}}`},
	} {
		n++
		ended := false
		for ev, err := range d.Message(input.Line{Text: []byte(m.text), Number: n,
			Arrived: start.Add(time.Duration(n) * time.Second)}, m.dir) {
			switch e := ev.(type) {
			case *event.RunStarted:
				first = e.Arrived
			case *event.PermissionAsked:
				asked = e.Arrived
			case *event.PermissionEvaluated: // the Recorder takes the time between as the wait
				wait = e.Arrived.Sub(asked)
			case *event.RunEnded:
				ended = true
			case *event.DefectFound:
				t.Errorf("defect %s", e.Detail)
			}
			if (err != nil) != (n == 4) {
				t.Errorf("message %d: %v", n, err)
			}
		}
		if ended != (n == 5) {
			t.Errorf("message %d: ended %v", n, ended)
		}
	}
	if wait != time.Second || !first.Equal(start.Add(time.Second)) {
		t.Errorf("waited %s, began %s", wait, first)
	}
	if s := d.Stats(); s.Lines != 5 || s.Events != 4 || s.Rejected != 1 {
		t.Errorf("%+v", s)
	}
}
