module github.com/otelagent/otelagent/instrumentation/github.com/modelcontextprotocol/go-sdk/otelmcp

go 1.26.0

require (
	github.com/modelcontextprotocol/go-sdk v1.1.0 // newest v1.8.0
	github.com/otelagent/otelagent v0.0.0
	go.opentelemetry.io/otel v1.22.0
	go.opentelemetry.io/otel/trace v1.22.0 // indirect
)

require (
	github.com/go-logr/logr v1.4.1 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/jsonschema-go v0.3.0 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.opentelemetry.io/otel/metric v1.22.0 // indirect
	golang.org/x/oauth2 v0.30.0 // indirect
)

replace github.com/otelagent/otelagent => ../../../../..
