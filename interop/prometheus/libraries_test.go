package main

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage/remote"
	"github.com/prometheus/prometheus/tsdb"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/otelagent/otelagent/internal/must"
	"github.com/otelagent/otelagent/otelagent/otelsetup"
)

// libraries are the parts of the current Prometheus of which its server is made: the receiver of OTLP metrics, the
// database and the engine that answers queries.
type libraries struct {
	db     *tsdb.DB
	engine *promql.Engine
	url    string // of the receiver
}

func startLibraries(t *testing.T) *libraries {
	t.Helper()
	opts := tsdb.DefaultOptions()
	opts.EnableExemplarStorage = true
	opts.MaxExemplars = 100_000
	db := must.Get(tsdb.Open(t.TempDir(), promslog.NewNopLogger(), nil, opts, tsdb.NewDBStats()))(t)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	registry := prometheus.NewRegistry()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute,
		Parser: parser.NewParser(parser.Options{})})
	mux := http.NewServeMux()
	mux.Handle("/api/v1/otlp/v1/metrics", remote.NewOTLPWriteHandler(promslog.NewNopLogger(), registry, db,
		func() config.Config { return config.DefaultConfig }, remote.OTLPOptions{}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return &libraries{db: db, engine: engine, url: server.URL + "/api/v1/otlp"}
}

// ask returns the values of an expression now.
func (l *libraries) ask(ctx context.Context, query string) ([]float64, error) {
	q, err := l.engine.NewInstantQuery(ctx, l.db, nil, query, time.Now())
	if err != nil {
		return nil, err
	}
	defer q.Close()
	result := q.Exec(ctx)
	if result.Err != nil {
		return nil, result.Err
	}
	var values []float64
	switch v := result.Value.(type) {
	case promql.Vector:
		for _, s := range v {
			if s.H != nil {
				values = append(values, s.H.Count)
			} else {
				values = append(values, s.F)
			}
		}
	case promql.Matrix:
		for _, s := range v {
			for _, p := range s.Floats {
				values = append(values, p.F)
			}
		}
	case promql.Scalar:
		values = append(values, v.V)
	}
	return values, nil
}

// traces returns the trace ids of the exemplars of a metric.
func (l *libraries) traces(ctx context.Context, t *testing.T, metric string) map[string]bool {
	t.Helper()
	q := must.Get(l.db.ExemplarQuerier(ctx))(t)
	named := []*labels.Matcher{labels.MustNewMatcher(labels.MatchRegexp, model.MetricNameLabel, metric)}
	found := must.Get(q.Select(0, time.Now().Add(time.Hour).UnixMilli(), named))(t)
	ids := map[string]bool{}
	for _, series := range found {
		for _, e := range series.Exemplars {
			ids[e.Labels.Get("trace_id")] = true
		}
	}
	return ids
}

// TestEveryExpressionIsAnswered asks the current engine, of the adapter's own metrics, everything that dashboards and
// documents ask.
func TestEveryExpressionIsAnswered(t *testing.T) {
	explicit, native := startLibraries(t), startLibraries(t)
	recorded, traces := tracetest.NewInMemoryExporter(), map[string]bool{}
	seen := func(int) {
		for _, s := range recorded.GetSpans() {
			traces[s.SpanContext.TraceID().String()] = true
		}
		time.Sleep(1100 * time.Millisecond) // for rates
	}
	playTo(t, otelsetup.WithExporter(recorded), explicit.url+"/v1/metrics", seen)
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "base2_exponential_bucket_histogram")
	playTo(t, otelsetup.WithExporter(tracetest.NewNoopExporter()), native.url+"/v1/metrics", seen)
	asked := 0
	for _, e := range expressions(t) {
		if e.pipeline() {
			continue // the server is asked these: a collector's names are those on its page
		}
		l := explicit
		if e.native {
			l = native
		}
		asked++
		answered(t, e, func(query string) ([]float64, error) { return l.ask(t.Context(), query) })
	}
	t.Logf("%d expressions asked", asked)

	for _, metric := range []string{"otelagent_turn_tokens.*", "otelagent_turn_duration_seconds.*"} {
		for name, l := range map[string]*libraries{"explicit": explicit, "native": native} {
			ids := l.traces(t.Context(), t, metric)
			if len(ids) == 0 {
				t.Errorf("%s, %s histograms: no exemplar", metric, name)
			}
			for id := range ids {
				if l == explicit && !traces[id] {
					t.Errorf("%s: an exemplar leads to the trace %q, which is none of those played", metric, id)
				}
			}
		}
	}
}

// answered fails unless there is a value that is a number.
func answered(t *testing.T, e expression, ask func(query string) ([]float64, error)) {
	t.Helper()
	values, err := ask(e.query())
	switch {
	case err != nil:
		t.Errorf("%s: %v\n%s", e.where, err, e.query())
	case len(values) == 0:
		t.Errorf("%s: no series\n%s", e.where, e.query())
	case !slices.ContainsFunc(values, isNumber):
		t.Errorf("%s: nothing but NaN\n%s", e.where, e.query())
	}
}

func isNumber(v float64) bool { return !math.IsNaN(v) }
