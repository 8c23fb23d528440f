#!/bin/sh
# Installs the agents and frameworks, then runs them against a scripted model:
#   run.sh [pinned] [FLAG...]   the versions of package-lock.json and requirements.txt
#   run.sh newest [FLAG...]     the newest versions that the registries resolve; a failed test is a format that changed
#   run.sh update               pins the versions that package.json and requirements.in name
# FLAGs go to go test. AGENTS_CACHE names the folder of what is installed, else bin; it needs 1.3 GB. Each failed test leaves a
# recording of the OTLP requests there.
set -eu
mode=${1:-pinned}
[ $# -eq 0 ] || shift
here=$(cd "$(dirname "$0")" && pwd)
tools=${AGENTS_CACHE:-$here/bin}/$mode

uv() { # the resolver; pip needs minutes to find versions that fit each other
    [ -x "$tools/uv/bin/uv" ] || { python3 -m venv "$tools/uv" && "$tools/uv/bin/pip" install --quiet --disable-pip-version-check uv==0.13.9; }
    "$tools/uv/bin/uv" "$@"
}
# fresh STAMP FILE...: whether STAMP is younger than each file.
fresh() {
    stamp=$1
    shift
    for file; do [ "$stamp" -nt "$file" ] || return 1; done
}
node_packages() { # npm COMMAND... (not ci: a platform that a registry lacks must not stop it); OpenCode's own script puts its program in place
    npm "$@" --prefix "$tools" --ignore-scripts --loglevel=error --no-audit --no-fund >&2
    node "$tools/node_modules/opencode-ai/postinstall.mjs" >&2
    touch "$tools/node.installed"
}
python_packages() { # REQUIREMENTS
    [ -x "$tools/venv/bin/python" ] || uv venv --quiet "$tools/venv"
    uv pip install --quiet --python "$tools/venv" -r "$1" >&2
    touch "$tools/python.installed"
}

mkdir -p "$tools"
case $mode in
pinned)
    if ! fresh "$tools/node.installed" "$here/package-lock.json"; then
        cp "$here/package.json" "$here/package-lock.json" "$tools"
        node_packages install
    fi
    fresh "$tools/python.installed" "$here/requirements.txt" || python_packages "$here/requirements.txt"
    ;;
newest)
    # What package.json pins beside the programs, it pins because those do not resolve together otherwise.
    cp "$here/package.json" "$tools"
    node_packages install @openai/codex@latest @google/gemini-cli@latest opencode-ai@latest ai@latest @ai-sdk/otel@latest \
        @ai-sdk/openai-compatible@latest
    sed 's/==/>=/' "$here/requirements.in" >"$tools/requirements.in"
    uv pip compile --quiet --upgrade --no-header --no-annotate "$tools/requirements.in" -o "$tools/requirements.txt" >/dev/null
    python_packages "$tools/requirements.txt"
    ;;
update)
    npm install --prefix "$here" --package-lock-only --ignore-scripts --no-audit --no-fund
    uv pip compile --quiet --upgrade --no-header --no-annotate --universal "$here/requirements.in" -o "$here/requirements.txt" >/dev/null
    exit
    ;;
*)
    sed -n '2,7s/^# //p' "$0" >&2
    exit 2
    ;;
esac
cp "$here/programs/vercel.mjs" "$tools" # Node looks for packages from the folder of the program on
AGENTS_TOOLS=$tools OTELAGENT=${OTELAGENT:-$here/../../bin/otelagent} go -C "$here" test -count=1 -timeout 10m "$@" ./...
