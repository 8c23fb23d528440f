#!/bin/sh
# Builds the program on both releases of phi-core, then checks the committed fixtures (default) or
# writes them anew (./run.sh generate).
set -eu
cd "$(dirname "$0")"
mode=${1:-check}
case $mode in check | generate) ;; *) echo "usage: run.sh [check|generate]" >&2; exit 2 ;; esac

# Outside the repository: a build is some hundred megabytes.
: "${CARGO_TARGET_DIR:=${TMPDIR:-/tmp}/phi-interop-target}"
export CARGO_TARGET_DIR
cargo build --locked

fixtures=../../otelagent/phi/testdata
status=0
for package in v0_10_0 newest; do
    version=$(sed -n 's/^phi-core = "=\(.*\)"$/\1/p' "$package/Cargo.toml")
    folder=$fixtures/phi-core-$version
    if [ "$mode" = generate ]; then
        # No leftovers of scenarios that were renamed.
        rm -rf "$folder"
    fi
    if "$CARGO_TARGET_DIR/debug/phi-interop-$package" "$mode" "$folder"; then
        echo "phi-core $version: $mode ok"
    else
        status=1
    fi
done
exit $status
