package agenttest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/memstore"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/spans"
)

// Whatever bytes come as OTLP, what is stored of them can be shown and exported, shows the same in any order and when
// it comes twice, and everything that was stored is there.
func FuzzOTLPToShow(f *testing.F) {
	for _, c := range hostile {
		if c.long {
			continue
		}
		s := newSender()
		honestly(s)
		c.send(s)
		if b := s.bytes(f); len(b) < 16<<10 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, otlp []byte) {
		if len(otlp) > 1<<16 {
			return
		}
		batch, report, err := otlprow.DecodeProto(otlp)
		if err != nil {
			return
		}
		st, other := memstore.New(), memstore.New()
		put := func(st store.Store, b session.Batch) {
			must.Do(t, st.Put(t.Context(), b))
		}
		put(st, batch)
		slices.Reverse(batch.Rows)
		slices.Reverse(batch.Blocks)
		put(other, batch)
		put(other, batch)
		keys, stored := map[session.Key]bool{}, map[session.Key]map[[24]byte]bool{}
		for _, r := range batch.Rows {
			keys[r.Session] = true
			if stored[r.Session] == nil {
				stored[r.Session] = map[[24]byte]bool{}
			}
			stored[r.Session][[24]byte(append(r.Trace[:], r.Span[:]...))] = true
		}
		if len(batch.Rows) != report.Stored {
			t.Fatalf("%d rows, %+v", len(batch.Rows), report)
		}
		for k := range keys {
			tree, text := showSession(t, st, k)
			n, all := 0, treeText(t, tree)
			for r, err := range st.Rows(t.Context(), k) {
				must.Do(t, err)
				if n++; r.Kind == session.KindRun && !slices.ContainsFunc(tree.Runs,
					func(x *session.Run) bool { return x.ID == r.Run }) && len(tree.Groups) == 0 {
					t.Errorf("run %q is not in the tree", r.Run)
				}
				if r.Kind == session.KindTurn && !slices.ContainsFunc(tree.Runs, func(x *session.Run) bool {
					return x.ID == r.Run && slices.ContainsFunc(x.Turns, func(y *session.Turn) bool { return y.Index == r.Turn })
				}) {
					t.Errorf("turn %d of run %q is not in the tree", r.Turn, r.Run)
				}
				if r.Kind == session.KindToolCall && !strings.Contains(all, r.Span.String()) &&
					!strings.Contains(all, string(spans.DefectRecordedTwice)) {
					t.Errorf("tool call %s is not in the tree", r.Span)
				}
			}
			if n != len(stored[k]) {
				t.Errorf("%d rows of %d are stored", n, len(stored[k]))
			}
			if _, again := showSession(t, other, k); again != text {
				t.Errorf("another order shows otherwise:\n%s", cmp.Diff(text, again))
			}
			if c := controls(text); c != "" {
				t.Errorf("%s goes to the terminal", c)
			}
		}
	})
}

// controls are the characters that a terminal could take for more than text.
func controls(s string) string {
	for _, r := range s {
		if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 ||
			r == 0x200e || r == 0x200f) {
			return fmt.Sprintf("%U", r)
		}
	}
	return ""
}

// treeText is the tree as JSON.
func treeText(t testing.TB, s *session.Session) string {
	t.Helper()
	b := must.Get(json.Marshal(s))(t)
	return string(b)
}

// One sender says what another says, of the same session: the bytes of the honest one stay, whichever comes first,
// and what the other says of a block without its bytes takes nothing away. What it can do in that session is to add
// to it.
func TestNobodyPoisonsBlocks(t *testing.T) {
	const prompt = `{"role":"user","content":"the honest prompt"}`
	honest, liar := newSender(), newSender()
	honestly(honest)
	liar.resource("liar", "")
	sp := liar.turn("honest", 5)
	id := fullID(prompt)
	blocksOn(sp, []string{"forged"}, []string{id + " 6 forged", id + " 99999"}, nil)
	tenants := newSender()
	tenants.resource("liar", "other tenant")
	stolen := tenants.turn("honest", 0)
	stolen.SetTraceID([16]byte{0xee})
	stolen.SetSpanID([8]byte{byte(len(spans.SpanTurn)), 0xee}) // the key of the honest row
	blocksOn(stolen, nil, nil, []string{listOf("input", prompt)})

	decode := func(s *sender) session.Batch {
		b, _, err := otlprow.DecodeProto(s.bytes(t))
		must.Do(t, err)
		return b
	}
	if blocks := decode(liar).Blocks; len(blocks) != 3 {
		t.Fatalf("the liar's blocks: %v", blocks)
	}
	first, second, third := decode(honest), decode(liar), decode(tenants)
	for _, order := range [][]session.Batch{{first, second, third}, {third, second, first},
		{second, third, first, second}} {
		st := memstore.New()
		for _, b := range order {
			must.Do(t, st.Put(t.Context(), b))
		}
		k := session.Key{ID: "honest"}
		blocks := must.Get(session.NewBlockSet(st.Blocks(t.Context(), k)))(t)
		if body, ok := blocks.Body(session.Ref{Block: short(prompt)}); !ok || body != prompt {
			t.Errorf("the honest block: %q, %v", body, ok)
		}
		tree, text := showSession(t, st, k)
		if turns := tree.Runs[0].Turns; len(turns) != 2 || turns[0].Usage.Input != 7 ||
			!strings.Contains(text, "the honest prompt") {
			t.Errorf("%d turns:\n%s", len(turns), text)
		}
		// The other tenant named the block and the row, and has neither the bytes nor the place.
		theirs, text := showSession(t, st, session.Key{Tenant: "other tenant", ID: "honest"})
		if strings.Contains(text, "honest prompt") || len(theirs.Runs[0].Turns) != 1 || theirs.Usage.Input != 0 {
			t.Errorf("another tenant sees:\n%s", text)
		}
	}
}
