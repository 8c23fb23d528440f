// Package otelsetup installs an OpenTelemetry SDK that suits agent sessions, for programs that have none: OTLP over
// gRPC or HTTP for spans and metrics, limits that keep large span events whole, ids derived from addresses where the
// tracer asks for them, and counts of the spans that were delivered, refused and dropped.
//
//	p, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("my-agent"))
//	if err != nil { … }
//	defer p.Shutdown(ctx)
//	tracer := otelagent.NewTracer()
//
// The standard OTEL_* environment variables are honored: the OTLP exporters read theirs themselves, and this package
// reads only those that choose an exporter, a protocol and the size of the queue. It does not use
// contrib/exporters/autoexport, which links the Prometheus client and exporter, the log exporters and the console
// exporters into every program, and whose OTEL_METRICS_EXPORTER=prometheus opens a port.
//
// A program that has a provider of its own keeps it and wraps the exporter, because content makes batches larger than
// receivers accept:
//
//	exporter = otelsetup.WrapExporter(exporter)
package otelsetup
