"""A process whose interpreter is busy keeps its leases."""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time

import pytest
import redis_lock
from conftest import SOON, Server

import fairlock

#: Seconds. Three of them pass in one call that holds the GIL.
LEASE = 3


def hold_the_gil(seconds: float) -> None:
    """One call of C code that does not release the GIL, such as a badly written extension."""
    ctypes.PyDLL(None).usleep(int(seconds * 1e6))


# The thread of python-redis-lock fails.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_lease_outlives_a_call_that_holds_the_gil_and_those_of_others_do_not(
    server: Server, client: fairlock.Client
) -> None:
    redis = server.redis()
    ours = client.lock("renewed", lease=LEASE).acquire().wait()
    # The same lease without the native thread.
    left_alone = client.lock("left alone", lease=LEASE, manual_renewal=True).acquire().wait()
    # python-redis-lock renews by a thread of its own.
    theirs = redis_lock.Lock(redis, "theirs", expire=LEASE, auto_renewal=True)
    theirs._lock_renewal_interval = LEASE / 3
    assert theirs.acquire()
    # redis-py has no renewal; this is how its users add one.
    by_hand, stop = redis.lock("by hand", timeout=LEASE, thread_local=False), threading.Event()
    assert by_hand.acquire()

    def renew() -> None:
        while not stop.wait(LEASE / 3) and by_hand.owned():
            by_hand.reacquire()

    thread = threading.Thread(target=renew)
    thread.start()
    # All of them are renewed while the interpreter runs.
    time.sleep(2 * LEASE)
    assert ours.verify() and theirs.locked() and by_hand.owned()
    left_alone.lost.wait(SOON)

    hold_the_gil(3 * LEASE)

    ours.check()
    assert not theirs.locked(), "its thread could not renew it"
    assert not by_hand.owned(), "the thread could not renew it"
    assert ours.verify()
    stop.set()
    thread.join()
    theirs._stop_lock_renewer()
    ours.release()


def test_a_blocked_event_loop_keeps_its_lease(client: fairlock.Client) -> None:
    async def main() -> None:
        async with client.lock("lock", lease=LEASE).acquire() as held:
            time.sleep(3 * LEASE)
            held.check()
            assert await held.verify()

    asyncio.run(main())
