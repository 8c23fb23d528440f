package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestAgents runs each program once. Its telemetry goes to a collector while it runs; its transcripts are imported
// afterwards, into a database of their own, and into the one that holds the telemetry already.
func TestAgents(t *testing.T) {
	for _, a := range programs {
		t.Run(a.name, func(t *testing.T) {
			live := t.TempDir() + "/live.db"
			recording := filepath.Join(os.Getenv("AGENTS_TOOLS"), "recorded", a.name)
			if err := os.RemoveAll(recording); err != nil {
				t.Fatal(err)
			}
			m := serveModel(t, a.script())
			p := newPlace(t, m.url, tap(t, recording, up(t, live)))
			t.Cleanup(func() { // a failed test keeps what the program wrote
				if t.Failed() {
					_ = os.CopyFS(filepath.Join(recording, "home"), os.DirFS(p.home))
				}
			})
			a.play(t, p, m)
			t.Run("telemetry", func(t *testing.T) { a.check(t, live, telemetry) })
			if a.agent == "" {
				return
			}
			t.Run("transcript", func(t *testing.T) {
				db := t.TempDir() + "/files.db"
				a.read(t, p, db)
				a.check(t, db, transcript)
			})
			t.Run("both", func(t *testing.T) {
				a.read(t, p, live)
				a.check(t, live, both)
			})
		})
	}
}

// A signal is the source of a session.
type signal string

const (
	telemetry  signal = "telemetry"
	transcript signal = "transcript"
	both       signal = "both"
)

// read imports the transcripts of the program into a database.
func (a program) read(t *testing.T, p place, db string) {
	t.Helper()
	otelagent(t, append(a.env(p), "HOME="+p.home), "import", "--yes", "--agent", a.agent, "--db", db)
}

// check compares the sessions of a database with the script. Telemetry may be on its way for some seconds.
func (a program) check(t *testing.T, db string, from signal) {
	t.Helper()
	want := a.want(from)
	var got string
	for begin := time.Now(); time.Since(begin) < 15*time.Second; time.Sleep(200 * time.Millisecond) {
		if got = a.got(t, db); got == want {
			break
		}
	}
	if got != want {
		t.Errorf("the sessions of the %s of %s differ from the script.\ngot:\n%swant:\n%s", from, a.name, got, want)
	}
	for _, word := range a.words() {
		err := exec.CommandContext(t.Context(), binary(t), "grep", "--db", db, word).Run()
		if silent := from == telemetry && slices.Contains(a.silent, word); (err != nil) != silent {
			t.Errorf("grep %q in the %s of %s: %v, want silence: %t", word, from, a.name, err, silent)
		}
	}
}

// words are of a prompt, of a reply, of arguments and of a result.
func (a program) words() []string {
	if a.first.name == "weather" {
		return []string{"ARANCIO", "DURIAN", "Oslo", "Oslo: sunny"}
	}
	return []string{"ARANCIO", "DURIAN", "notes.txt", "buy milk"}
}

// want is the tree of the script, as got writes that of a database.
func (a program) want(from signal) string {
	var runs [2]strings.Builder
	var sums [2]usage
	for n, s := range a.script() {
		run := n / 3
		u := s.usage
		if from == telemetry && a.lacksReasoning {
			u.reasoning = 0
		}
		sums[run].add(u)
		var tools []toolCall
		for k, c := range s.calls {
			outcome := "ok"
			if n == 1 && k == 0 && !slices.Contains(a.succeeds, from) {
				outcome = "error"
			}
			tools = append(tools, toolCall{c.name, outcome})
		}
		fmt.Fprintf(&runs[run], "    turn %s %v\n", u, names(tools))
	}
	if from != transcript {
		for range a.titles {
			sums[0].add(title.usage)
			fmt.Fprintf(&runs[0], "    utility turn %s []\n", title.usage)
		}
	}
	if a.session == "" {
		return fmt.Sprintf("session %s\n  run\n%ssession %s\n  run\n%s", sums[0], &runs[0], sums[1], &runs[1])
	}
	name := ""
	if a.session != own {
		name = " " + a.session
	}
	sums[0].add(sums[1])
	return fmt.Sprintf("session%s %s\n  run\n%s  run\n%s", name, sums[0], &runs[0], &runs[1])
}

func (u *usage) add(v usage) {
	u.input += v.input
	u.output += v.output
	u.cached += v.cached
	u.reasoning += v.reasoning
}

func (u usage) String() string {
	return fmt.Sprintf("%d/%d/%d/%d", u.input, u.output, u.cached, u.reasoning)
}

// counts is usage in the documents of otelagent.
type counts struct {
	Input, Output, Reasoning int64
	CacheRead                int64 `json:"cache_read"`
}

func (c counts) String() string { return usage{c.Input, c.Output, c.CacheRead, c.Reasoning}.String() }

type toolCall struct{ Name, Outcome string }

// got writes the sessions of a database, oldest first: the parts that the script decides.
func (a program) got(t *testing.T, db string) string {
	t.Helper()
	var list struct{ Sessions []struct{ ID string } }
	parse(t, otelagent(t, nil, "ls", "--db", db, "--output", "json"), &list)
	slices.Reverse(list.Sessions)
	var b strings.Builder
	for _, s := range list.Sessions {
		var tree struct {
			Usage counts
			Runs  []struct {
				ToolCalls []toolCall `json:"tool_calls"`
				Turns     []struct {
					Usage     counts
					Purpose   string
					ToolCalls []toolCall `json:"tool_calls"`
				}
			}
		}
		parse(t, otelagent(t, nil, "show", s.ID, "--db", db, "--output", "json"), &tree)
		name := ""
		if a.session != own && a.session != "" {
			name = " " + s.ID
		}
		fmt.Fprintf(&b, "session%s %s\n", name, tree.Usage)
		for _, run := range tree.Runs {
			fmt.Fprintln(&b, "  run")
			var apart strings.Builder
			for _, turn := range run.Turns {
				if turn.Purpose != "" {
					fmt.Fprintf(&apart, "    %s turn %s %v\n", turn.Purpose, turn.Usage, names(turn.ToolCalls))
					continue
				}
				fmt.Fprintf(&b, "    turn %s %v\n", turn.Usage, names(turn.ToolCalls))
			}
			b.WriteString(apart.String())
			if len(run.ToolCalls) > 0 {
				fmt.Fprintf(&b, "    of no turn: %v\n", names(run.ToolCalls))
			}
		}
	}
	return b.String()
}

func names(calls []toolCall) []string {
	list := []string{}
	for _, c := range calls {
		if c.Outcome != "" && c.Outcome != "ok" { // not every source reports success
			c.Name += ":" + c.Outcome
		}
		list = append(list, c.Name)
	}
	slices.Sort(list)
	return list
}

func parse(t *testing.T, b []byte, v any) {
	t.Helper()
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(v); err != nil {
		t.Fatalf("%v: %.200s", err, b)
	}
}
