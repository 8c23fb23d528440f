#!/bin/sh
# run.sh NAME [ARG...] runs an example and shows the resulting session. It starts a collector of its own on free loopback
# ports; the sessions stay in bin/examples/NAME.db. OTELAGENT names the binary, by default the one that `make build` makes,
# which is built if need be.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
names=$(cd "$here" && for f in */main.go */run.sh; do printf '%s ' "${f%/*}"; done)
root=$(dirname "$here")
name=${1:-}
case " $names " in
*" $name "*) [ -n "$name" ] && shift ;;
*) name= ;;
esac
if [ -z "$name" ]; then
    echo "usage: run.sh NAME [ARG...], where NAME is one of: $names" >&2
    exit 2
fi

if [ -z "${OTELAGENT:-}" ]; then
    OTELAGENT=$root/bin/otelagent
    [ -x "$OTELAGENT" ] || echo "building bin/otelagent, which takes a few minutes the first time" >&2
    make --no-print-directory -C "$root" build
fi
db=$root/bin/examples/$name.db
mkdir -p "$root/bin/examples"
rm -f "$db" "$db-wal" "$db-shm"

log=$(mktemp)
trap 'kill "$up" 2>/dev/null && wait "$up" 2>/dev/null || true; rm -f "$log"' EXIT
"$OTELAGENT" up --db "$db" --otlp-grpc 127.0.0.1:0 --otlp-http 127.0.0.1:0 2>"$log" &
up=$!
until grep -q ready "$log"; do
    kill -0 "$up" 2>/dev/null || { cat "$log" >&2; exit 1; }
    sleep 0.1
done
OTEL_EXPORTER_OTLP_PROTOCOL=grpc
OTEL_EXPORTER_OTLP_ENDPOINT=http://$(sed -n 's/.*gRPC on //p' "$log")
export OTELAGENT OTEL_EXPORTER_OTLP_ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL

if [ -f "$here/$name/go.mod" ]; then
    go -C "$here/$name" run . "$@"
elif [ -f "$here/$name/main.go" ]; then
    go -C "$here" run "./$name" "$@"
else
    "$here/$name/run.sh" "$@"
fi
echo
"$OTELAGENT" show last --db "$db"
