#!/usr/bin/env bash
# Compares the public interface with that of the last release, the latest tag vX.Y.Z before this commit: a change that
# breaks callers needs another major version (below 1.0 another minor version). Without such a tag there is nothing to
# compare with; without cargo-semver-checks the comparison is skipped. STRICT=1 skips nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
tool=target/tools/bin/cargo-semver-checks

skipped() {
    printf '*** NOT CHECKED: semantic versioning: %s\n' "$1" >&2
    [ -z "${STRICT:-}" ]
    exit
}

# Not a tag at this commit, which is the release itself.
last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' HEAD^ 2>/dev/null) || {
    echo "there is no earlier release to compare with"
    exit
}
[ -x "$tool" ] || cargo install --locked --root target/tools cargo-semver-checks ||
    skipped "cargo-semver-checks is not here, and cannot be installed"
"$tool" semver-checks --package fairlock --only-explicit-features --features tls,metrics,redis-1,testing --baseline-rev "$last"
