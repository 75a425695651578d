#!/usr/bin/env bash
# Prints the folder of PostgreSQL's initdb and postgres, for `make test-examples`. Installs them only if there are none,
# on Debian and Ubuntu, as root; elsewhere it says how to get them. Everything but the path goes to stderr.
set -euo pipefail

say() { printf '%s\n' "$*" >&2; }

find_it() {
    local folder
    for folder in "${FAIRLOCK_POSTGRES:-}" $(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -rV) \
        /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin /usr/local/opt/postgresql*/bin \
        "$(dirname "$(readlink -f "$(command -v initdb || echo /nowhere/initdb)")")"; do
        if [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ]; then
            echo "$folder"
            return
        fi
    done
    return 1
}

if find_it; then exit; fi
if command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
    say "No initdb found: installing the package postgresql, without a cluster of its own."
    # Its default is to start a server on port 5432, which nobody has asked for.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
    apt-get -q -o DPkg::Lock::Timeout=120 update >&2 || say "apt-get update failed; trying with the lists that are there."
    DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -q -o DPkg::Lock::Timeout=120 \
        -o Dpkg::Options::=--force-confold install -y --no-install-recommends postgresql >&2 || true
    if find_it; then exit; fi
fi
say "error: there is no PostgreSQL. Install it (Debian: apt-get install postgresql; macOS: brew install postgresql),"
say "or name the folder with its initdb and postgres in FAIRLOCK_POSTGRES. No running server is needed."
exit 1
