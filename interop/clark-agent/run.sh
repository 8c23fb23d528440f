#!/bin/sh
# Builds the program on both releases of clark-agent, then lets both
#   run.sh [check]     compare the committed fixtures with a fresh run, to the byte
#   run.sh generate    write the fixtures anew
# or, without building:
#   run.sh target      tell where the build goes
set -eu
mode=${1:-check}
case $mode in
check | generate | target) ;;
*)
    echo "usage: run.sh [check | generate | target]" >&2
    exit 2
    ;;
esac

here=$(cd "$(dirname "$0")" && pwd)
# Outside the repository: a build is some hundred megabytes. A folder for each checkout: cargo takes the same package in
# two checkouts for one, and would not notice that the sources of the second differ.
checkout=$(printf %s "$here" | cksum | cut -d ' ' -f 1)
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${TMPDIR:-/tmp}}/clark-interop-target-$checkout
export CARGO_TARGET_DIR
if [ "$mode" = target ]; then
    echo "$CARGO_TARGET_DIR"
    exit
fi
nice cargo build --quiet --locked --manifest-path "$here/Cargo.toml"

status=0
for package in v0_2_0 newest; do
    program=$CARGO_TARGET_DIR/debug/clark-interop-$package
    version=$(sed -n 's/^clark-agent = "=\(.*\)"$/\1/p' "$here/$package/Cargo.toml")
    fixtures=$here/../../dialects/clark/testdata/clark-agent-$version
    # No leftovers of scenarios that were renamed.
    [ "$mode" != generate ] || rm -rf "$fixtures"
    if "$program" "$mode" "$fixtures"; then
        echo "clark-agent $version: $mode ok"
    else
        echo "clark-agent $version: $mode failed"
        status=1
    fi
done
exit $status
