#!/bin/sh
# Judges the viewer's page (backend/web/page) by TypeScript, and compares what is vendored there with the npm packages it came from.
#   run.sh [check]   both
#   run.sh vendor    copies the packages' files into backend/web/page anew
set -eu
mode=${1:-check}

here=$(cd "$(dirname "$0")" && pwd)
vendor=$(cd "$here/../../.." && pwd)/backend/web/page/assets/vendor
if ! [ "$here/node_modules/.package-lock.json" -nt "$here/package-lock.json" ]; then
    npm ci --prefix "$here" --ignore-scripts --loglevel=error >&2
    touch "$here/node_modules/.package-lock.json"
fi

# each COMMAND: runs it with the file of a package and its copy. htm's standalone build holds Preact, with its hooks, and htm.
each() {
    "$@" "$here/node_modules/htm/preact/standalone.module.js" "$vendor/preact-htm.js"
    "$@" "$here/node_modules/htm/LICENSE" "$vendor/LICENSE.htm"
    "$@" "$here/node_modules/preact/LICENSE" "$vendor/LICENSE.preact"
}

case $mode in
check)
    each cmp
    "$here/node_modules/.bin/tsc" -p "$here/tsconfig.json"
    # What the Content-Security-Policy would refuse in a browser is refused here already.
    if grep -rnE --include='*.js' --exclude-dir=vendor 'innerHTML|outerHTML|insertAdjacentHTML|document\.write|dangerouslySetInnerHTML|\beval\(|new Function' "$vendor/.."; then
        echo "backend/web/page makes HTML or code of text" >&2
        exit 1
    fi
    echo "backend/web/page: types hold, vendored files are those of the packages"
    ;;
vendor) each cp ;;
*)
    echo "usage: run.sh [check | vendor]" >&2
    exit 2
    ;;
esac
