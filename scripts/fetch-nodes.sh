#!/usr/bin/env bash
# Prints the folder of each Node on which the package is tested besides the installed one, after fetching it from npm.
# Fails if one cannot be had.
set -euo pipefail
nodes=$(cd "$(dirname "$0")/.." && pwd)/target/nodes

for version in 22 24 latest; do
    place=$nodes/$version
    if [ ! -x "$place/node_modules/node/bin/node" ]; then
        mkdir -p "$place"
        echo '{ "private": true }' >"$place/package.json"
        (cd "$place" && npm install --silent --no-audit --no-fund "node@$version" >&2)
    fi
    "$place/node_modules/node/bin/node" --version >&2
    echo "$place/node_modules/node/bin"
done
