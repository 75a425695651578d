#!/usr/bin/env bash
# luacheck on the scripts as they are sent (.luacheckrc). Debian's package brings it. Where neither luacheck nor the right
# to install it is there, this check fails in CI; elsewhere it is skipped, and says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v luacheck >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get install -y --no-install-recommends lua-check >/dev/null 2>&1 ||
        { apt-get update >/dev/null 2>&1 && apt-get install -y --no-install-recommends lua-check >/dev/null 2>&1; } || true
fi
if ! command -v luacheck >/dev/null; then
    echo 'make lint-lua: THE SCRIPTS WERE NOT LINTED: luacheck is not installed (apt-get install lua-check)' >&2
    [ -z "${CI:-}" ] || exit 1
    exit 0
fi
luacheck --no-color lua/rendered lua/rights.lua
