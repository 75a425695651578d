#!/usr/bin/env bash
# Fetches the oldest and the newest CPython that the Python package supports into target/pythons/NAME/python, once, and
# prints their paths. Usage: fetch-pythons.sh [NAME…]; without a name, both. They have no pip: what a program needs is
# found by PYTHONPATH.
#
# They are unpacked from Debian packages (scripts/debian-release.sh). Where that does not work, put a python (a binary, or
# a script that becomes one) at the path that this prints.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
pythons=$project/target/pythons
# shellcheck source=scripts/debian-release.sh
. "$project/scripts/debian-release.sh"

# name, Debian release, package
known='python-3.9 bullseye python3.9
python-3.15 sid python3.15'

cannot() {
    say "error: $name is not there, and cannot be fetched: $1."
    say "       Put a Python of that version there yourself: $pythons/$name/python"
    exit 1
}

# Fetches Python $1, package $3 of Debian release $2.
fetch() {
    local name=$1 release=$2 package=$3
    say "Fetching $name: $package of Debian $release."
    work="$pythons/.$name.$$"
    trap 'rm -rf "$work"' EXIT
    unpack "$release" "$package" "$work"

    # The package's library is built with this machine's glibc, which an older one cannot load. So a Python has the newer of
    # the two.
    local loader libraries theirs ours start
    loader=$(loader_of "$work/root")
    [ -n "$loader" ] || cannot "no loader in the packages of $release"
    theirs=$(basename "$work"/cache/archives/libc6_*.deb | cut -d _ -f 2 | cut -d - -f 1)
    ours=$(getconf GNU_LIBC_VERSION | cut -d ' ' -f 2)
    libraries=$(basename "$(dirname "$loader")")
    libraries="\$root/lib/$libraries:\$root/usr/lib/$libraries"
    if [ "$(printf '%s\n' "$theirs" "$ours" | sort -V | tail -n 1)" = "$ours" ]; then
        dpkg-deb --fsys-tarfile "$work"/cache/archives/libc6_*.deb | tar -t | grep -v '/$' | (cd "$work/root" && xargs rm -f)
        start="export LD_LIBRARY_PATH=\"$libraries\"; exec"
    else
        start="exec \"\$root${loader#"$work/root"}\" --library-path \"$libraries\""
    fi
    rm -rf "$work"/root/usr/share "${pythons:?}/$name"
    mkdir -p "$pythons/$name"
    mv "$work/root" "$pythons/$name/root"
    cat >"$pythons/$name/python" <<PYTHON
#!/bin/sh
# $package of Debian $release, with that release's libraries, and the newer glibc of that release and this machine.
root=\$(dirname "\$(readlink -f "\$0")")/root
export PYTHONHOME="\$root/usr"
$start "\$root/usr/bin/$package" "\$@"
PYTHON
    chmod +x "$pythons/$name/python"
    "$pythons/$name/python" -c 'import sys, asyncio, ctypes, socket; print(sys.version)' >&2 || cannot "what was unpacked does not run"
    rm -rf "$work"
    trap - EXIT
}

[ $# -gt 0 ] || set -- $(cut -d ' ' -f 1 <<<"$known")
for name in "$@"; do
    if [ ! -x "$pythons/$name/python" ]; then
        read -r _ release package < <(grep "^$name " <<<"$known") || { say "error: $name is not among: $known"; exit 2; }
        fetch "$name" "$release" "$package"
    fi
    printf '%s\n' "$pythons/$name/python"
done
