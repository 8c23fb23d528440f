package main

import (
	"errors"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/healthcheckextension"
	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/debugexporter"
	"go.opentelemetry.io/collector/exporter/otlpexporter"
	"go.opentelemetry.io/collector/exporter/otlphttpexporter"
	"go.opentelemetry.io/collector/extension"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/processor"
	"go.opentelemetry.io/collector/processor/batchprocessor"
	"go.opentelemetry.io/collector/processor/memorylimiterprocessor"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"

	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter"
	"github.com/otelagent/otelagent/collector-exporter/agentsessionexporter/otlplimitsextension"
)

// collectorVersion is the release that the components below are of. A test compares it with go.mod.
const collectorVersion = "v0.161.0"

// components is what a configuration given with --config can name. Whoever needs more builds a collector of their own
// with the same exporter (collector-exporter/distribution).
func components() (otelcol.Factories, error) {
	f := otelcol.Factories{Telemetry: newTelemetryFactory()}
	var errs [4]error
	f.Receivers, errs[0] = otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	f.Processors, errs[1] = otelcol.MakeFactoryMap[processor.Factory](
		batchprocessor.NewFactory(), memorylimiterprocessor.NewFactory())
	f.Extensions, errs[2] = otelcol.MakeFactoryMap[extension.Factory](
		filestorage.NewFactory(), healthcheckextension.NewFactory(), otlplimitsextension.NewFactory())
	f.Exporters, errs[3] = otelcol.MakeFactoryMap[exporter.Factory](
		agentsessionexporter.NewFactory(), debugexporter.NewFactory(), otlpexporter.NewFactory(),
		otlphttpexporter.NewFactory())
	return f, errors.Join(errs[:]...)
}

func buildInfo() component.BuildInfo {
	return component.BuildInfo{Command: "otelagent", Description: "Collector that keeps agent sessions",
		Version: versionText()}
}
