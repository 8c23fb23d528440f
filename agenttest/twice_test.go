package agenttest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/writer"
)

// How often an input that lacks ids or times counts when it is sent twice: docs/fidelity.md, "What cannot hold when
// sent twice".

// sending is an input, as a file or as a pipe from an agent at work.
type sending struct {
	dialect, text string
	session       string // of --session
	live          bool
}

func sendOne(t *testing.T, x sending) session.Batch {
	t.Helper()
	var opts []input.Option
	if x.session != "" {
		opts = append(opts, input.WithSession(x.session))
	}
	if x.live {
		opts = append(opts, input.WithLive())
	}
	return playAs(t, usageCase{dialect: x.dialect, opts: opts}, x.text, writer.WithDerivedIDs)
}

const clarkReply = `{"role":"assistant","content":[],"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`

const bareClark = `{"type":"agent_start"}
{"type":"turn_start"}
{"type":"message_end","message":` + clarkReply + `}
{"type":"turn_end","message":` + clarkReply + `,"tool_results":[]}
{"type":"agent_end","messages":[]}
`

const bareACP = `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"ho"}}}}
{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":2,"totalTokens":12}}}
`

const bareOwn = `{"type":"otelagent.run_started"}
{"type":"otelagent.turn_started"}
{"type":"otelagent.turn_ended","output":{"role":"assistant","content":"hi"},"usage":{"input":10,"output":2}}
{"type":"otelagent.run_ended"}
`

