#!/bin/sh
# Builds the program on both releases of phi-core, then lets both
#   run.sh [check]          compare the committed fixtures with a fresh run
#   run.sh generate         write the fixtures anew
#   run.sh accept FILE...   read session files
# or, without building:
#   run.sh target           tell where the build goes
set -eu
mode=${1:-check}
case $mode in
check | generate | accept | target) ;;
*)
    echo "usage: run.sh [check | generate | accept FILE... | target]" >&2
    exit 2
    ;;
esac
[ $# -eq 0 ] || shift

here=$(cd "$(dirname "$0")" && pwd)
# Outside the repository: a build is some hundred megabytes. A folder for each checkout: cargo takes the same package in
# two checkouts for one, and would not notice that the sources of the second differ.
checkout=$(printf %s "$here" | cksum | cut -d ' ' -f 1)
CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${TMPDIR:-/tmp}}/phi-interop-target-$checkout
export CARGO_TARGET_DIR
if [ "$mode" = target ]; then
    echo "$CARGO_TARGET_DIR"
    exit
fi
cargo build --quiet --locked --manifest-path "$here/Cargo.toml"

status=0
for package in v0_10_0 newest; do
    program=$CARGO_TARGET_DIR/debug/phi-interop-$package
    version=$(sed -n 's/^phi-core = "=\(.*\)"$/\1/p' "$here/$package/Cargo.toml")
    fixtures=$here/../../dialects/phi/testdata/phi-core-$version
    # No leftovers of scenarios that were renamed.
    [ "$mode" != generate ] || rm -rf "$fixtures"
    [ "$mode" = accept ] || set -- "$fixtures"
    if "$program" "$mode" "$@"; then
        echo "phi-core $version: $mode ok"
    else
        echo "phi-core $version: $mode failed"
        status=1
    fi
done
if [ "$mode" != accept ]; then
    # The long sessions quote the sources of crates; cargo knows where they are.
    metadata=$CARGO_TARGET_DIR/phi-interop-metadata.json
    cargo metadata --quiet --locked --format-version 1 --manifest-path "$here/Cargo.toml" \
        --filter-platform "$(rustc -vV | sed -n 's/^host: //p')" >"$metadata"
    long=$here/../../dialects/phi/testdata/long
    [ "$mode" != generate ] || rm -f "$long"/*.zst
    # Left: $program and $version of the newest release.
    if "$program" "$mode-long" "$metadata" "$long"; then
        echo "phi-core $version: $mode of long sessions ok"
    else
        echo "phi-core $version: $mode of long sessions failed"
        status=1
    fi
fi
exit $status
