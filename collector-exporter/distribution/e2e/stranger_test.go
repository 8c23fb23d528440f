package e2e

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	grpcgzip "google.golang.org/grpc/encoding/gzip"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/play"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/export"
	"github.com/otelagent/otelagent/dialects"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/input"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

var (
	stockFlag        = flag.String("stock", "", "the collector of testdata/stock.yaml, instead of one that is built")
	distributionFlag = flag.String(
		"distribution",
		"",
		"the distribution that TestStranger sends to, instead of one that is built",
	)
)

// stock builds the stranger: a collector of upstream components only.
var stock = sync.OnceValues(func() (string, error) {
	if *stockFlag != "" {
		return *stockFlag, nil
	}
	bin, err := ocb()
	if err != nil {
		return "", err
	}
	manifest, err := filepath.Abs(filepath.Join("testdata", "stock.yaml"))
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(bin), "stock") // goes with the builder
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	cmd := exec.Command(bin, "--config", manifest)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the stock collector: %w\n%s", err, out)
	}
	return filepath.Join(dir, "build", "otelcol-stock"), nil
})

// gateway is the file that the exporter runs with behind the stranger.
var gateway = filepath.Join(repo, "examples", "pipelines", "gateway.yaml")

// TestStranger puts a stock collector between agents and the exporter. Its changes to spans on their way do not change
// the sessions. Where they do, the tree says what is missing.
func TestStranger(t *testing.T) {
	ours := *distributionFlag
	if ours == "" {
		var err error
		if ours, err = distribution(); err != nil {
			t.Fatal(err)
		}
	}
	done := step(t, "build the stock collector")
	between := must.Get(stock())(t)
	done()
	if out := run(t, t.TempDir(), between, "components"); strings.Contains(out, "agent_session") ||
		strings.Contains(out, "otelagent/") {
		t.Fatalf("the stock collector has a component of otelagent:\n%s", out)
	}

	sent, want := strangers(t), map[string]whole{}
	t.Run("nobody between", func(t *testing.T) {
		db := filepath.Join(t.TempDir(), "sessions.db")
		c := startPipeline(t, ours, "gateway.yaml", "OTELAGENT_DB="+db)
		way{in: "http"}.send(t, c, sent)
		c.stop(t, false)
		want = readWhole(t, db)
		exact := 0
		for id, w := range want {
			for key, q := range w.Requests {
				if strings.HasPrefix(q, "true [] [] {") {
					exact++
				} else if strings.HasPrefix(id, "large") {
					t.Errorf("%s is not exact: %.200s", key, q)
				}
			}
		}
		if len(want) < 20 || exact < 50 || len(want["large"].Requests) != 4 {
			t.Errorf("%d sessions with %d exact requests: what follows would test little", len(want), exact)
		}
		t.Logf("%d spans of %d sessions, %d exact requests", spanCount(sent), len(want), exact)
	})
	if t.Failed() {
		return
	}
	t.Run("harmless", func(t *testing.T) { testHarmless(t, ours, between, sent, want) })
	t.Run("harmful", func(t *testing.T) { testHarmful(t, ours, between, sent, want) })
}

func spanCount(all []ptrace.Traces) (n int) {
	for _, td := range all {
		n += td.SpanCount()
	}
	return n
}

// strangers returns the spans of recorded sessions of every dialect, and of one with requests that do not fit into a
// span.
func strangers(t *testing.T) []ptrace.Traces {
	t.Helper()
	sent, _ := recordings(t) // phi-core
	spoken := map[string]bool{"phi-core": true}
	for _, pattern := range []string{
		"clark/testdata/clark-agent-0.4.0/*.enveloped.ndjson", "acp/testdata/sdk/*.ndjson",
		"guide/testdata/*.jsonl", "guide/testdata/ai-sdk/*.jsonl", "ndjson/testdata/producers/*.ndjson",
		"claudecode/testdata/agtrace/*.jsonl", "codex/testdata/agtrace/*.jsonl", "gemini/testdata/entire/*.json",
		"opencode/testdata/generated/*.json", "pi/testdata/agentsview/*.jsonl",
	} {
		files, err := filepath.Glob(filepath.Join(repo, "dialects", filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, ".raw.ndjson") {
				continue
			}
			text := must.Get(os.ReadFile(f))(t)
			d, _, from, err := dialects.Open(bytes.NewReader(text))
			if err != nil {
				t.Fatalf("%s: %v", f, err)
			}
			spoken[d.Name] = true
			p := agenttest.New(t, writer.WithDerivedIDs, otelagent.WithCapture(otelagent.CaptureContent))
			play.Lines(t, event.NewRecorder(p.Tracer()), d.New(input.Settings{Session: filepath.Base(f)}).Events(from))
			sent = append(sent, messages(t, p)...)
		}
	}
	if len(spoken) < len(dialects.All()) {
		t.Errorf("recordings of %v alone", slices.Sorted(maps.Keys(spoken)))
	}
	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
	long(t, p, "large", 4, 700<<10)
	return append(sent, messages(t, p)...)
}

