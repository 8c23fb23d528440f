package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// start runs the program in this process. The lines it writes to stderr come over the channel; wait returns its exit
// code.
func start(ctx context.Context, stdin io.Reader, args ...string) (lines <-chan string, wait func() int) {
	r, w := io.Pipe()
	out := make(chan string, 1000)
	go func() {
		defer close(out)
		for s := bufio.NewScanner(r); s.Scan(); {
			out <- s.Text()
		}
	}()
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, args, stdin, io.Discard, w)
		w.Close()
	}()
	return out, func() int {
		c := <-code
		for range out { // until it is closed
		}
		return c
	}
}

// await returns the first line that has the prefix, without it.
func await(t *testing.T, lines <-chan string, prefix string) string {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				t.Fatalf("ended without a line %q", prefix)
			}
			if rest, ok := strings.CutPrefix(line, prefix); ok {
				return rest
			}
		case <-timeout:
			t.Fatalf("no line %q", prefix)
		}
	}
}

func runWith(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return command(t, strings.NewReader(""), args...)
}

// Everything of up and send is gone once they end: goroutines, ports, the database's lock.
func TestUpLeavesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	db := filepath.Join(t.TempDir(), "s.db")
	for range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		lines, wait := start(ctx, nil, "up", "--db", db, "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0")
		grpc := await(t, lines, "otelagent: OTLP over gRPC on ")
		http := await(t, lines, "otelagent: OTLP over HTTP on ")
		await(t, lines, "otelagent: ready")

		// Two senders at once, over both protocols.
		var wg sync.WaitGroup
		for _, args := range [][]string{{"--protocol", "grpc", "--endpoint", "http://" + grpc},
			{"--protocol", "http/protobuf", "--endpoint", http}} {
			wg.Go(func() {
				args := append([]string{"send", "--capture", "content"}, args...)
				if code, _, errs := command(t, bytes.NewReader(demoEvents), args...); code != 0 {
					t.Errorf("%v: exit %d: %s", args, code, errs)
				}
			})
		}
		wg.Wait()
		cancel()
		if code := wait(); code != 0 {
			t.Fatalf("up: exit %d", code)
		}
	}
	code, out, errs := runWith(t, "show", "last", "--db", db)
	if code != 0 || strings.Contains(out, "defect") || strings.Count(out, "\nrun ") != 4 {
		t.Errorf("show: exit %d, %s\n%s", code, errs, out)
	}
}

// Ctrl-C while a pipe is open: what came so far is delivered, and the exit code says that it was not all.
func TestSendInterrupted(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	db := filepath.Join(t.TempDir(), "s.db")
	r, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	lines, wait := start(ctx, r, "send", "--db", db, "--capture", "content", "-")
	half := demoEvents[:bytes.LastIndexByte(demoEvents[:len(demoEvents)/2], '\n')+1]
	if _, err := w.Write(half); err != nil {
		t.Fatal(err)
	}
	cancel()
	await(t, lines, "otelagent: not delivered: interrupted before the end of")
	w.Close() // lets go of the reader
	if code := wait(); code != exitFailed {
		t.Errorf("exit %d, want %d", code, exitFailed)
	}
	code, out, errs := runWith(t, "show", demoSession, "--db", db)
	if code != 0 || !strings.Contains(out, "aborted its end was never seen") {
		t.Errorf("show: exit %d, %s\n%s", code, errs, out)
	}
}

// A pipe is sent as it comes: an event is in the database while the pipe is still open.
func TestSendLive(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
	db := filepath.Join(t.TempDir(), "s.db")
	r, w := io.Pipe()
	_, wait := start(t.Context(), r, "send", "--db", db, "-")
	half := demoEvents[:bytes.LastIndexByte(demoEvents[:len(demoEvents)/2], '\n')+1]
	if _, err := w.Write(half); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		code, out, errs := runWith(t, "show", demoSession, "--db", db)
		if code == 0 && strings.Contains(out, "✓ read_file") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing arrived while the pipe was open:\n%s%s", out, errs)
		}
		time.Sleep(20 * time.Millisecond)
	}
	w.Close()
	if code := wait(); code != exitOK {
		t.Errorf("exit %d", code)
	}
}

