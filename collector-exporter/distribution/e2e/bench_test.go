package e2e

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "modernc.org/sqlite"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

const (
	benchSpans   = 512 // in a message, as the SDK's batcher makes them
	benchSenders = 4
	benchMost    = 40_000 // spans of a load
)

// load is what a benchmark sends: OTLP messages of whole sessions.
type load struct {
	messages     [][]byte
	spans, turns int
}

// makeLoad lets the adapter record sessions of 50 turns with two tool calls and a permission evaluation each; with
// payload every turn brings about 4 KB that are new.
func makeLoad(b *testing.B, payload bool) load {
	b.Helper()
	var opts []otelagent.Option
	per := 10 // sessions that talk at a time
	if payload {
		opts = append(opts, otelagent.WithCapture(otelagent.CaptureContent))
	}
	var l load
	for n := 0; l.spans < benchMost; n++ {
		p := agenttest.New(b, opts...)
		for i := range per {
			talkOn(b, p, fmt.Sprintf("bench-%d-%d", n, i), payload)
			l.turns += 50
		}
		all := ptrace.NewTraces()
		count := 0
		flush := func() {
			if count == 0 {
				return
			}
			raw := must.Get((&ptrace.ProtoMarshaler{}).MarshalTraces(all))(b)
			l.messages = append(l.messages, raw)
			all, count = ptrace.NewTraces(), 0
		}
		for _, raw := range p.OTLP() {
			td := must.Get((&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(raw))(b)
			n := td.SpanCount()
			td.ResourceSpans().MoveAndAppendTo(all.ResourceSpans())
			l.spans += n
			if count += n; count >= benchSpans {
				flush()
			}
		}
		flush()
	}
	return l
}

func talkOn(b *testing.B, p *agenttest.Pipeline, id string, payload bool) {
	b.Helper()
	ctx, r := (*writer.Tracer)(
		p.Tracer(),
	).StartRun(b.Context(), writer.RunInfo{SessionID: id, Agent: "bench", Model: "claude-opus-4-6", Provider: "anthropic"})
	var messages []string
	for turn := range 50 {
		ctx, tn := r.StartTurn(ctx, writer.TurnInfo{Index: new(int64(turn)), Trigger: spans.TriggerUser})
		if payload {
			var text strings.Builder
			for i := 0; text.Len() < 4000; i++ {
				h := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", id, turn, i))
				fmt.Fprintf(&text, "line %d of the file says %x and then goes on with plain words. ", i, h[:6])
			}
			messages = append(messages, fmt.Sprintf(`{"role":"user","content":%q}`, text.String()))
			tn.Request(writer.Request{Payload: []byte(`{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`)})
		}
		for i := range 2 {
			ctx, call := tn.StartTool(ctx, writer.ToolCall{ID: fmt.Sprintf("toolu_%d_%d", turn, i), Name: "bash"})
			if i == 0 {
				writer.Decide(
					ctx, call,
					writer.PermissionEvaluation{Tool: "bash", Action: spans.ActionAllow, Source: spans.PermissionSourceProject},
				)
			}
			call.End(writer.ToolResult{})
		}
		tn.End(writer.TurnResult{StopReason: "tool_use", Usage: &writer.Usage{}})
	}
	r.End(writer.RunResult{})
}

// rawCodec sends messages that are marshalled already: the sender is no part of what is measured.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// push sends the messages of l by several senders and returns when all are acknowledged.
func push(ctx context.Context, addr string, l load) error {
	var wg sync.WaitGroup
	errs := make([]error, benchSenders)
	for i := range benchSenders {
		wg.Go(func() {
			conn, err := grpc.NewClient(
				addr,
				grpc.WithTransportCredentials(insecure.NewCredentials()),
				grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})),
			)
			if err != nil {
				errs[i] = err
				return
			}
			defer func() { _ = conn.Close() }()
			for n := i; n < len(l.messages); n += benchSenders {
				var answer []byte
				const export = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
				if err := conn.Invoke(ctx, export, &l.messages[n], &answer); err != nil {
					errs[i] = err
					return
				}
				if len(answer) > 2 { // an empty partial success is two bytes
					errs[i] = fmt.Errorf("not all of message %d was taken: %q", n, answer)
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

const benchConfig = `
receivers:
  otlp: {protocols: {grpc: {endpoint: %q, max_recv_msg_size_mib: 64}, http: {endpoint: %q}}}
exporters:
  agent_session: {storage: %q}
service:
  telemetry: {metrics: {level: none}, logs: {level: info}}
  pipelines:
    traces: {receivers: [otlp], exporters: [agent_session]}
`

// BenchmarkCollector sends OTLP bytes through the whole collector: receiver, decoding, exporter, committed. One
// operation is one span. The floor is the slower of decoding the same bytes with pdata alone, on one core, and of
// inserting the same rows, as they were stored, into tables that have their key only; with payload that hashes and
// compresses the bodies too.
func BenchmarkCollector(b *testing.B) {
	bin := must.Get(distribution())(b)
	for _, payload := range []bool{false, true} {
		name := map[bool]string{false: "plain", true: "4KB"}[payload]
		l := makeLoad(b, payload)
		all, db := b.TempDir(), ""
		b.Run(name+"/agent_session", func(b *testing.B) {
			var took time.Duration
			rounds := 0
			for b.Loop() {
				b.StopTimer()
				dir, err := os.MkdirTemp(all, "round")
				must.Do(b, err)
				db = filepath.Join(dir, "sessions.db")
				addr, stop := startBench(b, bin, db)
				start := time.Now()
				b.StartTimer()
				must.Do(b, push(b.Context(), addr, l))
				b.StopTimer()
				took += time.Since(start)
				stop()
				rounds++
				b.StartTimer()
			}
			info := must.Get(os.Stat(db))(b)
			n := float64(rounds * l.spans)
			b.ReportMetric(float64(took.Nanoseconds())/n, "ns/op")
			b.ReportMetric(n/took.Seconds(), "spans/s")
			b.ReportMetric(float64(info.Size())/float64(l.spans), "disk-B/span")
			b.ReportMetric(float64(info.Size())/float64(l.turns), "disk-B/turn")
		})
		b.Run(name+"/floor", func(b *testing.B) {
			if db == "" {
				b.Skip("run agent_session first: the floor inserts what that stored")
			}
			decode, insert := time.Duration(0), time.Duration(0)
			rounds := 0
			for b.Loop() {
				decode += decodeAlone(b, l)
				insert += insertAlone(b, db, payload)
				rounds++
			}
			n := float64(rounds * l.spans)
			b.ReportMetric(float64(max(decode, insert).Nanoseconds())/n, "ns/op")
			b.ReportMetric(float64(decode.Nanoseconds())/n/1e3, "decode-µs/span")
			b.ReportMetric(float64(insert.Nanoseconds())/n/1e3, "insert-µs/span")
		})
	}
}

func startBench(b *testing.B, bin, db string) (addr string, stop func()) {
	b.Helper()
	addr = freePort(b)
	config := filepath.Join(b.TempDir(), "config.yaml")
	must.Do(b, os.WriteFile(config, fmt.Appendf(nil, benchConfig, addr, freePort(b), db), 0o600))
	log := &lockedBuffer{}
	cmd := exec.Command(bin, "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	must.Do(b, cmd.Start())
	deadline := time.Now().Add(30 * time.Second)
	for ; !strings.Contains(log.String(), "Everything is ready"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			b.Fatalf("the collector does not start\n%s", log)
		}
	}
	return addr, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			b.Fatalf("the collector did not end well: %v\n%s", err, log)
		}
	}
}

// decodeAlone is how long pdata takes to read the messages, one after the other.
func decodeAlone(b *testing.B, l load) time.Duration {
	b.Helper()
	start := time.Now()
	for _, m := range l.messages {
		must.Get((&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(m))(b)
	}
	return time.Since(start)
}

// insertAlone is how long it takes to write the rows of db again, a transaction a message, into a table of the same
// columns with nothing but its key; with payload, to hash and compress the bodies and write those of the packs too.
func insertAlone(b *testing.B, db string, payload bool) time.Duration {
	b.Helper()
	ctx := b.Context()
	src := must.Get(sql.Open("sqlite", "file:"+db+"?mode=ro"))(b)
	defer func() { _ = src.Close() }()
	dst := must.Get(sql.Open("sqlite", filepath.Join(b.TempDir(), "bare.db")))(b)
	defer func() { _ = dst.Close() }()
	conn := must.Get(dst.Conn(ctx))(b)
	defer func() { _ = conn.Close() }()
	exec := func(text string) {
		must.Get(conn.ExecContext(ctx, text))(b)
	}
	exec("PRAGMA page_size=8192; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16384; " +
		"PRAGMA wal_autocheckpoint=2048; PRAGMA temp_store=MEMORY; PRAGMA secure_delete=ON")
	tables := []string{"rows"}
	if payload {
		tables = append(tables, "packs", "blocks")
	}
	var took time.Duration
	for _, table := range tables {
		var ddl string
		must.Do(b, src.QueryRowContext(ctx, `SELECT sql FROM sqlite_schema WHERE name = ?`, table).Scan(&ddl))
		exec(ddl)
		rows := must.Get(src.QueryContext(ctx, "SELECT * FROM "+table))(b)
		columns, _ := rows.Columns()
		var all [][]any
		for rows.Next() {
			values := make([]any, len(columns))
			into := make([]any, len(columns))
			for i := range values {
				into[i] = &values[i]
			}
			must.Do(b, rows.Scan(into...))
			all = append(all, values)
		}
		must.Do(b, errors.Join(rows.Err(), rows.Close()))
		st, err := conn.PrepareContext(ctx, "INSERT INTO "+table+" VALUES (?"+strings.Repeat(",?", len(columns)-1)+")")
		must.Do(b, err)
		start := time.Now()
		for len(all) > 0 {
			n := min(benchSpans, len(all))
			exec("BEGIN IMMEDIATE")
			for _, values := range all[:n] {
				must.Get(st.ExecContext(ctx, values...))(b)
			}
			exec("COMMIT")
			all = all[n:]
		}
		took += time.Since(start)
		_ = st.Close()
	}
	if payload {
		took += hashAndCompress(b, db)
	}
	return took
}

// hashAndCompress is how long it takes to hash each body of db and to compress them in stretches.
func hashAndCompress(b *testing.B, db string) time.Duration {
	b.Helper()
	s := must.Get(sqlitestore.OpenReadOnly(b.Context(), db))(b)
	defer func() { _ = s.Close() }()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
	must.Do(b, err)
	var took time.Duration
	for sum, err := range s.Sessions(b.Context(), store.Query{}) {
		must.Do(b, err)
		var bodies []string
		for block, err := range s.Blocks(b.Context(), sum.Key) {
			must.Do(b, err)
			bodies = append(bodies, block.Body)
		}
		start := time.Now()
		var stretch, out []byte
		for _, body := range bodies {
			_ = sha256.Sum256([]byte(body))
			if stretch = append(stretch, body...); len(stretch) >= 64<<10 {
				out = enc.EncodeAll(stretch, out[:0])
				stretch = stretch[:0]
			}
		}
		_ = enc.EncodeAll(stretch, out[:0])
		took += time.Since(start)
	}
	return took
}
