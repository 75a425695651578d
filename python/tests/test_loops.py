"""A wait on the spot where an event loop runs: it blocks the loop, and what only the loop could end never ends."""

from __future__ import annotations

import asyncio
import sys
import threading
import warnings
from types import SimpleNamespace
from typing import Any, Callable, Dict, List

import pytest
from conftest import SOON, is_free, waiting

import fairlock
from fairlock import compat


def waits_for_ever(begin: Callable[[], Any]) -> None:
    with pytest.raises(RuntimeError, match="would wait for ever: a task of the running event loop holds the lock"):
        begin()


WAYS: Dict[str, Callable[[fairlock.Client], Any]] = {
    "with": lambda client: client.lock("lock").acquire(timeout=SOON).__enter__(),
    "wait": lambda client: client.lock("lock").acquire().wait(),
    "a place": lambda client: client.lock("lock").enqueue().wait().wait(),
    "several": lambda client: client.lock_all(["another", "lock"]).wait(),
    "a key": lambda client: client.keyed_mutex("lock").acquire(7),
    "a drop-in": lambda client: compat.RedisFairLock("lock", client).acquire(),
}


@pytest.mark.parametrize("wait", WAYS.values(), ids=WAYS.keys())
@pytest.mark.filterwarnings("ignore:.*blocks the running event loop")
def test_a_wait_for_a_lock_of_a_task_of_this_loop_is_refused(
    client: fairlock.Client, wait: Callable[[fairlock.Client], Any]
) -> None:
    async def blocks() -> None:
        waits_for_ever(lambda: wait(client))

    async def holds() -> None:
        async with client.lock("lock").acquire(), client.lock("lock:7").acquire():
            await asyncio.create_task(blocks())
            # A try does not wait.
            with pytest.raises(fairlock.Busy):
                client.lock("lock").try_acquire().wait()
            with pytest.raises(fairlock.Timeout):
                client.lock("lock").acquire(timeout=0).wait()

    asyncio.run(holds())
    is_free(client.lock("lock"))


@pytest.mark.filterwarnings("ignore:.*blocks the running event loop")
def test_a_block_and_several_locks_count_too_and_a_lease_that_is_over_does_not(client: fairlock.Client) -> None:
    lock = client.lock("lock")

    async def main() -> None:
        with lock.acquire():
            waits_for_ever(lambda: lock.acquire().wait())
        async with client.lock_all(["another", "lock"]):
            waits_for_ever(lambda: lock.acquire().wait())
        held = await lock.acquire()
        await lock.break_lease(held.token, force=True)
        await held.lost.wait()
        lock.acquire(timeout=SOON).wait().release()

    asyncio.run(main())
    is_free(lock)


@pytest.mark.filterwarnings("ignore:.*blocks the running event loop")
def test_what_tasks_of_this_loop_share_is_waited_for_until_they_have_it_all(client: fairlock.Client) -> None:
    gpus, index = client.semaphore("gpu", 2), client.rw_lock("index")

    async def main() -> None:
        async with gpus.acquire():
            # The one that is alone would wait for the task; one of two, and one of three, need not.
            waits_for_ever(lambda: client.lock("gpu").acquire(timeout=SOON).wait())
            gpus.acquire(timeout=SOON).wait().release()
            async with gpus.acquire():
                waits_for_ever(lambda: gpus.acquire(timeout=SOON).wait())
                waits_for_ever(lambda: client.semaphore("gpu", 3).acquire(timeout=SOON).wait())
                waits_for_ever(lambda: client.lock_all(["gpu"], timeout=SOON).wait())
                waits_for_ever(lambda: client.lock_all(["a", gpus], timeout=SOON).wait())
        # Several locks count, too, each with its own number.
        async with client.lock_all([gpus, index.reader]):
            client.lock_all([index.reader, gpus], timeout=SOON).wait().release()
            waits_for_ever(lambda: client.lock_all([index.writer], timeout=SOON).wait())
            async with gpus.acquire():
                waits_for_ever(lambda: gpus.acquire(timeout=SOON).wait())
        async with index.read():
            index.read(timeout=SOON).wait().release()
            waits_for_ever(lambda: index.write(SOON).wait())
            waits_for_ever(lambda: index.writer.enqueue(SOON).wait().wait())
        async with index.write() as held:
            waits_for_ever(lambda: index.read(SOON).wait())
            await held.downgrade()
            index.read(timeout=SOON).wait().release()
            waits_for_ever(lambda: index.write(SOON).wait())

    asyncio.run(main())
    is_free(gpus)
    is_free(index.writer)


