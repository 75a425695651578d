#!/usr/bin/env bash
# Packs the npm package, installs it into a fresh folder under node/target, and tests it there: its types, its tests, its
# examples, and its conformance. On the installed Node; what each Node does in its own way also on others
# (scripts/fetch-nodes.sh). Needs node 20 or newer with npm, and cargo.
#
#   STRICT=1          skips nothing
#   PROFILE=release   builds what people install, which takes minutes (default: dev)
#   TESTS='ends'      only these files of node/test
set -euo pipefail
cd "$(dirname "$0")/.."

profile=${PROFILE:-dev}
installed=$PWD/node/target/installed
packages=$PWD/node/target/packages
left_out=

skipped() {
    printf '*** NOT CHECKED: %s\n' "$1" >&2
    [ -z "${STRICT:-}" ]
}

if ! node -e 'process.exit(+(parseInt(process.versions.node) < 20))' 2>/dev/null || ! command -v npm >/dev/null; then
    skipped "the npm package: there is no node (20 or newer) with npm"
    exit
fi

cargo build --quiet --locked --manifest-path node/Cargo.toml --profile "$profile" --target-dir target
read -ra rust <scripts/packages.txt
rust+=(--test histories)
cargo build --quiet --locked "${rust[@]}" -p fairlock-testkit --bin fairlock-testkit
export FAIRLOCK_TESTKIT=$PWD/target/debug/fairlock-testkit
platform=$(node -p 'process.platform + "-" + process.arch')
[[ $platform != linux-* ]] || platform+=$(node -p 'process.report.getReport().header.glibcVersionRuntime ? "-gnu" : "-musl"')
library=("target/${profile/dev/debug}"/libfairlock_node.{so,dylib})
[ -e "${library[0]}" ] || library=("${library[1]}")

# A fresh folder, so that the package is tested as people get it.
rm -rf "$installed" "$packages"
mkdir -p "$installed"
node node/pack.mjs "$packages" "$platform=${library[0]}" >/dev/null
cp -r node/test node/examples "$installed"
node -p "JSON.stringify({ private: true, devDependencies: require('./node/package.json').devDependencies })" >"$installed/package.json"
if ! (cd "$installed" && npm install --silent --no-audit --no-fund); then
    skipped "the npm package: what its tests need cannot be fetched from npm"
    exit
fi
(cd "$installed" && npm install --silent --no-audit --no-fund --no-save "$packages"/*.tgz)

nodes=()
if others=$(./scripts/fetch-nodes.sh); then
    mapfile -t nodes <<<"$others"
else
    left_out="the npm package on other Nodes, which cannot be fetched"
fi

cd "$installed"
failed=0
npx tsc --project test/types || failed=1
run() {
    local tests=()
    for test in "$@"; do tests+=("test/$test.test.mjs"); done
    echo "Node $(node --version): $*"
    # Two files at once on any machine: most of them wait, `blocked` for a minute, and begins first.
    node --test --test-concurrency=2 --test-reporter=dot --test-timeout=180000 "${tests[@]}" || failed=1
}
# shellcheck disable=SC2086
run ${TESTS:-blocked locks ends cancels losses failovers leaks examples}
if [ -z "${TESTS:-}" ]; then
    for node in "${nodes[@]}"; do PATH=$node:$PATH run locks ends examples; done
fi
# The rules of docs/protocol.md, and processes of the package and of Rust in one queue. Not beside the tests, whose
# processes would wait for a core for too long.
FAIRLOCK_NODE=$installed cargo test --manifest-path ../../../Cargo.toml "${rust[@]}" node:: -- --ignored || failed=1
[ -z "$left_out" ] || skipped "$left_out" || failed=1
exit $failed
