#!/usr/bin/env bash
# Prints the path of a redis-server (6.0 or newer, or Valkey) for the tests, the benchmarks and the demo.
# Installs one only if it finds none. Everything but the path goes to stderr.
#
# It never enables or starts a service. On Debian and Ubuntu the package `redis-server` does, so this takes
# `redis-tools` instead: its /usr/bin/redis-check-rdb is the server's own binary, which runs as a server when it is
# started under the name `redis-server`. A link of that name in target/redis/ is all it needs.
# Homebrew starts nothing by itself.
set -euo pipefail

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
private=$project/target/redis/redis-server

say() { printf '%s\n' "$*" >&2; }

# The version of a server binary ("7.0.15"), or nothing if it does not run as one. Valkey started at 7.2.
version_of() {
    { "$1" --version 2>/dev/null </dev/null || true; } | sed -n 's/.*server v=\([0-9][0-9.]*\).*/\1/p'
}

# Ends the script: prints the binary if it can be used, or else why not. It does not look further after a server that is
# too old, because the user would get one that they did not choose.
settle_on() {
    local version
    version=$(version_of "$1")
    if [ -z "$version" ]; then
        say "error: $1 does not run as a Redis server. Set FAIRLOCK_REDIS_SERVER to one that does (6.0 or newer)."
        exit 1
    fi
    if [ "${version%%.*}" -lt 6 ]; then
        say "error: $1 is version $version, and fairlock needs 6.0 or newer."
        say "       Set FAIRLOCK_REDIS_SERVER to the path of a newer redis-server or valkey-server."
        exit 1
    fi
    printf '%s\n' "$1"
    exit 0
}

# Links the server that redis-tools brings, if it is there.
link_redis_tools() {
    local real
    real=$(command -v redis-check-rdb) || return 1
    mkdir -p "$(dirname "$private")"
    ln -sfn "$real" "$private"
    # In some builds redis-check-rdb is not the server's binary.
    [ -n "$(version_of "$private")" ] || { rm -f "$private"; return 1; }
}

# Runs a command as root, or ends the script with what to type. Never asks for a password: nobody may be there.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@" >&2
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        sudo -n "$@" >&2
    else
        say "error: there is no redis-server, and installing one takes root. Please run:"
        say "       sudo apt-get update && sudo apt-get install -y --no-install-recommends redis-tools"
        exit 1
    fi
}

if [ -n "${FAIRLOCK_REDIS_SERVER:-}" ]; then settle_on "$FAIRLOCK_REDIS_SERVER"; fi
for name in redis-server valkey-server; do
    if found=$(command -v "$name"); then settle_on "$found"; fi
done
if link_redis_tools; then settle_on "$private"; fi

if command -v apt-get >/dev/null; then
    say "No redis-server found: installing redis-tools, which has the server's binary and no service."
    # needrestart, where it is installed, would restart unrelated services after an installation.
    quiet=(env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1)
    apt=(apt-get -q -o DPkg::Lock::Timeout=120)
    # One broken source (a retired PPA) fails the update. That does not matter if the installation works.
    as_root "${apt[@]}" update || say "apt-get update failed; trying with the package lists that are there."
    as_root "${quiet[@]}" "${apt[@]}" install -y --no-install-recommends redis-tools
    if link_redis_tools; then settle_on "$private"; fi
    say "error: redis-tools is installed, but its redis-check-rdb does not run as a server."
elif command -v brew >/dev/null; then
    say "No redis-server found: brew install redis (this starts no service)."
    brew install redis >&2
    settle_on "$(brew --prefix)/bin/redis-server"
fi
say "error: there is no redis-server. Install Redis 6.0 or newer, and have it in PATH or name it in FAIRLOCK_REDIS_SERVER."
exit 1
