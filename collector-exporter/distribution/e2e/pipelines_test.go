package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kfake"
	"go.opentelemetry.io/collector/pdata/ptrace"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

// testPipelines runs the configurations of examples/pipelines as they are; only addresses, the database and waiting
// times are set, by the variables that they name.
func testPipelines(t *testing.T, bin string) {
	t.Run("gateway", func(t *testing.T) { testGateways(t, bin) })
	t.Run("load balancing", func(t *testing.T) { testLoadBalancing(t, bin) })
	t.Run("group by trace", func(t *testing.T) { testGroupByTrace(t, bin) })
	t.Run("tail sampling of runs", func(t *testing.T) { testSampledRuns(t, bin) })
	t.Run("kafka", func(t *testing.T) { testKafka(t, bin) })
}

// startPipeline runs a file of examples/pipelines. env are NAME=VALUE; one without OTLP_HTTP does not listen.
func startPipeline(t *testing.T, bin, file string, env ...string) *collector {
	t.Helper()
	return startConfig(t, bin, []string{filepath.Join(repo, "examples", "pipelines", file)}, env...)
}

// startConfig runs a collector with configurations that are laid over each other. The variables of our own files hold
// its addresses.
func startConfig(t *testing.T, bin string, configs []string, env ...string) *collector {
	t.Helper()
	c := &collector{grpc: freePort(t), http: freePort(t), log: &lockedBuffer{}, done: make(chan error, 1)}
	var args []string
	for _, config := range configs {
		args = append(args, "--config", config)
	}
	c.cmd = exec.Command(bin, args...)
	c.cmd.Env = append(
		append(os.Environ(), "OTLP_GRPC="+c.grpc, "OTLP_HTTP="+c.http, "METRICS_LEVEL=none"),
		env...) // several of them, one port
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	must.Do(t, c.cmd.Start())
	go func() { c.done <- c.cmd.Wait() }()
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	name := filepath.Base(configs[0])
	eventually(t, name+" is ready", func() error {
		select {
		case err := <-c.done:
			t.Fatalf("%s ended: %v\n%s", name, err, c.log)
		default:
		}
		if !strings.Contains(c.log.String(), "Everything is ready") {
			return fmt.Errorf("not ready\n%s", c.log)
		}
		return nil
	})
	return c
}

// eventually waits until what holds.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// recordings returns the spans of recordings of the real crate, a message each, and the trees that they come to.
func recordings(t *testing.T, opts ...otelagent.Option) (sent []ptrace.Traces, want map[string]string) {
	t.Helper()
	want = map[string]string{}
	for _, f := range phifixtures.All(t, repo) {
		if !strings.Contains(f.Name, "parallel") && !strings.Contains(f.Name, "multi-turn") &&
			!strings.Contains(f.Name, "compaction") &&
			!strings.Contains(f.Name, "tool") {
			continue
		}
		p := agenttest.New(
			t,
			append([]otelagent.Option{writer.WithDerivedIDs, otelagent.WithCapture(otelagent.CaptureContent)}, opts...)...)
		play.Events(t, event.NewRecorder(p.Tracer()), phi.NewDecoder().Events(bytes.NewReader(f.Events)))
		sent = append(sent, messages(t, p)...)
	}
	var rows []session.Row // of all recordings: those of several versions of the crate share sessions
	for _, td := range sent {
		batch, _ := otlprow.Decode(td)
		rows = append(rows, batch.Rows...)
	}
	for _, s := range session.AssembleAll(rows) {
		want[s.ID] = treeJSON(t, s)
	}
	if len(want) < 4 {
		t.Fatalf("%d sessions, want some", len(want))
	}
	return sent, want
}