// `otelagent --version` names the release that is built in.
func TestCollectorVersion(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	must(t, err)
	if !bytes.Contains(mod, []byte("go.opentelemetry.io/collector/otelcol "+collectorVersion+"\n")) {
		t.Errorf("go.mod does not require otelcol %s", collectorVersion)
	}
}

// quiet says nothing.
var quiet = &app{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}

// The flags of up reach the configuration of the exporter.
func TestBuiltinConfiguration(t *testing.T) {
	t.Setenv(envPassword, `p"${env:HOME}$$`)
	got := builtinConfig(collectorOptions{
		GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: `sqlite:a "b" $c.db`, Tenant: "acme",
		MaxAge: 30 * 24 * time.Hour, MaxSessions: 5, MaxSizeMiB: 10240, Redact: "rules.yaml",
	})
	const want = `  agent_session: {"chat_tables":true,"password":"p\"$${env:HOME}$$$$",` +
		`"redaction":{"enabled":true,"rules":"rules.yaml"},` +
		`"retention":{"max_age":"720h0m0s","max_sessions":5,"max_size_mib":10240},` +
		`"storage":"sqlite:a \"b\" $$c.db","tenant":"acme"}` + "\n"
	if !strings.Contains(got, want) {
		t.Errorf("no\n%s in\n%s", want, got)
	}
	got = builtinConfig(collectorOptions{Database: "clickhouse://127.0.0.1/sessions"})
	if !strings.Contains(got, `"chat_tables":false`) {
		t.Errorf("ClickHouse is to keep the tables of the agent guide: %s", got)
	}
}

// All flags at once, with a collector behind them: whose sessions they are, and what is taken out of them.
func TestUpFlags(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	t.Setenv(envPassword, "$unused")
	dir := t.TempDir()
	db, rules := filepath.Join(t.TempDir(), "s.db"), filepath.Join(dir, "rules.yaml")
	must(t, os.WriteFile(rules, []byte("rules: [{name: care, regexp: careful}]\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	lines, wait := start(ctx, nil, "up", "--db", db, "--otlp-grpc", "127.0.0.1:0", "--otlp-http", "127.0.0.1:0",
		"--tenant", "acme", "--redact", rules,
		"--max-age", "36500d", "--max-sessions", "1000", "--max-size", "1GiB")
	endpoint := "http://" + await(t, lines, "otelagent: OTLP over gRPC on ")
	await(t, lines, "otelagent: ready")
	if code, _, errs := command(t, bytes.NewReader(demoEvents), "send", "--endpoint", endpoint, "--protocol", "grpc",
		"--capture", "content", "--tenant", "somebody", "-"); code != exitOK {
		t.Errorf("send: exit %d: %s", code, errs)
	}
	cancel()
	if code := wait(); code != exitOK {
		t.Errorf("up: exit %d", code)
	}
	code, out, text := runWith(t, "show", "0b5c", "--tenant", "acme", "--db", db)
	if code != exitOK || strings.Contains(out, "careful") || !strings.Contains(strings.Join(strings.Fields(out), " "),
		"a rule of the collector; its size and digest are kept: params: 1 of 3") ||
		strings.Contains(onDisk(t, db), "careful") {
		t.Errorf("show: exit %d: %s%s", code, out, text)
	}
}

// The built-in configuration accepts metrics, which agents send with their logs, and drops them.
func TestUpDropsMetrics(t *testing.T) {
	db := filepath.Join(t.TempDir(), "s.db")
	c, err := startCollector(t.Context(), collectorOptions{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Database: db})
	must(t, err)
	one := strings.NewReader(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"claude_code.cost.usage",` +
		`"sum":{"dataPoints":[{"asDouble":1}]}}]}]}]}`)
	resp, err := http.Post("http://"+c.addr("http")+"/v1/metrics", "application/json", one)
	must(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("metrics are answered with %s", resp.Status)
	}
	if err := c.stop(); err != nil {
		t.Error(err)
	}
}

// onDisk is every byte of a database and of its log.
func onDisk(t *testing.T, path string) string {
	t.Helper()
	file, err := os.ReadFile(path)
	must(t, err)
	log, _ := os.ReadFile(path + "-wal") // it may be gone
	return string(file) + string(log)
}
