package agenttest_test

import (
	"bufio"
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// notShort skips tests that play hundreds of megabytes of events.
func notShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: hundreds of megabytes of events")
	}
}

// turnKey names a turn of a long session; run ids are used once there.
type turnKey struct {
	run   string
	index int64
}

// asked reads the requests of a long session from its stream: their digests, and the distinct bytes of all of them.
func asked(t testing.TB, name string) (requests map[turnKey]spans.BlockID) {
	t.Helper()
	events := phifixtures.Long(t, repository, name)
	defer events.Close()
	requests = map[turnKey]spans.BlockID{}
	in := bufio.NewReaderSize(events, 1<<20)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if bytes.HasPrefix(line, []byte(`{"type":"TurnRequest"`)) {
			var r struct {
				Run     string          `json:"loop_id"`
				Turn    int64           `json:"turn_index"`
				Payload json.RawMessage `json:"payload"`
			}
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			requests[turnKey{r.Run, r.Turn}] = spans.BlockOf(r.Payload)
		}
		if line = line[:0]; err != nil {
			return requests
		}
	}
}

// playLong plays a long session.
func playLong(t testing.TB, name string, opts ...otelagent.Option) *agenttest.Pipeline {
	t.Helper()
	events := phifixtures.Long(t, repository, name)
	defer events.Close()
	p := agenttest.New(t, append([]otelagent.Option{writer.WithDerivedIDs, content}, opts...)...)
	rec := event.NewRecorder(p.Tracer())
	for ev, err := range phi.Events(events) {
		if err != nil {
			t.Fatal(err)
		}
		rec.Record(t.Context(), ev)
	}
	rec.Close(t.Context())
	return p
}

// onlySession makes the tree of a batch that holds one session.
func onlySession(t testing.TB, b session.Batch) (*session.Session, *session.BlockSet) {
	t.Helper()
	all := session.AssembleAll(b.Rows)
	if len(all) != 1 {
		t.Fatalf("%d sessions", len(all))
	}
	blocks := &session.BlockSet{}
	for _, block := range b.Blocks {
		blocks.Add(block)
	}
	return all[0], blocks
}

// Every request of the long sessions of the real crate comes back byte for byte.
func TestRequestsOfLongSessions(t *testing.T) {
	for _, name := range phifixtures.LongNames() {
		t.Run(name, func(t *testing.T) {
			notShort(t)
			want := asked(t, name)
			s, blocks := onlySession(t, playLong(t, name).Batch())
			read := 0
			for _, r := range s.Runs {
				for _, turn := range r.Turns {
					for _, q := range turn.Requests {
						p := q.Payload(blocks)
						if !p.Exact || spans.BlockOf(p.Bytes) != want[turnKey{r.ID, turn.Index}] {
							t.Fatalf("turn %d of %s: exact %t, missing %v, %v", turn.Index, r.ID, p.Exact, p.Missing, p.Defects)
						}
						read++
					}
				}
			}
			if read != len(want) || read < 200 {
				t.Errorf("%d requests of %d", read, len(want))
			}
		})
	}
}

// piece is what one span comes to.
type piece struct {
	turn  int64 // session.NoTurn: of the run itself
	batch session.Batch
}

// pieces decodes each span of a pipeline on its own.
func pieces(t *testing.T, p *agenttest.Pipeline) (list []piece) {
	t.Helper()
	for _, otlp := range p.OTLP() {
		td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(otlp)
		if err != nil {
			t.Fatal(err)
		}
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					one := ptrace.NewTraces()
					to := one.ResourceSpans().AppendEmpty()
					rs.Resource().CopyTo(to.Resource())
					span.CopyTo(to.ScopeSpans().AppendEmpty().Spans().AppendEmpty())
					b, report := otlprow.Decode(one)
					if report.Stored != 1 {
						t.Fatalf("%+v", report)
					}
					list = append(list, piece{b.Rows[0].Turn, b})
				}
			}
		}
	}
	return list
}

// without is what arrives when the turns from first to last are lost, with their tool calls.
func without(all []piece, first, last int64) (b session.Batch) {
	for _, p := range all {
		if p.turn < first || p.turn > last {
			b.Rows, b.Blocks = append(b.Rows, p.batch.Rows...), append(b.Blocks, p.batch.Blocks...)
		}
	}
	return b
}

// bursts are losses of turns in a row, the first turn with prompt and tools included.
var bursts = [][2]int64{{0, 0}, {0, 10}, {1, 1}, {40, 40}, {95, 105}, {150, 156}, {188, 198}}

