#!/bin/sh
# Installs and builds what is needed, then
#   run.sh chdb COMMAND...      runs a command with libchdb 26.7 behind a part of the HTTP interface
#   run.sh test [FLAG...]       runs the store's own tests (go -C backend test ./store/clickhousestore)
#   run.sh faults               collectors without affinity, and an engine that is killed; needs $OTELAGENT, a built otelagent
#   run.sh [check]              all of it, the store's tests in their short form, and the SQL of the dashboards
# The command finds the DSN in OTELAGENT_TEST_CLICKHOUSE (README.md).
set -eu
mode=${1:-check}
[ $# -eq 0 ] || shift

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

build() {
    if ! [ "$here/node_modules/.package-lock.json" -nt "$here/package-lock.json" ]; then
        npm ci --prefix "$here" --ignore-scripts --loglevel=error >&2
        touch "$here/node_modules/.package-lock.json"
    fi
    mkdir -p "$here/bin"
    CGO_ENABLED=0 go -C "$here" build -o bin/ ./chdb
}
with() { # COMMAND...
    build
    dir=$(mktemp -d -t clickhouse-chdb-XXXXXX)
    "$here/bin/chdb" -library "$here/node_modules/@chdb/lib-linux-x64-gnu/libchdb.so" "$dir/data" >"$dir/log" 2>&1 &
    pid=$!
    trap 'kill -9 $pid' EXIT
    until addr=$(sed -n 's,^ClickHouse .* on http://,,p' "$dir/log") && [ -n "$addr" ]; do
        kill -0 $pid || { cat "$dir/log" >&2; exit 1; }
        sleep 0.1
    done
    OTELAGENT_TEST_CLICKHOUSE=clickhouse://$addr/otelagent "$@" || { echo "logs are in $dir" >&2; exit 1; }
    trap - EXIT
    kill -9 $pid
    rm -rf "$dir"
}
conformance() { # [FLAG...]
    (cd "$root/backend" && with go test -count=1 -timeout 15m -parallel 4 "$@" ./store/clickhousestore)
}
faults() {
    build
    (cd "$here" && go test -count=1 -v -timeout 4m ./...)
}
# An insert is some dozens of small files. In memory they take a third of the time, and survive the kills of processes as well.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -gt 4000000 ]; then
    export TMPDIR=/dev/shm
fi
case $mode in
chdb)
    [ $# -gt 0 ] || { echo "chdb needs a command" >&2; exit 2; }
    with "$@"
    ;;
test) conformance "$@" ;;
faults) faults ;;
check)
    conformance -short
    (cd "$root/dashboards" && with go test -count=1 -timeout 4m -run '^TestClickHouse$' .)
    faults
    ;;
*)
    echo "usage: run.sh [check | faults | test | chdb COMMAND...]" >&2
    exit 2
    ;;
esac
