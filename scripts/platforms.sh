#!/usr/bin/env bash
# Checks that fairlock compiles with the oldest Rust that Cargo.toml names, and for other platforms. What rustup cannot
# fetch is skipped with a message, unless CI must not skip anything: STRICT=1.
set -euo pipefail
cd "$(dirname "$0")/.."

skipped() {
    printf '*** NOT CHECKED: %s\n' "$1" >&2
    [ -z "${STRICT:-}" ]
}

oldest=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
if rustup toolchain list 2>/dev/null | grep -q "^$oldest" ||
    timeout 300 rustup toolchain install "$oldest" --profile minimal --no-self-update >&2; then
    cargo "+$oldest" check --package fairlock --package fairlock-cli --all-features --target-dir target/platforms
else
    skipped "Rust $oldest is not here, and cannot be installed"
fi

# The library alone: the command line's cryptography needs a C compiler for each target.
# One for each: another processor, another libc, another kernel.
targets=()
for target in aarch64-unknown-linux-musl aarch64-apple-darwin; do
    if timeout 300 rustup target add "$target" >&2; then
        targets+=(--target "$target")
    else
        skipped "there is no standard library for $target here, and it cannot be installed"
    fi
done
[ ${#targets[@]} = 0 ] || cargo check --lib "${targets[@]}" --target-dir target/platforms
