"""Drives `fairlock.py` for `make conformance`: the lines of docs/conformance.md on stdin and stdout.

With the argument `--polls` its waiters hear of their grants by heartbeats alone."""

import contextlib
import sys
import threading

import fairlock

SECOND = 1_000_000
_writing = threading.Lock()


def say(*words):
    with _writing:
        print(*words, flush=True)


class Driver:
    def __init__(self, url, prefix, name, *spans):
        lease, liveness, buffer, notice = (int(span) / SECOND for span in spans[:4])
        options = {"lease": lease, "liveness": liveness, "buffer": buffer, "notice": notice, "slots": int(spans[4])}
        self.another = lambda: fairlock.Lock(url, name, prefix=prefix, push="--polls" not in sys.argv, **options)
        # A `Lock` has one waiter at a time, and is used again.
        self.idle, self.waiting, self.leases = [], {}, {}

    def acquire(self, waiter, timeout):
        self.waiting[waiter] = self.idle.pop() if self.idle else self.another(), threading.Event()
        self._begin(self._wait, waiter, timeout)

    def leave(self, waiter):
        self.waiting[waiter][1].set()
        self._begin(self._give_back, waiter)

    def held(self, waiter):
        lease = self.leases.get(waiter)
        say(*(["held", waiter, lease.slot] if lease and lease.remaining() > 0 else ["lost", waiter]))

    def release(self, waiter):
        self._begin(self._release, waiter)

    @staticmethod
    def _begin(step, *words):
        threading.Thread(target=step, args=words).start()

    def _wait(self, waiter, timeout):
        lock, leaves = self.waiting[waiter]
        try:
            if timeout == "try":
                lease = lock.try_acquire()
            else:
                seconds = None if timeout == "-" else int(timeout) / SECOND
                queued = lambda ticket: say("queued", waiter, ticket)  # noqa: E731
                lease = lock.acquire(timeout=seconds, on_ticket=queued, cancelled=leaves)
        except fairlock.Busy:
            said = ["busy", waiter]
        except fairlock.Timeout:
            said = ["left" if leaves.is_set() else "timeout", waiter]
        except Exception as error:  # noqa: BLE001  the judge shows it
            said = ["failed", waiter, repr(error)]
        else:
            self.leases[waiter] = lease
            if leaves.is_set():
                return self._give_back(waiter)
            return say("granted", waiter, lease.token, lease.ticket, lease.slot)
        self.idle.append(lock)
        say(*said)

    def _give_back(self, waiter):
        # Whoever takes the lease answers: it may be granted while it is given up.
        if lease := self.leases.pop(waiter, None):
            with contextlib.suppress(fairlock.Lost):
                lease.release()
            self.idle.append(self.waiting[waiter][0])
            say("left", waiter)

    def _release(self, waiter):
        try:
            self.leases[waiter].release()
            said = "released"
        except fairlock.Lost:
            said = "lost"
        self.idle.append(self.waiting[waiter][0])
        say(said, waiter)


driver = None
for line in sys.stdin:
    verb, *words = line.split()
    if verb == "open":
        driver = Driver(*words)
        say("ready", "waits", "leaves", "slots", *([] if "--polls" in sys.argv else ["pushes"]))
    elif verb == "try":
        driver.acquire(*words, "try")
    else:
        getattr(driver, verb)(*words)
