"""The history that members of the crew in Python write, the same as that of Rust members (testkit/src/history/mod.rs)."""

import os
import threading
import time

# It counts suspended time, as the leases' clocks do.
CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_ns():
    return time.clock_gettime_ns(CLOCK)


class Notes:
    """Stamps every beginning after the act and every end before it."""

    def __init__(self, path, process, remaining):
        """`remaining` tells what is left of a lease."""
        self.remaining = remaining
        self.file, self.process = open(path, "ab", buffering=0), process
        self.holding, self.mutex = {}, threading.Lock()

    def note(self, waiter, *event, at=None):
        words = [at or now_ns(), self.process, waiter, *event]
        self.file.write((" ".join(map(str, words)) + "\n").encode())

    def granted(self, waiter, lease):
        with self.mutex:
            at = now_ns()
            self.note(waiter, "granted", lease.token, at=at)
            self.note(waiter, "held" if self.remaining(lease) > 0 else "lost", at=at)
            self.holding[waiter] = lease

    def ended(self, waiter):
        with self.mutex:
            lease = self.holding.pop(waiter, None)
            if lease is not None:
                at = now_ns()
                self.note(waiter, "released" if self.remaining(lease) > 0 else "lost", at=at)

    def witness(self, long_ns):
        """Records that holders believe in their leases, when that ends, and that the process stood still."""
        looked = now_ns()
        while True:
            now = now_ns()
            if now - looked > long_ns:
                self.note("-", "paused", at=looked)
                self.note("-", "resumed", at=now)
            looked = now
            with self.mutex:
                for waiter, lease in list(self.holding.items()):
                    at = now_ns()
                    if self.remaining(lease) > 0:
                        self.note(waiter, "held", at=at)
                    else:
                        self.note(waiter, "lost")
                        del self.holding[waiter]
            time.sleep(0.005)


def orders():
    """The arguments of testkit/src/crew/member.rs."""
    url, name, history, number, seed, _, lease, liveness, buffer, long_of, *_ = (
        os.environ["FAIRLOCK_CHILD_ARGS"].removesuffix("\x1f").split("\x1f")
    )
    lease, liveness, buffer = (int(span) / 1e9 for span in (lease, liveness, buffer))
    return url.removeprefix("redis+"), name, history, number, seed, lease, liveness, buffer, int(long_of)
