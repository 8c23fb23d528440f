module github.com/otelagent/otelagent/internal/registrygen

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/otelagent/otelagent v0.0.0-00010101000000-000000000000
	go.yaml.in/yaml/v3 v3.0.6
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	go.opentelemetry.io/otel v1.47.0 // indirect
)

replace github.com/otelagent/otelagent => ../..
