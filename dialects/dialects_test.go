package dialects_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
)

// fixtures are recorded inputs by their dialect.
func fixtures(t testing.TB) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for dialect, dir := range map[string]string{"phi-core": "phi", "clark-agent": "clark", "acp": "acp", "guide": "guide",
		"otelagent": "ndjson", "claude-code": "claudecode", "gemini-cli": "gemini", "opencode": "opencode",
		"codex": "codex", "pi": "pi"} {
		must.Do(t, filepath.WalkDir(filepath.Join(dir, "testdata"), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if d.Name() == "fuzz" {
					return fs.SkipDir
				}
				return nil
			}
			switch {
			case strings.HasSuffix(path, ".tree.json"), strings.HasSuffix(path, ".saved.json"), strings.Contains(path, "golden"),
				strings.HasSuffix(path, ".meta.json"), strings.HasSuffix(path, "expected.json"):
				return nil
			case strings.HasSuffix(path, "projects.json"), strings.Contains(filepath.ToSlash(path), "/storage/"):
				return nil // no transcripts, or no inputs of their own
			case strings.HasSuffix(path, ".ndjson"), strings.HasSuffix(path, ".jsonl"), strings.HasSuffix(path, ".json"),
				strings.HasSuffix(path, ".sse"):
			default:
				return nil
			}
			if info, err := d.Info(); err != nil || info.Size() == 0 {
				return err
			}
			found[dialect] = append(found[dialect], path)
			return nil
		}))
		if len(found[dialect]) == 0 {
			t.Fatalf("no fixtures of %s", dialect)
		}
	}
	return found
}

// odd are fixtures in no dialect, or in several: a schema, lines of another dialect put between otelagent's, and a list
// of no sessions.
func odd(path string, text []byte) bool {
	return filepath.Base(path) == "schema.json" || path == "ndjson/testdata/traps.ndjson" ||
		len(bytes.Fields(text)) == 2 && text[0] == '['
}

// Every recording of every dialect is recognised as its own, at once, byte by byte, and from its first bytes alone as
// far as these say anything; never as another one.
func TestRecognise(t *testing.T) {
	t.Parallel()
	for want, paths := range fixtures(t) {
		for _, path := range paths {
			text := must.Get(os.ReadFile(path))(t)
			if odd(path, text) {
				continue
			}
			d, why, whole, err := dialects.Open(bytes.NewReader(text))
			if err != nil || d.Name != want {
				t.Errorf("%s: %s (%s), %v; want %s", path, d.Name, why, err, want)
				continue
			}
			if got, err := io.ReadAll(whole); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s: %d of %d bytes come out, %v", path, len(got), len(text), err)
			}
			if why == "" || len(why) > 100 {
				t.Errorf("%s: why is %q", path, why)
			}
			if testing.Short() {
				continue
			}
			for n := 1; n < min(len(text), 2000); n += 211 {
				if d, _, err := dialects.Recognise(text[:n]); err == nil && d.Name != want && want != "otelagent" &&
					d.Name != "otelagent" {
					t.Errorf("%s: its first %d bytes are %s", path, n, d.Name)
				}
			}
		}
	}
}

// samples are an input of each form that the dialects read.
var samples = map[string]string{
	"phi/testdata/sample-session.ndjson": "phi-core", "phi/testdata/ledgers/sample-session.json": "phi-core",
	"clark/testdata/sample.events.ndjson": "clark-agent", "acp/testdata/sample.ndjson": "acp",
	"guide/testdata/session.jsonl": "guide", "guide/testdata/session.canonical.json": "guide",
	"ndjson/testdata/examples.ndjson": "otelagent", "claudecode/testdata/agtrace/claude_session.jsonl": "claude-code",
	"gemini/testdata/generated-acp/tmp/ws/chats/session-2026-11-22T11-08-270c3408.jsonl": "gemini-cli",
	"gemini/testdata/agtrace/gemini_session.json":                                        "gemini-cli",
	"opencode/testdata/generated/export-ses_dfcfedb28ffeTZNro25MO4PG8X.json":             "opencode",
}

// eventsOf are the events that d reads from r, dumped without its position, and the error
// that ended it. It stops after that many.
func eventsOf(t *testing.T, d input.Decoder, r io.Reader, stop int) (events []string, last error) {
	t.Helper()
	for ev, err := range d.Events(r) {
		if last != nil {
			t.Fatal("something behind the last error")
		}
		if err != nil {
			last = err
			continue
		}
		if events = append(events, seqs.ReplaceAllString(agenttest.Dump(ev), "")); len(events) == stop {
			break
		}
	}
	return events, last
}