func messages(t *testing.T, p *agenttest.Pipeline) []ptrace.Traces {
	t.Helper()
	var out []ptrace.Traces
	for _, raw := range p.OTLP() {
		td := must.Get((&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(raw))(t)
		out = append(out, td)
	}
	return out
}

func treeJSON(t *testing.T, s *session.Session) string {
	t.Helper()
	b := must.Get(json.MarshalIndent(s, "", " "))(t)
	return string(b)
}

// pieces cuts messages into one for each span.
func pieces(all []ptrace.Traces) []ptrace.Traces {
	var out []ptrace.Traces
	for _, td := range all {
		for _, rs := range td.ResourceSpans().All() {
			for _, ss := range rs.ScopeSpans().All() {
				for _, span := range ss.Spans().All() {
					one := ptrace.NewTraces()
					to := one.ResourceSpans().AppendEmpty()
					rs.Resource().CopyTo(to.Resource())
					span.CopyTo(to.ScopeSpans().AppendEmpty().Spans().AppendEmpty())
					out = append(out, one)
				}
			}
		}
	}
	return out
}

// stored is what a database holds of a session.
type stored struct {
	tree     *session.Session
	json     string
	requests map[string]string
}

func readAll(t *testing.T, db string) map[string]stored {
	t.Helper()
	out := map[string]stored{}
	eachSession(t, db, func(id string, rows []session.Row, blocks []session.Block) {
		tree := session.Assemble(rows)
		out[id] = stored{tree: tree, json: treeJSON(t, tree), requests: requests(rows, blocks)}
		tree.CheckContent(setOf(blocks))
	})
	return out
}

// eachSession reads all sessions of a database.
func eachSession(t *testing.T, db string, f func(id string, rows []session.Row, blocks []session.Block)) {
	t.Helper()
	s := must.Get(sqlitestore.OpenReadOnly(t.Context(), db))(t)
	defer func() { _ = s.Close() }()
	for sum, err := range s.Sessions(t.Context(), store.Query{}) {
		must.Do(t, err)
		f(sum.ID, must.All(s.Rows(t.Context(), sum.Key))(t), must.All(s.Blocks(t.Context(), sum.Key))(t))
	}
}

func setOf(blocks []session.Block) *session.BlockSet {
	set := &session.BlockSet{}
	for _, b := range blocks {
		set.Add(b)
	}
	return set
}

// requests returns what the model was sent, by session, run, turn and attempt.
func requests(rows []session.Row, blocks []session.Block) map[string]string {
	out := map[string]string{}
	for _, s := range session.AssembleAll(rows) {
		var set session.BlockSet
		for _, b := range blocks {
			if b.Session.ID == s.ID {
				set.Add(b)
			}
		}
		for _, run := range s.Runs {
			for _, turn := range run.Turns {
				for _, q := range turn.Requests {
					p := q.Payload(&set)
					out[fmt.Sprintf("%s/%s/%d/%d", s.ID, run.ID, turn.Index, q.Attempt)] = fmt.Sprintf(
						"%v %v %v %s",
						p.Exact,
						p.Missing,
						p.Defects,
						p.Bytes,
					)
				}
			}
		}
	}
	return out
}

// sameTrees compares what is stored with what should be.
func sameTrees(got map[string]stored, want map[string]string) error {
	trees := map[string]string{}
	for id, s := range got {
		trees[id] = s.json
	}
	if d := cmp.Diff(want, trees); d != "" {
		return fmt.Errorf("trees differ (-want +got):\n%.4000s", d)
	}
	return nil
}

// testGateways: spans of every session are dealt to two collectors in turn, some twice; one store, no affinity.
func testGateways(t *testing.T, bin string) {
	db := filepath.Join(t.TempDir(), "sessions.db")
	// The file is SQLite's here; the file names ClickHouse, whose test is in interop/clickhouse.
	gateways := []*collector{
		startPipeline(t, bin, "gateway.yaml", "OTELAGENT_DB="+db),
		startPipeline(t, bin, "gateway.yaml", "OTELAGENT_DB="+db),
	}
	sent, want := recordings(t)
	all := pieces(sent)
	slices.Reverse(all)
	for i, td := range all {
		gateways[i%2].send(t, td)
		if i%7 == 0 {
			gateways[(i+1)%2].send(t, td)
		}
	}
	for _, g := range gateways {
		g.stop(t, true)
	}
	must.Do(t, sameTrees(readAll(t, db), want))
	t.Logf("%d spans of %d sessions over two gateways", len(all), len(want))
}

// testLoadBalancing: the spans of a session all go to one gateway, and both together have every session.
func testLoadBalancing(t *testing.T, bin string) {
	dir := t.TempDir()
	dbs := []string{filepath.Join(dir, "one.db"), filepath.Join(dir, "two.db")}
	one, two := startPipeline(
		t,
		bin,
		"gateway.yaml",
		"OTELAGENT_DB="+dbs[0],
	), startPipeline(
		t,
		bin,
		"gateway.yaml",
		"OTELAGENT_DB="+dbs[1],
	)
	front := startPipeline(t, bin, "load-balancing.yaml", "GATEWAY_1="+one.grpc, "GATEWAY_2="+two.grpc)
	sent, want := recordings(t)
	for _, td := range sent {
		front.send(t, td)
	}
	for _, c := range []*collector{front, one, two} {
		c.stop(t, false)
	}
	got := readAll(t, dbs[0])
	first := len(got)
	for id, s := range readAll(t, dbs[1]) {
		if _, both := got[id]; both {
			t.Errorf("session %s is in both", id)
		}
		got[id] = s
	}
	must.Do(t, sameTrees(got, want))
	if first == 0 || first == len(got) {
		t.Errorf("%d of %d sessions went to the first gateway, want some to each", first, len(got))
	}
	t.Logf("%d of %d sessions went to the first gateway", first, len(got))
}

func testGroupByTrace(t *testing.T, bin string) {
	db := filepath.Join(t.TempDir(), "sessions.db")
	c := startPipeline(t, bin, "group-by-trace.yaml", "OTELAGENT_DB="+db, "WAIT=1s")
	sent, want := recordings(t)
	for _, td := range pieces(sent) {
		c.send(t, td)
	}
	eventually(t, "all sessions are stored", func() error { return sameTrees(readAll(t, db), want) })
	c.stop(t, false)
}

// talk makes a session of three runs of two turns; a turn of run failing, counted from 1, fails.
func talk(t *testing.T, p *agenttest.Pipeline, id string, failing int) {
	t.Helper()
	system := strings.Repeat("You are careful. ", 40)
	var messages []string
	for run := 1; run <= 3; run++ {
		ctx, r := (*writer.Tracer)(
			p.Tracer(),
		).StartRun(t.Context(), writer.RunInfo{SessionID: id, ID: fmt.Sprintf("run-%d", run), Agent: "sampled", Model: "m"})
		for turn := range 2 {
			messages = append(messages, fmt.Sprintf(`{"role":"user","content":"question %d.%d of %s"}`, run, turn, id))
			_, tn := r.StartTurn(ctx, writer.TurnInfo{Index: new(int64(turn)), Trigger: spans.TriggerUser})
			payload := fmt.Sprintf(`{"model":"m","system":%q,"messages":[%s]}`, system, strings.Join(messages, ","))
			tn.Request(writer.Request{Payload: []byte(payload)})
			answer := fmt.Sprintf(`{"role":"assistant","content":"answer %d.%d"}`, run, turn)
			messages = append(messages, answer)
			tn.End(writer.TurnResult{StopReason: "stop", Failed: run == failing && turn == 1, Usage: &writer.Usage{},
				Output: &writer.Message{Role: "assistant", Raw: []byte(answer)}})
		}
		r.End(writer.RunResult{})
	}
}

// testSampledRuns: with one trace a run, the run that failed is kept alone. It brings its blocks when the tracer has
// that option, and the tree says which runs it has not seen.
func testSampledRuns(t *testing.T, bin string) {
	for _, tt := range []struct {
		name  string
		opts  []otelagent.Option
		whole bool
	}{
		{"blocks by run", []otelagent.Option{func(c *writer.Config) { c.PerRun = true }}, true},
		{"blocks by session", nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "sessions.db")
			c := startPipeline(t, bin, "tail-sampling.yaml", "OTELAGENT_DB="+db, "DECISION_WAIT=2s", "SHARE=0")
			p := agenttest.New(t, append(tt.opts, otelagent.WithCapture(otelagent.CaptureContent))...)
			talk(t, p, "talk", 2)
			for _, td := range messages(t, p) {
				c.send(t, td)
			}
			eventually(t, "the run that failed is stored", func() error {
				if n := len(readAll(t, db)["talk"].requests); n != 2 {
					return fmt.Errorf("%d requests, want 2", n)
				}
				return nil
			})
			c.stop(t, false)
			got := readAll(t, db)["talk"]
			var runs []string
			for _, r := range got.tree.Runs {
				runs = append(runs, r.ID)
			}
			if !slices.Equal(runs, []string{"run-2"}) {
				t.Errorf("runs %v, want run-2 alone", runs)
			}
			var defects []string
			for _, d := range got.tree.Defects {
				defects = append(defects, string(d.Code))
			}
			if !slices.Contains(defects, string(spans.DefectRunMissing)) {
				t.Errorf(
					"defects of the session: %v, want %s: run-1 was dropped and its number shows it",
					defects,
					spans.DefectRunMissing,
				)
			}
			if tt.whole {
				checkExact(t, got, 2)
				return
			}
			for key, q := range got.requests {
				if strings.HasPrefix(q, "true") || !strings.Contains(q, "[") {
					t.Errorf("%s is said to be exact although run-1, which brought its beginning, was dropped: %.200s", key, q)
				}
			}
			var missing int
			for _, r := range got.tree.Runs {
				for _, tn := range r.Turns {
					for _, d := range tn.Defects {
						if d.Code == spans.DefectBlockMissing || d.Code == spans.DefectListUnresolved {
							missing++
						}
					}
				}
			}
			if missing == 0 {
				t.Errorf("no turn says that blocks are missing:\n%s", treeJSON(t, got.tree))
			}
		})
	}
}

