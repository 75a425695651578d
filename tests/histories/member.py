"""A process of the crew that uses the Python client: one waiter, which acquires one lock at random and writes the same
history as the Rust members (testkit/src/history/mod.rs). Its arguments are those of testkit/src/crew/member.rs."""

import pathlib
import random
import sys
import threading
import time

from notes import Notes, now_ns, orders

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "python-client"))
import fairlock  # noqa: E402  the path comes first


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
    url, name, history, number, seed, lease, liveness, buffer, long_of = orders()
    notes = Notes(history, f"p{number}", lambda lease: lease.remaining())
    threading.Thread(target=notes.witness, args=[liveness * 0.6 / 3 * 1e9], daemon=True).start()
    # Every other acquire hears of its grant by its heartbeats alone.
    options = {"lease": lease, "liveness": liveness, "buffer": buffer}
    locks = [fairlock.Lock(url, name, push=push, **options) for push in (True, False)]
    stop = pathlib.Path(history).with_suffix(".stop")
    live(notes, locks, f"p{number}", random.Random(f"{seed} {number}"), stop, lease, long_of)


main()
