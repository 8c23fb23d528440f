package agenttest_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/otelagent/otelagent/backend/session"
)

// histories lists the histories of all sessions of a batch: a line for each run, turn or message with a history.
func histories(b session.Batch, blocks *session.BlockSet) string {
	var w strings.Builder
	since := func(what string, t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return " " + what + "=" + t.Format("15:04:05.000")
	}
	for _, s := range session.AssembleAll(b.Rows) {
		h := session.HistoryOf(s, blocks)
		sum := session.Summarize(s)
		fmt.Fprintf(&w, "session %s archived=%v title=%q", s.ID, sum.Archived, s.Title(blocks))
		number := func(r *session.Run) string {
			for i, o := range s.Runs {
				if o == r {
					return fmt.Sprint("@", i+1)
				}
			}
			return "none"
		}
		if f := h.Fork; f != nil {
			fmt.Fprintf(&w, " fork of %s at %q, last taken over %s", f.Session, f.Message, number(f.Last))
			if sum.ForkedFrom != f.Session {
				fmt.Fprintf(&w, " BUT %q", sum.ForkedFrom)
			}
		}
		w.WriteByte('\n')
		for _, r := range s.Runs {
			st := h.Run(r)
			fmt.Fprintf(&w, "  %s %s", number(r), st.Relation)
			if st.Parent != nil {
				fmt.Fprintf(&w, " of %s", number(st.Parent))
			}
			fmt.Fprintf(&w, "%s\n", since("hidden", st.Hidden))
			for _, t := range r.Turns {
				if at := h.Hidden(t); !at.IsZero() {
					fmt.Fprintf(&w, "    turn %d%s\n", t.Index, since("hidden", at))
				}
			}
		}
		for _, m := range h.Messages {
			fmt.Fprintf(&w, "  message %s in %s%s%s%s\n", m.ID, number(m.Run), since("hidden", m.Hidden),
				since("queued", m.Queued), since("canceled", m.Canceled))
		}
		for _, m := range h.Waiting() {
			fmt.Fprintf(&w, "  waits: %s\n", m.ID)
		}
	}
	return w.String()
}

// TestHistory checks what is rewound, queued, forked and branched of sessions of the agent guide and of phi-core, as
// far as content goes and without it.
func TestHistory(t *testing.T) {
	phi := func(name string) session.Batch {
		return recordedFile(t, filepath.Join(repository, "dialects", "phi", "testdata", "phi-core-0.15.2",
			name+".events.ndjson"))
	}
	var got strings.Builder
	for _, c := range []struct {
		name  string
		batch session.Batch
	}{
		{"guide session.jsonl", importGuide(t, guideFile(t, "session.jsonl"))},
		{"guide hosts.jsonl", importGuide(t, guideFile(t, "hosts.jsonl"))},
		{"guide own-continue-rerun-branch.jsonl", importGuide(t, guideFile(t, "own-continue-rerun-branch.jsonl"))},
		{"phi-core continue-rerun-branch", phi("continue-rerun-branch")},
		{"phi-core revert", phi("revert")},
		{"phi-core sub-agent-built-in", phi("sub-agent-built-in")},
		{"phi-core compaction-standalone", phi("compaction-standalone")},
	} {
		with, without := histories(c.batch, blocksOfAll(c.batch)), histories(c.batch, nil)
		fmt.Fprintf(&got, "-- %s --\n%s", c.name, with)
		if with != without {
			fmt.Fprintf(&got, "-- %s, without content --\n%s", c.name, without)
		}
	}
	compareGuide(t, "history.txt", got.String())
	var none *session.History
	if st := none.Run(nil); st.Relation != "" || len(none.Waiting()) > 0 {
		t.Error("a nil history knows something")
	}
}
