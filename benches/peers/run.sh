#!/usr/bin/env bash
# Sets up the other locks under target/peers, each if its toolchain is there, and runs the benchmark beside them.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
peers=$(cd "$here/../.." && pwd)/target/peers
mkdir -p "$peers"

skip() { echo "SKIPPED: $1 is not measured, $2" >&2; }

if command -v go >/dev/null; then
    (cd "$here/redislock" && go build -o "$peers/redislock" .) || skip redislock "its build failed"
else
    skip redislock "there is no go"
fi

(cd "$here/rslock" && cargo build --quiet --release --locked --target-dir "$peers/cargo" \
    && cp "$peers/cargo/release/peer-rslock" "$peers/rslock") || skip rslock "its build failed"

if command -v python3 >/dev/null && { [ -x "$peers/venv/bin/python" ] || python3 -m venv "$peers/venv"; }; then
    "$peers/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --requirement "$here/redis_fifo_lock/requirements.txt" || skip redis-fifo-lock "pip failed"
else
    skip redis-fifo-lock "there is no python3 with venv"
fi

cd "$here/../.." && exec cargo bench --bench peers -- "$@"
