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
	"go.opentelemetry.io/otel/attribute"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store/project"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/rawjson"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/spans"
)

// turnKey names a turn of a long session; run ids are used once there.
type turnKey struct {
	run   string
	index int64
}

// stream is the content of a long session's stream: the digests of its requests, the bytes of all of them, and D, its
// distinct bytes: each message once whatever its spelling, prompt, tools and parameters once, each provenance entry
// once.
type stream struct {
	requests    map[turnKey]spans.BlockID
	payloads, d int
}

// scan reads a long session's stream.
func scan(t testing.TB, name string) (s stream) {
	t.Helper()
	events := phifixtures.Long(t, repository, name)
	defer events.Close()
	s.requests = map[turnKey]spans.BlockID{}
	seen := map[spans.BlockID]bool{}
	add := func(b []byte) {
		if id := spans.BlockOf(b); !seen[id] {
			seen[id] = true
			s.d += len(b)
		}
	}
	message := func(raw []byte) {
		body, err := rawjson.AppendCanonical(nil, raw, []string{"turnId", "nodeId", "parentId", "tags", "provenanceHint"})
		must.Do(t, err)
		add(body)
	}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Bytes()
		if !bytes.HasPrefix(line, []byte(`{"type":"MessageEnd"`)) && !bytes.HasPrefix(line, []byte(`{"type":"TurnRequest"`)) {
			continue
		}
		var ev struct {
			Run              string `json:"loop_id"`
			Turn             int64  `json:"turn_index"`
			Payload, Message json.RawMessage
		}
		must.Do(t, json.Unmarshal(line, &ev))
		if ev.Message != nil {
			message(ev.Message)
		}
		if ev.Payload == nil {
			continue
		}
		s.requests[turnKey{ev.Run, ev.Turn}] = spans.BlockOf(ev.Payload)
		s.payloads += len(ev.Payload)
		var members map[string]json.RawMessage
		var messages, provenance []json.RawMessage
		must.Do(t, json.Unmarshal(ev.Payload, &members))
		must.Do(t, errors.Join(json.Unmarshal(members["messages"], &messages),
			json.Unmarshal(members["provenance"], &provenance)))
		for _, m := range messages {
			message(m)
		}
		for key, value := range members {
			if key != "messages" && key != "provenance" {
				add(value)
			}
		}
		for _, entry := range provenance {
			add(entry)
		}
	}
	must.Do(t, lines.Err())
	return s
}

// playLong plays a long session.
func playLong(t testing.TB, name string) *agenttest.Pipeline {
	t.Helper()
	events := phifixtures.Long(t, repository, name)
	defer events.Close()
	p := agenttest.New(t, writer.WithDerivedIDs, content)
	play.Events(t, event.NewRecorder(p.Tracer()), phi.NewDecoder().Events(events))
	return p
}

// onlySession makes the tree of a batch that holds one session.
func onlySession(t testing.TB, b session.Batch) (*session.Session, *session.BlockSet) {
	t.Helper()
	all := session.AssembleAll(b.Rows)
	if len(all) != 1 {
		t.Fatalf("%d sessions", len(all))
	}
	return all[0], blocksOfAll(b)
}

// Every request of the long sessions of the real crate comes back byte for byte. On the wire and on disk they take a
// multiple of D, which does not grow with the history, nor with the number of runs: docs/hotpaths.md has the table,
// docs/adr/0018-content-schema-2.md the reasons. These are sizes, not times: the same on every machine.
func TestLongSessions(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: hundreds of megabytes of events")
	}
	events := map[string]float64{} // bytes of payload events by session
	for _, test := range []struct {
		name             string
		most, rest, otlp float64 // payload events, OTLP without previews, all OTLP
	}{
		{name: "long-200", most: 1.20, rest: 1.52, otlp: 2.05},
		{name: "long-20x10", most: 1.20, rest: 1.55, otlp: 2.05},
		{name: "long-200x1", most: 1.15, rest: 1.60, otlp: 2.15},
		{name: "long-mixed", most: 1.22, rest: 1.55, otlp: 2.05},
		{name: "long-400", most: 1.18, rest: 1.45, otlp: 1.9},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, p := scan(t, test.name), playLong(t, test.name)
			s, blocks := onlySession(t, p.Batch())
			read := 0
			for n := range s.Walk() {
				if n.Kind() != session.KindTurn {
					continue
				}
				for _, q := range n.Turn.Requests {
					got := q.Payload(blocks)
					if !got.Exact || spans.BlockOf(got.Bytes) != want.requests[turnKey{n.Run.ID, n.Turn.Index}] {
						t.Fatalf("turn %d of %s: exact %t, missing %v, %v", n.Turn.Index, n.Run.ID, got.Exact, got.Missing, got.Defects)
					}
					read++
				}
			}
			if read != len(want.requests) || read < 200 {
				t.Errorf("%d requests of %d", read, len(want.requests))
			}
			of := func(n int) float64 { return float64(n) / float64(want.d) }
			carried, previews, otlp := sizesOf(t, p)
			t.Logf("D %d, payloads %.1f D, payload events %.3f D, OTLP %.2f D, without previews %.2f D",
				want.d, of(want.payloads), of(carried), of(otlp), of(otlp-previews))
			if got := of(carried); got > test.most || got < 1 {
				t.Errorf("payload events are %.3f D, want 1 to %.2f", got, test.most)
			}
			if all, rest := of(otlp), of(otlp-previews); all > test.otlp || rest > test.rest || rest < test.most {
				t.Errorf("OTLP is %.3f D, want at most %.2f; without previews %.3f D, want at most %.2f", all, test.otlp, rest,
					test.rest)
			}
			events[test.name] = of(carried)
			if test.name != "long-400" {
				onDisk(t, p, want.d)
			}
		})
	}
	// The session of 400 turns has longer ones, so D is taken out; of equal turns, D of 400 is 1.93 times that of 200 (the
	// prompt is there once), and this is 2.0 then.
	for name, most := range map[string]float64{"long-400": 2.0 / 1.93, "long-20x10": 1.1, "long-200x1": 1.1} {
		if got := events[name] / events["long-200"]; got > most {
			t.Errorf("%s costs %.3f times long-200, want at most %.3f", name, got, most)
		}
	}
}

