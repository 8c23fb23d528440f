// Package agenttest runs an instrumented agent loop against the whole pipeline inside the test's own process: tracer,
// SDK, OTLP bytes, decoded rows, Session tree. What a test sees is what a store would hold. Metrics can be looked at
// likewise.
//
//	p := agenttest.New(t, otelagent.WithCapture(otelagent.CaptureContent))
//	runMyAgent(ctx, p.Tracer())
//	s := p.Session()
//	figures := p.MetricsText()
package agenttest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/otelagent"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// Pipeline is one tracer and what arrived of it. Safe for concurrent use.
type Pipeline struct {
	t         testing.TB
	providers *otelsetup.Providers
	tracer    *otelagent.Tracer
	reader    *sdkmetric.ManualReader

	mu     sync.Mutex
	otlp   [][]byte
	batch  session.Batch
	report otlprow.Report
}

// New returns a pipeline that ends with the test. The options are those of its tracer; its providers are the pipeline's
// own and the process-wide ones are left alone. A failure to set up fails the test.
func New(t testing.TB, opts ...otelagent.Option) *Pipeline {
	t.Helper()
	return pipeline(t, nil, opts)
}

// NewLive is New with copies of open spans (otelagent.WithLive), which the tree shows while the agent runs. See
// [Pipeline.When].
func NewLive(t testing.TB, opts ...otelagent.Option) *Pipeline {
	t.Helper()
	return pipeline(t, []otelsetup.Option{otelsetup.WithLive(0)}, opts)
}

func pipeline(t testing.TB, setup []otelsetup.Option, opts []otelagent.Option) *Pipeline {
	t.Helper()
	p := &Pipeline{t: t, reader: sdkmetric.NewManualReader()}
	var err error
	p.providers, err = otelsetup.Setup(context.Background(), append(setup,
		otelsetup.WithExporter(otelsetup.NewFuncExporter(p.receive)),
		otelsetup.WithMetricReader(p.reader),
		otelsetup.WithSampler(sdktrace.AlwaysSample()),
		otelsetup.WithBlocking(), otelsetup.WithoutGlobal())...)
	if err != nil {
		t.Fatalf("agenttest: %v", err)
	}
	t.Cleanup(func() {
		if err := p.providers.Shutdown(context.Background()); err != nil {
			t.Errorf("agenttest: shut down: %v", err)
		}
	})
	// A provider among the options would take the spans elsewhere, so ours comes last.
	all := append(append([]otelagent.Option{}, opts...), otelagent.WithTracerProvider(p.providers.TracerProvider()),
		otelagent.WithMeterProvider(p.providers.MeterProvider()), otelagent.WithLive(p.providers.Live()))
	p.tracer = otelagent.NewTracer(all...)
	return p
}

// receive is what the exporter calls with each batch.
func (p *Pipeline) receive(_ context.Context, otlp []byte) error {
	b, report, err := otlprow.DecodeProto(otlp)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.otlp = append(p.otlp, otlp)
	p.batch.Rows = append(p.batch.Rows, b.Rows...)
	p.batch.Blocks = append(p.batch.Blocks, b.Blocks...)
	p.add(report)
	return nil
}

// add adds the report of one batch. The caller holds the lock.
func (p *Pipeline) add(r otlprow.Report) {
	p.report.Spans += r.Spans
	p.report.Stored += r.Stored
	p.report.Foreign += r.Foreign
	p.report.Cut += r.Cut
	for reason, n := range r.Rejected {
		if p.report.Rejected == nil {
			p.report.Rejected = make(map[string]int)
		}
		p.report.Rejected[reason] += n
	}
}

// Tracer returns the tracer to instrument with.
func (p *Pipeline) Tracer() *otelagent.Tracer { return p.tracer }

// Provider returns the provider under the tracer, for spans of the test's own.
func (p *Pipeline) Provider() *otelsetup.TracerProvider { return p.providers.TracerProvider() }

// flush waits until what ended has arrived.
func (p *Pipeline) flush() {
	p.t.Helper()
	if err := p.providers.ForceFlush(context.Background()); err != nil {
		p.t.Errorf("agenttest: flush: %v", err)
	}
}

// OTLP returns the bytes of every batch that arrived so far.
func (p *Pipeline) OTLP() [][]byte {
	p.t.Helper()
	p.flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([][]byte(nil), p.otlp...)
}

// Batch returns the rows and blocks of all spans that ended so far, in the order of their ends.
func (p *Pipeline) Batch() session.Batch {
	p.t.Helper()
	p.flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	return session.Batch{
		Rows:   append([]session.Row(nil), p.batch.Rows...),
		Blocks: append([]session.Block(nil), p.batch.Blocks...),
	}
}

// Report returns what became of the spans that arrived so far.
func (p *Pipeline) Report() otlprow.Report {
	p.t.Helper()
	p.flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.report
	r.Rejected = maps.Clone(r.Rejected)
	return r
}

// Sessions returns the trees of all sessions seen so far. The test fails when a span was rejected on its way.
func (p *Pipeline) Sessions() []*session.Session {
	p.t.Helper()
	b := p.Batch()
	if r := p.Report(); len(r.Rejected) > 0 {
		p.t.Errorf("agenttest: spans rejected: %v", r.Rejected)
	}
	return session.AssembleAll(b.Rows)
}

// Session returns the tree of the only session. The test ends when there is none, or more than one.
func (p *Pipeline) Session() *session.Session {
	p.t.Helper()
	all := p.Sessions()
	if len(all) != 1 {
		p.t.Fatalf("agenttest: %d sessions, want 1", len(all))
	}
	return all[0]
}

// When waits until the sessions are as wanted, by what arrives of itself: nothing is flushed. wanted gets the trees and
// what they are made of. The test ends when that takes more than ten seconds.
func (p *Pipeline) When(wanted func([]*session.Session, session.Batch) bool) {
	p.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		p.mu.Lock()
		b := session.Batch{Rows: slices.Clone(p.batch.Rows), Blocks: slices.Clone(p.batch.Blocks)}
		p.mu.Unlock()
		if wanted(session.AssembleAll(b.Rows), b) {
			return
		}
	}
	p.t.Fatal("agenttest: the sessions did not come to be as wanted")
}