// long makes a session of one run, each turn of which asks something of n bytes.
func long(t *testing.T, p *agenttest.Pipeline, id string, turns, n int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(n)))
	letters := func(n int) string { // that no compression makes small
		b := make([]byte, n)
		for i := range b {
			b[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-"[rng.IntN(64)]
		}
		return string(b)
	}
	var history []string
	ctx, r := (*writer.Tracer)(
		p.Tracer(),
	).StartRun(t.Context(), writer.RunInfo{SessionID: id, ID: "run", Agent: "reader", Model: "m"})
	for turn := range turns {
		history = append(history, fmt.Sprintf(`{"role":"user","content":%q}`, letters(n)))
		_, tn := r.StartTurn(ctx, writer.TurnInfo{Index: new(int64(turn)), Trigger: spans.TriggerUser})
		tn.Request(writer.Request{Payload: []byte(`{"model":"m","messages":[` + strings.Join(history, ",") + `]}`)})
		answer := fmt.Sprintf(`{"role":"assistant","content":"answer %d"}`, turn)
		history = append(history, answer)
		tn.End(
			writer.TurnResult{
				StopReason: "stop",
				Usage:      &writer.Usage{Input: int64(n)},
				Output:     &writer.Message{Role: "assistant", Raw: []byte(answer)},
			},
		)
	}
	r.End(writer.RunResult{})
}

// way is one way through the stranger.
type way struct {
	in, inPacked   string // grpc or http; gzip, zstd or nothing
	out, outPacked string
	batch          int
}

// startBetween runs the stock collector in front of next. more are configurations laid over its own.
func startBetween(t *testing.T, bin string, next *collector, w way, more ...string) *collector {
	t.Helper()
	packed := w.outPacked
	if packed == "" {
		packed = "none"
	}
	return startConfig(
		t,
		bin,
		append([]string{filepath.Join("testdata", "stranger.yaml")}, more...),
		"NEXT_GRPC="+next.grpc,
		"NEXT_HTTP="+next.http,
		"OUT=otlp_"+w.out,
		"COMPRESSION="+packed,
		fmt.Sprint("BATCH=", w.batch),
	)
}

