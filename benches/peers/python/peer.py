"""Three locks of Python, each used as its documentation tells: `peer.py LOCK PORT`.

`cycles N` is answered by the median time of a cycle in microseconds; `contend N` by the events of N turns and a line `end`. Times
are CLOCK_MONOTONIC.
"""

import asyncio
import statistics
import sys
import time

import redis
import redis.asyncio
import redis_lock
from redis_fifo_lock import FifoLock

HOLD_NS = 1_000_000


def hold():
    """Spins, because a sleep takes as long as the kernel and the runtime like."""
    end = time.monotonic_ns() + HOLD_NS
    while time.monotonic_ns() < end:
        pass


class Fifo:
    """redis-fifo-lock: asyncio, with its defaults."""

    def __init__(self, port):
        self.loop = asyncio.new_event_loop()
        self.client = redis.asyncio.Redis(host="127.0.0.1", port=port)

    def of(self, name):
        lock = FifoLock(self.client, name)
        lease = None

        def acquire():
            nonlocal lease
            lease = self.loop.run_until_complete(lock.acquire())

        return acquire, lambda: self.loop.run_until_complete(lock.release(lease))


class RedisPy:
    """The lock of redis-py: a blocking acquire that tries again every 0.1 s, its default."""

    def __init__(self, port):
        self.client = redis.Redis(host="127.0.0.1", port=port)

    def of(self, name):
        lock = self.client.lock(name, timeout=30)
        return lock.acquire, lock.release


class PythonRedisLock:
    """python-redis-lock: waiters block in BLPOP for the signal of a release."""

    def __init__(self, port):
        self.client = redis.StrictRedis(host="127.0.0.1", port=port)

    def of(self, name):
        lock = redis_lock.Lock(self.client, name, expire=30)
        return lock.acquire, lock.release


def cycles(acquire, release, count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        acquire()
        release()
        times.append(time.perf_counter() - start)
    return [str(statistics.median(times) * 1e6)]


def contend(acquire, release, count):
    events = []
    for _ in range(count):
        events.append(f"called {time.monotonic_ns()}")
        acquire()
        events.append(f"got {time.monotonic_ns()}")
        hold()
        events.append(f"released {time.monotonic_ns()}")
        release()
    return [*events, "end"]


def main():
    kind = {"redis-fifo-lock": Fifo, "redis-py": RedisPy, "python-redis-lock": PythonRedisLock}[sys.argv[1]]
    locks = kind(int(sys.argv[2]))
    free, contended = locks.of("peer:free"), locks.of("peer:contended")
    for line in sys.stdin:
        verb, count = line.split()
        answer = cycles(*free, int(count)) if verb == "cycles" else contend(*contended, int(count))
        print("\n".join(answer), flush=True)


main()
