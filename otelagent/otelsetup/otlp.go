package otelsetup

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"

	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Protocol is a transport of OTLP, as OTEL_EXPORTER_OTLP_PROTOCOL spells it.
type Protocol string

// The protocols.
const (
	// GRPC is OTLP over gRPC, by default to localhost:4317 without TLS.
	GRPC Protocol = "grpc"
	// HTTP is OTLP as protobuf over HTTP, by default to http://localhost:4318/v1/traces.
	HTTP Protocol = "http/protobuf"
)

// The exporters of OTLP read their OTEL_EXPORTER_OTLP_* variables themselves. This package reads those that choose
// between exporters, and whether there is an endpoint at all: the exporters' own default is TLS.
const (
	tracesPath  = "/v1/traces"
	metricsPath = "/v1/metrics"
	tracesEnv   = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	metricsEnv  = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT"
	generalEnv  = "OTEL_EXPORTER_OTLP_ENDPOINT"
)

func disabled() bool { return strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") }

// protocolOf returns the protocol of a signal, TRACES or METRICS; empty where the environment switches the signal off.
func (c *config) protocolOf(signal string) (Protocol, error) {
	name := "OTEL_" + signal + "_EXPORTER"
	kinds := strings.FieldsFunc(os.Getenv(name), func(r rune) bool { return r == ',' || r == ' ' })
	switch {
	case disabled() || slices.Equal(kinds, []string{"none"}):
		return "", nil
	case len(kinds) > 0 && !slices.Contains(kinds, "otlp"):
		return "", fmt.Errorf("%s=%q: want otlp or none", name, os.Getenv(name))
	}
	p := cmp.Or(c.protocol, Protocol(os.Getenv("OTEL_EXPORTER_OTLP_"+signal+"_PROTOCOL")),
		Protocol(os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL")), GRPC)
	if p != GRPC && p != HTTP {
		return "", fmt.Errorf("protocol %q of %s: want %s or %s", p, strings.ToLower(signal), GRPC, HTTP)
	}
	return p, nil
}

// openTraces returns a new exporter of spans, or that of WithExporter; nil when no spans are to be sent.
func (c *config) openTraces(ctx context.Context) (sdktrace.SpanExporter, error) {
	if c.exporter != nil {
		return c.exporter, nil
	}
	p, err := c.protocolOf("TRACES")
	if err != nil || p == "" {
		return nil, err
	}
	to := urlOf(c.endpoint, tracesEnv, p, tracesPath)
	if p == HTTP {
		return otlptracehttp.New(ctx, option(to, otlptracehttp.WithEndpointURL)...)
	}
	return otlptracegrpc.New(ctx, option(to, otlptracegrpc.WithEndpointURL)...)
}

// openMetrics returns the exporter of metrics; nil when there are to be none.
func (c *config) openMetrics(ctx context.Context) (sdkmetric.Exporter, error) {
	p, err := c.protocolOf("METRICS")
	if err != nil || p == "" {
		return nil, err
	}
	endpoint := ""
	if os.Getenv(metricsEnv) == "" { // they go where spans go
		endpoint = c.endpoint
		if c.exporter != nil || endpoint == "" && os.Getenv(generalEnv) == "" && os.Getenv(tracesEnv) != "" {
			return nil, nil
		}
		if endpoint != "" && p == HTTP {
			base, ok := strings.CutSuffix(urlOf(endpoint, "", p, tracesPath), tracesPath)
			if !ok {
				return nil, nil // the path is that of spans
			}
			endpoint = base + metricsPath
		}
	}
	to := urlOf(endpoint, metricsEnv, p, metricsPath)
	if p == HTTP {
		return otlpmetrichttp.New(ctx, option(to, otlpmetrichttp.WithEndpointURL)...)
	}
	return otlpmetricgrpc.New(ctx, option(to, otlpmetricgrpc.WithEndpointURL)...)
}

// completeEndpoint makes a URL of the endpoint. The exporters log a wrong one, and send to their default.
func (c *config) completeEndpoint() error {
	if c.endpoint == "" {
		return nil
	}
	if !strings.Contains(c.endpoint, "://") {
		c.endpoint = "http://" + c.endpoint
	}
	u, err := url.Parse(c.endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("endpoint %q: want http://HOST:PORT or https://HOST:PORT", c.endpoint)
	}
	return nil
}

// urlOf returns the URL of an endpoint for an exporter: over HTTP with the path of the signal where it has none.
// Without an endpoint it is a collector on this machine, and empty where the exporter reads it from the environment.
func urlOf(endpoint, env string, p Protocol, path string) string {
	switch {
	case endpoint != "":
	case os.Getenv(env) != "" || os.Getenv(generalEnv) != "":
		return ""
	case p == HTTP:
		endpoint = "http://localhost:4318"
	default:
		endpoint = "http://localhost:4317"
	}
	if u, err := url.Parse(endpoint); err == nil && p == HTTP && strings.Trim(u.Path, "/") == "" {
		return u.JoinPath(path).String()
	}
	return endpoint
}

// option returns the option of an exporter for a URL; none without a URL.
func option[O any](url string, with func(string) O) []O {
	if url == "" {
		return nil
	}
	return []O{with(url)}
}
