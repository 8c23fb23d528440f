#!/bin/sh
# Builds the agent and pipes its events into `otelagent send` (OTELAGENT, else the one on the PATH).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cargo build --quiet --locked --manifest-path "$here/Cargo.toml"
"${CARGO_TARGET_DIR:-$here/target}/debug/clark-agent-pipe" | "${OTELAGENT:-otelagent}" send --capture content -
