// The newest set of the Collector that resolves; go.mod is the floor. `make newest` compiles and tests the exporter with it, in a
// copy of this file, so that nothing else of it needs upkeep.
module github.com/otelagent/otelagent/collector-exporter/agentsessionexporter

go 1.26.0

require (
	github.com/cenkalti/backoff/v7 v7.0.0
	github.com/google/go-cmp v0.7.0
	github.com/stretchr/testify v1.12.1
	go.opentelemetry.io/collector/component v1.70.0
	go.opentelemetry.io/collector/component/componentstatus v0.164.0
	go.opentelemetry.io/collector/component/componenttest v0.164.0
	go.opentelemetry.io/collector/config/configopaque v1.70.0
	go.opentelemetry.io/collector/config/configoptional v1.70.0
	go.opentelemetry.io/collector/config/configretry v1.70.0
	go.opentelemetry.io/collector/confmap v1.70.0
	go.opentelemetry.io/collector/consumer v1.70.0
	go.opentelemetry.io/collector/consumer/consumererror v0.164.0
	go.opentelemetry.io/collector/exporter v1.70.0
	go.opentelemetry.io/collector/exporter/exporterhelper v0.164.0
	go.opentelemetry.io/collector/exporter/exportertest v0.164.0
	go.opentelemetry.io/collector/extension v1.70.0
	go.opentelemetry.io/collector/extension/extensionmiddleware v0.164.0
	go.opentelemetry.io/collector/pdata v1.70.0
	go.opentelemetry.io/collector/pipeline v1.70.0
	go.opentelemetry.io/collector/receiver v1.70.0
	go.opentelemetry.io/otel v1.47.0
	go.opentelemetry.io/otel/metric v1.47.0
	go.opentelemetry.io/otel/sdk v1.47.0
	go.opentelemetry.io/otel/sdk/metric v1.47.0
	go.opentelemetry.io/otel/trace v1.47.0
	go.uber.org/goleak v1.3.0
	go.uber.org/zap v1.28.0
	go.yaml.in/yaml/v3 v3.0.6
	google.golang.org/grpc v1.83.2
)

replace (
	github.com/otelagent/otelagent => ../..
	github.com/otelagent/otelagent/agenttest => ../../agenttest
	github.com/otelagent/otelagent/backend => ../../backend
	github.com/otelagent/otelagent/dialects => ../../dialects
	github.com/otelagent/otelagent/otelagent/otelsetup => ../../otelagent/otelsetup
)
