#!/bin/sh
# job.sh DIR LABEL [FILE]: one job of the demo, as `fairlock run` starts it. It knows nothing of locks but its token.
#
# It compresses the day's data, and adds an entry to a ledger: read the last entry, work for a while, write the ledger
# anew. Two of these at the same time would lose an entry. With FILE, it goes on working until that file exists.
#
# It keeps a journal, shared by all jobs: a line at its start, one for each round of work, and one at its end. Each
# is a single write at the end of the file, so the order of the lines is the order in which things happened.
set -eu
dir=$1 label=$2 wait_for=${3:-}
. "$(dirname "$0")/common.sh"

note() { printf '%s %s %s %s\n' "$(now_ms)" "$label" "$FAIRLOCK_TOKEN" "$1" >>"$dir/journal"; }

note start
read -r number _ _ _ previous <<EOF
$(tail -n 1 "$dir/ledger")
EOF

round=0
while [ "$round" -lt 4 ] || { [ -n "$wait_for" ] && [ ! -e "$wait_for" ]; }; do
    round=$((round + 1))
    archive=$(gzip -9 <"$dir/data" | sha256)
    note work
done

number=$((number + 1))
cp "$dir/ledger" "$dir/ledger.new"
echo "$number $label $FAIRLOCK_TOKEN $archive $(chain "$previous" "$number" "$label" "$FAIRLOCK_TOKEN" "$archive")" \
    >>"$dir/ledger.new"
mv "$dir/ledger.new" "$dir/ledger"
note end
