#!/usr/bin/env bash
# A release without what others would see of it: builds and tries everything that docs/releasing.md publishes, from the
# commit that is checked out. What it makes is in target/release-check and target/packages.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
out=$root/target/release-check
rm -rf "$out" && mkdir -p "$out"
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
notes=()

step() { printf '\n== %s\n' "$*"; }
fail() { printf 'release-check: %s\n' "$*" >&2 && exit 1; }
note() { notes+=("$*"); }

step "version $version, its changes, and where they come from"
grep -q "^version = \"$version\"$" cli/Cargo.toml || fail "cli/Cargo.toml has another version than Cargo.toml"
grep -q "fairlock = { version = \"=$version\"" cli/Cargo.toml || fail "cli/Cargo.toml needs another version of fairlock"
grep -q "^version = \"$version\"$" python/Cargo.toml || fail "python/Cargo.toml has another version than Cargo.toml"
grep -q "^version = \"$version\"$" node/Cargo.toml || fail "node/Cargo.toml has another version than Cargo.toml"
grep -q "\"version\": \"$version\"" node/package.json || fail "node/package.json has another version than Cargo.toml"
grep -q "^## \[$version\]" CHANGELOG.md || note "CHANGELOG.md has no heading '## [$version] - DATE' yet"
grep -q '^repository = "https://example.invalid/' Cargo.toml && note "Cargo.toml has no address of the repository yet"
[ -z "$(git status --porcelain)" ] || note "there are changes that are not committed"
[ -z "$(git tag --list "v$version")" ] || note "there is a tag v$version already"

step "the public interface: as recorded, and against the last release"
./scripts/public-api.sh
./scripts/semver.sh

step "the documentation, as docs.rs builds it"
if rustup toolchain list | grep -q ^nightly; then
    RUSTDOCFLAGS="--cfg docsrs -D warnings" cargo +nightly doc --no-deps --package fairlock \
        --features tls,metrics,redis-1,testing --target-dir target/docsrs
    pages=target/docsrs/doc/fairlock
    for item in struct.Tls struct.ClientBuilder; do
        grep -q 'Available on <strong>crate feature' "$pages/$item.html" || fail "$item shows no feature that it needs"
    done
else
    note "no nightly compiler: the documentation was not built as docs.rs builds it"
fi
RUSTDOCFLAGS="-D warnings" cargo doc --no-deps --workspace --exclude fairlock-examples

step "both crates, packed"
cargo package --no-verify --allow-dirty --package fairlock --package fairlock-cli
for crate in fairlock fairlock-cli; do
    cp "target/package/$crate-$version.crate" "$out"
    tar -C "$out" -xzf "$out/$crate-$version.crate"
done

step "a program outside of this workspace, and the command, from the packed crates"
server=$(./scripts/ensure-redis.sh)
outside=$(mktemp -d)
redis=
trap '[ -z "$redis" ] || kill "$redis"; rm -rf "$outside"' EXIT
mkdir -p "$outside/program/src"
"$server" --port 0 --unixsocket "$outside/redis" --dir "$outside" --save "" >"$outside/redis.log" &
redis=$!
until [ -S "$outside/redis" ]; do kill -0 "$redis" && sleep 0.1; done
cat >"$outside/program/Cargo.toml" <<EOF
[package]
name = "outside"
edition = "2024"
[dependencies]
fairlock = "$version"
tokio = { version = "1", features = ["macros", "rt-multi-thread"] }
[patch.crates-io]
fairlock = { path = "$out/fairlock-$version" }
[workspace]
EOF
# The program of the crate's page.
sed -n '/^```rust/,/^```$/p' docs/crate.md | sed "/^\`\`\`/d; s,redis://127.0.0.1/,unix://$outside/redis," \
    >"$outside/program/src/main.rs"
# What was packed is outside of the workspace, too.
for crate in fairlock fairlock-cli; do printf '\n[workspace]\n' >>"$out/$crate-$version/Cargo.toml"; done
said=$(cd "$outside/program" && CARGO_TARGET_DIR="$root/target/outside" cargo run)
grep -q '^granted with fencing token [0-9]' <<<"$said" && grep -q '^write to the store' <<<"$said" ||
    fail "the program said: $said"
CARGO_TARGET_DIR="$root/target/outside" cargo install --debug --locked --path "$out/fairlock-cli-$version" \
    --root "$outside/installed" --config "patch.crates-io.fairlock.path='$out/fairlock-$version'"
said=$("$outside/installed/bin/fairlock" --redis "unix://$outside/redis" run outside -- sh -c 'echo "$FAIRLOCK_NAME"')
[ "$said" = outside ] || fail "the installed command said: $said"

step "the static program, the Debian package, the image"
rm -rf target/packages
./scripts/dist.sh
arch=$(uname -m)
image="target/packages/fairlock-$version-$arch.oci.tar"
./scripts/oci.py "target/$arch-unknown-linux-musl/dist/fairlock" "$version" "$image"
./scripts/oci.py --check "$image"
if command -v skopeo >/dev/null; then
    skopeo inspect "oci-archive:$image" >/dev/null
else
    note "no skopeo: only scripts/oci.py has read the image"
fi

step "the Python package: a wheel and a source distribution"
PEERS=1 PROFILE=release ./scripts/test-package-python.sh
./scripts/dist-python.sh

step "the npm packages"
PROFILE=release ./scripts/test-package-node.sh
./scripts/dist-node.sh
cp "$out"/*.crate target/packages
(cd target/packages && sha256sum fairlock* >SHA256SUMS && sha256sum --check --quiet SHA256SUMS && cat SHA256SUMS)

step "the examples for Kubernetes"
./scripts/kubernetes.sh || note "the examples for Kubernetes were not validated"

printf '\nEverything that a release of %s publishes was made and tried.\n' "$version"
[ ${#notes[@]} -eq 0 ] || printf 'Before a release: %s\n' "${notes[@]}"
