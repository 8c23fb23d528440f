package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Every command that show prints for a file works as it stands there, whatever its name, and nothing is cut from it
// on a narrow screen.
func TestShowPrintsCommandsThatWork(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	dir := t.TempDir()
	samples := []string{
		"acp/testdata/sample.ndjson", "clark/testdata/sample.events.ndjson", "clark/testdata/sample.trajectory.jsonl",
		"phi/testdata/sample-session.ndjson",
		"phi/testdata/sample-variants.ndjson", "guide/testdata/session.jsonl", "guide/testdata/session.canonical.json",
		"ndjson/testdata/examples.ndjson",
	}
	var bodies [][]byte
	for _, sample := range samples {
		body, err := os.ReadFile(filepath.Join("../../dialects", filepath.FromSlash(sample)))
		must(t, err)
		bodies = append(bodies, body)
	}
	for _, id := range []string{"-x", "--db=elsewhere.db", "--", "=ls", "~/a b", "$(id)", "it's `id`", "a/@1/0", "ä ö",
		"!!", "*", "#"} {
		samples, bodies = append(samples, "session "+id), append(bodies, cutRecording(id))
	}
	ran := 0
	for i, sample := range samples {
		body := bodies[i]
		path := filepath.Join(dir, fmt.Sprintf("what the agent's loop wrote on that day, %d%s", i, filepath.Ext(sample)))
		must(t, os.WriteFile(path, body, 0o600))
		_, shown, said := command(t, nil, "show", path)
		if _, one, several := strings.Cut(strings.TrimSpace(said), "name one of them, such as "); several {
			one, _, _ = strings.Cut(one, ";")
			_, shown, _ = command(t, nil, "show", path, one)
		}
		for line := range strings.Lines(shown) {
			_, typed, found := strings.Cut(line, "otelagent show ")
			if !found {
				continue
			}
			// #nosec G204 -- it is what is tested
			words, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+typed).Output()
			must(t, err)
			args := append([]string{"show"}, strings.Split(strings.TrimSuffix(string(words), "\n"), "\n")...)
			code, turn, said := command(t, nil, args...)
			if ran++; code != exitOK || !strings.Contains(turn, "turn ") {
				t.Errorf("%s: %q: exit %d, %s\n%s", sample, args, code, said, turn)
			}
		}
	}
	if ran < 17 {
		t.Errorf("%d commands of %d samples", ran, len(samples))
	}
}

// cutRecording is of one session with a text that show cuts.
func cutRecording(id string) []byte {
	return fmt.Appendf(nil, `{"type":"otelagent.run_started","ts":"2026-11-20T09:00:00Z","session":%q}
{"type":"otelagent.turn_started","ts":"2026-11-20T09:00:00Z"}
{"type":"otelagent.turn_ended","ts":"2026-11-20T09:00:01Z","output":{"role":"assistant","content":[{"type":"text","text":%q}]}}
{"type":"otelagent.run_ended","ts":"2026-11-20T09:00:01Z"}
`, id, strings.Repeat("word ", 400))
}

// Where there is no command that can be typed again, the report names what stands behind the same input, and that is
// safe to type too.
func TestShowPrintsNoCommandThatCannotBeTyped(t *testing.T) {
	_, shown, _ := command(t, bytes.NewReader(demoEvents), "show", "-")
	if strings.Contains(shown, "otelagent show") || !strings.Contains(shown,
		"cut here, whole behind the same input:\nc41d7b1e") {
		t.Errorf("a pipe cannot be shown again:\n%s", shown)
	}
	for id, want := range map[string]string{"-x": "-- -x/@1/0", "--db=x": "-- --db=x/@1/0", "a; id": "'a; id/@1/0'"} {
		if _, shown, _ := command(t, bytes.NewReader(cutRecording(id)), "show", "-"); !strings.Contains(shown,
			"whole behind the same input: "+want+"\n") {
			t.Errorf("%s: want %s\n%s", id, want, shown)
		}
	}

	dir := t.TempDir()
	for _, name := range []string{"esc\x1b[31mRED\a.ndjson", "two\nlines.ndjson", "tab\t.ndjson", "a\u202egnp.ndjson",
		"c1\u009b.ndjson"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, demoEvents, 0o600); err != nil {
			if runtime.GOOS == "linux" { // where every name without NUL and slash is one
				t.Error(err)
			}
			continue
		}
		for _, args := range [][]string{{"show", path}, {"show", "--db", path}, {"show", "--tenant", name,
			filepath.Join(dir, "plain")}} {
			must(t, os.WriteFile(filepath.Join(dir, "plain"), demoEvents, 0o600))
			code, shown, _ := command(t, nil, args...)
			_, foot, _ := strings.Cut(shown, "… cut here, ")
			if code != exitOK || foot != "whole behind the same input:\nc41d7b1e-93a2-4a0e-8f55-6b7a1f0d2c90/@1/0\n" {
				t.Errorf("%q: exit %d, the footer is %q", args, code, foot)
			}
		}
	}
}
