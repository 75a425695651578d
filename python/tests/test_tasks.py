"""Locks of asyncio tasks. Each test runs its coroutine in an event loop of its own."""

from __future__ import annotations

import asyncio
import functools
import gc
import threading
import time
from typing import Any, Awaitable, Callable, List

import pytest
import trio
from conftest import SOON, Server, eventually, is_free

import fairlock


def in_a_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(test(*args, **kwargs), 2 * SOON)

        asyncio.run(bounded())

    return run


async def queued(lock: fairlock.Lock, count: int) -> None:
    while (await lock.inspect()).waiting != count:
        await asyncio.sleep(0.01)


async def free(lock: fairlock.Lock) -> None:
    while (state := await lock.inspect()).holders or state.waiting:
        await asyncio.sleep(0.01)


@in_a_loop
async def test_the_example_of_the_readme(server: Server) -> None:
    async with await fairlock.aconnect(server.url) as client:
        lock = client.lock("reports:nightly")
        async with lock.acquire(timeout=30) as held:
            held.check()
            assert await held.verify()
            with pytest.raises(fairlock.Busy):
                await lock.try_acquire()
        await free(lock)
    with pytest.raises(fairlock.Closed):
        await lock.acquire()


@in_a_loop
async def test_tasks_are_served_in_order_while_the_loop_goes_on(client: fairlock.Client) -> None:
    lock, order, ticks = client.lock("lock"), list[int](), 0

    async def wait(number: int) -> None:
        async with lock.acquire():
            order.append(number)

    async with lock.acquire():
        tasks = []
        for number in range(8):
            tasks.append(asyncio.create_task(wait(number)))
            await queued(lock, number + 1)
        for _ in range(100):
            ticks += 1
            await asyncio.sleep(0)
        assert not order
    await asyncio.gather(*tasks)
    assert order == list(range(8)) and ticks == 100


@in_a_loop
async def test_threads_and_tasks_share_a_queue(client: fairlock.Client) -> None:
    lock, order = client.lock("lock"), list[str]()

    def thread() -> None:
        with lock.acquire():
            order.append("thread")

    async def task() -> None:
        async with lock.acquire():
            order.append("task")

    async with lock.acquire():
        first = asyncio.create_task(task())
        await queued(lock, 1)
        second = threading.Thread(target=thread)
        second.start()
        await queued(lock, 2)
    await first
    await asyncio.to_thread(second.join)
    assert order == ["task", "thread"]