@pytest.mark.filterwarnings("ignore:.*blocks the running event loop")
def test_what_waits_in_this_loop_behind_what_it_holds_lets_nobody_by(client: fairlock.Client) -> None:
    index, gpus = client.rw_lock("index"), client.semaphore("gpu", 2, lease=1)

    async def behind_a_writer() -> None:
        await asyncio.to_thread(waiting, index.writer, 1)
        waits_for_ever(lambda: index.read(timeout=SOON).wait())
        waits_for_ever(lambda: client.lock_all(["a", index.reader], timeout=SOON).wait())

    async def main() -> None:
        async with index.read():
            index.read(timeout=SOON).wait().release()
            writer = asyncio.ensure_future(index.write())
            await behind_a_writer()
            writer.cancel()
            await asyncio.to_thread(waiting, index.writer, 0)
            index.read(timeout=SOON).wait().release()
            place = await index.writer.enqueue()
            await behind_a_writer()
            place.leave()
            await asyncio.to_thread(waiting, index.writer, 0)
            index.read(timeout=SOON).wait().release()
            # One that gives up, and one that waits for others only.
            impatient = asyncio.ensure_future(index.write(timeout=0.2))
            await asyncio.to_thread(waiting, index.writer, 1)
            index.read(timeout=SOON).wait().release()
            with pytest.raises(fairlock.Timeout):
                await impatient
        other = await asyncio.to_thread(gpus.acquire().wait)
        alone = asyncio.ensure_future(client.lock("gpu", lease=1).acquire())
        await asyncio.to_thread(waiting, gpus, 1)
        # The other one releases meanwhile, and the lease that no task takes ends.
        threading.Timer(0.2, other.release).start()
        gpus.acquire(timeout=2 * SOON).wait().release()
        alone.cancel()

    asyncio.run(main())
    is_free(gpus)
    is_free(index.writer)


@pytest.mark.filterwarnings("ignore:.*blocks the running event loop")
def test_a_lease_that_a_coroutine_has_waited_for_on_the_spot_is_one_of_its_loop(client: fairlock.Client) -> None:
    lock = client.lock("lock")

    async def main() -> None:
        for a_place in (False, True):
            held = lock.enqueue().wait().wait() if a_place else lock.acquire().wait()
            waits_for_ever(lambda: lock.acquire(timeout=SOON).wait())
            held.release()
            lock.acquire(timeout=SOON).wait().release()
        both = client.lock_all(["another", "lock"]).wait()
        waits_for_ever(lambda: lock.acquire(timeout=SOON).wait())
        both.release()
        # Drop-in classes give up in the end, as those which they replace.
        first, second = (compat.RedisFairLock("lock", client, timeout=timeout) for timeout in (None, 0.05))
        assert first.acquire() and not second.acquire()
        first.release()

    asyncio.run(main())
    is_free(lock)


def test_a_wait_in_a_loop_warns_at_the_line_that_waits(client: fairlock.Client) -> None:
    lock = client.lock("lock")

    async def main() -> List[warnings.WarningMessage]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with lock.acquire():
                pass
            lock.inspect().wait()
            async with lock.acquire():
                await asyncio.to_thread(lambda: lock.inspect().wait())
        return caught

    caught = asyncio.run(main())
    assert [(warning.category, warning.filename) for warning in caught] == 2 * [(RuntimeWarning, __file__)]
    assert "blocks the running event loop: use `async with` or `await`" in str(caught[0].message)


def test_a_cell_of_jupyter_does_not_warn(client: fairlock.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = SimpleNamespace(IPKernelApp=SimpleNamespace(initialized=lambda: True))
    monkeypatch.setitem(sys.modules, "ipykernel.kernelapp", kernel)

    async def cell() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with client.lock("lock").acquire():
                pass

    asyncio.run(cell())
