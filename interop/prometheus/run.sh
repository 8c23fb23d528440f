#!/bin/sh
# Builds the collector of collector.yaml and runs what README.md tells of. Wants bin/otelagent of the project.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
mkdir -p bin
begin=$(date +%s)
if ! [ bin/collector/otelcol-signal-to-metrics -nt collector.yaml ]; then
    # The builder's version is the components': it always takes the service of its own. Folders of a run that was stopped go.
    rm -rf bin/collector
    GOBIN=$here/bin go install go.opentelemetry.io/collector/cmd/builder@v0.156.0
    bin/builder --config collector.yaml
fi
built=$(date +%s)
go test -count=1 -v -timeout 5m ./...
echo "interop/prometheus: $((built - begin)) s for the collector, $(($(date +%s) - built)) s for the rest"
