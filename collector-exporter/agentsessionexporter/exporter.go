package agentsessionexporter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/collector/consumer/consumererror"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.uber.org/zap"

	"github.com/otelagent/otelagent/backend/session"
	"github.com/otelagent/otelagent/backend/session/otlprow"
	"github.com/otelagent/otelagent/backend/store"
)

// Reasons for which spans and log records are rejected that decoded well.
const (
	// reasonStore is that the store refused one by itself.
	reasonStore = "store"
	// reasonSession is that its session is above limits::session_mib.
	reasonSession = "session_limit"
)

// pushTraces takes one batch of spans; see push.
func (e *sessionExporter) pushTraces(ctx context.Context, td ptrace.Traces) error {
	finds := 0
	batch, report := otlprow.Decode(td, e.decode(&finds)...)
	return e.push(ctx, e.spanSignal(), batch, report, finds)
}

// pushLogs takes one batch of log records; see push.
func (e *sessionExporter) pushLogs(ctx context.Context, ld plog.Logs) error {
	finds := 0
	batch, report := otlprow.DecodeLogs(ld, e.decode(&finds)...)
	return e.push(ctx, e.recordSignal(), batch, report, finds)
}

// decode returns the options of the decoder. It counts in finds what redaction takes out of content of other programs.
func (e *sessionExporter) decode(finds *int) []otlprow.Option {
	if e.redact == nil {
		return e.decoding
	}
	return append(slices.Clip(e.decoding), otlprow.WithRedactor(func(body string) string {
		body, n := e.redact.body(body)
		*finds += n
		return body
	}))
}

// push writes one decoded batch in one transaction. It returns nil once everything that can be stored is committed; a
// permanent error when all of it was refused because of what is in it; any other error when the whole batch should
// come again, which is safe: writes are idempotent. What is malformed is counted and left out, it fails nothing else.
func (e *sessionExporter) push(ctx context.Context, sig signal, batch session.Batch, report otlprow.Report,
	finds int) error {
	d := delivery{report: report}
	if len(batch.Rows)+len(batch.Blocks) > 0 {
		if err := e.write(ctx, &d, batch); err != nil {
			e.telemetry.ExporterAgentSessionWriteFailures.Add(ctx, 1,
				metric.WithAttributes(e.id, attribute.String("reason", failure(err))))
			// comes again whole: nothing is counted now
			return fmt.Errorf("agent_session: write %d rows: %w", len(batch.Rows), err)
		}
	}
	d.finds.block += finds
	e.count(ctx, sig, &d)
	if len(d.refused) > 0 && len(d.stored.Rows)+len(d.stored.Blocks) == 0 {
		return consumererror.NewPermanent(fmt.Errorf("agent_session: write %d rows: %w", len(batch.Rows), d.refused[0].err))
	}
	return nil
}

// write redacts the batch, puts it into the store and says in d what became of it.
func (e *sessionExporter) write(ctx context.Context, d *delivery, batch session.Batch) error {
	st, err := e.use()
	if err != nil {
		return err
	}
	d.finds = e.redact.batch(&batch)
	err = e.put(ctx, st, d, batch)
	if err == nil || !errors.Is(ctx.Err(), context.Canceled) { // a write that was cancelled says nothing of the store
		e.health(err)
	}
	return err
}

// put writes what the limits admit. When the store refuses it, the halves of its sessions are written, and theirs, so
// that the data of one keeps no other from the store.
func (e *sessionExporter) put(ctx context.Context, st *openStore, d *delivery, batch session.Batch) error {
	if err := st.sizes.full(ctx); err != nil {
		if st.sweeper != nil && errors.Is(err, store.ErrFull) {
			st.sweeper.Wake()
		}
		return err
	}
	batch, err := st.sizes.admit(ctx, d, batch)
	if err != nil || len(batch.Rows)+len(batch.Blocks) == 0 {
		return err
	}
	defer func() { // also before an error, after which the sender may never come again
		st.sizes.wrote(d.stored)
		st.worker.TouchBatch(d.stored)
	}()
	for parts, writes := []session.Batch{batch}, 0; len(parts) > 0; writes++ {
		part := parts[0]
		parts = parts[1:]
		err := e.putOnce(ctx, st, part)
		halves := []session.Batch{part}
		if errors.Is(err, store.ErrData) && writes < maxWrites {
			halves = halve(part)
		}
		switch {
		case len(halves) > 1:
			parts = append(parts, halves...)
		case errors.Is(err, store.ErrData): // the store would refuse it again
			d.refuse(reasonStore, part, err)
		case err != nil:
			return err
		default:
			join(&d.stored, part)
		}
	}
	return nil
}

func (e *sessionExporter) putOnce(ctx context.Context, st store.Store, b session.Batch) error {
	start := time.Now()
	err := st.Put(ctx, b)
	e.telemetry.ExporterAgentSessionPutDuration.Record(ctx, time.Since(start).Seconds(),
		metric.WithAttributes(e.id, attribute.String("outcome", outcome(err))))
	return err
}

