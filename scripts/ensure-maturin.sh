#!/usr/bin/env bash
# Prints the folder of the programs of a virtual environment that has maturin, which builds the Python package. Makes
# it under python/target if it is not there.
set -euo pipefail
cd "$(dirname "$0")/../python"
builder=$PWD/target/builder
if [ ! -x "$builder/bin/maturin" ]; then
    python3 -m venv --clear "$builder"
    "$builder/bin/python" -m pip install --quiet --disable-pip-version-check "maturin>=1.7,<2" >&2
fi
echo "$builder/bin"
