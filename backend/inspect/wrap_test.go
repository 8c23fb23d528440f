package inspect_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/inspect"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/diff"
	"github.com/otelagent/otelagent/backend/store/search"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// Show, diff and grep take a time that grows with the length of one word: base64, Chinese, combining characters.
func TestLongWords(t *testing.T) {
	const size = 10 << 20
	said := func(text string) session.Tree {
		blocks := &session.BlockSet{}
		b := session.Block{Body: `{"role":"assistant","content":"before ` + text + ` after"}`}
		blocks.Add(b)
		turn := &session.Turn{Index: 1, Capture: spans.CaptureContent, Replied: true}
		turn.Output = session.NewRefs(session.Ref{Block: spans.BlockOfString(b.Body).Short().String()})
		s := &session.Session{ID: "s", Runs: []*session.Run{{ID: "r", Turns: []*session.Turn{turn}}}}
		return session.Tree{Session: s, Blocks: blocks}
	}
	for name, part := range map[string]string{"base64": "QUJD", "Chinese": "漢", "combining": "\u0301"} {
		word := strings.Repeat(part, size/len(part))
		one, other := said(word), said(word[:len(word)/2]+"x"+word[len(word)/2:])
		part := word[:len(part)*(200_000)]
		short, edited := said(part), said(part[:len(part)/2]+"x"+part[len(part)/2:])
		compare := func(a, b session.Tree, form inspect.DiffForm) func(w io.Writer) error {
			return func(w io.Writer) error {
				d, err := diff.Compare(target(a), target(b))
				if err != nil {
					return err
				}
				return inspect.WriteDiff(w, d, inspect.Options{Width: 80}, form)
			}
		}
		o := inspect.Options{Width: 80}
		alone := o
		alone.Run, alone.Turn = one.Runs[0], one.Runs[0].Turns[0]
		hit := search.Hit{Before: part, Match: word, After: word}
		for what, write := range map[string]func(io.Writer) error{
			"show":         func(w io.Writer) error { return inspect.Text(w, one, o) },
			"show a turn":  func(w io.Writer) error { return inspect.Text(w, one, alone) },
			"diff":         compare(one, other, inspect.DiffUnified),
			"diff of less": compare(short, edited, inspect.DiffUnified),
			"side by side": compare(short, edited, inspect.DiffSideBySide),
			"grep":         func(w io.Writer) error { return inspect.Grep(w, []search.Hit{hit}, o) },
		} {
			began := time.Now()
			must.Do(t, write(io.Discard))
			if took := time.Since(began); took > 20*time.Second { // on a machine that does other work too
				t.Errorf("%s of %d MiB of %s took %v", what, size>>20, name, took)
			} else {
				t.Logf("%s of %d MiB of %s took %v", what, size>>20, name, took)
			}
		}
		var b strings.Builder
		alone.Run, alone.Turn = short.Runs[0], short.Runs[0].Turns[0]
		must.Do(t, inspect.Text(&b, short, alone))
		if whole := strings.NewReplacer("│", "", " ", "", "\n", "").Replace(b.String()); !strings.Contains(
			whole,
			"before"+part+"after",
		) {
			t.Errorf("show of a turn loses something of %s", name)
		}
	}
}