@in_a_loop
async def test_a_cancelled_task_leaves_the_queue(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    async with lock.acquire():
        task = asyncio.create_task(lock.acquire()._run())
        await queued(lock, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await queued(lock, 0)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(lock.acquire()._run(), 0.05)
    await free(lock)


@in_a_loop
async def test_a_task_that_is_cancelled_at_any_moment_leaves_nothing(client: fairlock.Client) -> None:
    lock = client.lock("lock")

    async def job() -> None:
        async with lock.acquire():
            await asyncio.sleep(0)

    for turns in range(200):
        task = asyncio.create_task(job())
        for _ in range(turns % 40):
            await asyncio.sleep(0.0001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if turns % 20 == 0:
            await free(lock)
    await free(lock)


@pytest.mark.filterwarnings("ignore:.*blocks the running event loop")
@in_a_loop
async def test_a_grant_in_the_moment_of_the_cancellation_is_given_back(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    held = lock.acquire().wait()
    task = asyncio.create_task(lock.acquire()._run())
    await queued(lock, 1)
    # The loop does not run while the grant arrives: afterwards both, the grant and the cancellation, are there.
    held.release()
    eventually("it is granted", lambda: any(one.confirmed for one in lock.inspect().wait().holders))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    del task
    gc.collect()
    await free(lock)


@in_a_loop
async def test_a_loss_cancels_the_block(client: fairlock.Client) -> None:
    lock, went_on = client.lock("lock"), False
    with pytest.raises(fairlock.LockLost) as lost:
        async with lock.acquire(on_lost="cancel") as held:
            await lock.break_lease(held.token, force=True)
            await asyncio.sleep(SOON)
            went_on = True
    assert lost.value.reason == "broken" and not went_on
    # The task is as before.
    await asyncio.sleep(0)
    async with lock.acquire(on_lost="cancel"):
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)


@in_a_loop
async def test_a_cancellation_by_others_stays_one(client: fairlock.Client) -> None:
    lock, begun = client.lock("lock"), asyncio.Event()

    async def job() -> None:
        async with lock.acquire(on_lost="cancel"):
            begun.set()
            await asyncio.sleep(SOON)

    task = asyncio.create_task(job())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await free(lock)


def test_the_end_of_a_block_does_not_wait_for_a_server_that_is_gone(server: Server) -> None:
    async def main() -> None:
        lock = fairlock.Client(server.url).lock("lock", lease=10 * SOON)
        async with lock.acquire():
            server.kill()

    begun = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - begun < SOON


@in_a_loop
async def test_a_loss_can_be_awaited(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    held = await lock.acquire()
    waiter = asyncio.create_task(held.lost.wait())
    await lock.break_lease(held.token, force=True)
    lost = await waiter
    assert lost is not None and lost.reason == "broken" and held.lost
    held = await lock.acquire()
    waiter = asyncio.create_task(held.lost.wait())
    await held.release()
    assert await waiter is None


@in_a_loop
async def test_a_place_in_the_queue(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    held = await lock.acquire()
    first, second = await lock.enqueue(), await lock.enqueue()
    assert (await first.position(), await second.position()) == (1, 2)
    first.leave()
    await held.release()
    async with second as granted:
        assert granted.ticket == second.ticket
    await free(lock)


@in_a_loop
async def test_several_locks_at_once(client: fairlock.Client) -> None:
    async with client.lock_all(["b", "a"]) as held:
        assert list(held.tokens) == ["a", "b"]
        with pytest.raises(fairlock.Busy):
            await client.lock("a").try_acquire()
    await free(client.lock("a"))


@in_a_loop
async def test_a_decorated_coroutine_function_holds_the_lock(client: fairlock.Client) -> None:
    @client.locked("reports:{user.id}")
    async def rebuild(user: Any) -> bool:
        return await client.lock(f"reports:{user.id}").is_locked()

    class User:
        id = 7

    assert asyncio.iscoroutinefunction(rebuild) and await rebuild(User())

    @client.locked
    async def lost() -> None:
        lock = client.lock(f"{__name__}.{lost.__qualname__}")
        [holder] = (await lock.inspect()).holders
        await lock.break_lease(holder.token, force=True)
        await asyncio.sleep(SOON)

    with pytest.raises(fairlock.LockLost):
        await lost()


@in_a_loop
async def test_keys(client: fairlock.Client) -> None:
    users = client.keyed_mutex("users")
    async with users.locked(7):
        pass
    await users.aacquire(7)
    with pytest.raises(TypeError, match="arelease"):
        users.release(7)
    await users.aacquire(8)
    assert await users.arelease(8) and not await users.arelease(8)


def test_a_thousand_waiting_tasks_cost_one_heartbeat(client: fairlock.Client, server: Server) -> None:
    async def main() -> None:
        # A heartbeat every second, and no other request while nothing happens.
        lock = client.lock("lock", liveness=3, lease=60)
        async with lock.acquire():
            tasks = [asyncio.create_task(lock.acquire()._run()) for _ in range(1000)]
            await queued(lock, 1000)
            before, begun = server.commands(), time.monotonic()
            await asyncio.sleep(5)
            calls = server.commands() - before
            assert 1 <= calls <= 10 + 2 * (time.monotonic() - begun), calls
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await queued(lock, 0)

    asyncio.run(main())
    is_free(client.lock("lock"))


def test_other_event_loops_are_refused_with_what_works_there(client: fairlock.Client) -> None:
    lock = client.lock("lock")

    async def main() -> bool:
        with pytest.raises(RuntimeError, match="fairlock awaits on asyncio only"):
            await lock.acquire()
        held = await trio.to_thread.run_sync(lambda: lock.acquire(timeout=SOON).wait())
        held.release()
        return True

    assert trio.run(main)
    is_free(lock)


def test_loops_follow_each_other(client: fairlock.Client) -> None:
    async def job() -> int:
        async with client.lock("lock").acquire() as held:
            return held.token

    tokens: List[int] = [asyncio.run(job()) for _ in range(5)]
    assert tokens == sorted(set(tokens))


def test_loops_of_two_threads_share_a_client(client: fairlock.Client) -> None:
    inside, most = 0, 0

    async def job() -> None:
        nonlocal inside, most
        for _ in range(50):
            async with client.lock("lock").acquire():
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

    threads = [threading.Thread(target=lambda: asyncio.run(job())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
