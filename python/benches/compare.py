"""What a lock costs a Python program: fairlock next to redis-py, python-redis-lock and redis-fifo-lock, in one run.

    pip install redis-fifo-lock python-redis-lock redis
    python benches/compare.py [ROUNDS]

For each lock two figures, in microseconds: the median of an acquire and a release of a free lock, and the median of the
time from a release to the next grant, with four processes that take turns of a millisecond. The rounds of all locks
alternate, so that a busy moment of the machine hits all of them.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Tuple

HOLD_NS = 1_000_000
CYCLES, TURNS, PROCESSES = 500, 100, 4
Calls = Tuple[Callable[[], Any], Callable[[], Any]]


def fairlock_threads(path: str, name: str) -> Calls:
    import fairlock

    lock, held = fairlock.connect(f"unix://{path}").lock(name), []
    return lambda: held.append(lock.acquire().wait()), lambda: held.pop().release()


def fairlock_tasks(path: str, name: str) -> Calls:
    import fairlock

    loop, held = asyncio.new_event_loop(), []
    lock = fairlock.connect(f"unix://{path}").lock(name)

    async def acquire() -> None:
        held.append(await lock.acquire())

    return lambda: loop.run_until_complete(acquire()), lambda: loop.run_until_complete(held.pop().release())


def redis_py(path: str, name: str) -> Calls:
    import redis

    lock = redis.Redis(unix_socket_path=path).lock(name, timeout=30)
    return lock.acquire, lock.release


def redis_py_tasks(path: str, name: str) -> Calls:
    import redis.asyncio

    loop = asyncio.new_event_loop()
    lock = redis.asyncio.Redis(unix_socket_path=path).lock(name, timeout=30)

    async def release() -> None:
        await lock.release()

    return lambda: loop.run_until_complete(lock.acquire()), lambda: loop.run_until_complete(release())


def python_redis_lock(path: str, name: str) -> Calls:
    import redis
    import redis_lock

    lock = redis_lock.Lock(redis.StrictRedis(unix_socket_path=path), name, expire=30)
    return lock.acquire, lock.release


def redis_fifo_lock(path: str, name: str) -> Calls:
    import redis.asyncio
    from redis_fifo_lock import FifoLock

    loop, leases = asyncio.new_event_loop(), []
    lock = FifoLock(redis.asyncio.Redis(unix_socket_path=path), name)

    async def acquire() -> None:
        leases.append(await lock.acquire())

    return lambda: loop.run_until_complete(acquire()), lambda: loop.run_until_complete(lock.release(leases.pop()))


LOCKS = {
    made.__name__: made
    for made in (fairlock_threads, fairlock_tasks, redis_py, redis_py_tasks, python_redis_lock, redis_fifo_lock)
}


def cycles(calls: Calls) -> float:
    acquire, release = calls
    times = []
    for _ in range(CYCLES):
        start = time.perf_counter_ns()
        acquire()
        release()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000


def member(kind: str, path: str) -> None:
    """A process that takes turns, and prints when it got and released the lock."""
    acquire, release = LOCKS[kind](path, "contended")
    print("ready", flush=True)
    sys.stdin.readline()
    events = []
    for _ in range(TURNS):
        acquire()
        got = time.monotonic_ns()
        # A sleep would take as long as the kernel likes.
        while time.monotonic_ns() < got + HOLD_NS:
            pass
        released = time.monotonic_ns()
        release()
        events.append(f"{got} {released}")
    print("\n".join(events), flush=True)


def hand_off(kind: str, path: str) -> float:
    command = [sys.executable, __file__, "member", kind, path]
    crew = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)
    ]
    for one in crew:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    for one in crew:
        assert one.stdin is not None
        one.stdin.write("go\n")
        one.stdin.flush()
    turns = sorted(tuple(map(int, line.split())) for one in crew for line in one.communicate()[0].splitlines())
    # The last turns have fewer waiters.
    pairs = list(zip(turns, turns[1:]))[: len(turns) * 3 // 4]
    return statistics.median(after[0] - before[1] for before, after in pairs) / 1000


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/socket"
        binary = os.environ.get("FAIRLOCK_REDIS_SERVER", "redis-server")
        command = [binary, "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            while not os.path.exists(path):
                time.sleep(0.01)
            free = {kind: made(path, f"free {kind}") for kind, made in LOCKS.items()}
            figures: Dict[str, Tuple[List[float], List[float]]] = {kind: ([], []) for kind in LOCKS}
            for _ in range(rounds):
                for kind in LOCKS:
                    figures[kind][0].append(cycles(free[kind]))
                    figures[kind][1].append(hand_off(kind, path))
        finally:
            server.kill()
            server.wait()
    print(f"{'':20}{'free lock':>12}{'hand-off':>12}   µs, medians of {rounds} rounds")
    for kind, (free_lock, handed) in figures.items():
        print(f"{kind:20}{statistics.median(free_lock):12.0f}{statistics.median(handed):12.0f}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["member"]:
        member(*sys.argv[2:])
    else:
        main()
