package inspect_test

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/diff"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// requests are all requests of a tree.
func requests(tree session.Tree) (out []*inspect.Request) {
	for _, run := range tree.Runs {
		for _, turn := range run.Turns {
			for _, q := range turn.Requests {
				out = append(out, inspect.NewRequest(tree, run, turn, q))
			}
		}
	}
	return out
}

// compareRequests compares the i-th and the j-th request of a tree.
func compareRequests(t *testing.T, tree session.Tree, i, j int) *diff.Diff {
	t.Helper()
	var all []diff.Target
	for _, run := range tree.Runs {
		for _, turn := range run.Turns {
			for _, q := range turn.Requests {
				all = append(all, diff.Target{Session: tree.Session, Blocks: tree.Blocks, Run: run, Turn: turn, Request: q})
			}
		}
	}
	d := must.Get(diff.Compare(all[i], all[j]))(t)
	return d
}

// drawn holds what was written to a width, and to being free of control characters.
func drawn(t *testing.T, columns int, write func(io.Writer) error) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, write(&b))
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if w := ansi.StringWidth(line); w > columns {
			t.Errorf("%d columns in a line of %d: %s", w, columns, line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 }) {
			t.Errorf("control character in %q", line)
		}
	}
	return b.String()
}

// Every request of the recordings can be shown, and compared with the one before, in any width and at any level.
func TestRequests(t *testing.T) {
	paths, err := filepath.Glob("../../dialects/phi/testdata/phi-core-*/*.events.ndjson")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	n := 0
	for _, path := range paths {
		for _, capture := range []otelagent.Capture{otelagent.CaptureContent, otelagent.CaptureDigests} {
			for _, tree := range recorded(t, path, capture) {
				all := requests(tree)
				n += len(all)
				for i, r := range all {
					if whole := r.Payload.Bytes != nil; whole != (capture == otelagent.CaptureContent) || r.Exact != whole ||
						r.Note() != "" {
						t.Errorf("%s %s: %+v", path, r.Address, r.Missing)
					}
					for _, width := range []int{40, 80, 200} {
						o := inspect.Options{Width: width}
						drawn(t, width, func(w io.Writer) error { return r.Provenance(w, o) })
						c := compareRequests(t, tree, max(i-1, 0), i)
						drawn(t, width, func(w io.Writer) error { return inspect.WriteDiff(w, c, o, inspect.DiffUnified) })
						if same := i == 0 || r.SHA256 == all[i-1].SHA256; c.Equal != same && r.Exact {
							t.Errorf("%s %s: equal %v", path, r.Address, c.Equal)
						}
					}
				}
			}
		}
	}
	if n == 0 {
		t.Error("no recording has a request")
	}
}

// hostile is a session of two requests in which everything was written to harm a terminal.
func hostile() session.Tree {
	const evil = "\x1b[2J\x07\u009b31m\u202e\U000e0041\xff\r\nline\ttab"
	blocks := &session.BlockSet{}
	ref := func(body, provenance string) session.Ref {
		blocks.Add(session.Block{Body: body})
		return session.Ref{Block: spans.BlockOfString(body).Short().String(), Provenance: provenance}
	}
	turn := func(index int64, params []session.Ref, messages ...session.Ref) *session.Turn {
		return &session.Turn{Index: index, Model: evil, Provider: evil, Capture: spans.CaptureContent,
			Requests: []*session.Request{{Messages: session.NewRefs(messages...), Params: session.NewRefs(params...)}}}
	}
	s := &session.Session{ID: "s" + evil, Runs: []*session.Run{{ID: evil, Turns: []*session.Turn{
		turn(
			0,
			[]session.Ref{ref("one "+evil, "system"), ref(`[{"name":"`+evil+`"}]`, "tools"), ref("{\""+evil+"\":1}", "rest")},
			ref(`{"role":"`+evil+`","content":"`+evil+`"}`, evil),
			ref(evil, "?"+evil),
		),
		turn(
			1,
			[]session.Ref{
				ref("two "+evil+"\n\n  indented", "system"),
				ref(`[{"name":"x","d":"`+evil+`"}]`, "tools"),
				ref(`{"a":"`+evil+`"}`, "rest"),
			},
			ref(
				`{"role":"user","content":"other `+evil+`"}`,
				"",
			),
			session.Ref{Block: "\x1b[2J", Provenance: evil},
			session.Ref{Block: "AAAAAAAAAAA"},
		),
	}}}}
	return session.Tree{Session: s, Blocks: blocks}
}

func TestHostileRequests(t *testing.T) {
	tree := hostile()
	all := requests(tree)
	for _, width := range []int{40, 80, 200} {
		o := inspect.Options{Width: width}
		for _, r := range all {
			drawn(t, width, func(w io.Writer) error { return r.Provenance(w, o) })
			for _, m := range r.Missing {
				if text := m.String(); text != inspect.Clean(text) {
					t.Errorf("%q", text)
				}
			}
		}
	}
	if all[1].Payload.Bytes != nil || len(all[1].Missing) != 2 {
		t.Errorf("%+v", all[1].Missing)
	}
}
