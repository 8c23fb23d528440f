package agenttest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
)

// TestWhatCannotHold sends inputs that lack ids or times twice. Each case of the table "sent twice" in docs/fidelity.md
// counts wrongly, and rightly where the input has them.
func TestWhatCannotHold(t *testing.T) {
	const clarkReply = `{"role":"assistant","content":[],"stop_reason":"end_turn",` +
		`"usage":{"input_tokens":10,"output_tokens":2,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`
	const bareClark = `{"type":"agent_start"}
{"type":"turn_start"}
{"type":"message_end","message":` + clarkReply + `}
{"type":"turn_end","message":` + clarkReply + `,"tool_results":[]}
{"type":"agent_end","messages":[]}
`
	const bareACP = `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk",` +
		`"content":{"type":"text","text":"ho"}}}}
{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn","usage":{"inputTokens":10,"outputTokens":2,"totalTokens":12}}}
`
	const bareOwn = `{"type":"otelagent.run_started"}
{"type":"otelagent.turn_started"}
{"type":"otelagent.turn_ended","output":{"role":"assistant","content":"hi"},"usage":{"input":10,"output":2}}
{"type":"otelagent.run_ended"}
`
	const identity = `{"type":"run_identified","identity":{"run_id":"r","depth":0,"conversation_id":"s"}}` + "\n"
	identified := strings.Replace(bareClark, "\n", "\n"+identity, 1)
	stamped := func(text, at string) string { // a time for every line
		return regexp.MustCompile(`(?m)^\{`).ReplaceAllString(text, `{"ts":"2026-11-21T`+at+`:00Z",`)
	}
	enveloped := func(at string) string { // clark-agent's lines in an envelope with time and run id
		n := 0
		return regexp.MustCompile(`(?m)^\{.*$`).ReplaceAllStringFunc(identified, func(event string) string {
			n++
			return fmt.Sprintf(`{"ts":"2026-11-21T%s:%02dZ","seq":%d,"run_id":"r","event":%s}`, at, n, n, event)
		})
	}
	named := strings.Replace(bareOwn, `run_started"`, `run_started","session":"s","run":"r"`, 1)
	events, array := string(phiFile(t, "phi-core-0.15.2", "plain-multi-turn.events.ndjson")), string(phiFile(t,
		"ledgers", "messages.json"))
	its := regexp.MustCompile(`"session_id":"([^"]*)"`).FindStringSubmatch(events)[1]

	// A sending is an input, with its session if it has that from --session, through a pipe or as a file.
	type sending struct {
		text, session string
		live          bool
	}
	names := map[string]bool{}
	check := func(name, dialect, want string, sendings ...sending) {
		t.Helper()
		names[name] = true
		var all session.Batch
		for _, x := range sendings {
			var opts []input.Settings
			if x.session != "" {
				opts = append(opts, input.Settings{Session: x.session})
			}
			if x.live {
				opts = append(opts, input.Settings{Live: true})
			}
			all = join(all, playAs(t, dialect, opts, x.text, writer.WithDerivedIDs))
		}
		var runs []string // of each session
		for _, s := range session.AssembleAll(all.Rows) {
			runs = append(runs, fmt.Sprint(len(s.Runs)))
		}
		if slices.Sort(runs); strings.Join(runs, ", ") != want {
			t.Errorf("%s: runs of each session: %s, want %s", name, strings.Join(runs, ", "), want)
		}
	}
	name := "clark-agent, a file twice"
	check(name, "clark-agent", "1, 1", sending{text: bareClark}, sending{text: bareClark})
	check(name, "clark-agent", "1", sending{text: bareClark, session: "s"}, sending{text: bareClark, session: "s"})
	name = "clark-agent, two files of one session name"
	other := strings.ReplaceAll(bareClark, `"output_tokens":2`, `"output_tokens":7`)
	check(name, "clark-agent", "1", sending{text: bareClark, session: "s"}, sending{text: other, session: "s"})
	check(name, "clark-agent", "2", sending{text: enveloped("09:00"), session: "s"},
		sending{text: enveloped("09:10"), session: "s"})
	name = "clark-agent, piped and then its file"
	check(name, "clark-agent", "2", sending{text: identified, live: true}, sending{text: identified})
	check(name, "clark-agent", "1", sending{text: enveloped("09:00"), live: true}, sending{text: enveloped("09:00")})
	name = "ACP, piped and then its file"
	check(name, "acp", "2", sending{text: bareACP, live: true}, sending{text: bareACP})
	check(name, "acp", "1", sending{text: stamped(bareACP, "09:00"), live: true}, sending{text: stamped(bareACP, "09:00")})
	name = "ACP, two captures of one session"
	check(name, "acp", "1", sending{text: bareACP}, sending{text: strings.ReplaceAll(bareACP, `"totalTokens":12`,
		`"totalTokens":13`)})
	check(name, "acp", "2", sending{text: stamped(bareACP, "09:00")}, sending{text: stamped(bareACP, "09:10")})
	name = "own lines, without ids"
	check(name, "otelagent", "1, 1", sending{text: bareOwn}, sending{text: bareOwn})
	check(name, "otelagent", "1", sending{text: named}, sending{text: named})
	name = "own lines, with a session alone"
	check(name, "otelagent", "2", sending{text: bareOwn, session: "s"}, sending{text: bareOwn, session: "s"})
	check(name, "otelagent", "1", sending{text: named, session: "s"}, sending{text: named, session: "s"})
	name = "own lines, piped and then their file"
	check(name, "otelagent", "2", sending{text: named, live: true}, sending{text: named})
	check(name, "otelagent", "1", sending{text: stamped(named, "09:00"), live: true},
		sending{text: stamped(named, "09:00")})
	name = "an array of messages and the events"
	check(name, "phi-core", "2", sending{text: events}, sending{text: array, session: its})
	check(name, "phi-core", "1, 1", sending{text: events}, sending{text: array, session: "array"})

	raw := must.Get(os.ReadFile(filepath.Join(repository, "docs", "fidelity.md")))(t)
	_, table, _ := strings.Cut(string(raw), "<!-- table: sent twice -->")
	table, _, _ = strings.Cut(strings.TrimSpace(table), "\n\n")
	rows := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(table, -1)
	for _, row := range rows {
		if !names[row[1]] {
			t.Errorf("docs/fidelity.md lists %q, which is not tested", row[1])
		}
	}
	if len(rows) != len(names) {
		t.Errorf("%d rows in docs/fidelity.md, %d are tested", len(rows), len(names))
	}
}
