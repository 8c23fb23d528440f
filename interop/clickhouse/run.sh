#!/bin/sh
# Installs and builds what is needed, then
#   run.sh single COMMAND...    runs a command with one server 18.16.1
#   run.sh chdb COMMAND...      ... with libchdb 26.7 behind a part of the HTTP interface
#   run.sh cluster COMMAND...   ... with four servers 18.16.1, two shards of two replicas, and a ZooKeeper
#   run.sh test RING...         runs the store's own tests (go -C backend test ./store/clickhousestore) on each of these rings
#   run.sh faults               collectors without affinity, replicas and ZooKeeper killed; needs $OTELAGENT, a built otelagent
#   run.sh [check]              all of it, and the SQL of the dashboards
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
# Servers of 18.16 stop taking ON CLUSTER statements for good when two replicas of a shard finish one ALTER in the same moment
# (README.md, "Traps"), about one ALTER in some hundred on a busy machine. So cases that delete over and over stay off the cluster.
many_deletes='TestStore/(hostile_ids|blocks_that_sessions_share|delete_and_others|delete_cancelled|delete_while|odd_ids|sessions_by_age|poisoned|calls_inside|^tenants$|^cancelled$|cancelled_at)'

conformance() { # RING [FLAG...]
    ring=$1
    shift
    (cd "$root/backend" && with "$ring" go test -count=1 -timeout 10m -parallel 4 "$@" ./store/clickhousestore)
}
faults() {
    need cluster
    need chdb
    CGO_ENABLED=0 go -C "$here" build -o bin/ ./chdb
    (cd "$here" && go test -count=1 -v -timeout 4m ./...)
}
mkdir -p "$here/bin"
# An insert is some dozens of small files. In memory they take a third of the time, and survive the kills of processes as well.
if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ "$(df -Pk /dev/shm | awk 'NR == 2 { print $4 }')" -gt 4000000 ]; then
    export TMPDIR=/dev/shm
fi
case $mode in
single | chdb | cluster)
    [ $# -gt 0 ] || { echo "$mode needs a command" >&2; exit 2; }
    with "$mode" "$@"
    ;;
test)
    for ring in "$@"; do
        case $ring in
        cluster) conformance cluster -parallel 2 -short -skip "$many_deletes" ;;
        *) conformance "$ring" -timeout 15m ;;
        esac
    done
    ;;
faults) faults ;;
check)
    conformance single -short
    conformance chdb -short
    (cd "$root/dashboards" && with chdb go test -count=1 -timeout 4m -run '^TestClickHouse$' .)
    conformance cluster -parallel 2 -short -skip "$many_deletes"
    faults
    ;;
*)
    echo "usage: run.sh [check | faults | test RING... | single COMMAND... | chdb COMMAND... | cluster COMMAND...]" >&2
    exit 2
    ;;
esac