// previewKeys are the attributes that only a tracer with previews writes.
var previewKeys = []attribute.Key{spans.SystemInstructionsKey, spans.InputMessagesKey, spans.OutputMessagesKey,
	spans.ToolCallArgumentsKey, spans.ToolCallResultKey, spans.RequestMessagesOmittedKey}

// sizesOf returns the bytes of payload events, of previews, and of all that was sent.
func sizesOf(t testing.TB, p *agenttest.Pipeline) (events, previews, all int) {
	t.Helper()
	for _, otlp := range p.OTLP() {
		all += len(otlp)
		var td tracepb.TracesData
		must.Do(t, proto.Unmarshal(otlp, &td))
		for _, rs := range td.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, span := range ss.Spans {
					for _, kv := range span.Attributes {
						if slices.Contains(previewKeys, attribute.Key(kv.Key)) {
							previews += proto.Size(kv) + 3
						}
					}
					for _, e := range span.Events {
						if e.Name == spans.EventBlocks {
							events += proto.Size(e) + 4 // and its tag and length
						}
					}
				}
			}
		}
	}
	return events, previews, all
}

// onDisk holds blocks and lists on disk to at most 0.45 D, and rows without their lists to 600 bytes each.
func onDisk(t *testing.T, p *agenttest.Pipeline, d int) {
	t.Helper()
	var whole, bare []session.Batch
	rows := 0
	for _, otlp := range p.OTLP() {
		b, _, err := otlprow.DecodeProto(otlp)
		must.Do(t, err)
		whole = append(whole, b)
		rows += len(b.Rows)
		without := session.Batch{Rows: slices.Clone(b.Rows)}
		for i := range without.Rows {
			without.Rows[i].Lists = nil
		}
		bare = append(bare, without)
	}
	put := func(batches []session.Batch) map[string]int64 {
		path := filepath.Join(t.TempDir(), "s.db")
		st := must.Get(sqlitestore.Open(t.Context(), path))(t)
		for _, b := range batches {
			must.Do(t, st.Put(t.Context(), b))
		}
		must.Do(t, errors.Join(project.Refresh(t.Context(), st), st.Close()))
		return tableBytes(t, path)
	}
	all, rest := put(whole), put(bare)
	content := float64(all["packs"]+all["blocks"]+all["withheld"]+all["rows"]-rest["rows"]) / float64(d)
	row := float64(rest["rows"]) / float64(rows)
	t.Logf("on disk: blocks and lists %.3f D, %d rows of %.0f bytes", content, rows, row)
	if content > 0.45 || content < 0.1 {
		t.Errorf("blocks and lists are %.3f D, want at most 0.45", content)
	}
	if row > 600 || row < 100 {
		t.Errorf("a row takes %.0f bytes, want at most 600", row)
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
		td := must.Get((&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(otlp))(t)
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
	if testing.Short() {
		t.Skip("-short: hundreds of megabytes of events")
	}
	want := scan(t, "long-200").requests
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

// tableBytes is what the pages of each table take, with its indexes.
func tableBytes(t *testing.T, path string) map[string]int64 {
	t.Helper()
	db := must.Get(sql.Open("sqlite", "file:"+path+"?mode=ro"))(t)
	defer db.Close()
	rows := must.Get(db.Query(
		`SELECT s.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_schema s ON s.name = d.name GROUP BY 1`))(t)
	defer rows.Close()
	sizes := map[string]int64{}
	for rows.Next() {
		var table string
		var n int64
		must.Do(t, rows.Scan(&table, &n))
		sizes[table] = n
	}
	must.Do(t, rows.Err())
	return sizes
}
