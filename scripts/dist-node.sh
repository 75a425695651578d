#!/usr/bin/env bash
# Builds what npm gets: the package fairlock, and for Linux with glibc 2.17 or newer and with musl, each for x64 and arm64, a
# package with the library. The files are in target/packages. What cannot be built here is left out and named.
#
# That for this machine takes a lock in a fresh folder; of the others only what they need of the system is looked at.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
packages=$root/target/packages
server=$(./scripts/ensure-redis.sh)
place=$(mktemp -d)
redis=
trap '[ -z "$redis" ] || kill "$redis"; rm -rf "$place"' EXIT
left_out=()
built=()

note() { left_out+=("$*"); }
fail() { echo "dist-node: $*" >&2 && exit 1; }

# Zig links against old libraries and those of other machines, which this machine need not have.
tools=$(./scripts/ensure-maturin.sh)
"$tools/python" -m pip install --quiet --disable-pip-version-check "ziglang>=0.13,<0.16" "cargo-zigbuild>=0.19,<1"
grep -q '^repository = "https://example.invalid/' Cargo.toml && note "Cargo.toml has no address of the repository yet"

# What the library wants of the system.
inspect() {
    local library=$1 platform=$2 wanted
    wanted=$(readelf --dynamic --wide "$library" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort | tr '\n' ' ')
    if [[ $platform = *musl ]]; then
        [ "$wanted" = "libc.so " ] || fail "$platform needs $wanted"
    else
        [[ ! $wanted =~ libgcc|libssl ]] || fail "$platform needs $wanted"
    fi
    echo "$platform: needs $wanted"
}

build() {
    local target=$1 platform=$2 glibc=
    if ! rustup target list --installed | grep -qx "$target" && ! timeout 300 rustup target add "$target" >&2; then
        note "no package for $platform: the standard library of $target cannot be had here"
        return
    fi
    [[ $target = *musl ]] || glibc=.2.17
    # A library of a program that is linked dynamically, also with musl.
    PATH="$tools:$PATH" RUSTFLAGS="$([[ $target = *musl ]] && echo "-C target-feature=-crt-static")" \
        cargo zigbuild --quiet --release --locked --manifest-path node/Cargo.toml --target "$target$glibc" \
        --target-dir node/target
    local library=node/target/$target/release/libfairlock_node.so
    inspect "$library" "$platform"
    built+=("$platform=$library")
}

build x86_64-unknown-linux-gnu linux-x64-gnu
build aarch64-unknown-linux-gnu linux-arm64-gnu
build x86_64-unknown-linux-musl linux-x64-musl
build aarch64-unknown-linux-musl linux-arm64-musl
mkdir -p "$packages"
rm -f "$packages"/fairlock-*.tgz
node node/pack.mjs "$packages" "${built[@]}"

"$server" --port 0 --unixsocket "$place/redis" --dir "$place" --save "" >"$place/redis.log" &
redis=$!
until [ -S "$place/redis" ]; do kill -0 "$redis" && sleep 0.1; done
version=$(node -p "require('./node/package.json').version")
platform=$(node -p 'process.arch')-$(node -p 'process.report.getReport().header.glibcVersionRuntime ? "gnu" : "musl"')
(cd "$place" && echo '{ "private": true }' >package.json \
    && npm install --silent --no-audit --no-fund --offline "$packages/fairlock-$version.tgz" "$packages/fairlock-linux-$platform-$version.tgz")
granted=$(cd "$place" && node --input-type=module --eval "
import { connect } from 'fairlock'
const client = await connect('unix://$place/redis')
console.log('granted', await client.lock('reports:nightly').run({ timeout: 30_000, label: 'job 7' }, ({ token }) => token > 0))")
[ "$granted" = "granted true" ] || fail "it said: $granted"
echo "fairlock-linux-$platform: it takes a lock"
for pair in "${built[@]}"; do
    [[ $pair = linux-$platform=* ]] || note "fairlock-${pair%%=*} was not tried: this machine is linux-$platform"
done
[ ${#left_out[@]} -eq 0 ] || printf 'dist-node: *** %s\n' "${left_out[@]}"
