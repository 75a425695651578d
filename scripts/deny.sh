#!/usr/bin/env bash
# Licences, sources, bans and known vulnerabilities of the dependencies (deny.toml). Installs cargo-deny into target/tools
# if it is missing, which takes minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tool=target/tools/bin/cargo-deny
[ -x $tool ] || cargo install --locked --root target/tools cargo-deny

$tool check bans licenses sources

# The database of vulnerabilities is a repository on GitHub, which not every machine reaches. Only that is passed over.
if $tool fetch db; then
    $tool check advisories
else
    echo 'make deny: KNOWN VULNERABILITIES WERE NOT CHECKED: their database cannot be reached from here' >&2
fi
