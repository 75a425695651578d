#!/usr/bin/env bash
# Compares the npm package with other locks of npm, which it installs under node/target: node/bench/compare.mjs.
set -euo pipefail
cd "$(dirname "$0")/.."
place=$PWD/node/target/bench
cargo build --quiet --locked --release --manifest-path node/Cargo.toml --target-dir node/target
cargo build --quiet --locked -p fairlock-testkit
export FAIRLOCK_TESTKIT=$PWD/target/debug/fairlock-testkit
rm -rf "$place"
mkdir -p "$place"
platform=$(node -p '`${process.platform}-${process.arch}`')
library=(node/target/release/libfairlock_node.{so,dylib})
[ -e "${library[0]}" ] || library=("${library[1]}")
[[ $platform != linux-* ]] || platform+=$(node -p 'process.report.getReport().header.glibcVersionRuntime ? "-gnu" : "-musl"')
node node/pack.mjs "$place/packages" "$platform=${library[0]}" >/dev/null
cp -r node/bench node/test "$place"
cd "$place"
echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund ./packages/*.tgz \
    redis-semaphore@5.8.0 redlock@4.2.0 redlock5@npm:redlock@5.0.0-beta.2 ioredis@5.11.1
exec node bench/compare.mjs "$@"
