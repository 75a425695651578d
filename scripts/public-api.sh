#!/usr/bin/env bash
# Compares the public interface of the library with docs/public-api.txt; `make public-api` (or --write) writes it anew.
#
# rustdoc's JSON changes with the compiler, so it is that of the oldest Rust that Cargo.toml names, and scripts/public-api
# reads it. Where that Rust cannot be fetched, the comparison is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
snapshot=docs/public-api.txt
oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)

skipped() {
    printf '*** NOT CHECKED: the public interface: %s\n' "$1" >&2
    [ -z "${STRICT:-}" ]
    exit
}

rustup toolchain list 2>/dev/null | grep -q "^$oldest" ||
    timeout 300 rustup toolchain install "$oldest" --profile minimal --no-self-update >&2 ||
    skipped "Rust $oldest is not here, and cannot be installed"

# All features of the library; RUSTC_BOOTSTRAP lets a stable compiler write JSON.
RUSTC_BOOTSTRAP=1 cargo "+$oldest" rustdoc --lib --features tls,metrics,redis-1,testing --target-dir target/platforms -- \
    -Z unstable-options --output-format json --cap-lints allow
found=target/platforms/public-api.txt
cargo run --quiet --package fairlock-public-api --target-dir target/platforms -- target/platforms/doc/fairlock.json |
    LC_ALL=C sort -u >"$found" # whatever file a method is in

if [ "${1:-}" = --write ]; then
    cp "$found" "$snapshot"
elif ! diff -u "$snapshot" "$found"; then
    echo "The public interface has changed. If it should, run 'make public-api' and commit $snapshot." >&2
    exit 1
fi
