#!/usr/bin/env bash
# Runs the tests that start servers once per row, and ends with a table. Usage: test-matrix.sh [ROW…]; all rows without one.
#
#   redis-6.0 redis-7.0 redis-8.0 valkey-8.1 valkey-9    on that server (scripts/fetch-servers.sh)
#   least                                                every client with exactly the rights that docs/guide.md lists
#   sentinel cluster                                     every server behind sentinels, or as a cluster
#
# A row can combine two: redis-6.0+cluster. TESTS names binaries of tests, or files in them as in `api::leases`, where not all
# that start servers should run.
# With OPTIONAL=1 a row whose server is not available is skipped with a message.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

[ $# -gt 0 ] || set -- redis-6.0 redis-7.0 redis-8.0 valkey-8.1 valkey-9 least sentinel cluster
# Without the tests of the test kit itself.
tests=${TESTS:-$(dirname tests/*/main.rs cli/tests/*/main.rs | xargs -n 1 basename | grep -vE '^(mutants|selftest)$')}

# Sets the environment for each part of row $1.
set_up() {
    local part
    export FAIRLOCK_REDIS_SERVER
    for part in ${1//+/ }; do
        case $part in
            least) export FAIRLOCK_TEST_USER=least ;;
            sentinel | cluster) export FAIRLOCK_TOPOLOGY=$part ;;
            *) FAIRLOCK_REDIS_SERVER=$(./scripts/fetch-servers.sh "$part") || return 1 ;;
        esac
    done
    FAIRLOCK_REDIS_SERVER=$(./scripts/ensure-redis.sh)
}

run() {
    local packages binaries=() files=() test
    read -ra packages <scripts/packages.txt
    set_up "$1" || return $no_server
    for test in $tests; do
        # These tests use no client of fairlock, so only another server makes a difference to them.
        [[ $test == model && $1 =~ ^(least|sentinel|cluster) ]] && continue
        binaries+=(--test "${test%%::*}")
        [[ $test == *::* ]] && files+=("${test#*::}::")
    done
    cargo test "${packages[@]}" --no-fail-fast "${binaries[@]}" -- "${files[@]}"
}

no_server=3
failed=0
table=
for row in "$@"; do
    start=$SECONDS
    outcome=ok
    (run "$row") || outcome=$?
    case $outcome in
        ok) ;;
        "$no_server") outcome='no such server here'; [ -n "${OPTIONAL:-}" ] || failed=1 ;;
        *) outcome=FAILED failed=1 ;;
    esac
    table+=$(printf '%-20s %4d s  %s' "$row" $((SECONDS - start)) "$outcome")$'\n'
done
printf '\n%s' "$table"
exit $failed
