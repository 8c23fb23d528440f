// Package otelsetup installs an OpenTelemetry SDK for programs that have none: OTLP over gRPC or HTTP for spans and
// metrics, limits that keep large span events whole, ids derived from addresses where the tracer asks for them, and
// counts of the spans that were delivered and dropped.
//
//	p, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("my-agent"))
//	if err != nil { … }
//	defer p.Shutdown(ctx)
//	tracer := otelagent.NewTracer()
//
// The standard OTEL_* environment variables are honored. The package does not use contrib/exporters/autoexport, which
// links 60 packages more into a program (exporters of logs, of Prometheus and of the console).
//
// A program that has a provider of its own keeps it and wraps the exporter with [WrapExporter].
package otelsetup
