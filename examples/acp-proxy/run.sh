#!/bin/sh
# Lets an editor start an agent through `otelagent acp` (OTELAGENT, else the one on the PATH). Node 20; the first run installs the SDK.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if ! [ "$here/node_modules/.package-lock.json" -nt "$here/package-lock.json" ]; then
    npm ci --prefix "$here" --ignore-scripts --loglevel=error >&2
    touch "$here/node_modules/.package-lock.json"
fi
node "$here/editor.mjs" "${OTELAGENT:-otelagent}" acp --capture content -- node "$here/agent.mjs"
