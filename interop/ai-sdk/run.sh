#!/bin/sh
# Installs both releases of the AI SDK, then
#   run.sh [check]            compares the committed fixtures with a fresh run and lets the SDK judge them
#   run.sh generate           writes the fixtures anew
#   run.sh validate FILE...   lets the SDK judge the parts of guide exports (json or jsonl)
#   run.sh same A B           tells whether two guide exports have the same parts, to the letter
set -eu
mode=${1:-check}
[ $# -eq 0 ] || shift

here=$(cd "$(dirname "$0")" && pwd)
fixtures=$(cd "$here/../.." && pwd)/dialects/guide/testdata/ai-sdk
if ! [ "$here/node_modules/.package-lock.json" -nt "$here/package-lock.json" ]; then
    npm ci --prefix "$here" --ignore-scripts --loglevel=error >&2
    touch "$here/node_modules/.package-lock.json"
fi
case $mode in
check)
    node "$here/generate.mjs" --check "$fixtures"
    node "$here/same.mjs" "$fixtures/v6.json" "$fixtures/v6.jsonl"
    node "$here/same.mjs" "$fixtures/v7.json" "$fixtures/v7.jsonl"
    node "$here/validate.mjs" "$fixtures"/*.json "$fixtures"/*.jsonl
    ;;
generate) node "$here/generate.mjs" "$fixtures" ;;
validate | same) node "$here/$mode.mjs" "$@" ;;
*)
    echo "usage: run.sh [check | generate | validate FILE... | same A B]" >&2
    exit 2
    ;;
esac
