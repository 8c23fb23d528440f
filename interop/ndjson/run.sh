#!/bin/sh
# Runs both producers, then
#   run.sh [check]     compares what they say with the committed fixtures
#   run.sh generate    writes the fixtures anew
set -eu
mode=${1:-check}
case $mode in
check | generate) ;;
*)
    echo "usage: run.sh [check | generate]" >&2
    exit 2
    ;;
esac

here=$(cd "$(dirname "$0")" && pwd)
fixtures=$here/../../dialects/ndjson/testdata/producers
: "${CARGO_TARGET_DIR:=${TMPDIR:-/tmp}/ndjson-interop-target}"
export CARGO_TARGET_DIR
cargo build --quiet --locked --manifest-path "$here/Cargo.toml"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
python3 -X utf8 "$here/agent.py" >"$out/python.ndjson"
"$CARGO_TARGET_DIR/debug/otelagent-ndjson-interop" >"$out/rust.ndjson"

status=0
for name in python rust; do
    if [ "$mode" = generate ]; then
        mkdir -p "$fixtures"
        cp "$out/$name.ndjson" "$fixtures/"
    elif ! diff -u "$fixtures/$name.ndjson" "$out/$name.ndjson"; then
        echo "$name: differs from the committed fixture"
        status=1
        continue
    fi
    echo "$name: $mode ok, $(wc -l <"$out/$name.ndjson") lines"
done
exit $status
