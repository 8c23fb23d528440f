#!/bin/sh
# Drives the viewer of bin/otelagent in Chromium (README.md). Pictures of every page are left in screenshots/. CHROMIUM names another browser.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
if ! [ "$here/node_modules/.package-lock.json" -nt "$here/package-lock.json" ]; then
    npm ci --prefix "$here" --ignore-scripts --loglevel=error >&2
    touch "$here/node_modules/.package-lock.json"
fi
mkdir -p "$here/bin" "$here/screenshots"
go -C "$here" vet ./...
go -C "$root/examples" build -o "$here/bin/debugging" ./debugging
OTELAGENT=${OTELAGENT:-$root/bin/otelagent} go -C "$here" test -count=1 -v -timeout 8m "$@" ./...
