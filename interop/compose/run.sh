#!/bin/sh
# Tests of docker-compose.yaml and of what it mounts, without a container engine. Builds and installs what is missing, then
#   run.sh files            the files: the loader, the rules, and each mounted file by the program that reads it
#   run.sh stack            what compose would start, as processes
#   run.sh [check]          both
# A Tempo that somebody has built takes part when TEMPO names it. It needs the distribution (make ocb-build) and bin/otelagent (make build); Jaeger comes from interop/backends.
set -eu
mode=${1:-check}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

install() { # PROGRAM PACKAGE: Debian's, whose service is not started
    command -v "$1" >/dev/null && return
    apt-get update -q >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$2" >&2
}
install promtool prometheus
install clickhouse-server clickhouse-server
install wget wget

OTELCOL=${OTELCOL:-$root/collector-exporter/distribution/_build/otelcol-agent}
OTELAGENT=${OTELAGENT:-$root/bin/otelagent}
for p in "$OTELCOL" "$OTELAGENT"; do
    [ -x "$p" ] || { echo "$p is missing: make ocb-build build" >&2; exit 1; }
done
HEALTHCHECK=$here/bin/healthcheck
CGO_ENABLED=0 go -C "$root" build -trimpath -ldflags '-s -w' -o "$HEALTHCHECK" ./collector-exporter/distribution/healthcheck
JAEGER=${JAEGER:-$("$root/interop/backends/run.sh" jaeger)}
PROMETHEUS=$(command -v prometheus) PROMTOOL=$(command -v promtool) WGET=$(command -v wget) CLICKHOUSE_SERVER=$(command -v clickhouse-server)
export OTELCOL OTELAGENT HEALTHCHECK JAEGER PROMETHEUS PROMTOOL WGET CLICKHOUSE_SERVER

tests() { go -C "$here" test -count=1 -timeout 15m "$@" ./...; }
case $mode in
files) tests -v -skip '^Test(Stack|ReadOnly)' ;;
stack) tests -v -run '^Test(Stack|ReadOnly)' ;;
check) tests -v ;;
*)
    echo "usage: run.sh [check | files | stack]" >&2
    exit 2
    ;;
esac
