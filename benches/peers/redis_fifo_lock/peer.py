"""Cycles and hand-offs of redis-fifo-lock.

`cycles N` is answered by the median time of a cycle in microseconds; `contend N` by N times at which this process was granted the
lock and began to release it, in nanoseconds of the clock that all processes share.
"""

import asyncio
import statistics
import sys
import time

import redis.asyncio
from redis_fifo_lock import FifoLock

HOLD_S = 0.001


async def cycles(lock, count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        await lock.release(await lock.acquire())
        times.append(time.perf_counter() - start)
    return str(statistics.median(times) * 1e6)


async def contend(lock, count):
    turns = []
    for _ in range(count):
        lease = await lock.acquire()
        granted = time.monotonic_ns()
        await asyncio.sleep(HOLD_S)
        turns.append(f"{granted}:{time.monotonic_ns()}")
        await lock.release(lease)
    return " ".join(turns)


def main():
    loop = asyncio.new_event_loop()
    client = redis.asyncio.Redis(host="127.0.0.1", port=int(sys.argv[1]))
    work = {"cycles": (cycles, FifoLock(client, "cycles")), "contend": (contend, FifoLock(client, "contend"))}
    for line in sys.stdin:
        verb, count = line.split()
        act, lock = work[verb]
        print(loop.run_until_complete(act(lock, int(count))), flush=True)


main()