// send sends messages the way that w says.
func (w way) send(t *testing.T, c *collector, all []ptrace.Traces) {
	t.Helper()
	for _, td := range all {
		if w.in != "grpc" {
			c.post(t, w.inPacked, td)
			continue
		}
		conn := must.Get(grpc.NewClient(c.grpc, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
		var opts []grpc.CallOption
		if w.inPacked != "" {
			opts = append(opts, grpc.UseCompressor(grpcgzip.Name))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		request := ptraceotlp.NewExportRequestFromTraces(td)
		if _, err := ptraceotlp.NewGRPCClient(conn).Export(ctx, request, opts...); err != nil {
			t.Fatalf("send: %v\n%s", err, c.log)
		}
		cancel()
		_ = conn.Close()
	}
}

// whole is all that a database has of a session.
type whole struct {
	Tree     string
	Export   string
	Requests map[string]string
	defects  map[spans.DefectCode]int
}

// added are the attributes that testdata/stranger.yaml puts on every span.
var added = []string{"platform.region", "platform.secret", "platform.team", "platform.weight"}

// readWhole reads a database. It omits what the stranger added: the tree keeps it, apart from what it knows.
func readWhole(t *testing.T, db string) map[string]whole {
	t.Helper()
	out := map[string]whole{}
	eachSession(t, db, func(id string, rows []session.Row, blocks []session.Block) {
		for i := range rows {
			rows[i].Attrs = slices.DeleteFunc(
				slices.Clone(rows[i].Attrs),
				func(a session.Attr) bool { return slices.Contains(added, a.Key) },
			)
		}
		tree, set := session.Assemble(rows), setOf(blocks)
		w := whole{Requests: requests(rows, blocks), defects: map[spans.DefectCode]int{}}
		tree.CheckContent(set)
		w.Tree = treeJSON(t, tree)
		var b strings.Builder
		if _, err := export.JSON(&b, session.Tree{Session: tree, Blocks: set}, export.Options{Partial: true}); err != nil &&
			!errors.Is(err, export.ErrEmpty) {
			t.Fatalf("export %s: %v", id, err)
		}
		w.Export = b.String()
		count := func(l []session.Defect) {
			for _, d := range l {
				w.defects[d.Code]++
			}
		}
		count(tree.Defects)
		for _, r := range tree.Runs {
			count(r.Defects)
			for _, tn := range r.Turns {
				count(tn.Defects)
			}
		}
		out[id] = w
	})
	return out
}

// addedTo counts the rows that carry everything that the stranger adds, and those that do not.
func addedTo(t *testing.T, db string) (with, without int) {
	t.Helper()
	eachSession(t, db, func(_ string, rows []session.Row, _ []session.Block) {
		for _, row := range rows {
			n := 0
			for _, a := range row.Attrs {
				if slices.Contains(added, a.Key) {
					n++
				}
			}
			if n == len(added) {
				with++
			} else {
				without++
			}
		}
	})
	return with, without
}

func sameWhole(want, got map[string]whole) error {
	if d := cmp.Diff(want, got, cmpopts.IgnoreUnexported(whole{})); d != "" {
		return fmt.Errorf("(-without +with the stranger):\n%.6000s", d)
	}
	return nil
}

// testHarmless: whatever way through the stranger, the tree, what is exported and every request are those without it.
func testHarmless(t *testing.T, ours, between string, sent []ptrace.Traces, want map[string]whole) {
	for _, w := range []way{
		{"grpc", "", "grpc", "", 1}, // every span for itself
		{"grpc", "gzip", "http", "gzip", 7},
		{"http", "gzip", "grpc", "zstd", 50},
		{"http", "zstd", "http", "zstd", 3},
		{"http", "", "grpc", "gzip", 8192}, // the default
		{"grpc", "", "http", "", 13},
	} {
		t.Run(fmt.Sprintf("%s %s to %s %s by %d", w.in, w.inPacked, w.out, w.outPacked, w.batch), func(t *testing.T) {
			defer step(t, "through the stranger")()
			db := filepath.Join(t.TempDir(), "sessions.db")
			next := startPipeline(t, ours, "gateway.yaml", "OTELAGENT_DB="+db)
			c := startBetween(t, between, next, w)
			w.send(t, c, sent)
			c.stop(t, false) // sends what it holds
			next.stop(t, false)
			if err := sameWhole(want, readWhole(t, db)); err != nil {
				t.Fatalf("%v\n%.2000s", err, c.log)
			}
			with, without := addedTo(t, db)
			if with == 0 || without > 0 {
				t.Errorf("of %d rows %d carry what the stranger added", with+without, with)
			}
		})
	}
}

// testHarmful: a processor that takes away what is ours is not noticed by its sender. What is left says so, by defects
// of the tree or in the log, wherever something implies what is gone; and no request is given back as exact that is not
// one.
func testHarmful(t *testing.T, ours, between string, sent []ptrace.Traces, want map[string]whole) {
	attributes := func(actions string) string { return "attributes/harm: {actions: [" + actions + "]}" }
	transform := func(context string, statements ...string) string {
		return fmt.Sprintf(`transform/harm: {trace_statements: [{context: %s, statements: ['%s']}]}`,
			context, strings.Join(statements, "', '"))
	}
	for _, tt := range []struct {
		name, processor string
		sessions        bool               // all are there
		same            bool               // and as they were
		defects         []spans.DefectCode // of which there are more
		rejects         []string
	}{
		{name: "deletes conversation ids", processor: attributes(`{key: gen_ai.conversation.id, action: delete}`),
			sessions: true, same: true},
		{name: "deletes the schema", processor: attributes(`{key: otelagent.schema.version, action: delete}`),
			sessions: true, same: true},
		{name: "deletes session ids", processor: attributes(`{key: session.id, action: delete}, ` +
			`{key: gen_ai.conversation.id, action: delete}`), rejects: []string{"no_session_id"}},
		{name: "hashes session ids", processor: attributes(`{key: session.id, action: hash}`), sessions: true},
		{name: "deletes all keys of otelagent", processor: attributes(`{pattern: "^otelagent[.]", action: delete}`),
			sessions: true, defects: []spans.DefectCode{spans.DefectBlockMissing}, rejects: []string{"bad_run_start"}},
		// A run without its id is at its start: another address, and nothing of it is lost.
		{name: "deletes run ids", processor: attributes(`{key: otelagent.run.id, action: delete}`), sessions: true},
		{name: "deletes turn numbers", processor: attributes(`{key: otelagent.turn.index, action: delete}`), sessions: true,
			defects: []spans.DefectCode{spans.DefectBlockMissing, spans.DefectRecordedTwice, spans.DefectTurnsMissing},
			rejects: []string{"bad_turn_index"}},
		{name: "deletes usage", processor: attributes(`{pattern: "usage", action: delete}`),
			sessions: true}, // nothing implies them
		{name: "deletes keys of the resource", processor: `resource/harm: {attributes: [{pattern: ".*", action: delete}]}`,
			sessions: true},
		{name: "truncates attributes of spans", processor: transform("span", "truncate_all(span.attributes, 32)"),
			sessions: true},
		{name: "truncates attributes of events", processor: transform("spanevent", "truncate_all(spanevent.attributes, 32)"),
			sessions: true}, // content is in lists: ids are cut
		{name: "limits attributes of events", processor: transform("spanevent", "limit(spanevent.attributes, 1, [])"),
			sessions: true, defects: []spans.DefectCode{spans.DefectBlockMissing}},
		{name: "limits attributes of spans", processor: transform("span", "limit(span.attributes, 8, [])"),
			sessions: true, defects: []spans.DefectCode{spans.DefectBlockMissing, spans.DefectRunSpanMissing},
			rejects: []string{"bad_run_start", "no_session_id"}},
		{name: "renames spans", processor: transform("span", `set(span.name, "POST /v1/messages")`),
			sessions: true, same: true},
		{
			name: "renames spans and deletes their kind",
			processor: transform("span", `set(span.name, "POST /v1/messages")`,
				`delete_key(span.attributes, "otelagent.kind")`),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id, _, _ := strings.Cut(tt.processor, ":")
			harm := writeConfig(
				t,
				fmt.Sprintf(
					"processors:\n  %s\nservice:\n  pipelines:\n    traces: {processors: [memory_limiter, %s, batch]}\n",
					tt.processor,
					id,
				),
			)
			db := filepath.Join(t.TempDir(), "sessions.db")
			next := startConfig(
				t,
				ours,
				[]string{gateway},
				"OTELAGENT_DB="+db,
			)
			w := way{"grpc", "", "grpc", "", 50}
			c := startBetween(t, between, next, w, harm)
			w.send(t, c, sent)
			c.stop(t, false)
			next.stop(t, false)
			got := readWhole(t, db)
			if (len(got) == len(want)) != tt.sessions || !tt.sessions && tt.defects == nil && len(got) > 0 {
				t.Errorf("%d sessions of %d", len(got), len(want))
			}
			if err := sameWhole(want, got); (err == nil) != tt.same {
				t.Errorf("the same: %v, want %v", err == nil, tt.same)
			}
			noneWrong(t, want, got)
			if more := moreDefects(want, got); !slices.Equal(more, tt.defects) {
				t.Errorf("defects say %q, want %q", more, tt.defects)
			}
			if got := reasons(next.log.String()); !slices.Equal(got, tt.rejects) {
				t.Errorf("rejected for %q, want %q", got, tt.rejects)
			}
		})
	}
}

// noneWrong wants every request that is said to be exact to be one that was sent.
func noneWrong(t *testing.T, want, got map[string]whole) {
	t.Helper()
	sent := map[string]bool{}
	for _, w := range want {
		for _, q := range w.Requests {
			sent[q] = true
		}
	}
	for _, g := range got {
		for key, q := range g.Requests {
			if strings.HasPrefix(q, "true") && !sent[q] {
				t.Errorf("%s is said to be exact, and was never sent: %.300s", key, q)
			}
		}
	}
}

// moreDefects returns the defects of which got has more than want, sorted.
func moreDefects(want, got map[string]whole) []spans.DefectCode {
	n := map[spans.DefectCode]int{}
	for _, w := range want {
		for code, k := range w.defects {
			n[code] -= k
		}
	}
	for _, g := range got {
		for code, k := range g.defects {
			n[code] += k
		}
	}
	maps.DeleteFunc(n, func(_ spans.DefectCode, k int) bool { return k <= 0 })
	return slices.Sorted(maps.Keys(n))
}

var rejected = regexp.MustCompile(`not stored.*"reason": ?"(\w+)"`)

// reasons returns the reasons why something was not stored, as a collector logs them, sorted.
func reasons(log string) []string {
	all := map[string]bool{}
	for _, m := range rejected.FindAllStringSubmatch(log, -1) {
		all[m[1]] = true
	}
	return slices.Sorted(maps.Keys(all))
}
