package agenttest_test

import (
	"bytes"
	"fmt"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// own is a session of lines of package ndjson with one run: its start, the given lines, and its end.
func own(lines ...string) string {
	return `{"type":"otelagent.run_started","ts":"2026-11-21T09:00:00Z","session":"s","run":"r"}` + "\n" +
		strings.Join(lines, "\n") + "\n" +
		`{"type":"otelagent.run_ended","ts":"2026-11-21T09:01:00Z","run":"r","status":"completed"}` + "\n"
}

// reply is a turn in lines of package ndjson.
func reply(second, usage string) string {
	return `{"type":"otelagent.turn_started","ts":"2026-11-21T09:00:` + second + `Z","run":"r"}` + "\n" +
		`{"type":"otelagent.turn_ended","ts":"2026-11-21T09:00:` + second + `.5Z","run":"r","usage":` + usage + `}`
}

// TestUsageIsCountedOnce holds every case of docs/usage.md, once, sent again under the same ids, and recorded a second
// time under others. testdata/usage/cases.txtar has the cases.
func TestUsageIsCountedOnce(t *testing.T) {
	arc := must.Get(txtar.ParseFile("testdata/usage/cases.txtar"))(t)
	for i := 0; i+1 < len(arc.Files); i += 2 {
		t.Run(arc.Files[i].Name, func(t *testing.T) {
			head, text, _ := strings.Cut(string(arc.Files[i].Data), "\n")
			words := strings.Fields(head)
			var opts []input.Settings
			copied := 0
			for _, word := range words[1:] {
				switch key, value, _ := strings.Cut(word, "="); key {
				case "rule":
					opts = append(opts, input.Settings{Rule: spans.UsageRule(value)})
				case "provider":
					opts = append(opts, input.Settings{Provider: value})
				case "copied":
					copied = 1
				default:
					raw := must.Get(os.ReadFile(filepath.Join(repository, "dialects", filepath.FromSlash(word))))(t)
					text += string(raw)
				}
			}
			want := evaluated(t, string(arc.Files[i+1].Data))
			once := playAs(t, words[0], opts, text, writer.WithDerivedIDs)
			again, twice := playAs(t, words[0], opts, text, writer.WithDerivedIDs), playAs(t, words[0], opts, text)
			for name, b := range map[string]session.Batch{"once": once, "sent again": join(once, again),
				"recorded twice": join(twice, once)} {
				if diff := cmp.Diff(want, sumsOf(b)); diff != "" {
					t.Errorf("%s (-by hand +tree):\n%s", name, diff)
				}
			}
			for _, s := range session.AssembleAll(join(twice, once).Rows) {
				for _, r := range s.Runs {
					if r.Copied && r.Usage.Input > 0 {
						copied--
					}
					if n := countDefects(r.Defects, spans.DefectRecordedTwice); n != 1 {
						t.Errorf("run %s: %d defects, want 1", r.ID, n)
					}
				}
			}
			if copied != 0 {
				t.Errorf("copied runs with usage of their own: %d are missing", copied)
			}
		})
	}
}

// evaluated replaces the sums of a text by their values, without comments.
func evaluated(t *testing.T, text string) string {
	text = regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(text, "")
	return regexp.MustCompile(`: [^,\n]+`).ReplaceAllStringFunc(text, func(expr string) string {
		v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expr[2:])
		if err != nil {
			t.Fatalf("%s: %v", expr, err)
		}
		return ": " + v.Value.ExactString()
	})
}

// playAs plays an input as `otelagent send` does with a file.
func playAs(t *testing.T, dialect string, settings []input.Settings, text string,
	opts ...otelagent.Option) session.Batch {
	t.Helper()
	d, ok := dialects.Named(dialect)
	if !ok {
		t.Fatalf("no dialect %s", dialect)
	}
	p := agenttest.New(t, opts...)
	play.Events(t, event.NewRecorder(p.Tracer()), d.New(settings...).Events(strings.NewReader(text)))
	return p.Batch()
}

// sumsOf is the usage of each session, in the form of the file. Rules are those of its turns and of runs that report a
// sum alone, each once.
func sumsOf(b session.Batch) string {
	var out strings.Builder
	usage := func(name string, u session.Usage) {
		var parts []string
		for _, p := range []struct {
			name string
			n    int64
		}{{"Input", u.Input}, {"Output", u.Output}, {"Reasoning", u.Reasoning}, {"CacheRead", u.CacheRead}, {"CacheWrite",
			u.CacheWrite}} {
			if p.n != 0 {
				parts = append(parts, fmt.Sprint(p.name, ": ", p.n))
			}
		}
		if u.LowerBound {
			name += " at least"
		}
		if parts != nil {
			fmt.Fprintln(&out, " ", name, strings.Join(parts, ", "))
		}
	}
	for _, s := range session.AssembleAll(b.Rows) {
		fmt.Fprintln(&out, "session", s.ID)
		usage("usage", s.Usage)
		if s.Discarded != nil {
			usage("discarded", *s.Discarded)
		}
		if s.CompactionUsage != nil {
			usage("compactions", *s.CompactionUsage)
		}
		var rules []string
		cost := 0.0
		add := func(r spans.UsageRule) {
			if r != "" && !slices.Contains(rules, string(r)) {
				rules = append(rules, string(r))
			}
		}
		for _, r := range s.Runs {
			for _, turn := range r.Turns {
				if turn.Cost != nil {
					cost += *turn.Cost
				}
				if !r.Copied {
					add(turn.Rule)
				}
			}
			if len(rules) == 0 && !r.Copied {
				add(r.Rule)
			}
		}
		if rules != nil {
			fmt.Fprintln(&out, "  rules", strings.Join(rules, " "))
		}
		if cost != 0 {
			fmt.Fprintln(&out, "  cost", strconv.FormatFloat(cost, 'g', 9, 64))
		}
	}
	return out.String()
}

// A fork of the guide takes messages over: they count where they came from.
func TestGuideForkCountsItsOwn(t *testing.T) {
	const parent = "ses_1fbd4f500000Ky9Pf34qY6Nb3w"
	fork := bytes.ReplaceAll(guideFile(t, "session.jsonl"), []byte(parent), []byte("ses_fork"))
	fork = bytes.Replace(fork, []byte(`"parent_id":null`), []byte(`"parent_id":"`+parent+`"`), 1)
	fork = bytes.Replace(fork, []byte(`"created_at":1795226400000`), []byte(`"created_at":1795226494000`), 1)
	s := session.AssembleAll(importGuide(t, fork).Rows)[0]
	copied := 0
	for _, r := range s.Runs {
		if r.Copied {
			copied++
		}
		if r.ForkParentID != parent {
			t.Errorf("run %s is forked from %q", r.ID, r.ForkParentID)
		}
	}
	if want := (session.Usage{Input: 950 + 700, Output: 17, Reasoning: 4, CacheRead: 700}); s.Usage != want ||
		copied != 2 {
		t.Errorf("%d copied runs, %+v, want %+v", copied, s.Usage, want)
	}
}