// TestSentAgain sends an input of each form, and then its beginnings and all of it again: nothing that is there
// changes.
func TestSentAgain(t *testing.T) {
	again := map[string]string{"clark/testdata/clark-agent-0.4.0/child-shared-sink.enveloped.ndjson": "clark-agent",
		"acp/testdata/sdk/tools.ndjson": "acp", "acp/testdata/sdk/two-sessions.ndjson": "acp"}
	maps.Copy(again, samples)
	for path, name := range again {
		switch path {
		case "clark/testdata/sample.events.ndjson", "guide/testdata/session.jsonl": // without times; a message that is cut
			continue
		}
		t.Run(path, func(t *testing.T) {
			text := must.Get(os.ReadFile(path))(t)
			var rows []session.Row
			send := func(text []byte) string {
				p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent), writer.WithDerivedIDs)
				d, _ := dialects.Named(name)
				play.Lines(t, event.NewRecorder(p.Tracer()),
					d.New(input.Settings{Session: "given"}).Events(bytes.NewReader(text)))
				rows = append(rows, p.Batch().Rows...)
				out := must.Get(json.MarshalIndent(session.AssembleAll(rows), "", " "))(t)
				return string(out)
			}
			want, lines := send(text), bytes.SplitAfter(text, []byte("\n"))
			for i := range 4 {
				cut := bytes.Join(lines[:len(lines)*(i+1)/4], nil)
				if got := send(cut); got != want {
					t.Fatalf("sent again up to line %d (-once +again):\n%s", len(lines)*(i+1)/4, cmp.Diff(want, got))
				}
			}
		})
	}
}

var seqs = regexp.MustCompile(`"seq":\d+,?`)

// TestReading reads each form as a file, byte by byte, with other line ends, as server-sent events, from a reader that
// fails, twice with one Decoder, with a line of package ndjson after it, and stops after every event.
func TestReading(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for path, name := range samples {
		t.Run(path, func(t *testing.T) {
			text := must.Get(os.ReadFile(path))(t)
			lines := !strings.HasSuffix(path, ".json")
			dialect, _ := dialects.Named(name)
			read := func(r io.Reader) []string {
				t.Helper()
				got, err := eventsOf(t, dialect.New(), r, 0)
				if err != nil {
					t.Error(err)
				}
				return got
			}
			want := read(bytes.NewReader(text))
			same := func(how string, r io.Reader) {
				t.Helper()
				if diff := cmp.Diff(want, read(r)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", how, diff)
				}
			}
			same("byte by byte", iotest.OneByteReader(bytes.NewReader(text)))
			if returns := bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")); lines {
				same("returns", bytes.NewReader(append([]byte("\xef\xbb\xbf\r\n \t\n"), returns...)))
				served := bytes.ReplaceAll(bytes.TrimSpace(text), []byte("\n"), []byte("\n\n: comment\ndata: "))
				same("server-sent events", bytes.NewReader(append([]byte("data: "), served...)))
			}
			got, err := eventsOf(t, dialect.New(), io.MultiReader(bytes.NewReader(text), iotest.ErrReader(broken)), 0)
			if !errors.Is(err, broken) || errors.As(err, new(*input.LineError)) || lines && len(got) != len(want) {
				t.Errorf("a reader that fails: %d of %d events, %v", len(got), len(want), err)
			}
			d := dialect.New()
			for range 2 {
				_, _ = eventsOf(t, d, bytes.NewReader(text), 0)
			}
			one := dialect.New()
			if _, _ = eventsOf(t, one, bytes.NewReader(text), 0); d.Stats().Lines != 2*one.Stats().Lines {
				t.Errorf("%d lines of two inputs, %d of one", d.Stats().Lines, one.Stats().Lines)
			}
			if own := "\n" + `{"type":"otelagent.defect_found","code":"x"}` + "\n"; lines {
				got := read(io.MultiReader(bytes.NewReader(text), strings.NewReader(own)))
				if len(got) != len(want)+1 || !strings.Contains(strings.Join(got, ""), `{"event":"defect_found"`) {
					t.Errorf("with a line of our own %d events, want %d", len(got), len(want)+1)
				}
			}
			for stop := range len(want) {
				if got, _ := eventsOf(t, dialect.New(), bytes.NewReader(text), stop+1); len(got) != stop+1 {
					t.Fatalf("%d events after a stop at %d", len(got), stop+1)
				}
			}
		})
	}
}

