#!/usr/bin/env bash
# Sets up the other locks under target/peers, each if its toolchain is there, and runs the benchmark with them. What
# cannot be installed is skipped with a line.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
peers=$(cd "$here/../.." && pwd)/target/peers
mkdir -p "$peers"

skip() { echo "SKIPPED: $1, because $2" >&2; }
have() { command -v "$1" >/dev/null; }

if have go; then
    (cd "$here/go" && go build -o "$peers/peer-go" .) || skip "redislock, redsync, etcd" "the build failed"
else
    skip "redislock, redsync, etcd" "there is no go"
fi

(cd "$here/rslock" && cargo build --quiet --release --locked --target-dir "$peers/cargo" \
    && cp "$peers/cargo/release/peer-rslock" "$peers/rslock") || skip rslock "the build failed"

(cd "$here/distributed-lock" && cargo build --quiet --release --locked --target-dir "$peers/cargo" \
    && cp "$peers/cargo/release/peer-distributed-lock" "$peers/distributed-lock") \
    || skip distributed-lock-redis "the build failed"

# Its server and its client.
([ -x "$peers/throttle-server/bin/throttle" ] || cargo install --quiet --locked throttle-server@0.5.13 \
    --root "$peers/throttle-server" --target-dir "$peers/cargo" \
    && cd "$here/throttle" && cargo build --quiet --release --locked --target-dir "$peers/cargo" \
    && cp "$peers/cargo/release/peer-throttle" "$peers/throttle") || skip throttle "the build failed"

# Next to its packages, where node looks for them.
if have npm; then
    (mkdir -p "$peers/node" && cp "$here"/node/* "$peers/node" && cd "$peers/node" \
        && npm ci --silent --no-audit --no-fund) || skip "npm redis-semaphore" "npm failed"
else
    skip "npm redis-semaphore" "there is no npm"
fi

if have python3 && { [ -x "$peers/venv/bin/python" ] || python3 -m venv "$peers/venv"; }; then
    "$peers/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
        --requirement "$here/python/requirements.txt" || skip "the locks of Python" "pip failed"
else
    skip "redis-fifo-lock, python-redis-lock, redis-py" "there is no python3 with venv"
fi

# The server of ZooKeeper comes with its client.
if have mvn && have javac; then
    (cd "$here/java" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$peers/java" \
        && javac -d "$peers/java/classes" -cp "$peers/java/*" Peer.java Shared.java) || skip "Redisson, Curator" "the build failed"
else
    skip "Redisson, Curator" "there is no mvn, or no javac"
fi

# Unpacked, not installed: the package would start a service.
if have etcd; then
    ln -sf "$(command -v etcd)" "$peers/etcd"
elif [ ! -x "$peers/etcd" ] && have apt-get && have dpkg-deb; then
    (cd "$peers" && apt-get download etcd-server && dpkg-deb -x etcd-server_*.deb etcd.d && rm etcd-server_*.deb \
        && ln -sf etcd.d/usr/bin/etcd etcd) >&2 || true
fi
[ -x "$peers/etcd" ] || skip "the server of etcd" "it is not in PATH, and there is no package of it"

cd "$here/../.." && exec cargo bench --bench peers -- "$@"
