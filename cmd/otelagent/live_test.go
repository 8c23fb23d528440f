package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/spans"
)

// process is a program of this test's own binary.
type process struct {
	*exec.Cmd
	lines chan string
}

// startProcess starts otelagent, or an agent, as a process of its own.
func startProcess(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	r, w, err := os.Pipe()
	must(t, err)
	p := &process{Cmd: &exec.Cmd{Path: self, Args: args, Env: append(os.Environ(), env...), Stdout: w, Stderr: w},
		lines: make(chan string, 1000)}
	must(t, p.Start())
	w.Close()
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			p.lines <- s.Text()
		}
		r.Close()
	}()
	t.Cleanup(p.kill)
	return p
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// cli runs a verb and returns what it prints.
func cli(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errs := runWith(t, args...)
	if code != exitOK {
		t.Fatalf("otelagent %s: exit %d\n%s", strings.Join(args, " "), code, errs)
	}
	return out
}

// keeps starts `otelagent up` as anybody does, but for its addresses, and returns its database and where it listens
// for gRPC.
func keeps(t *testing.T) (db, addr string) {
	t.Helper()
	db = filepath.Join(t.TempDir(), "sessions.db")
	up := startProcess(t, nil, "otelagent", "up", "--db", db, "--otlp-grpc", "127.0.0.1:0", "--otlp-http",
		"127.0.0.1:0", "--viewer", "off")
	addr = await(t, up.lines, "otelagent: OTLP over gRPC on ")
	await(t, up.lines, "otelagent: ready")
	return db, addr
}

// TestKilled: agents of their own are killed by kill -9 at every point where they can wait, and everything up to
// then is there.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: kills real processes, and waits for what does not come")
	}
	db, addr := keeps(t)
	for _, c := range []struct {
		mode   string
		status spans.SessionStatus
		// shown are pieces of what show says of the last turn.
		shown []string
		open  []inspect.StatusOpen
	}{
		{"model", spans.SessionStatusBusy, []string{"I will look at the file first, bec"}, nil},
		{"tool", spans.SessionStatusBusy, []string{"First I mark the place.", "edit", "a.txt", "half of it", "tool_use",
			"m-1-of-may", "1234"}, []inspect.StatusOpen{{Kind: "tool_call", Tool: "edit", Call: "c1"}}},
		{"ask", spans.SessionStatusWaitingOnApproval, []string{"edit", "ask"}, []inspect.StatusOpen{{Kind: "tool_call",
			Tool: "edit", Call: "c1"}, {Kind: "permission", Tool: "edit", Call: "c1"}}},
		{"input", spans.SessionStatusWaitingOnUserInput, nil, nil},
		{"retry", spans.SessionStatusRetrying, []string{"2 attempts"}, nil},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			id := "live-" + c.mode
			agent := startProcess(t, []string{testLiveAgent + "=" + addr}, "agent", c.mode)
			await(t, agent.lines, "waiting")
			// The events before were sent, and arrive at once; then the process dies.
			for _, want := range []struct {
				want string
				args []string
			}{
				{liveRequest, []string{"request", id + "/r1/1"}},
				{string(c.status), []string{"status", id}},
			} {
				if got := cliUntil(t, func(out string) bool { return out == want.want },
					append(want.args, "--db", db)...); got != "" {
					t.Fatalf("%s, want %s", got, want.want)
				}
			}
			whole := func(show string) bool {
				show = strings.Join(strings.Fields(show), " ")
				return !slices.ContainsFunc(c.shown, func(want string) bool { return !strings.Contains(show, want) })
			}
			if got := cliUntil(t, whole, "show", id+"/r1/1", "--db", db); got != "" {
				t.Fatalf("%s, want %q", got, c.shown)
			}
			agent.kill()

			if got := strings.TrimSpace(cli(t, "status", id, "--db", db, "--wait", "aborted", "--timeout",
				"20s")); got != string(spans.SessionStatusAborted) {
				t.Errorf("status %q", got)
			}
			if got := cli(t, "request", id+"/r1/1", "--db", db); got != liveRequest {
				t.Error(cmp.Diff(liveRequest, got))
			}
			if show := cli(t, "show", id+"/r1/1", "--db", db); !whole(show) {
				t.Errorf("no %q in\n%s", c.shown, show)
			}
			var v inspect.StatusView
			must(t, json.Unmarshal([]byte(cli(t, "status", id, "--db", db, "--output", "json")), &v))
			for i := range v.Open {
				if v.Open[i].Since.IsZero() || v.Open[i].Turn != id+"/@1/1" {
					t.Errorf("%+v", v.Open[i])
				}
				v.Open[i].Since, v.Open[i].Turn = time.Time{}, ""
			}
			if diff := cmp.Diff(c.open, v.Open); diff != "" || v.Status != spans.SessionStatusAborted ||
				v.Turn != id+"/@1/1" || v.HeartbeatNS != liveHeartbeat.Nanoseconds() {
				t.Errorf("%+v\n%s", v, diff)
			}
			var tree session.Session
			must(t, json.Unmarshal([]byte(cli(t, "show", id, "--db", db, "--output", "json")), &tree))
			turns := tree.Runs[0].Turns
			if len(tree.Runs) != 1 || len(turns) != 2 || turns[0].StopReason != "stop" ||
				turns[1].Partial != (c.mode == "model") || tree.Runs[0].Status != spans.RunStatusAborted {
				t.Errorf("%d runs, %d turns, partial %v", len(tree.Runs), len(turns), turns[1].Partial)
			}
			if last := turns[1]; c.mode == "tool" && (last.StopReason != "tool_use" || last.Answered != "m-1-of-may" ||
				last.Usage.Input != 1234 || last.Usage.Output != 56) {
				t.Errorf("of the reply there is %+v", last)
			}
			var list struct{ Sessions []session.Summary }
			must(t, json.Unmarshal([]byte(cli(t, "ls", "--db", db, "--status", "aborted", "--output", "json")),
				&list))
			if !slices.ContainsFunc(list.Sessions, func(s session.Summary) bool {
				return s.ID == id &&
					s.Status == spans.SessionStatusAborted
			}) {
				t.Errorf("not in the list: %+v", list)
			}
		})
	}
}

