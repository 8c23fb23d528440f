#!/bin/sh
# Installs the SDK, then
#   run.sh [check]             compares the committed captures with a fresh run, validates and replays them
#   run.sh generate            writes the captures anew
#   run.sh through COMMAND...  runs every scenario with COMMAND in front of the agent's command; nothing may differ
#   run.sh validate FILE...    checks traces against the published v1 schema
#   run.sh replay FILE...      plays traces to the SDK's client
set -eu
mode=${1:-check}
[ $# -eq 0 ] || shift

here=$(cd "$(dirname "$0")" && pwd)
captures=$(cd "$here/../.." && pwd)/dialects/acp/testdata/sdk
if ! [ "$here/node_modules/.package-lock.json" -nt "$here/package-lock.json" ]; then
    npm ci --prefix "$here" --ignore-scripts --loglevel=error >&2
    touch "$here/node_modules/.package-lock.json"
fi
case $mode in
check)
    node "$here/client.mjs" --compare "$captures"
    node "$here/validate.mjs" "$captures"/*.ndjson
    node "$here/replay.mjs" "$captures"/*.ndjson
    ;;
generate)
    # No leftovers of scenarios that were renamed.
    rm -f "$captures"/*.ndjson "$captures"/*.tree.json
    node "$here/client.mjs" --tee "$captures"
    ;;
through)
    [ $# -gt 0 ] || { echo "through needs a command" >&2; exit 2; }
    node "$here/client.mjs" --compare "$captures" -- "$@"
    ;;
validate | replay) node "$here/$mode.mjs" "$@" ;;
*)
    echo "usage: run.sh [check | generate | through COMMAND... | validate FILE... | replay FILE...]" >&2
    exit 2
    ;;
esac