// TestWhatCannotHold sends inputs twice, as the table says that it goes wrong, and then as it says that it goes well.
func TestWhatCannotHold(t *testing.T) {
	identified := strings.Replace(bareClark, "\n", "\n"+`{"type":"run_identified","identity":{"run_id":"r","depth":0,"conversation_id":"s"}}`+"\n", 1)
	stamped := regexp.MustCompile(`(?m)^\{`).ReplaceAllString // a time for every line
	const ts, tenLater = `{"ts":"2026-11-21T09:00:00Z",`, `{"ts":"2026-11-21T09:10:00Z",`
	named := strings.Replace(bareOwn, `run_started"`, `run_started","session":"s","run":"r"`, 1)
	enveloped := func(at string) string { // clark-agent's lines in an envelope with time and run id
		n := 0
		return regexp.MustCompile(`(?m)^\{.*$`).ReplaceAllStringFunc(identified, func(event string) string {
			n++
			return fmt.Sprintf(`{"ts":"2026-11-21T%s:%02dZ","seq":%d,"run_id":"r","event":%s}`, at, n, n, event)
		})
	}
	var events, array string
	for _, f := range phifixtures.All(t, repository) {
		if f.String() == "0.15.2/plain-multi-turn" {
			events = string(f.Events)
		}
	}
	raw, err := os.ReadFile(filepath.Join(repository, "dialects", "phi", "testdata", "ledgers", "messages.json"))
	if err != nil {
		t.Fatal(err)
	}
	array = string(raw)
	sessionOf := regexp.MustCompile(`"session_id":"([^"]*)"`).FindStringSubmatch(events)[1]

	clark := func(text, session string, live bool) sending { return sending{"clark-agent", text, session, live} }
	acp := func(text string, live bool) sending { return sending{"acp", text, "", live} }
	lines := func(text, session string, live bool) sending { return sending{"otelagent", text, session, live} }
	for _, c := range []struct {
		name, want, cured string // sessions and runs of each, after both
		sendings          []sending
		cure              []sending
	}{
		{"clark-agent, a file twice", "2 sessions: 1, 1 runs", "1 sessions: 1 runs",
			[]sending{clark(bareClark, "", false), clark(bareClark, "", false)}, []sending{clark(bareClark, "s", false), clark(bareClark, "s", false)}},
		{"clark-agent, two files of one session name", "1 sessions: 1 runs", "1 sessions: 2 runs",
			[]sending{clark(bareClark, "s", false), clark(strings.ReplaceAll(bareClark, `"output_tokens":2`, `"output_tokens":7`), "s", false)},
			[]sending{clark(enveloped("09:00"), "s", false), clark(enveloped("09:10"), "s", false)}},
		{"clark-agent, piped and then its file", "1 sessions: 2 runs", "1 sessions: 1 runs",
			[]sending{clark(identified, "", true), clark(identified, "", false)}, []sending{clark(enveloped("09:00"), "", true), clark(enveloped("09:00"), "", false)}},
		{"ACP, piped and then its file", "1 sessions: 2 runs", "1 sessions: 1 runs",
			[]sending{acp(bareACP, true), acp(bareACP, false)}, []sending{acp(stamped(bareACP, ts), true), acp(stamped(bareACP, ts), false)}},
		{"ACP, two captures of one session", "1 sessions: 1 runs", "1 sessions: 2 runs",
			[]sending{acp(bareACP, false), acp(strings.ReplaceAll(bareACP, `"totalTokens":12`, `"totalTokens":13`), false)},
			[]sending{acp(stamped(bareACP, ts), false), acp(stamped(bareACP, tenLater), false)}},
		{"own lines, without ids", "2 sessions: 1, 1 runs", "1 sessions: 1 runs",
			[]sending{lines(bareOwn, "", false), lines(bareOwn, "", false)}, []sending{lines(named, "", false), lines(named, "", false)}},
		{"own lines, with a session alone", "1 sessions: 2 runs", "1 sessions: 1 runs",
			[]sending{lines(bareOwn, "s", false), lines(bareOwn, "s", false)}, []sending{lines(named, "s", false), lines(named, "s", false)}},
		{"own lines, piped and then their file", "1 sessions: 2 runs", "1 sessions: 1 runs",
			[]sending{lines(named, "", true), lines(named, "", false)}, []sending{lines(stamped(named, ts), "", true), lines(stamped(named, ts), "", false)}},
		{"an array of messages beside the events", "1 sessions: 2 runs", "2 sessions: 1, 1 runs",
			[]sending{{"phi-core", events, "", false}, {"phi-core", array, sessionOf, false}}, []sending{{"phi-core", events, "", false}, {"phi-core", array, "array", false}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, x := range []struct {
				what, want string
				sendings   []sending
			}{{"as it goes wrong", c.want, c.sendings}, {"as it goes well", c.cured, c.cure}} {
				var all session.Batch
				for _, y := range x.sendings {
					all = join(all, sendOne(t, y))
				}
				if got := sessionsAndRuns(all); got != x.want {
					t.Errorf("%s: %s, want %s", x.what, got, x.want)
				}
			}
			documented(t, c.name)
		})
	}
	if got := len(inFidelity(t)); got != 9 {
		t.Errorf("%d rows in docs/fidelity.md, 9 are tested", got)
	}
}

// sessionsAndRuns counts the sessions, and the runs of each.
func sessionsAndRuns(b session.Batch) string {
	var runs []string
	for _, s := range session.AssembleAll(b.Rows) {
		runs = append(runs, fmt.Sprint(len(s.Runs)))
	}
	slices.Sort(runs)
	return fmt.Sprintf("%d sessions: %s runs", len(runs), strings.Join(runs, ", "))
}

// inFidelity are the rows of the table.
func inFidelity(t *testing.T) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(repository, "docs", "fidelity.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(raw), "<!-- table: sent twice -->")
	if !found {
		t.Fatal("docs/fidelity.md has no such table")
	}
	table, _, _ = strings.Cut(strings.TrimSpace(table), "\n\n")
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1) {
		names = append(names, m[1])
	}
	return names
}

func documented(t *testing.T, name string) {
	t.Helper()
	if names := inFidelity(t); !slices.Contains(names, name) {
		t.Errorf("docs/fidelity.md does not list it: %s", cmp.Diff([]string{name}, names))
	}
}
