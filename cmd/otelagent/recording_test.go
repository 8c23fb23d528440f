package main

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"

	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// command runs the program and returns what it printed and said.
func command(tb testing.TB, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	tb.Helper()
	var out, said bytes.Buffer
	code = run(tb.Context(), args, stdin, &out, &said)
	return code, out.String(), said.String()
}

// otlpJSON returns the recording of the demo as a collector's file exporter would write it: a line a request.
func otlpJSON(t *testing.T) string {
	t.Helper()
	var lines strings.Builder
	p, err := otelsetup.Setup(t.Context(), otelsetup.WithoutGlobal(), otelsetup.WithBlocking(), otelsetup.WithoutMetrics(),
		otelsetup.WithExporter(otelsetup.NewFuncExporter(func(_ context.Context, b []byte) error {
			req := ptraceotlp.NewExportRequest()
			if err := req.UnmarshalProto(b); err != nil {
				return err
			}
			var m ptrace.JSONMarshaler
			text, err := m.MarshalTraces(req.Traces())
			lines.Write(append(text, '\n'))
			return err
		})))
	must(t, err)
	rec := event.NewRecorder(otelagent.NewTracer(otelagent.WithTracerProvider(p.TracerProvider()),
		otelagent.WithCapture(otelagent.CaptureContent)))
	play.Events(t, rec, phi.NewDecoder().Events(bytes.NewReader(demoEvents)))
	must(t, p.Shutdown(t.Context()))
	return lines.String()
}

// TestShowOTLPFile shows spans that a collector wrote to a file as the recording that they are of.
func TestShowOTLPFile(t *testing.T) {
	dir := t.TempDir()
	events, traces := filepath.Join(dir, "events.ndjson"), filepath.Join(dir, "traces.json")
	text := otlpJSON(t)
	for name, body := range map[string]string{events: string(demoEvents), traces: text} {
		must(t, os.WriteFile(name, []byte(body), 0o600))
	}
	tree := func(shown string) string { // without the footer, which names the file
		tree, _, _ := strings.Cut(shown, "\n… cut here")
		return tree
	}
	_, want, _ := command(t, nil, "show", events)
	want = tree(want)
	if !strings.Contains(want, "sub-agent · completed") {
		t.Fatalf("not the demo:\n%s", want)
	}
	if code, got, said := command(t, nil, "show", traces); code != exitOK || tree(got) != want || said != "" {
		t.Errorf("exit %d, %s\n%s", code, said, got)
	}
	if code, got, said := command(t, strings.NewReader(text), "show", "-"); code != exitOK || tree(got) != want ||
		said != "" {
		t.Errorf("a pipe: exit %d, %s\n%s", code, said, got)
	}

	// Input that is no OTLP is reported with its place, and not with its bytes; spans of other producers and bad ones are
	// counted.
	odd := `{"resourceSpans":[{"scopeSpans":[{"spans":[` +
		`{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708","name":"GET /"},` +
		`{"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060709","name":"session.run"}]}]}]}` + "\n" + text
	code, got, said := command(t, strings.NewReader(odd), "show", "-")
	if code != exitOK || tree(got) != want ||
		said != "otelagent: standard input: 1 span rejected: bad_times\notelagent: standard input: 1 span of other "+
			"instrumentation left out\n" {
		t.Errorf("exit %d, %s", code, said)
	}
	code, _, said = command(t, strings.NewReader(text+`{"resourceSpans":"secret"}`), "show", "-")
	if code != exitFailed || !strings.Contains(said, "is no OTLP of spans") || strings.Contains(said, "secret") {
		t.Errorf("exit %d, %s", code, said)
	}
	metrics := strings.Repeat(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m"}]}]}]}`+"\n", 2)
	code, got, said = command(t, strings.NewReader(metrics+text), "show", "-")
	if code != exitOK || tree(got) != want ||
		said != "otelagent: standard input: 2 documents of metrics left out, which are not read\n" {
		t.Errorf("exit %d, %s", code, said)
	}
	deep := `{"resourceSpans":[{"resource":{"attributes":[{"key":"a","value":` +
		strings.Repeat(`{"arrayValue":{"values":[`, 5000) + strings.Repeat(`]}}`, 5000) + `}]}}]}`
	if code, _, said := command(t, strings.NewReader(deep), "show", "-"); code != exitFailed ||
		!strings.Contains(said, "is no OTLP of spans") {
		t.Errorf("exit %d, %s", code, said)
	}
}

// The bound of a document holds for each alone: a file may be longer.
func TestLongFileOfSpans(t *testing.T) {
	const line = `{"resourceSpans":[]}` + "\n"
	for most, want := range map[int64]int{int64(len(line)): 1000, 10: 0} {
		n := 0
		err := otlpFile{"x", strings.NewReader(strings.Repeat(line, 1000))}.each(most, func(document) error {
			n++
			return nil
		})
		if n != want || want == 0 && (err == nil || err.Error() != "x: document 1 is larger than 10 bytes") ||
			want > 0 && err != nil {
			t.Errorf("%d documents of at most %d bytes: %v", n, most, err)
		}
	}
}

// A file whose session has no id gets the same one each time, and another one than any other file.
func TestShowMadeUpIDs(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("word ", 1<<18)
	text := func(said string) string {
		return `{"type":"otelagent.run_started","ts":"2026-11-20T09:00:00Z"}
{"type":"otelagent.turn_started","ts":"2026-11-20T09:00:00Z"}
{"type":"otelagent.turn_ended","ts":"2026-11-20T09:00:01Z","output":{"role":"assistant","content":[` +
			`{"type":"text","text":"` + said + `"}]}}
{"type":"otelagent.run_ended","ts":"2026-11-20T09:00:01Z"}
`
	}
	id := func(stdin io.Reader, file string) string {
		t.Helper()
		code, shown, said := command(t, stdin, "show", file)
		if code != exitOK || said != "" {
			t.Fatalf("exit %d, %s\n%s", code, said, shown)
		}
		return strings.Fields(shown)[1]
	}
	ids := map[string]string{}
	for name, said := range map[string]string{
		"short": "word", "other": "ward", "long": long + "a", "as long": long + "b", // these differ at the end alone
	} {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text(said)), 0o600))
		one := id(nil, path)
		if again := id(nil, path); again != one || len(one) != 26 {
			t.Errorf("%s: %q, then %q", name, one, again)
		}
		if other := ids[one]; other != "" {
			t.Errorf("%s and %s are both %s", name, other, one)
		}
		ids[one] = name
		if code, shown, said := command(t, nil, "show", path, one+"/@1/0"); code != exitOK || said != "" ||
			!strings.Contains(shown, "session  "+one) {
			t.Errorf("%s: exit %d, %s\n%s", name, code, said, shown)
		}
		if piped := id(strings.NewReader(text(said)), "-"); piped != one {
			t.Errorf("%s through a pipe: %s, not %s", name, piped, one)
		}
	}
}

