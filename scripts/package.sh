#!/usr/bin/env bash
# Packs the crate as it would be published, and compiles what is in the package, its tests too: nothing that they need is
# left out, and no file that the documentation includes. The tests run in `make test`, on the same sources.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
# The check below builds it. In a working tree with changes, the changes are packed.
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
cargo check --features tls,operator --all-targets
