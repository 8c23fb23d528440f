#!/bin/sh
# Installs Grafana's SDK, then
#   run.sh [check]            compares the committed dashboards with what is generated, and judges them by the SDK's types
#   run.sh generate           writes the dashboards anew
#   run.sh validate FILE...   judges other dashboards
set -eu
mode=${1:-check}
[ $# -eq 0 ] || shift

here=$(cd "$(dirname "$0")" && pwd)
dashboards=$(cd "$here/../.." && pwd)/dashboards
if ! [ "$here/node_modules/.package-lock.json" -nt "$here/package-lock.json" ]; then
    npm ci --prefix "$here" --ignore-scripts --loglevel=error >&2
    touch "$here/node_modules/.package-lock.json"
fi
case $mode in
check)
    node "$here/generate.mjs" --check "$dashboards"
    node "$here/validate.mjs" "$dashboards"/*.json
    ;;
generate) node "$here/generate.mjs" "$dashboards" ;;
validate) node "$here/validate.mjs" "$@" ;;
*)
    echo "usage: run.sh [check | generate | validate FILE...]" >&2
    exit 2
    ;;
esac