// checkExact wants n requests, each given back byte for byte.
func checkExact(t *testing.T, s stored, n int) {
	t.Helper()
	if len(s.requests) != n {
		t.Errorf("%d requests, want %d: %v", len(s.requests), n, slices.Sorted(maps.Keys(s.requests)))
	}
	for key, q := range s.requests {
		if !strings.HasPrefix(q, "true [] [] {") {
			t.Errorf("%s is not exact: %.300s", key, q)
		}
	}
}

// testKafka: OTLP into Kafka, two consumers out of it into one store, one of which is killed on the way.
func testKafka(t *testing.T, bin string) {
	broker := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(6, "otlp_spans")))(t)
	defer broker.Close()
	for _, addr := range broker.ListenAddrs() {
		if host, _, _ := net.SplitHostPort(addr); !net.ParseIP(host).IsLoopback() {
			t.Fatalf("the broker listens on %s", addr)
		}
	}
	kafka := "KAFKA=" + broker.ListenAddrs()[0]
	db := filepath.Join(t.TempDir(), "sessions.db")
	producer := startPipeline(t, bin, "kafka-producer.yaml", kafka)
	consumers := []*collector{
		startPipeline(t, bin, "kafka-consumer.yaml", kafka, "OTELAGENT_DB="+db),
		startPipeline(t, bin, "kafka-consumer.yaml", kafka, "OTELAGENT_DB="+db),
	}
	// A leader that dies while the group is balanced holds up the others for the 60 s of the rebalance timeout.
	eventually(t, "each consumer has partitions", func() error {
		for _, c := range consumers {
			if !strings.Contains(c.log.String(), "assigning partitions") {
				return errors.New("not yet")
			}
		}
		return nil
	})
	sent, want := recordings(t)
	all := pieces(sent)
	for i, td := range all {
		producer.send(t, td)
		if i == len(all)/2 {
			consumers[0].stop(t, true)
		}
	}
	producer.stop(t, false)
	eventually(t, "all that was acknowledged is stored", func() error { return sameTrees(readAll(t, db), want) })
	consumers[1].stop(t, false)
	t.Logf("%d records, one consumer of two killed after half", len(all))
}
