"""A process of the crew that uses the Python package (python/), by a thread or by a task of asyncio, and writes the same
history as the Rust members."""

import asyncio
import pathlib
import random
import threading
import time

import fairlock
from notes import Notes, now_ns, orders


def turns(notes, name, kind, rng, stop, long_of):
    """The turns of a process: waiter, timeout, and whether it holds the lock for longer than its lease."""
    turn = 0
    while not stop.exists():
        time.sleep(0.3 * rng.random())
        turn += 1
        stays_long = rng.randrange(200) < 2 * long_of
        waiter = f"{name}.{turn}-python-{kind}-{'long' if stays_long else 'waits'}"
        timeout = rng.random() ** 2 * 2.5 if rng.random() < 0.3 else None
        called = now_ns()
        notes.note(waiter, "called", *([] if timeout is None else [int(timeout * 1e9)]), at=called)
        yield waiter, called, timeout, stays_long


def returned(notes, waiter, called, timeout):
    notes.note(waiter, "returned")
    notes.note(waiter, "left", at=called + int(timeout * 1e9))


def hold(lease_s, rng, stays_long):
    return lease_s * (1.1 + 0.4 * rng.random()) if stays_long else 0.02 * rng.random() ** 2


def live(notes, lock, name, rng, stop, lease_s, long_of):
    for waiter, called, timeout, stays_long in turns(notes, name, "thread", rng, stop, long_of):
        try:
            place = lock.enqueue(timeout).wait()
            notes.note(waiter, "queued", place.ticket)
            held = place.wait()
        except fairlock.Timeout:
            returned(notes, waiter, called, timeout)
            continue
        notes.granted(waiter, held)
        time.sleep(hold(lease_s, rng, stays_long))
        notes.ended(waiter)
        try:
            held.release()
        except (fairlock.LockLost, fairlock.ReleaseUnknown):
            pass  # the judges see whether it may be


async def live_as_task(notes, lock, name, rng, stop, lease_s, long_of):
    for waiter, called, timeout, stays_long in turns(notes, name, "task", rng, stop, long_of):
        try:
            place = await lock.enqueue(timeout)
            notes.note(waiter, "queued", place.ticket)
            held = await place
        except fairlock.Timeout:
            returned(notes, waiter, called, timeout)
            continue
        notes.granted(waiter, held)
        await asyncio.sleep(hold(lease_s, rng, stays_long))
        notes.ended(waiter)
        try:
            await held.release()
        except (fairlock.LockLost, fairlock.ReleaseUnknown):
            pass


def main():
    url, name, history, number, seed, lease, liveness, buffer, long_of = orders()
    notes = Notes(history, f"p{number}", lambda held: held.remaining if not held.lost else 0)
    threading.Thread(target=notes.witness, args=[liveness * 0.6 / 3 * 1e9], daemon=True).start()
    lock = fairlock.Client(url).lock(name, lease=lease, liveness=liveness, buffer=buffer)
    stop = pathlib.Path(history).with_suffix(".stop")
    arguments = notes, lock, f"p{number}", random.Random(f"{seed} {number}"), stop, lease, long_of
    # Half of the processes are of each kind: Rust processes have the other numbers.
    if int(number) // 2 % 2:
        asyncio.run(live_as_task(*arguments))
    else:
        live(*arguments)


main()