// TestShowFollows follows a session from its first moment until its run is over, while a process of its own records it.
func TestShowFollows(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: runs real processes for seconds")
	}
	db, addr := keeps(t)
	agent := startProcess(t, []string{testLiveAgent + "=" + addr}, "agent", "done")
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if run(t.Context(), []string{"status", "live-done", "--db", db}, strings.NewReader(""), io.Discard,
			io.Discard) == exitOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the session does not come")
		}
	}
	out := cli(t, "show", "live-done", "--follow", "--db", db)
	if err := agent.Wait(); err != nil {
		t.Error(err)
	}
	var got []string
	for line := range strings.Lines(out) {
		if len(line) < 10 {
			t.Fatalf("line %q", line)
		}
		words := strings.Fields(line[9:]) // behind the time of day
		got = append(got, strings.Join(words[:min(len(words), 4)], " "))
	}
	want := []string{
		"run 1 · coder", "user read it", "reply I read it.", "turn 0 · ", "user and now édit", "reply I edited it.",
		"turn 1 · ", "run 1 · completed",
	}
	for i := range want {
		if i >= len(got) || !strings.HasPrefix(got[i]+" ", want[i]) {
			t.Fatalf("line %d is not %q:\n%s", i, want[i], out)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, want %d:\n%s", len(got), len(want), out)
	}
	if got := strings.TrimSpace(cli(t, "status", "live-done", "--db", db)); got != "idle" {
		t.Errorf("status %s", got)
	}
	// For a session that is over, --follow ends at once, and --follow=forever with its context.
	if again := cli(t, "show", "live-done", "-F", "--db", db); again != out {
		t.Error(cmp.Diff(out, again))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	began := time.Now()
	var forever bytes.Buffer
	run(ctx, []string{"show", "live-done", "--follow=forever", "--db", db}, strings.NewReader(""), &forever, io.Discard)
	if forever.String() != out || time.Since(began) < 600*time.Millisecond {
		t.Errorf("after %s: %s", time.Since(began), cmp.Diff(out, forever.String()))
	}
}

// cliUntil runs a verb until it prints what is wanted, and says what it printed where it never does.
func cliUntil(t *testing.T, wanted func(out string) bool, args ...string) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var out, errs bytes.Buffer
		code := run(t.Context(), args, strings.NewReader(""), &out, &errs)
		if code == exitOK && wanted(strings.TrimSpace(out.String())) {
			return ""
		}
		if time.Now().After(deadline) {
			return fmt.Sprintf("otelagent %s: %s%s", strings.Join(args, " "), &out, &errs)
		}
	}
}
