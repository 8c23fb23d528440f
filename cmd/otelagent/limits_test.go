package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// manyTurns is a run of n turns, as fast as a pipe gives it.
func manyTurns(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"type":"AgentStart","agent_id":"a","session_id":"many","loop_id":"many.a.1",` +
		`"timestamp":"2026-01-02T03:04:05Z"}` + "\n")
	for i := range n {
		fmt.Fprintf(&b, `{"type":"TurnStart","loop_id":"many.a.1","turn_index":%d,"timestamp":"2026-01-02T03:04:05Z",`+
			`"triggered_by":"user"}`+"\n", i)
		b.WriteString(`{"type":"TurnEnd","loop_id":"many.a.1","message":{"role":"assistant","content":[],` +
			`"stopReason":"stop","model":"m","provider":"p","usage":{"input":1,"output":1,"reasoning":0,"cache_read":0,` +
			`"cache_write":0,"total_tokens":2},"timestamp":1},"tool_results":[]}` + "\n")
	}
	b.WriteString(`{"type":"AgentEnd","loop_id":"many.a.1","messages":[],"usage":{"input":1,"output":1,"reasoning":0,` +
		`"cache_read":0,"cache_write":0,"total_tokens":2}}` + "\n")
	return b.Bytes()
}

// A pipe in a hurry loses nothing: into a file, as a recording, and live as long as its queue holds it.
func TestFastPipeLosesNothing(t *testing.T) {
	turns := 20_000
	if testing.Short() {
		turns = 2_000
	}
	events := manyTurns(turns)
	db := filepath.Join(t.TempDir(), "c.db")
	c, err := startCollector(t.Context(), collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: db,
		Log: io.Discard})
	must(t, err)
	defer func() { _ = c.stop() }()
	for name, args := range map[string][]string{
		"db":     {"--db", filepath.Join(t.TempDir(), "s.db")},
		"replay": {"--replay", "--endpoint", "http://" + c.addr("grpc")},
		"live":   {"--endpoint", "http://" + c.addr("grpc")},
	} {
		t.Run(name, func(t *testing.T) {
			r, w := io.Pipe()
			go func() { _, _ = w.Write(events); w.Close() }()
			var errs bytes.Buffer
			code := run(t.Context(), append([]string{"send", "-"}, args...), r, io.Discard, &errs)
			if code != exitOK || !strings.Contains(errs.String(), fmt.Sprintf("as %d spans of 1 session", turns+1)) {
				t.Errorf("exit %d: %s", code, &errs)
			}
		})
	}
}

// An error for an endpoint without a scheme is in plain language, and no line of the SDK comes out.
func TestEndpointVariableWithoutScheme(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "127.0.0.1:4317")
	stderr := os.Stderr
	r, w, err := os.Pipe()
	must(t, err)
	os.Stderr = w
	var errs bytes.Buffer
	code := run(t.Context(), []string{"send", "-"}, bytes.NewReader(demoEvents), io.Discard, &errs)
	os.Stderr = stderr
	w.Close()
	raw, _ := io.ReadAll(r)
	if code != exitUsage || !strings.Contains(errs.String(),
		"OTEL_EXPORTER_OTLP_ENDPOINT=127.0.0.1:4317: want http://HOST:PORT") || len(raw) > 0 {
		t.Errorf("exit %d: %s\nraw: %s", code, &errs, raw)
	}
}

// The first Ctrl-C while a collector hangs is answered.
func TestInterruptedWhileWaiting(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	lines, wait := start(ctx, bytes.NewReader(demoEvents), "send", "--endpoint", "http://"+l.Addr().String(), "-")
	time.Sleep(300 * time.Millisecond)
	cancel()
	await(t, lines, "otelagent: stopping; Ctrl-C again gives up the rest")
	l.Close()
	if code := wait(); code != exitFailed {
		t.Errorf("exit %d", code)
	}
}

// TestNoEventStream sends an input that is no event stream: one error reports it, not a list of lines.
func TestNoEventStream(t *testing.T) {
	code, _, errs := command(t, strings.NewReader(strings.Repeat("no event\n", 50)), "send", "--from", "phi-core",
		"--db", filepath.Join(t.TempDir(), "s.db"), "-")
	if code != exitFailed || strings.Count(errs, "\n") != 2 || !strings.Contains(errs, "standard input:1:") ||
		!strings.Contains(errs, "nothing in the input could be read as phi-core") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
