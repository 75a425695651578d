#!/bin/sh
# Three licences of a simulator for any number of CI jobs, of whichever projects, on whichever runners.
#
# When you would want it: a tool has fewer licences than there are jobs, each licence is a file or a seat with a number,
# and jobs should wait in line for one instead of failing. So with boards, accounts, or phones on a shelf.
#
# licences.sh ARGUMENTS... runs `simulate ARGUMENTS` with licence 0, 1 or 2, and ends with its exit code.
# `fairlock status simulator` shows who has which, and who waits; `fairlock run simulator` waits for all three.
set -eu
LICENCES=${LICENCES:-/opt/simulator/licences}
export LICENCES

# Waits for two hours at most. The label is what others see: in GitLab and Jenkins the job, elsewhere the machine.
exec fairlock run simulator --slots 3 --timeout 2h --label "${CI_JOB_URL:-${BUILD_URL:-$(uname -n)}}" -- sh -c '
    # Nobody else has this slot. If the job before was killed, its lock file is still there.
    licence=$LICENCES/$FAIRLOCK_SLOT
    rm -f "$licence.in-use"
    exec env LM_LICENSE_FILE="$licence" simulate "$@"' simulate "$@"
