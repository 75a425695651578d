"""Nothing grows: clients, locks, waits, cancelled tasks."""

from __future__ import annotations

import asyncio
import gc
import os
from pathlib import Path
from typing import Callable

from conftest import Server, is_free

import fairlock


def used() -> int:
    """Resident memory in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def stays_flat(turns: int, turn: Callable[[], object]) -> None:
    """The second half of the turns uses no more than the first: a leak of a kilobyte for each turn would show."""
    for _ in range(turns // 2):
        turn()
    before, open_before, threads_before = used(), descriptors(), threads()
    for _ in range(turns // 2):
        turn()
    assert used() - before < turns // 2 * 1024 + 2_000_000
    assert descriptors() <= open_before + 4 and threads() <= threads_before + 2


def test_locks_and_holds(client: fairlock.Client) -> None:
    def turn() -> None:
        with client.lock("lock").acquire(label="x" * 100):
            pass

    stays_flat(10_000, turn)


def test_tries_and_timeouts(client: fairlock.Client) -> None:
    lock = client.lock("lock")

    def turn() -> None:
        for acquire in (lock.try_acquire(), lock.acquire(timeout=0)):
            try:
                acquire.wait()
            except (fairlock.Busy, fairlock.Timeout):
                pass

    with lock.acquire():
        stays_flat(5_000, turn)


def test_cancelled_tasks(client: fairlock.Client) -> None:
    lock = client.lock("lock")

    async def cancelled() -> None:
        tasks = [asyncio.ensure_future(lock.acquire()._run()) for _ in range(100)]
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with lock.acquire():
        stays_flat(100, lambda: asyncio.run(cancelled()))
    is_free(lock)


def test_clients(server: Server) -> None:
    def turn() -> None:
        client = fairlock.connect(server.url)
        client.lock("lock").acquire().wait()
        client.close()

    stays_flat(1_000, turn)


def test_clients_that_nobody_closes(server: Server) -> None:
    def turn() -> None:
        fairlock.connect(server.url).lock("lock").acquire().wait()

    stays_flat(500, turn)
