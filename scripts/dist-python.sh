#!/usr/bin/env bash
# Builds what PyPI gets of the Python package: a wheel for Linux with glibc 2.17 or newer (manylinux2014), and a source
# distribution. Each is installed into a fresh virtual environment and takes a lock there. The files are in
# target/packages.
set -euo pipefail
cd "$(dirname "$0")/.."
packages=$PWD/target/packages
server=$(./scripts/ensure-redis.sh)
place=$(mktemp -d)
redis=
trap '[ -z "$redis" ] || kill "$redis"; rm -rf "$place"' EXIT
cd python

install() { "$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"; }

builder=$(../scripts/ensure-maturin.sh)
# Zig links against an old glibc, which this machine need not have.
install "${builder%/bin}" "ziglang>=0.13,<0.16"
rm -f "$packages"/fairlock-*.whl "$packages"/fairlock-*[0-9].tar.gz
PATH="$builder:$PATH" maturin build --release --locked --zig --compatibility manylinux2014 --out "$packages"
"$builder/maturin" sdist --out "$packages"

"$server" --port 0 --unixsocket "$place/redis" --dir "$place" --save "" >"$place/redis.log" &
redis=$!
until [ -S "$place/redis" ]; do kill -0 "$redis" && sleep 0.1; done
for package in "$packages"/fairlock-*.whl "$packages"/fairlock-*[0-9].tar.gz; do
    python3 -m venv "$place/environment"
    # The source is built in a profile that takes less time than the one that people use.
    MATURIN_PEP517_ARGS="--profile dev" install "$place/environment" "$package"
    said=$(cd "$place" && environment/bin/python - <<EOF
import fairlock
client = fairlock.connect("unix://$place/redis")
with client.lock("reports:nightly").acquire(timeout=30, label="job 7") as held:
    print("granted", held.token > 0)
EOF
    )
    [ "$said" = "granted True" ] || { echo "dist-python: $package said: $said" >&2 && exit 1; }
    rm -rf "$place/environment"
    echo "$package: installed, and it takes a lock"
done
