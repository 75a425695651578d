#!/usr/bin/env bash
# Builds what PyPI gets of the Python package: wheels for Linux with glibc 2.17 or newer (manylinux2014) and with musl 1.2
# or newer (Alpine), each for x86_64 and aarch64, and a source distribution. The files are in target/packages.
#
#   dist-python.sh            all of them; a target whose standard library cannot be had is left out and named
#   dist-python.sh TARGET…    the wheels of these targets of rustc alone
#
# Each takes a lock where this machine can: a wheel for glibc in a fresh virtual environment, one for aarch64 with Debian's
# Python under qemu (apt-get install qemu-user debootstrap). Of one for musl only the symbols are looked at.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
packages=$root/target/packages
copy=$root/python/target/copy
server=$(./scripts/ensure-redis.sh)
place=$(mktemp -d)
redis=
trap '[ -z "$redis" ] || kill "$redis"; rm -rf "$place"' EXIT
targets=("$@")
[ $# -gt 0 ] || targets=({x86_64,aarch64}-unknown-linux-{gnu,musl})
left_out=()

note() { left_out+=("$*"); }
fail() { echo "dist-python: $*" >&2 && exit 1; }
install() { "$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}"; }

builder=$(./scripts/ensure-maturin.sh)
# Zig links against old libraries and those of other machines, which this machine need not have.
install "${builder%/bin}" "ziglang>=0.13,<0.16"

# A copy, because what PyPI shows has absolute links.
rm -rf "$copy" && mkdir -p "$copy" "$packages"
git ls-files -z | tar --null --files-from - --create | tar --extract --directory "$copy"
./scripts/publishable.py "$copy"
grep -q '^repository = "https://example.invalid/' Cargo.toml && note "Cargo.toml has no address of the repository yet"

build() {
    local target=$1 compatibility=manylinux2014
    [[ $target != *musl ]] || compatibility=musllinux_1_2
    if ! rustup target list --installed | grep -qx "$target" && ! timeout 300 rustup target add "$target" >&2; then
        note "no wheel for $target: its standard library cannot be had here"
        return
    fi
    (cd "$copy/python" && CARGO_TARGET_DIR="$root/python/target" PATH="$builder:$PATH" maturin build --release \
        --locked --zig --target "$target" --compatibility "$compatibility" --out "$packages")
}

program="
import fairlock
client = fairlock.connect('unix://$place/redis')
with client.lock('reports:nightly').acquire(timeout=30, label='job 7') as held:
    print('granted', held.token > 0)"
granted() { [ "$1" = "granted True" ] || fail "$2 said: $1"; echo "$2: it takes a lock"; }

# The folder of a Debian for aarch64 with Python, whose programs qemu runs. The release is that of this machine, if it is
# one: qemu takes many times as long for newer Pythons.
arm64() {
    local debian=$root/target/arm64 release
    if [ ! -e "$debian/complete" ]; then
        rm -rf "$debian"
        # shellcheck source=/dev/null
        release=$(. /etc/os-release && [ "$ID" = debian ] && echo "$VERSION_CODENAME") || release=stable
        debootstrap --arch=arm64 --variant=minbase --foreign --include=python3 "$release" "$debian" >&2 || return 1
        for package in "$debian"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$debian"; done
        touch "$debian/complete"
    fi
    echo "$debian"
}

try() {
    local package=$1 debian
    case $package in
    *musllinux*) note "$package was not tried: there is no Python with musl here" ;;
    *aarch64*)
        if ! command -v qemu-aarch64 >/dev/null || ! debian=$(arm64); then
            note "$package was not tried: it needs qemu-user, debootstrap, and Debian's packages"
            return
        fi
        granted "$(cd "$place" && PYTHONPATH=$place/content qemu-aarch64 -L "$debian" "$debian/usr/bin/python3" -c "$program")" \
            "$package"
        ;;
    *)
        python3 -m venv --clear "$place/environment"
        # The source is built in a profile that takes less time than the one that people use.
        MATURIN_PEP517_ARGS="--profile dev" install "$place/environment" "$package"
        granted "$(cd "$place" && environment/bin/python -c "$program")" "$package"
        ;;
    esac
}

# What the wheel has, and what its library wants of the system.
inspect() {
    local package=$1 wanted
    rm -rf "$place/content" && python3 -m zipfile -e "$package" "$place/content"
    local metadata=("$place/content"/*.dist-info/METADATA)
    [ "$(grep -c '^License-File: ' "${metadata[0]}")" = 2 ] || fail "$package has not both texts of the licence"
    grep -q '^Project-URL: Repository' "${metadata[0]}" || fail "$package does not say where it comes from"
    ! grep -E '\]\((\.|[a-z]+[/.][^:]*\))' "${metadata[0]}" || fail "$package has links that lead nowhere on PyPI"
    wanted=$(readelf --dynamic --wide "$place"/content/fairlock/*.so | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' | sort | tr '\n' ' ')
    if [[ $package = *musllinux* ]]; then
        [ "$wanted" = "libc.so " ] || fail "$package needs $wanted"
        ! readelf --dyn-syms --wide "$place"/content/fairlock/*.so | grep GLIBC || fail "$package needs glibc"
    else
        [[ ! $wanted =~ libgcc|libssl|libpython ]] || fail "$package needs $wanted"
    fi
    echo "$package: needs $wanted"
}

rm -f "$packages"/fairlock-*.whl "$packages"/fairlock-*[0-9].tar.gz
"$server" --port 0 --unixsocket "$place/redis" --dir "$place" --save "" >"$place/redis.log" &
redis=$!
until [ -S "$place/redis" ]; do kill -0 "$redis" && sleep 0.1; done
for target in "${targets[@]}"; do build "$target"; done
[ $# -gt 0 ] || (cd "$copy/python" && "$builder/maturin" sdist --out "$packages")
shopt -s nullglob
for package in "$packages"/fairlock-*.whl; do
    inspect "$package"
    try "$package"
done
for package in "$packages"/fairlock-*[0-9].tar.gz; do try "$package"; done
[ ${#left_out[@]} -eq 0 ] || printf 'dist-python: *** %s\n' "${left_out[@]}"
