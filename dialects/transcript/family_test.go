package transcript_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/dialects/transcript"
	"github.com/otelagent/otelagent/internal/must"
)

// Of a file that is named, only its own folder and the files that may be its sub-agents are opened, also where the name
// of a folder looks like a pattern.
func TestFindNextToAFile(t *testing.T) {
	for _, folder := range []string{"project", "[project]"} {
		t.Run(folder, func(t *testing.T) { findNextTo(t, filepath.Join(t.TempDir(), folder)) })
	}
}

func findNextTo(t *testing.T, dir string) {
	for _, name := range []string{"one.jsonl", "two.jsonl", "agent-1.jsonl", "one/agent-2.jsonl"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte("{}\n"), 0o600))
	}
	for pattern, want := range map[string][]string{
		"":              {"one.jsonl", "one/agent-2.jsonl"},
		"agent-*.jsonl": {"agent-1.jsonl", "one.jsonl", "one/agent-2.jsonl"},
	} {
		var opened []string
		l := transcript.Agent{NextTo: pattern, Names: regexp.MustCompile(`\.jsonl$`),
			Head: func(path string, _ []byte, _ input.Outline) transcript.Head {
				name := must.Get(filepath.Rel(dir, path))(t)
				opened = append(opened, filepath.ToSlash(name))
				return transcript.Head{ID: path, Keys: []string{"session"}, Folder: strings.TrimSuffix(path, ".jsonl")}
			}}
		families, problems := transcript.Find(l, filepath.Join(dir, "one.jsonl"))
		slices.Sort(opened)
		if len(families) != 1 || len(problems) != 0 || !slices.Equal(opened, want) {
			t.Errorf("next to it %q: opened %v, want %v; %d families, %v", pattern, opened, want, len(families), problems)
		}
	}
}

// A folder with more files than a Finder reads is named once, with the number.
func TestFindBound(t *testing.T) {
	defer transcript.SetMaxFiles(transcript.SetMaxFiles(2))
	dir := t.TempDir()
	for _, name := range []string{"1", "2", "3", "4"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	families, problems := transcript.Find(transcript.Agent{Names: regexp.MustCompile(`[1-4]$`),
		Head: func(path string, _ []byte, _ input.Outline) transcript.Head { return transcript.Head{ID: path} }}, dir)
	want := dir + ": 2 transcripts are found; the rest is not read"
	if len(families) != 2 || len(problems) != 1 || problems[0].Error() != want {
		t.Errorf("%d families, %v", len(families), problems)
	}
}

// A Finder that looks again opens a file that is no transcript once it has changed, and no sooner.
func TestFindAgain(t *testing.T) {
	path, opened := filepath.Join(t.TempDir(), "notes.jsonl"), 0
	l := transcript.Finder{Agent: transcript.Agent{Names: regexp.MustCompile(`\.jsonl$`),
		Head: func(string, []byte, input.Outline) transcript.Head { opened++; return transcript.Head{} }}}
	for n := range 4 {
		if n%2 == 0 {
			must.Do(t, os.WriteFile(path, make([]byte, n), 0o600))
		}
		if families, problems := l.Find(filepath.Dir(path)); len(families) != 0 || len(problems) != 0 || opened != n/2+1 {
			t.Errorf("look %d: opened %d times; %d families, %v", n, opened, len(families), problems)
		}
	}
}
