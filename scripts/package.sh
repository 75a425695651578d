#!/usr/bin/env bash
# Packs the crate as it would be published, and tests what is in the package: nothing that it needs is left out.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
# The tests below build it. In a working tree with changes, the changes are packed.
cargo package --package fairlock --no-verify --allow-dirty
unpacked=target/package/fairlock-$version
rm -rf "$unpacked"
# With the present time: by the times in a package cargo would take what it built from an earlier one for fresh.
tar --extract --touch --file "$unpacked.crate" --directory target/package
# A workspace of its own, and not a part of the one around it.
printf '\n[workspace]\n' >>"$unpacked/Cargo.toml"
cd "$unpacked"
# With the builds of dependencies that are there.
export CARGO_TARGET_DIR=../..
# The tests that explore run in `make quick`, on the same sources; here with ALL=1, and then optimized. For the others that
# would take longer than it saves.
skipped=(--skip keeper::tests::explore --skip keeper::tests::properties) optimized=0
[ -z "${ALL:-}" ] || skipped=() optimized=1
cargo --config profile.dev.package.fairlock.opt-level=$optimized test --features tls,operator --lib -- "${skipped[@]}"
cargo test --features tls,operator,testing --doc