// TestRecogniseTexts recognises what a text is, or that it is nothing that any dialect reads.
func TestRecogniseTexts(t *testing.T) {
	const (
		phi     = `{"type":"TurnStart","loop_id":"s.1","turn_index":0}`
		own     = `{"type":"otelagent.fact_stated","facts":[]}`
		acp     = `{"jsonrpc":"2.0","id":1,"method":"initialize"}`
		event   = "lines with type and loop_id of phi-core's AgentEvent"
		session = `{"type":"session","data":{"id":"s","agent":"a","created_at":1}}`
	)
	for in, want := range map[string][2]string{
		phi:                            {"phi-core", event},
		own + "\nnoise\n" + phi + "\n": {"phi-core", event},
		"noise\n" + phi + "\n":         {"phi-core", event},
		phi + "\n" + own[:12]:          {"phi-core", event},
		`{"ordinal":1,"event":` + phi:  {"phi-core", event},
		"\xef\xbb\xbf: hello\nretry: 1\n\nevent: agent_event\ndata: " + phi + "\n\n": {"phi-core",
			"server-sent events with type and loop_id of phi-core's AgentEvent"},
		`[{"session_id":"s","loops":[`: {"phi-core",
			"an array of objects with the keys of phi-core's Session"},
		`{"session_id":"x","agent_id":"y","loops":[]}`: {"phi-core", "an object with the keys of phi-core's Session"},
		`[{"role":"user","content":[],"timestamp":5}`:  {"phi-core", "an array of phi-core's messages"},

		`{"type":"agent_start"}`: {"clark-agent", "lines with type agent_start"},
		"\xef\xbb\xbf\n" + `{"type":"turn_end","message":{"role":"assist`: {"clark-agent", "lines with type turn_end"},
		"event: message\ndata: " + `{"type":"message_update","partial":{}}` + "\n\n": {"clark-agent",
			"server-sent events with type message_update"},
		`{"ts":1,"seq":1,"run_id":"x","event":{"type":"agent_start"}}`: {"clark-agent",
			"lines with a clark-agent event inside"},
		`{"payload":{"type":"turn_end","message":{"con`: {"clark-agent", "lines with a clark-agent event inside"},
		`{"schema_version":1,"seq":0,"recorded_at_unix_ms":1,"payload":{"kind":"turn_started"}}`: {"clark-agent",
			"lines with payload.kind and recorded_at_unix_ms"},
		own + "\n" + `{"type":"agent_start"}`: {"clark-agent", "lines with type agent_start"},

		acp:                       {"acp", "lines with jsonrpc"},
		own + "\n" + acp:          {"acp", "lines with jsonrpc"},
		"data: " + acp[:30]:       {"acp", "lines with jsonrpc"},
		`{"message":` + acp + `}`: {"acp", "lines with a message of jsonrpc"},

		session:                                 {"guide", "lines with type session and a row as data"},
		own + "\n" + session:                    {"guide", "lines with type session and a row as data"},
		`{"messages":[{"message":{"id":"x"}}]}`: {"guide", "an object with session and messages"},
		`{"message":{"id":"x","role":"user","session_id":"s"},"parts":[` + "\n": {"guide",
			"lines with a message row and its parts"},

		`{"type":"user","sessionId":"s","message":{"content":"a"}}`: {"claude-code",
			"lines with type user and sessionId"},
		`{"type":"user","sessionId":"s","message":{"parts":[]}}`:                                  {}, // Qwen Code
		`{"type":"system","sessionId":"s","systemPayload":{}}`:                                    {},
		`{"type":"user","sessionId":"session-11111111-2222-4333-8444-555555555555","message":{}}`: {}, // iFlow
		own:                   {"otelagent", "lines with a type that begins with otelagent."},
		own + "\n" + own[:12]: {"otelagent", "lines with a type that begins with otelagent."},
		"not JSON\n" + own:    {"otelagent", "lines with a type that begins with otelagent."},

		`{"messages":[` + own + `]}`: {}, own[:12]: {}, "\xef\xbb": {}, "[": {}, "[]": {}, "{": {}, "{}": {}, "null": {},
		"hello\n": {}, "text\n{}": {}, `[1,2]`: {}, `{"type":`: {},
		`{"type":"TurnStart"}`: {}, `{"session_id":"s","agent_id":"a"}`: {}, `[{"session_id":5}]`: {},
		`[{"role":"user","content":"q"}]`: {}, `[{"role":"user","parts":[]}]`: {}, `[{"message":{},"parts":[]}]`: {},
		`[{"type":"agent_start"}]`: {}, `{"payload":{"kind":"turn_started"}}`: {},
		`{"type":"AgentStart","direction":"north"}`: {}, `{"role":"user","content":"jsonrpc"}`: {},
		`{"direction":"c2s"}`: {}, `{"type":"part"}`: {}, `{"type":"session","data":5}`: {}, `{"session":{"id":"x"}}`: {},
		`{"messages":[{"role":"user"}]}`: {}, `{"message":{"role":"user","content":[]},"parts":[]}`: {},
	} {
		d, why, err := dialects.Recognise([]byte(in))
		if d.Name != want[0] || why != want[1] || (err == nil) != (want[0] != "") {
			t.Errorf("%q: %s, %q, %v; want %q", in, d.Name, why, err, want)
		}
	}
}

