# timeline.awk NOTES JOURNAL: draws who held the lock when, and judges it. Exits with 1 if anything is wrong.
#
# NOTES are the driver's:     MS LABEL called | MS LABEL ticket NUMBER | MS LABEL killed holding|waiting
# JOURNAL is the commands':   MS LABEL TOKEN start|work|end
# Who held when is taken from the journal alone, and judged by the order of its lines, not by their clock.

function wrong(what) { if (!said[what]++) print "  WRONG: " what; failures++ }
function right(what, before) { if (failures == before) print "  ok     " what }
function seconds(ms) { return ms == "" ? "-" : sprintf("%.2f s", (ms - zero) / 1000) }
function column(ms) { return int((ms - zero) * width / span) }

FNR == NR {
    if (zero == "") zero = $1
    if ($3 == "called") { jobs[++count] = $2; called[$2] = $1 }
    if ($3 == "ticket") ticket[$2] = $4
    if ($3 == "killed") { killed[$2] = $1; killed_while[$2] = $4 }
    last = $1
    next
}

{
    lines[++total] = $0
    if ($4 == "start") { start[$2] = $1; token[$2] = $3; grants[++granted] = $2 }
    if ($4 == "end") end[$2] = $1
    wrote[$2] = $1
    if ($1 > last) last = $1
}

END {
    if (!count) { print "the notes are empty"; exit 1 }
    draw()
    table()
    print ""
    judge()
    exit failures > 0
}

function draw(    i, j, job, row, from, to, mark, step) {
    width = 72
    span = last - zero + 1
    step = 1000 * (1 + int(span / 12000))
    row = sprintf("%" (width + 8) "s", "")
    for (i = 0; i * step < span; i++) row = overlay(row, column(zero + i * step), (i * step / 1000) "s")
    print "          " row
    for (i = 1; i <= count; i++) {
        job = jobs[i]
        from = called[job]
        row = ""
        for (j = 0; j < width; j++) row = row " "
        row = fill(row, from, job in start ? start[job] : (job in killed ? killed[job] : last), ".")
        if (job in start) row = fill(row, start[job], job in end ? end[job] : (job in killed ? killed[job] : last), "#")
        if (job in killed) row = overlay(row, column(killed[job]), "X")
        printf "  %-7s |%s|\n", job, row
    }
    print ""
    print "  .  waits in the queue    #  its command runs, holding the lock    X  fairlock was killed with SIGKILL"
    print "  An X is followed by what the dead cost: the rest of a lease, or of the time after which a silent waiter is given up."
    print ""
}

function overlay(row, at, text) { return substr(row, 1, at) text substr(row, at + length(text) + 1) }

function fill(row, from, to, mark,    at, text) {
    text = ""
    for (at = column(from); at <= column(to); at++) text = text mark
    return overlay(row, column(from), text)
}

function table(    i, job, result) {
    printf "  %-7s %-17s %-17s %9s %10s %10s  %s\n", "job", "ticket", "fencing token", "called", "held from", "held to", "result"
    for (i = 1; i <= count; i++) {
        job = jobs[i]
        result = job in end ? "finished" : (job in killed ? "killed while " killed_while[job] : "NOT FINISHED")
        printf "  %-7s %-17s %-17s %9s %10s %10s  %s\n", job, job in ticket ? ticket[job] : "none: it was free",
            job in token ? token[job] : "-", seconds(called[job]), job in start ? seconds(start[job]) : "-",
            job in end ? seconds(end[job]) : (job in start && job in killed ? seconds(wrote[job]) : "-"), result
    }
}

function judge(    i, job, words, holder, before, previous, finished) {
    before = failures
    for (i = 1; i <= total; i++) {
        split(lines[i], words, " ")
        job = words[2]
        if (words[4] == "start") {
            # The hold of a killed job ends when the next one starts; that it was silent from then on is checked below.
            if (holder != "" && !(holder in killed)) wrong(job " started while " holder " was running")
            holder = job
        } else if (job != holder) {
            wrong(job " went on while " (holder == "" ? "it did not hold the lock" : holder " held the lock"))
        }
        if (words[4] == "end" && holder == job) holder = ""
    }
    right("never did two commands run at the same time (" granted " holds, " total " lines of the commands' journal)", before)

    before = failures
    for (i = 2; i <= granted; i++)
        if (token[grants[i]] + 0 <= token[grants[i - 1]] + 0)
            wrong("the token did not rise from " grants[i - 1] " to " grants[i])
    right("the fencing tokens rise with every grant", before)

    before = failures
    for (i = 1; i <= granted; i++) {
        job = grants[i]
        # Who found the lock free has no ticket, and must be the first.
        if (i > 1 && !(job in ticket)) wrong(job " was granted without having queued")
        if (i > 1 && ticket[job] + 0 <= previous + 0) wrong(job " was served before its turn")
        previous = ticket[job]
    }
    right("all were served in the order of their tickets", before)

    before = failures
    for (i = 1; i <= count; i++) {
        job = jobs[i]
        if (job in end) finished++
        if (job in killed && job in end) wrong(job " finished although it was killed")
        if (killed_while[job] == "waiting" && job in start) wrong(job " started although it was killed while it waited")
        if (!(job in killed) && !(job in end)) wrong(job " did not finish")
    }
    right(finished " jobs finished, and nobody else", before)
}