// Exactly the lost blocks are missing, each named by its position in every request that holds it, and every list is
// whole again.
func TestLoss(t *testing.T) {
	notShort(t)
	want := asked(t, "long-200")
	all := pieces(t, playLong(t, "long-200"))
	for _, lost := range bursts {
		t.Run(fmt.Sprint(lost), func(t *testing.T) {
			s, blocks := onlySession(t, without(all, lost[0], lost[1]))
			r := s.Runs[0]
			for _, turn := range r.Turns {
				if turn.Index%5 != 0 && turn.Index < 190 && turn.Index > lost[1]+3 {
					continue // enough of them
				}
				if turn.Missing {
					t.Errorf("turn %d is inferred", turn.Index)
				}
				q := turn.Requests[0]
				if !q.Messages.Complete || !q.Params.Complete {
					t.Fatalf("turn %d: its lists are not whole: %v", turn.Index, turn.Defects)
				}
				// What a message of a lost turn is: its place says the turn; the prompt came with the first one. The reply of the
				// turn before came with the lost request as well, which spells it in its own way.
				var expected []int
				for i, m := range q.ReadMessages(blocks) {
					from := m.Source.TurnIndex
					inTurn := m.Source.Kind == spans.ProvenanceLoopTurn
					before := inTurn && from == lost[0]-1 && m.Source.Role != "tool-call-result"
					if before || from >= lost[0] && from <= lost[1] && (inTurn || lost[0] == 0 && i == 0) {
						expected = append(expected, i)
					}
				}
				p := q.Payload(blocks)
				var got []int
				params := map[string]bool{}
				for _, m := range p.Missing {
					if m.Part == "message" {
						got = append(got, m.Position)
					} else {
						params[m.Part] = true
					}
				}
				of := map[string]bool{}
				if lost[0] == 0 && turn.Index > lost[1] {
					of = map[string]bool{"system": true, "tools": true, "rest": true}
				}
				if diff := cmp.Diff(of, params); diff != "" {
					t.Errorf("turn %d: missing params (-want +got):\n%s", turn.Index, diff)
				}
				if diff := cmp.Diff(expected, got); diff != "" {
					t.Errorf("turn %d: missing messages (-want +got):\n%s", turn.Index, diff)
				}
				if len(p.Missing) == 0 && spans.BlockOf(p.Bytes) != want[turnKey{r.ID, turn.Index}] {
					t.Errorf("turn %d did not come back", turn.Index)
				}
			}
		})
	}
}

// On disk blocks and lists take at most 0.55 of the distinct bytes, and rows without their lists 800 bytes each.
func TestLongSessionsOnDisk(t *testing.T) {
	for _, name := range []string{"long-200", "long-20x10", "long-200x1", "long-mixed"} {
		t.Run(name, func(t *testing.T) {
			notShort(t)
			p := playLong(t, name)
			d := distinctBytes(t, name)
			path := filepath.Join(t.TempDir(), "s.db")
			put := func(batches []session.Batch) map[string]int64 {
				st, err := sqlitestore.Open(t.Context(), path)
				if err != nil {
					t.Fatal(err)
				}
				for _, b := range batches {
					if err := st.Put(t.Context(), b); err != nil {
						t.Fatal(err)
					}
				}
				if err := project.Refresh(t.Context(), st); err != nil {
					t.Fatal(err)
				}
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
				return tableBytes(t, path)
			}
			var whole, bare []session.Batch
			rows := 0
			for _, otlp := range p.OTLP() {
				b, _, err := otlprow.DecodeProto(otlp)
				if err != nil {
					t.Fatal(err)
				}
				whole = append(whole, b)
				rows += len(b.Rows)
				without := session.Batch{Rows: slices.Clone(b.Rows)}
				for i := range without.Rows {
					without.Rows[i].Lists = nil
				}
				bare = append(bare, without)
			}
			all := put(whole)
			path = filepath.Join(t.TempDir(), "bare.db")
			rest := put(bare)
			content := float64(all["packs"]+all["blocks"]+all["rows"]-rest["rows"]) / float64(d)
			row := float64(rest["rows"]) / float64(rows)
			t.Logf("D %d, blocks and lists %.3f D, %d rows of %.0f bytes", d, content, rows, row)
			if content > 0.55 || content < 0.1 {
				t.Errorf("blocks and lists are %.3f D, want at most 0.55", content)
			}
			if row > 800 || row < 100 {
				t.Errorf("a row takes %.0f bytes, want at most 800", row)
			}
		})
	}
}

// distinctBytes is D: each message once whatever its spelling, prompt and tools.
func distinctBytes(t *testing.T, name string) (d int64) {
	t.Helper()
	s, blocks := onlySession(t, playLong(t, name, func(c *writer.Config) { c.PreviewBytes = -1 }).Batch())
	seen := map[string]bool{}
	add := func(ref session.Ref, size int64) {
		if !seen[ref.Block] {
			seen[ref.Block] = true
			d += size
		}
	}
	for _, r := range s.Runs {
		for _, turn := range r.Turns {
			for _, q := range turn.Requests {
				for _, m := range q.ReadMessages(blocks) {
					add(m.Ref, m.Bytes)
					add(session.Ref{Block: "provenance " + m.Provenance}, int64(len(m.Source.AppendJSON(nil))))
				}
				for i, ref := range q.Params.Items() {
					add(ref, int64(len(blocks.Read(q.Params).Bodies[i])))
				}
			}
		}
	}
	return d
}

// tableBytes is what the pages of each table take, with its indexes.
func tableBytes(t *testing.T, path string) map[string]int64 {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT s.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_schema s ON s.name = d.name GROUP BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	sizes := map[string]int64{}
	for rows.Next() {
		var table string
		var n int64
		if err := rows.Scan(&table, &n); err != nil {
			t.Fatal(err)
		}
		sizes[table] = n
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return sizes
}
