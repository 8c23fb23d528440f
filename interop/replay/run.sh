#!/bin/sh
# Installs the official Python SDKs of Anthropic and OpenAI where they are missing, then
#   run.sh [check]          judges every body that backend/session/replay makes of the captured requests in its testdata, and lets the SDKs as clients
#                           and `otelagent request --send` ask the same server; needs $OTELAGENT or bin/otelagent
#   run.sh judge FILE...    judges request bodies, each named NAME.FORM.json
set -eu
mode=${1:-check}
[ $# -eq 0 ] || shift

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
python=$here/venv/bin/python
if ! [ "$here/venv/installed" -nt "$here/requirements.txt" ]; then
    echo "installing the SDKs, once" >&2
    rm -rf "$here/venv"
    python3 -m venv "$here/venv"
    "$here/venv/bin/pip" install --quiet --no-compile --no-deps --only-binary :all: -r "$here/requirements.txt" >&2
    touch "$here/venv/installed"
fi
case $mode in
check)
    dir=$(mktemp -d)
    trap 'rm -rf "$dir"' EXIT
    go -C "$root/backend" test ./session/replay -run '^TestConvert$' -count=1 -args -bodies "$dir"
    "$python" "$here/judge.py" "$dir"/*.json
    "$python" "$here/clients.py" "${OTELAGENT:-$root/bin/otelagent}" "$dir" "$root/backend/session/replay/testdata/answers" "$root/dialects/phi/testdata/sample-session.ndjson"
    ;;
judge) "$python" "$here/judge.py" "$@" ;;
*)
    echo "usage: run.sh [check | judge FILE...]" >&2
    exit 2
    ;;
esac