// Of a pipe no more is waited for than its first line.
func TestOpenPipe(t *testing.T) {
	for _, line := range []string{
		`{"type":"AgentStart","agent_id":"a","session_id":"s","loop_id":"l","parent_loop_id":null,` +
			`"continuation_kind":"Initial","timestamp":"2026-11-21T02:15:53Z","metadata":null,"config_snapshot":null}`,
		`{"type":"agent_start"}`,
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`,
		`{"type":"otelagent.run_started"}`,
	} {
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, line+"\n") }() // and then nothing
		d, why, whole, err := dialects.Open(iotest.OneByteReader(r))
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		t.Logf("%s: %s", d.Name, why)
		go func() { _, _ = io.WriteString(w, "more\n"); w.Close() }()
		if rest, err := io.ReadAll(whole); err != nil || string(rest) != line+"\nmore\n" {
			t.Errorf("%q, %v", rest, err)
		}
	}
}

func TestUnknown(t *testing.T) {
	const phi, clark, own = `{"type":"AgentStart","loop_id":"l"}` + "\n", `{"type":"turn_start"}` + "\n",
		`{"type":"otelagent.run_started"}` + "\n"
	for _, test := range []struct {
		name, in, want string
		empty          bool
	}{
		{"empty", "", "the input is empty", true},
		{"blank", "\n \n", "the input is empty", true},
		{"text", "hello\nworld\n", "is in no known dialect; tried: otelagent (", false},
		{"other JSON", `{"a":1}` + "\n", "is in no known dialect", false},
		{"a number", "1\n2\n", "is in no known dialect", false},
		{"two dialects", phi + own + clark, "several dialects: line 1 is phi-core, line 3 is clark-agent", false},
		{"two dialects, and lines of none", "\n" + phi + "\nhello\n{\"a\":1}\n" + clark,
			"several dialects: line 2 is phi-core, line 6 is clark-agent", false},
		{"two dialects in events of a feed", "event: x\ndata: " + phi + "\ndata: " + clark + "\n",
			"several dialects: line 2 is phi-core, line 4 is clark-agent", false},
		{"binary", "\x00\x01\x02{}\n", "is in no known dialect", false},
	} {
		_, _, _, err := dialects.Open(strings.NewReader(test.in))
		var unknown *dialects.UnknownError
		if !errors.As(err, &unknown) || !strings.Contains(err.Error(), test.want) || unknown.Empty != test.empty {
			t.Errorf("%s: %v", test.name, err)
		}
	}
	for in, want := range map[string]string{phi + own: "phi-core", own + phi: "phi-core", own + own: "otelagent", "\n" +
		clark: "clark-agent"} {
		if d, _, _, err := dialects.Open(strings.NewReader(in)); err != nil || d.Name != want {
			t.Errorf("%q: %s, %v", in, d.Name, err)
		}
	}
	broken := errors.New("broken")
	if _, _, _, err := dialects.Open(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// What is found again under its name is what was there, and reads.
func TestNamed(t *testing.T) {
	for i, d := range dialects.All() {
		same, ok := dialects.Named(d.Name)
		if !ok || same.Name != d.Name || dialects.Names()[i] != d.Name || d.Reads == "" {
			t.Errorf("%d: %+v", i, same)
		}
		for _, err := range d.New(input.Settings{Session: "s"}).Events(strings.NewReader("")) {
			if err != nil {
				t.Logf("%s of nothing: %v", d.Name, err)
			}
		}
	}
	if _, ok := dialects.Named("nobody"); ok {
		t.Error("nobody is known")
	}
}
