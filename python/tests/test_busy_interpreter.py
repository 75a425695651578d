"""A process whose interpreter is busy keeps its leases. It is busy until a lease that nobody renews is over."""

from __future__ import annotations

import asyncio
import ctypes
import subprocess
import sys
import threading
from typing import Any, Callable

import pytest
import redis_lock
from conftest import SOON, Server, eventually

import fairlock

#: Seconds: so many that a busy machine renews in time.
LEASE = 10

#: Another process, which says when the leases that were not renewed are over.
WATCHER = """
import sys, time, fairlock, redis
server, url = redis.Redis(unix_socket_path=sys.argv[1]), "unix://" + sys.argv[1]
alone = fairlock.connect(url).lock("left alone")
print("ready", flush=True)
sys.stdin.readline()
alone.acquire(timeout=120).wait()
until = time.monotonic() + 120
while server.exists("lock:theirs", "by hand") and time.monotonic() < until:
    time.sleep(0.01)
print("!", flush=True)
"""


def hold_the_gil_until_readable(descriptor: int) -> bytes:
    """One call of C code that does not release the GIL, such as a badly written extension."""
    byte = ctypes.create_string_buffer(1)
    ctypes.PyDLL(None).read(descriptor, byte, 1)
    return byte.raw


def left_alone(client: fairlock.Client) -> fairlock.Held:
    """A lease that nobody renews."""
    return client.lock("left alone", lease=LEASE, manual_renewal=True).acquire().wait()


def renewed(left: Callable[[], float]) -> None:
    """Waits until there is more left of a lease than there was."""
    least = left()

    def more() -> bool:
        nonlocal least
        now = left()
        least, is_more = min(least, now), now > least
        return is_more

    eventually("it is renewed", more)


# The thread of python-redis-lock fails.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_lease_outlives_a_call_that_holds_the_gil_and_those_of_others_do_not(
    server: Server, client: fairlock.Client
) -> None:
    redis: Any = server.redis()
    ours = client.lock("renewed", lease=LEASE).acquire().wait()
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
    ours.wait_renewed(SOON)
    renewed(lambda: float(redis.pttl("lock:theirs")))
    renewed(lambda: float(redis.pttl("by hand")))

    command = [sys.executable, "-c", WATCHER, str(server.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as watcher:
        assert watcher.stdin is not None and watcher.stdout is not None
        assert watcher.stdout.readline() == b"ready\n"
        alone = left_alone(client)
        watcher.stdin.write(b"go\n")
        assert hold_the_gil_until_readable(watcher.stdout.fileno()) == b"!"

    ours.check()
    assert ours.verify()
    assert alone.lost and not theirs.locked() and not by_hand.owned(), "their threads could not renew them"
    stop.set()
    thread.join()
    theirs._stop_lock_renewer()
    ours.release()


def test_a_blocked_event_loop_keeps_its_lease(server: Server, client: fairlock.Client) -> None:
    def outlive_another() -> None:
        alone = left_alone(client)
        with fairlock.connect(server.url) as other, other.lock("left alone").acquire(timeout=4 * SOON):
            assert alone.lost

    async def main() -> None:
        async with client.lock("lock", lease=LEASE).acquire() as held:
            thread = threading.Thread(target=outlive_another)
            thread.start()
            thread.join()
            held.check()
            assert await held.verify()

    asyncio.run(main())
