#!/bin/sh
# Installs and builds what is needed, then
#   run.sh single COMMAND...    runs a command with one server 18.16.1
#   run.sh chdb COMMAND...      ... with libchdb 26.7 behind a part of the HTTP interface
#   run.sh cluster COMMAND...   ... with four servers 18.16.1, two shards of two replicas, and a ZooKeeper
#   run.sh test RING...         runs the store's own tests (go test ./store/clickhousestore) on each of these rings
#   run.sh faults               collectors without affinity, replicas and ZooKeeper killed; needs $OTELAGENT, a built otelagent
#   run.sh [check]              all of it
# The command finds the DSN in OTELAGENT_TEST_CLICKHOUSE (README.md).
set -eu
mode=${1:-check}
[ $# -eq 0 ] || shift

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)

install() { # PROGRAM PACKAGE...: the tests use Debian's programs where Debian puts them
    [ ! -e "$1" ] || return 0
    shift
    apt-get update -q >&2
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "$@" >&2
}
need() { # RING
    case $1 in
    chdb)
        if ! [ "$here/node_modules/.package-lock.json" -nt "$here/package-lock.json" ]; then
            npm ci --prefix "$here" --ignore-scripts --loglevel=error >&2
            touch "$here/node_modules/.package-lock.json"
        fi
        ;;
    single) install /usr/sbin/clickhouse-server clickhouse-server ;;
    cluster)
        install /usr/sbin/clickhouse-server clickhouse-server
        install /usr/share/java/zookeeper.jar zookeeper
        ;;
    *)
        echo "there is no ring $1" >&2
        exit 2
        ;;
    esac
}
with() { # RING COMMAND...
    need "$1"
    CGO_ENABLED=0 go -C "$here" build -o bin/ . ./chdb
    "$here/bin/clickhouse" -home "$here" "$@"
}
conformance() { # RING [FLAG...]
    ring=$1
    shift
    (cd "$root" && with "$ring" go test -count=1 -timeout 10m "$@" ./store/clickhousestore)
}
faults() {
    need cluster
    need chdb
    CGO_ENABLED=0 go -C "$here" build -o bin/ ./chdb
    (cd "$here" && go test -count=1 -v -timeout 10m ./...)
}
mkdir -p "$here/bin"
case $mode in
single | chdb | cluster)
    [ $# -gt 0 ] || { echo "$mode needs a command" >&2; exit 2; }
    with "$mode" "$@"
    ;;
test) for ring in "$@"; do conformance "$ring"; done ;;
faults) faults ;;
check)
    # Where each table costs a statement on four servers, or one statement waits for the other, long tests are left to `test`.
    conformance single
    conformance chdb -short
    conformance cluster -short
    faults
    ;;
*)
    echo "usage: run.sh [check | faults | test RING... | single COMMAND... | chdb COMMAND... | cluster COMMAND...]" >&2
    exit 2
    ;;
esac
