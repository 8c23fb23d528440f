#!/bin/sh
# Installs Logfire's SDK where it is missing, then
#   run.sh [check]   compares what it sends with the bytes that TestLogfire reads (backend/session/otlprow/testdata/logfire.otlp)
#   run.sh write     writes those bytes
set -eu
here=$(cd "$(dirname "$0")" && pwd)
kept=$here/../../backend/session/otlprow/testdata/logfire.otlp
if ! [ "$here/venv/installed" -nt "$here/requirements.txt" ]; then
    echo "installing Logfire's SDK, once" >&2
    rm -rf "$here/venv"
    python3 -m venv "$here/venv"
    "$here/venv/bin/pip" install --quiet --no-compile --no-deps --only-binary :all: -r "$here/requirements.txt" >&2
    touch "$here/venv/installed"
fi
case ${1:-check} in
check)
    fresh=$(mktemp)
    trap 'rm -f "$fresh"' EXIT
    "$here/venv/bin/python" "$here/pending.py" "$fresh"
    cmp "$fresh" "$kept" || {
        echo "Logfire's SDK sends other bytes than those kept: read them (go -C backend test ./session/otlprow -run TestLogfire), then run.sh write" >&2
        exit 1
    }
    ;;
write) "$here/venv/bin/python" "$here/pending.py" "$kept" ;;
*)
    echo "usage: run.sh [check | write]" >&2
    exit 2
    ;;
esac
