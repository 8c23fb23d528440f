package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/pdata/pcommon"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"

	"github.com/otelagent/otelagent/backend/session/otlprow"
)

// otlpFlags are the flags of send that mean something for files of spans and log records, which are sent as they are.
const otlpFlags = "db tenant endpoint protocol"

// sendOTLP sends files of spans and log records, unchanged, or keeps them in a database. It returns false where the
// files hold something else.
func (a *app) sendOTLP(ctx context.Context, o *sendOptions) (bool, error) {
	var opened sources
	defer opened.close()
	files, others, err := openOTLP(o.Files, opened.regular)
	if err != nil || len(files) == 0 {
		return err != nil, err
	}
	if len(others) > 0 {
		return true, usagef("some of the files hold spans or log records, others events: send them one after the other")
	}
	for _, flag := range o.given {
		if !strings.Contains(" "+otlpFlags+" ", " "+flag+" ") {
			return true, usagef("%s holds spans or log records, which are sent as they are: --%s has no meaning",
				o.Files[0], flag)
		}
	}
	t, err := o.target(ctx)
	if err != nil {
		return true, err
	}
	all := keptOTLP{rejected: map[string]int{}}
	put := func(d document) error { return all.put(ctx, t.store, d, otlprow.WithTenant(o.Tenant)) }
	if t.store == nil {
		put, err = t.forwarder(ctx, &all)
	}
	for _, f := range files {
		if err == nil {
			err = f.each(maxRecording, put)
		}
	}
	if err = cmp.Or(err, t.end(ctx)); err != nil {
		return true, fmt.Errorf("not delivered: %w", plainly(err, t.name))
	}
	all.say(a, strings.Join(o.Files, ", "))
	a.say("sent %s and %s to %s", count(all.spans, "span"), count(all.records, "log record"), t.name)
	return true, nil
}

// forwarder returns what sends documents to a collector, until the end of the target, and counts them.
func (t *target) forwarder(ctx context.Context, all *keptOTLP) (func(document) error, error) {
	factory := otlpexporter.NewFactory()
	if t.http {
		factory = otlphttpexporter.NewFactory()
	}
	headers := map[string]any{}
	for pair := range strings.SplitSeq(otlpEnv("HEADERS"), ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			key = strings.TrimSpace(key)
			plain, err := url.PathUnescape(strings.TrimSpace(value))
			if err != nil {
				return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_HEADERS: the value of %s is not percent-encoded text", key)
			}
			headers[key] = plain
		}
	}
	endpoint := strings.TrimSuffix(t.name, "/v1/traces") // the exporter appends the path of each signal
	if !strings.Contains(endpoint, "://") {
		endpoint = "http://" + endpoint
	}
	config := factory.CreateDefaultConfig()
	err := confmap.NewFromStringMap(map[string]any{
		"endpoint": endpoint, "headers": headers, "tls": map[string]any{"insecure": !strings.HasPrefix(t.name, "https://")},
		"sending_queue": map[string]any{"enabled": false}, "retry_on_failure": map[string]any{"enabled": false},
	}).Unmarshal(config)
	if err != nil {
		return nil, err
	}
	set := exporter.Settings{ID: component.NewID(factory.Type()), BuildInfo: buildInfo(),
		TelemetrySettings: component.TelemetrySettings{Logger: zap.NewNop(), Resource: pcommon.NewResource(),
			TracerProvider: tracenoop.NewTracerProvider(), MeterProvider: metricnoop.NewMeterProvider()}}
	traces, err := factory.CreateTraces(ctx, set, config)
	if err != nil {
		return nil, err
	}
	logs, err := factory.CreateLogs(ctx, set, config)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(traces.Start(ctx, noHost{}), logs.Start(ctx, noHost{})); err != nil {
		return nil, err
	}
	t.end = func(ctx context.Context) error { return errors.Join(traces.Shutdown(ctx), logs.Shutdown(ctx)) }
	return func(d document) error {
		all.spans, all.records = all.spans+d.traces.SpanCount(), all.records+d.logs.LogRecordCount()
		all.metrics += d.metrics
		if d.logs.LogRecordCount() > 0 {
			return logs.ConsumeLogs(ctx, d.logs)
		}
		return traces.ConsumeTraces(ctx, d.traces)
	}, nil
}

// noHost is a component.Host without extensions.
type noHost struct{}

func (noHost) GetExtensions() map[component.ID]component.Component { return nil }
