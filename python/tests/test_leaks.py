"""Nothing grows: clients, locks, waits, cancelled tasks."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
from itertools import count
from pathlib import Path
from typing import Callable

import pytest
from conftest import Server, is_free

import fairlock
from fairlock.testing import LockService


@pytest.fixture(autouse=True)
def nobody_keeps_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest keeps each record of a test until its end, which is more than a kilobyte."""
    monkeypatch.setattr(logging.getLogger("fairlock"), "disabled", True)


def used() -> int:
    """Resident memory in bytes."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def stays_flat(times: int, turn: Callable[[], object], in_a_turn: int = 1) -> None:
    """In one of a few rounds of so many turns nothing grows. Allocators take their time until they have what they need;
    a leak shows in each round, if it is of a quarter of a kilobyte for each turn."""
    grown = []
    for _ in range(8):
        before, open_before, threads_before = used(), descriptors(), threads()
        for _ in range(times // in_a_turn):
            turn()
        more = used() - before, descriptors() - open_before, threads() - threads_before
        if more[0] < 256 * times and more[1] <= 4 and more[2] <= 2:
            return
        grown.append(more)
    raise AssertionError(f"more bytes, descriptors and threads in each round of {times}: {grown}")


def test_locks_and_holds(client: fairlock.Client) -> None:
    number = count()

    def turn() -> None:
        with client.lock(f"lock {next(number)}").acquire(label="x" * 100):
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
        stays_flat(2_000, turn)


def test_cancelled_tasks(client: fairlock.Client) -> None:
    lock = client.lock("lock")

    async def cancelled() -> None:
        tasks = [asyncio.ensure_future(lock.acquire()._run()) for _ in range(100)]
        await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    with lock.acquire():
        stays_flat(10_000, lambda: asyncio.run(cancelled()), in_a_turn=100)
    is_free(lock)


def test_clients(server: Server) -> None:
    number = count()

    def turn() -> None:
        client = fairlock.connect(server.url)
        client.lock("lock").acquire().wait()
        # Nobody closes the others.
        if next(number) % 2:
            client.close()

    # Without optimizations a client takes milliseconds of the processor.
    stays_flat(10_000 if os.environ.get("PROFILE") == "release" else 2_000, turn)


def test_lock_services() -> None:
    def turn() -> None:
        with LockService() as service, service.client() as client:
            client.lock("lock").acquire().wait()

    stays_flat(500, turn)
