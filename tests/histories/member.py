"""A process of the crew that uses the Python client: one waiter, which acquires one lock at random and writes the same
history as the Rust members (testkit/src/history/mod.rs). Its arguments are those of testkit/src/crew/member.rs."""

import os
import pathlib
import random
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "python-client"))
import fairlock  # noqa: E402  the path comes first


def now_ns():
    return time.clock_gettime_ns(fairlock._CLOCK)


class Notes:
    """Stamps every beginning after the act and every end before it."""

    def __init__(self, path, process):
        self.file, self.process = open(path, "ab", buffering=0), process
        self.holding, self.mutex = {}, threading.Lock()

    def note(self, waiter, *event, at=None):
        words = [at or now_ns(), self.process, waiter, *event]
        self.file.write((" ".join(map(str, words)) + "\n").encode())

    def granted(self, waiter, lease):
        with self.mutex:
            at = now_ns()
            self.note(waiter, "granted", lease.token, at=at)
            self.note(waiter, "held" if lease.remaining() > 0 else "lost", at=at)
            self.holding[waiter] = lease

    def ended(self, waiter):
        with self.mutex:
            lease = self.holding.pop(waiter, None)
            if lease is not None:
                at = now_ns()
                self.note(waiter, "released" if lease.remaining() > 0 else "lost", at=at)

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
                    if lease.remaining() > 0:
                        self.note(waiter, "held", at=at)
                    else:
                        self.note(waiter, "lost")
                        del self.holding[waiter]
            time.sleep(0.005)


def live(notes, locks, name, rng, stop, lease_s, long_of):
    turns = 0
    while not stop.exists():
        time.sleep(0.3 * rng.random())
        turns += 1
        lock = locks[turns % 2]
        stays_long = rng.randrange(200) < 2 * long_of
        waiter = f"{name}.{turns}-python-{'push' if lock._push else 'polls'}-{'long' if stays_long else 'waits'}"
        timeout = rng.random() ** 2 * 2.5 if rng.random() < 0.3 else None
        called = now_ns()
        notes.note(waiter, "called", *([] if timeout is None else [int(timeout * 1e9)]), at=called)
        try:
            lease = lock.acquire(timeout=timeout, on_ticket=lambda ticket: notes.note(waiter, "queued", ticket))
        except fairlock.Timeout:
            notes.note(waiter, "returned")
            notes.note(waiter, "left", at=called + int(timeout * 1e9))
            continue
        notes.granted(waiter, lease)
        time.sleep(lease_s * (1.1 + 0.4 * rng.random()) if stays_long else 0.02 * rng.random() ** 2)
        notes.ended(waiter)
        try:
            lease.release()
        except fairlock.Lost:
            pass  # the judges see whether it may be


def main():
    url, name, history, number, seed, _, lease, liveness, buffer, long_of, *_ = (
        os.environ["FAIRLOCK_CHILD_ARGS"].removesuffix("\x1f").split("\x1f")
    )
    lease, liveness, buffer = (int(span) / 1e9 for span in (lease, liveness, buffer))
    notes = Notes(history, f"p{number}")
    threading.Thread(target=notes.witness, args=[liveness * 0.6 / 3 * 1e9], daemon=True).start()
    # Every other acquire hears of its grant by its heartbeats alone.
    options = {"lease": lease, "liveness": liveness, "buffer": buffer}
    locks = [fairlock.Lock(url.removeprefix("redis+"), name, push=push, **options) for push in (True, False)]
    stop = pathlib.Path(history).with_suffix(".stop")
    live(notes, locks, f"p{number}", random.Random(f"{seed} {number}"), stop, lease, int(long_of))


main()
