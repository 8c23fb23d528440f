package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeRollout writes a rollout of Codex of at least size bytes: tasks of 20 model calls, each with sealed reasoning, a
// command and its output of about output bytes, the counts of tokens twice, and a compaction now and then.
func writeRollout(tb testing.TB, path string, size, reasoning, output int) (turns int) {
	tb.Helper()
	must(tb, os.MkdirAll(filepath.Dir(path), 0o700))
	f, err := os.Create(path)
	must(tb, err)
	w := bufio.NewWriterSize(f, 1<<20)
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("func return error context reader line package test index token value ok path main")
	text := func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			fmt.Fprintf(&b, `%s %d %s:%d\n`, words[r.IntN(len(words))], r.IntN(1e6), words[r.IntN(len(words))], r.IntN(999))
		}
		return b.String()
	}
	sealed := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		return base64.URLEncoding.EncodeToString(b)
	}
	at, written := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC), 0
	line := func(typ, format string, args ...any) {
		at = at.Add(700 * time.Millisecond)
		n, err := fmt.Fprintf(w, `{"timestamp":"%s","type":"%s","payload":{%s}}`+"\n",
			at.Format("2006-01-02T15:04:05.000Z"), typ, fmt.Sprintf(format, args...))
		must(tb, err)
		written += n
	}
	line("session_meta", `"id":"01a202f1-0000-7000-8000-000000000200","timestamp":"2026-11-01T08:00:00.000Z",`+
		`"cwd":"/home/user/demo","originator":"codex_cli_rs","cli_version":"0.155.0","source":"cli",`+
		`"model_provider":"openai","base_instructions":{"text":"%s"}`, text(21_000))
	for task := 0; written < size; task++ {
		line("event_msg", `"type":"task_started","turn_id":"task-%d","model_context_window":258400`, task)
		line("turn_context", `"turn_id":"task-%d","cwd":"/home/user/demo","approval_policy":"on-request",`+
			`"model":"gpt-5.1-codex-max","effort":"medium","summary":"auto"`, task)
		line("response_item", `"type":"message","role":"user","content":[{"type":"input_text","text":"%s"}]`, text(400))
		for range 20 {
			turns++
			line("response_item", `"type":"reasoning","summary":[{"type":"summary_text","text":"**%s**"}],"content":null,`+
				`"encrypted_content":"gAAAAAB%s"`, text(60), sealed(reasoning))
			line("response_item", `"type":"function_call","name":"shell_command",`+
				`"arguments":"{\"command\":\"sed -n %d,%dp main.go\"}","call_id":"call_%d"`, r.IntN(1000), r.IntN(1000), turns)
			count := fmt.Sprintf(`"type":"token_count","info":{"total_token_usage":{"input_tokens":%d,"cached_input_tokens":%d,`+
				`"output_tokens":%d,"reasoning_output_tokens":%d,"total_tokens":%d}},"rate_limits":null`, turns*9000, turns*8000,
				turns*200, turns*50, turns*9200)
			line("event_msg", "%s", count)
			line("response_item", `"type":"function_call_output","call_id":"call_%d","output":"Exit code: 0\n%s"`, turns,
				text(output/2+r.IntN(output)))
			line("event_msg", "%s", count)
		}
		if task%10 == 9 {
			var history []string
			for range 20 {
				history = append(history, fmt.Sprintf(`{"type":"message","role":"user",`+
					`"content":[{"type":"input_text","text":"%s"}]}`, text(2000)))
			}
			line("compacted", `"message":"%s","replacement_history":[%s]`, text(3000), strings.Join(history, ","))
		}
		line("response_item", `"type":"message","role":"assistant","content":[{"type":"output_text","text":"%s"}]`, text(600))
		line("event_msg", `"type":"task_complete","turn_id":"task-%d","last_agent_message":"done"`, task)
	}
	must(tb, cmp.Or(w.Flush(), f.Close()))
	return turns
}

// A rollout of 200 MB is read in at most 150 MiB of resident memory, whether it has few large model calls or many small
// ones.
func TestImportMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: reads 400 MB")
	}
	t.Parallel()
	t.Run("large calls", func(t *testing.T) { t.Parallel(); importInMemory(t, 1500, 20_000) })
	t.Run("small calls", func(t *testing.T) { t.Parallel(); importInMemory(t, 60, 100) })
}

func importInMemory(t *testing.T, reasoning, output int) {
	home := t.TempDir()
	turns := writeRollout(t, filepath.Join(home, ".codex/sessions/2026/11/01/rollout-2026-11-01T08-00-00-"+
		"01a202f1-0000-7000-8000-000000000200.jsonl"), 200e6, reasoning, output)
	cmd := exec.CommandContext(t.Context(), "otelagent", "import", "--yes")
	cmd.Env = []string{"HOME=" + home}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	must(t, cmd.Start())
	peak := make(chan int)
	go func() { peak <- peakMiB(cmd.Process.Pid) }()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &out)
	}
	most := <-peak
	t.Logf("%d turns, at most %d MiB, %v", turns, most, cmd.ProcessState.UserTime())
	if most == 0 || most > 150 {
		t.Errorf("%d MiB", most)
	}
}

// peakMiB returns the most resident memory of a process until it ended, as /proc shows it. The usage that wait returns
// is no use: it counts what the parent held when the process began
// (https://man7.org/linux/man-pages/man2/getrusage.2.html).
func peakMiB(pid int) (most int) {
	for ; ; time.Sleep(20 * time.Millisecond) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, value, ok := strings.Cut(string(status), "VmHWM:")
		if err != nil || !ok {
			return most
		}
		var kib int
		_, _ = fmt.Sscan(value, &kib)
		most = kib >> 10
	}
}
