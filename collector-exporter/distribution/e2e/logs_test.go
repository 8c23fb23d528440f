package e2e

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/trace"

	"github.com/otelagent/otelagent/agenttest"
	"github.com/otelagent/otelagent/agenttest/phifixtures"
	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/store"
	"github.com/otelagent/otelagent/backend/store/sqlitestore"
	"github.com/otelagent/otelagent/dialects/event"
	"github.com/otelagent/otelagent/dialects/phi"
	"github.com/otelagent/otelagent/internal/writer"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/spans"
)

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
					out[fmt.Sprintf("%s/%s/%d/%d", s.ID, run.ID, turn.Index, q.Attempt)] = fmt.Sprintf("%v %v %v %s", p.Exact, p.Missing, p.Defects, p.Bytes)
				}
			}
		}
	}
	return out
}

// testLogRecords: content that the OpenTelemetry SDK sends as log records gives the requests that span events give.
func testLogRecords(t *testing.T, bin string) {
	defer step(t, "spans and log records of recordings")()
	db := filepath.Join(t.TempDir(), "sessions.db")
	c := start(t, bin, db)

	exp, err := otlploggrpc.New(t.Context(), otlploggrpc.WithEndpoint(c.grpc), otlploggrpc.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	counted := &countingExporter{Exporter: exp}
	provider := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(counted)))
	logger := provider.Logger("e2e")

	want := map[string]string{}
	records := 0
	for i, f := range phifixtures.All(t, repo) {
		if !strings.Contains(f.Name, "parallel") && !strings.Contains(f.Name, "multi-turn") && !strings.Contains(f.Name, "compaction") {
			continue
		}
		p := agenttest.New(t, writer.WithDerivedIDs, otelagent.WithCapture(otelagent.CaptureContent))
		rec := event.NewRecorder(p.Tracer())
		for ev, err := range phi.Events(bytes.NewReader(f.Events)) {
			if err != nil {
				t.Fatal(err)
			}
			rec.Record(t.Context(), ev)
		}
		rec.Close(t.Context())
		batch := p.Batch()
		for key, q := range requests(batch.Rows, batch.Blocks) {
			want[key] = q
		}
		for _, raw := range p.OTLP() {
			td, err := (&ptrace.ProtoUnmarshaler{}).UnmarshalTraces(raw)
			if err != nil {
				t.Fatal(err)
			}
			bare := ptrace.NewTraces()
			td.CopyTo(bare)
			eachSpan(bare, func(s ptrace.Span) { s.Events().RemoveIf(func(ptrace.SpanEvent) bool { return true }) })
			if i%2 == 0 { // in both orders
				c.send(t, bare)
			}
			records += emit(t.Context(), logger, td)
			if i%2 != 0 {
				c.send(t, bare)
			}
		}
	}
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if counted.failed != nil || counted.n != records {
		t.Errorf("%d of %d records sent, %v", counted.n, records, counted.failed)
	}
	c.stop(t, true)

	s, err := sqlitestore.OpenReadOnly(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var rows []session.Row
	var blocks []session.Block
	for sum, err := range s.Sessions(t.Context(), store.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		for row, err := range s.Rows(t.Context(), sum.Key) {
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, row)
		}
		for block, err := range s.Blocks(t.Context(), sum.Key, nil) {
			if err != nil {
				t.Fatal(err)
			}
			blocks = append(blocks, block)
		}
	}
	got := requests(rows, blocks)
	for key, q := range want {
		if !strings.HasPrefix(q, "true [] [] {") || got[key] != q {
			t.Errorf("%s: got %.300s, want %.300s", key, got[key], q)
		}
	}
	if len(want) == 0 || len(got) != len(want) {
		t.Errorf("%d requests, want %d\n%s", len(got), len(want), c.log)
	}
	t.Logf("%d requests out of %d log records and %d rows", len(got), records, len(rows))
}

// countingExporter counts what was sent: a provider does not report it to its caller.
type countingExporter struct {
	sdklog.Exporter
	n      int
	failed error
}

func (e *countingExporter) Export(ctx context.Context, records []sdklog.Record) error {
	err := e.Exporter.Export(ctx, records)
	if err != nil {
		e.failed = err
		return err
	}
	e.n += len(records)
	return nil
}

func eachSpan(td ptrace.Traces, f func(ptrace.Span)) {
	for _, rs := range td.ResourceSpans().All() {
		for _, ss := range rs.ScopeSpans().All() {
			for _, s := range ss.Spans().All() {
				f(s)
			}
		}
	}
}

// address are the attributes of a span that its log records need.
var address = []attribute.Key{
	spans.SessionIDKey, spans.RunIDKey, spans.RunStartKey, spans.TurnIndexKey, spans.ToolCallIDKey, spans.OrdinalKey,
}

// emit sends the span events of td as log records, and says how many there were.
func emit(ctx context.Context, logger log.Logger, td ptrace.Traces) (n int) {
	eachSpan(td, func(s ptrace.Span) {
		ctx := trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID(s.TraceID()), SpanID: trace.SpanID(s.SpanID()), TraceFlags: trace.FlagsSampled,
		}))
		for _, e := range s.Events().All() {
			var r log.Record
			r.SetEventName(e.Name())
			r.SetTimestamp(e.Timestamp().AsTime())
			r.SetObservedTimestamp(time.Now())
			r.AddAttributes(keyValues(e.Attributes(), func(attribute.Key) bool { return true })...)
			r.AddAttributes(keyValues(s.Attributes(), func(k attribute.Key) bool { return slices.Contains(address, k) })...)
			logger.Emit(ctx, r)
			n++
		}
	})
	return n
}

func keyValues(m pcommon.Map, keep func(attribute.Key) bool) []attribute.KeyValue {
	var out []attribute.KeyValue
	for k, v := range m.All() {
		key := attribute.Key(k)
		if !keep(key) {
			continue
		}
		switch v.Type() {
		case pcommon.ValueTypeInt:
			out = append(out, key.Int64(v.Int()))
		case pcommon.ValueTypeBool:
			out = append(out, key.Bool(v.Bool()))
		case pcommon.ValueTypeDouble:
			out = append(out, key.Float64(v.Double()))
		case pcommon.ValueTypeBytes:
			out = append(out, key.ByteSlice(v.Bytes().AsRaw()))
		case pcommon.ValueTypeSlice:
			var l []string
			for _, e := range v.Slice().All() {
				l = append(l, e.Str())
			}
			out = append(out, key.StringSlice(l))
		default:
			out = append(out, key.String(v.AsString()))
		}
	}
	return out
}
