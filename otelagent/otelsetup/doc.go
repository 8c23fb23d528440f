// Package otelsetup installs an OpenTelemetry SDK that suits agent sessions, for programs that have none: OTLP over gRPC or
// HTTP for spans and metrics, limits that keep large span events whole, ids derived from addresses where the tracer asks for
// them, and a count of what was delivered.
//
//	p, err := otelsetup.Setup(ctx, otelsetup.WithServiceName("my-agent"))
//	if err != nil { … }
//	defer p.Shutdown(ctx)
//	tracer := otelagent.NewTracer()
//
// The OTEL_* variables of the SDK and its OTLP exporters work as documented there. A program that has a provider of its own
// keeps it and wraps the exporter, because content makes batches larger than receivers take:
//
//	exporter = otelsetup.WrapExporter(exporter)
package otelsetup
