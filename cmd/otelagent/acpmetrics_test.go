//go:build unix

package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/otelagent/otelagent/spans"
)

// An agent behind the wire tap gives metrics to a collector that takes them, none when they are off, and a receiver
// that takes none is not worth a word.
func TestACPMetrics(t *testing.T) {
	for _, tt := range []struct {
		name     string
		flags    []string
		refuse   bool
		requests int
		has      string
	}{
		{name: "taken", requests: 1, has: spans.MetricTurnDuration},
		{name: "refused", refuse: true, requests: 1},
		{name: "off", flags: tuned(t, "metrics: off")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url, received := takesMetrics(t, tt.refuse)
			in, out, stderr, code := between(t, append(tt.flags, "--endpoint", url, "--protocol", "http/protobuf"), "talk")
			const prompt = `{"jsonrpc":"2.0","id":1,"method":"session/prompt",` +
				`"params":{"sessionId":"s","prompt":[{"type":"text","text":"hello"}]}}` + "\n"
			if _, err := io.WriteString(in, prompt); err != nil {
				t.Fatal(err)
			}
			_ = in.Close()
			if answer, err := io.ReadAll(out); err != nil || !bytes.Contains(answer, []byte(`"id":1`)) {
				t.Errorf("the agent answered %q, %v", answer, err)
			}
			if c := <-code; c != exitOK || stderr.String() != "agent: bye\n" {
				t.Errorf("exit %d, standard error %q, want the agent's alone", c, stderr)
			}
			got := received()
			if all := bytes.Join(got, nil); len(got) != tt.requests || !bytes.Contains(all, []byte(tt.has)) {
				t.Errorf("%d requests, want %d; %d bytes of metrics, want %q among them", len(got), tt.requests, len(all), tt.has)
			}
		})
	}
}
