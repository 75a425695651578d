#!/usr/bin/env bash
# The demo: six jobs compete for one lock. One is killed while it holds the lock, one while it waits. The others are
# served in the order in which they came, and do not wait long for the dead ones.
#
# It uses a private redis-server, or the one in REDIS_URL if it is set, and a lock name of its own. FAIRLOCK_BIN names
# another `fairlock` than the one that it builds. No step is timed by guesses: each waits until
# `fairlock status` or the jobs' own journal shows that the one before it has happened.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
project=$(cd "$here/../.." && pwd)
. "$here/common.sh"

dir=$(mktemp -d "${TMPDIR:-/tmp}/fairlock-demo.XXXXXX")
lock="demo:$(basename "$dir")"
server=

# Ends the demo and prints what is known about the cause.
fail() {
    printf '\nerror: %s\n\n' "$*"
    tail -n 3 "$dir"/*.log || true
    [ ! -s "$dir/notes" ] || awk -f "$here/timeline.awk" "$dir/notes" "$dir/journal" || true
    exit 1
} >&2

# Ends the processes that this script started and that still run, however the script ends.
clean_up() {
    local result=$? pid
    trap - EXIT
    # This ends a command that outlived its `fairlock`, which would be a failure.
    touch "$dir/all-are-there" "$dir/never"
    for pid in $(jobs -pr); do [ "$pid" = "$server" ] || kill "$pid" 2>/dev/null || true; done
    for pid in $(jobs -pr); do [ "$pid" = "$server" ] || wait "$pid" 2>/dev/null || true; done
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; fi
    if [ "$result" -eq 0 ]; then rm -rf "$dir"; else echo "what the jobs and the server wrote is in $dir" >&2; fi
    exit "$result"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# await WHAT COMMAND...: waits until COMMAND succeeds; gives up after a minute.
await() {
    local what=$1 give_up=$((SECONDS + 60))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$give_up" ] || fail "waited in vain until $what"
        sleep 0.05
    done
}

status() { "$fairlock" status "$lock" --json 2>>"$dir/status.log" || [ $? = 1 ]; }

# Each object of the status on a line of its own, so that a line of the queue has the ticket and the label of one waiter.
queue() { status | tr '{' '\n' | grep '"ticket":'; }
ticket_of() { queue | grep "\"label\":\"$1\"" | sed 's/.*"ticket":\([0-9]*\).*/\1/'; }
is_queued() { [ -n "$(ticket_of "$1")" ]; }
is_free() { status | grep -q '"holders":\[\]' && status | grep -q '"waiting":0'; }

has_written() { grep -q "^[0-9]* $1 [0-9]* $2\$" "$dir/journal"; }
note() { echo "$(now_ms) $*" >>"$dir/notes"; }

# launch LABEL [FILE]: `fairlock run` with a job.
launch() {
    note "$1" called
    "$fairlock" run "$lock" --lease 3s --label "$1" -- "$here/job.sh" "$dir" "$@" >"$dir/$1.log" 2>&1 &
    eval "pid_${1#job-}=$!"
}

# sigkill LABEL holding|waiting: kills the `fairlock` process alone; its command must end by itself.
sigkill() {
    local pid="pid_${1#job-}"
    note "$1" killed "$2"
    kill -KILL "${!pid}"
    # Collected at once: bash would report the death in the middle of the output.
    wait "${!pid}" 2>/dev/null || true
}

fairlock=${FAIRLOCK_BIN:-}
if [ -z "$fairlock" ]; then
    (cd "$project" && cargo build --release --package fairlock-cli)
    fairlock=${CARGO_TARGET_DIR:-$project/target}/release/fairlock
fi
command -v "$fairlock" >/dev/null || fail "there is no $fairlock"

if [ -n "${REDIS_URL:-}" ]; then
    echo "Redis: the server in REDIS_URL"
else
    binary=$("$project/scripts/ensure-redis.sh")
    "$binary" --port 0 --unixsocket "$dir/redis.sock" --dir "$dir" --save '' --appendonly no >"$dir/redis.log" 2>&1 &
    server=$!
    export REDIS_URL="redis+unix://$dir/redis.sock"
    echo "Redis: a private server, $binary"
fi
await "Redis answers" is_free

echo "Lock:  $lock"
echo
echo "Each job is a command that compresses data and adds an entry to a ledger, started as"
echo "  fairlock run $lock --lease 3s --label job-N -- job.sh ..."
echo

: >"$dir/journal"
echo "0 nobody 0 - -" >"$dir/ledger"
seq 1 500000 >"$dir/data"

launch job-1 "$dir/all-are-there"
await "job-1 runs" has_written job-1 work
echo "job-1 found the lock free, and works until all the others are there."
for job in job-2 job-3 job-4 job-5 job-6; do
    if [ "$job" = job-3 ]; then launch "$job" "$dir/never"; else launch "$job"; fi
    await "$job is queued" is_queued "$job"
    note "$job" ticket "$(ticket_of "$job")"
    echo "$job waits, with ticket $(ticket_of "$job")."
done

sigkill job-5 waiting
echo "job-5 was killed with SIGKILL while it waited."
touch "$dir/all-are-there"
await "job-3 runs" has_written job-3 work
sigkill job-3 holding
echo "job-3 was killed with SIGKILL while it held the lock; its command must end, and the others must go on."

for job in job-1 job-2 job-4 job-6; do
    await "$job has finished" has_written "$job" end
    pid="pid_${job#job-}"
    wait "${!pid}" || fail "fairlock run of $job failed with $?"
done
await "the lock is free" is_free
echo "All is done, and the lock is free."
echo

verdict=0
awk -f "$here/timeline.awk" "$dir/notes" "$dir/journal" || verdict=1

# The ledger: as many entries as jobs that finished, each tied to the one before it.
number=0 previous=-
while read -r entry label token archive link; do
    if [ "$entry" != 0 ]; then
        number=$((number + 1))
        if [ "$entry" != "$number" ] || [ "$link" != "$(chain "$previous" "$entry" "$label" "$token" "$archive")" ]; then
            echo "  WRONG: entry $entry of the ledger does not follow the one before it"
            verdict=1
        fi
    fi
    previous=$link
done <"$dir/ledger"
if [ "$number" -eq "$(grep -c ' end$' "$dir/journal")" ]; then
    echo "  ok     the ledger has all $number entries, each following the one before it"
else
    echo "  WRONG: the ledger has $number entries, and $(grep -c ' end$' "$dir/journal") jobs finished"
    verdict=1
fi
exit "$verdict"
