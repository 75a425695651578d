#!/usr/bin/env bash
# Builds the wheel of the Python package, installs it into a fresh virtual environment under python/target, and tests it
# there: its own tests and its types. Tests of what each Python does in its own way also run on the oldest and the newest
# (scripts/fetch-pythons.sh); where those cannot be fetched, the last line says so. Needs python3 and cargo. The tests get
# their servers from the test kit of the tests in Rust (testkit/src/serve).
#
#   STRICT=1          skips nothing
#   PEERS=1           also runs the test suites of the locks that it replaces
#   PROFILE=release   builds what people install, which takes minutes (default: dev)
#   PYTEST='-k gil'   arguments for pytest, after those that are given here
set -euo pipefail
cd "$(dirname "$0")/../python"

profile=${PROFILE:-dev}
environment=target/environment
wheels=target/wheels-$profile

skipped() {
    printf '*** NOT CHECKED: %s\n' "$1" >&2
    [ -z "${STRICT:-}" ]
}

if ! python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    skipped "the Python package: there is no python3 (3.9 or newer, with venv)"
    exit
fi

# With the builds of dependencies that are there.
CARGO_TARGET_DIR=$(cd .. && pwd)/target
export CARGO_TARGET_DIR

install() { "$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"; }

maturin=$(../scripts/ensure-maturin.sh)/maturin
rm -rf "$wheels"
"$maturin" build --quiet --locked --profile "$profile" --out "$wheels"

# This build goes on while packages are fetched.
read -ra rust <../scripts/packages.txt
rust+=(--manifest-path ../Cargo.toml --test histories)
cargo build --quiet "${rust[@]}" -p fairlock-testkit --bin fairlock-testkit &
build=$!
export FAIRLOCK_TESTKIT=$CARGO_TARGET_DIR/debug/fairlock-testkit

# A fresh environment, so that the wheel is tested as people get it: the tests see nothing of this folder but tests/.
python3 -m venv --clear "$environment"
install "$environment" --requirement requirements-test.txt --requirement requirements-examples.txt
install "$environment" --no-deps "$wheels"/*.whl

python=$PWD/$environment/bin/python
# Without pip they find their packages in a folder. The wheel is one for all.
packages=$PWD/target/packages
left_out=
if FAIRLOCK_PYTHONS=$(../scripts/fetch-pythons.sh | paste -sd :); then
    rm -rf "$packages"
    install "$environment" --target "$packages" --no-deps --requirement requirements-oldest.txt "$wheels"/*.whl
    export FAIRLOCK_PYTHONS FAIRLOCK_PACKAGES=$packages
else
    unset FAIRLOCK_PYTHONS
    left_out="the Python package on the oldest and the newest Python, which are not here and cannot be fetched"
fi

"$python" -m mypy --strict -p fairlock
"$python" -m mypy --strict tests
"$python" -m pyright --pythonpath "$python" fairlock
wait $build
failed=0
# From an empty folder: whatever the tests start would find this one's package first, which has no library in it.
rm -rf target/elsewhere
mkdir -p target/elsewhere
# shellcheck disable=SC2086
(cd target/elsewhere && ../environment/bin/pytest -c ../../pyproject.toml --rootdir ../.. ../../tests -n 4 ${PYTEST:-}) || failed=1
# The rules of docs/protocol.md, and processes of the package and of Rust in one queue. Not beside the tests: those that
# start processes would wait for a core for half a minute.
FAIRLOCK_PYTHON=$python cargo test "${rust[@]}" python::the_python_package_conforms -- --ignored || failed=1
[ -z "$left_out" ] || skipped "$left_out" || failed=1
exit $failed
