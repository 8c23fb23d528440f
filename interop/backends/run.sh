#!/bin/sh
# Builds and installs the real servers where they are missing, then
#   run.sh jaeger           prints the path of a built Jaeger
#   run.sh phoenix          prints the path of the Python that has Phoenix installed
#   run.sh test [FLAG...]   runs the tests (go test); needs $OTELAGENT or bin/otelagent, a built otelagent
#   run.sh [check]          all of it
set -eu
mode=${1:-check}
[ $# -eq 0 ] || shift

here=$(cd "$(dirname "$0")" && pwd)

jaeger() {
    if ! [ "$here/bin/jaeger" -nt "$here/jaeger/go.mod" ]; then
        echo "building Jaeger from its module: some minutes, once" >&2
        mkdir -p "$here/bin"
        begin=$(date +%s)
        CGO_ENABLED=0 GOFLAGS='' go -C "$here/jaeger" build -trimpath -buildvcs=false -ldflags '-s -w' -o "$here/bin/jaeger" \
            github.com/jaegertracing/jaeger/cmd/jaeger
        echo "built Jaeger in $(($(date +%s) - begin)) s" >&2
    fi
    echo "$here/bin/jaeger"
}
phoenix() {
    if ! [ "$here/venv/installed" -nt "$here/phoenix/requirements.txt" ]; then
        echo "installing Phoenix from its Python packages, once" >&2
        begin=$(date +%s)
        rm -rf "$here/venv"
        python3 -m venv "$here/venv"
        "$here/venv/bin/pip" install --quiet --no-compile --no-deps --only-binary :all: -r "$here/phoenix/requirements.txt" >&2
        touch "$here/venv/installed"
        echo "installed Phoenix in $(($(date +%s) - begin)) s" >&2
    fi
    echo "$here/venv/bin/python"
}
tests() {
    phoenix >/dev/null & # beside the build, which has one long package at its end
    installing=$!
    JAEGER=$(jaeger)
    wait "$installing"
    PHOENIX_PYTHON=$(phoenix)
    export JAEGER PHOENIX_PYTHON
    go -C "$here" test -count=1 -timeout 10m "$@" ./...
}
case $mode in
jaeger) jaeger ;;
phoenix) phoenix ;;
test) tests "$@" ;;
check) tests -v ;;
*)
    echo "usage: run.sh [check | test FLAG... | jaeger | phoenix]" >&2
    exit 2
    ;;
esac
