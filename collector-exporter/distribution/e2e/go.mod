module github.com/otelagent/otelagent/collector-exporter/distribution/e2e

go 1.26.0

require (
	github.com/otelagent/otelagent v0.0.0
	go.opentelemetry.io/collector/pdata v1.67.0
	go.yaml.in/yaml/v3 v3.0.6
)

replace github.com/otelagent/otelagent => ../../..
