#!/usr/bin/env bash
# Licences, sources, bans and known vulnerabilities of the dependencies (deny.toml). Builds cargo-deny in target/tools if
# it is missing, which takes minutes. It is built without optimization, since it runs for seconds only.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tool=target/tools/bin/cargo-deny
version=0.20.2
if [ ! -x $tool ] && ! CARGO_PROFILE_DEV_DEBUG=0 cargo install --locked --debug --version $version --root target/tools cargo-deny; then
    # A machine that cannot fetch crates cannot build it, but cannot have changed a dependency either.
    if cargo info cargo-deny@$version >/dev/null 2>&1; then
        echo 'make deny: cargo-deny cannot be built, although crates can be fetched' >&2
        exit 1
    fi
    echo 'make deny: THE DEPENDENCIES WERE NOT CHECKED: cargo-deny is not installed, and crates cannot be fetched from here' >&2
    exit 0
fi

$tool check bans licenses sources

# The database of vulnerabilities is a repository on GitHub, which not every machine reaches. Only this check is skipped.
if $tool fetch db; then
    $tool check advisories
else
    echo 'make deny: KNOWN VULNERABILITIES WERE NOT CHECKED: their database cannot be reached from here' >&2
fi