// delivery is one batch and what became of it.
type delivery struct {
	report  otlprow.Report
	finds   finds
	refused []refusal
	stored  session.Batch
}

// signal is what each signal has of its own.
type signal struct {
	name                      string // in the log
	stored, foreign, rejected metric.Int64Counter
}

func (e *sessionExporter) spanSignal() signal {
	t := e.telemetry
	return signal{"span", t.ExporterAgentSessionSpansStored, t.ExporterAgentSessionSpansForeign,
		t.ExporterAgentSessionSpansRejected}
}

func (e *sessionExporter) recordSignal() signal {
	t := e.telemetry
	return signal{"log", t.ExporterAgentSessionLogRecordsStored, t.ExporterAgentSessionLogRecordsForeign,
		t.ExporterAgentSessionLogRecordsRejected}
}

// count counts one batch that will not come again, and logs what was rejected of it.
func (e *sessionExporter) count(ctx context.Context, sig signal, d *delivery) {
	t := e.telemetry
	add := func(c metric.Int64Counter, n int, attrs ...attribute.KeyValue) {
		if n > 0 {
			c.Add(ctx, int64(n), metric.WithAttributes(append(attrs, e.id)...))
		}
	}
	add(sig.stored, len(d.stored.Rows))
	add(t.ExporterAgentSessionBlocksStored, len(d.stored.Blocks))
	add(t.ExporterAgentSessionSessionsTouched, touched(d.stored))
	rest := d.report.Foreign
	for _, s := range d.report.Scopes {
		rest -= s.Records
		add(sig.foreign, s.Records, attribute.String("scope", e.scope(sig, s.Scope)))
	}
	add(sig.foreign, rest, attribute.String("scope", ""))
	add(t.ExporterAgentSessionPiecesCut, d.report.Cut)
	for reason, n := range d.report.Rejected {
		add(sig.rejected, n, attribute.String("reason", reason))
	}
	for _, r := range d.refused {
		add(sig.rejected, r.rows, attribute.String("reason", r.reason))
		add(t.ExporterAgentSessionBlocksRejected, r.blocks, attribute.String("reason", r.reason))
	}
	add(t.ExporterAgentSessionRedactions, d.finds.attribute, attribute.String("where", "attribute"))
	add(t.ExporterAgentSessionRedactions, d.finds.block, attribute.String("where", "block"))
	add(t.ExporterAgentSessionRedactions, d.finds.item, attribute.String("where", "item"))
	e.logRejected(sig, d)
}

// logRejected writes one line for each reason why something was not stored, with the first span or log record that has
// it. The line holds no content.
func (e *sessionExporter) logRejected(sig signal, d *delivery) {
	logged := map[string]bool{}
	log := func(reason string, n int, name, service string, k session.Key, trace session.TraceID, span session.SpanID,
		cause error) {
		if logged[reason] {
			return
		}
		logged[reason] = true
		e.logger.Warn("not stored", zap.String("reason", reason), zap.Int("count", n), zap.String("signal", sig.name),
			zap.String("first_name", e.redact.name(name)), zap.String("first_service", service),
			zap.String("first_session", k.ID),
			zap.Stringer("first_trace", trace), zap.Stringer("first_span", span), zap.NamedError("refused", cause))
	}
	for i := range d.report.Rejections {
		r := &d.report.Rejections[i]
		log(r.Reason, d.report.Rejected[r.Reason], r.Name, r.Service, r.Session, r.Trace, r.Span, nil)
	}
	for _, r := range d.refused {
		if row := r.first; row != nil {
			log(r.reason, r.rows, row.Kind.String(), row.Service, row.Session, row.Trace, row.Span, r.err)
		} else {
			e.logger.Warn("not stored", zap.Int("blocks", r.blocks), zap.Error(r.err))
		}
	}
}

const (
	// maxScopes bounds the instrumentation scopes that have a name in metrics and a line in the log.
	maxScopes = 100
	// otherScopes names all beyond them.
	otherScopes = "(other)"
)

// scope returns the value of the metric's attribute for an instrumentation scope that no rule describes, and logs it
// once.
func (e *sessionExporter) scope(sig signal, name string) string {
	e.scopesMu.Lock()
	defer e.scopesMu.Unlock()
	name = e.redact.name(name)
	switch {
	case e.scopes[name]:
		return name
	case len(e.scopes) == maxScopes:
		return otherScopes
	case e.scopes == nil:
		e.scopes = map[string]bool{}
	}
	e.scopes[name] = true
	e.logger.Warn("skips records of an instrumentation scope that no source describes; see the setting sources",
		zap.String("scope", name), zap.String("signal", sig.name))
	return name
}

// touched returns how many sessions a batch is of.
func touched(b session.Batch) int {
	seen := map[session.Key]struct{}{}
	for i := range b.Rows {
		seen[b.Rows[i].Session] = struct{}{}
	}
	for i := range b.Blocks {
		seen[b.Blocks[i].Session] = struct{}{}
	}
	return len(seen)
}