// A database of the agent guide's tables is read as it is, and left as it is.
func TestShowGuideDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chat.sqlite")
	db, err := sql.Open("sqlite", path)
	must(t, err)
	if _, err := db.Exec(chatTables); err != nil {
		t.Fatal(err)
	}
	must(t, db.Close())
	before, err := os.ReadFile(path)
	must(t, err)
	code, got, said := command(t, nil, "show", path)
	if code != exitOK || said != "" || !strings.Contains(got, "session  ses_1") || !strings.Contains(got, "user    hi") {
		t.Errorf("exit %d, %s\n%s", code, said, got)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file was changed: %v", err)
	}
}

// The environment of an agent says where and what it sends; a file is looked at whole all the same.
func TestShowFileWhateverTheEnvironment(t *testing.T) {
	path := demoFile(t)
	_, want, _ := command(t, nil, "show", path)
	for name, value := range map[string]string{
		"OTEL_TRACES_SAMPLER": "always_off", "OTEL_TRACES_EXPORTER": "none", "OTEL_SERVICE_NAME": "shop",
		"OTEL_RESOURCE_ATTRIBUTES":    "otelagent.tenant=acme",
		"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_BSP_MAX_QUEUE_SIZE": "1",
		"OTEL_SPAN_EVENT_COUNT_LIMIT": "1",
	} {
		t.Setenv(name, value)
	}
	if code, got, said := command(t, nil, "show", path); code != exitOK || said != "" || got != want {
		t.Errorf("exit %d, %s\n%s", code, said, got)
	}
	if code, got, said := command(t, nil, "show", path, "--tenant", "other"); code != exitOK || said != "" ||
		!strings.Contains(got, "tenant   other") {
		t.Errorf("exit %d, %s\n%s", code, said, got)
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if code, _, said := command(t, nil, "show", path); code != exitFailed || !strings.Contains(said, "OTEL_SDK_DISABLED") {
		t.Errorf("exit %d, %s", code, said)
	}
}
