"""Several holders: how many, in which slots, in what order, and what those who disagree are promised."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Set

import pytest
from conftest import SOON, Child, Server, eventually, is_free, waiting
from worlds import World, in_both_worlds

import fairlock


@in_both_worlds
async def test_so_many_hold_it_together_each_in_a_slot_of_its_own(world: World, client: fairlock.Client) -> None:
    gpus = client.semaphore("gpu", 3)
    held = [await world.get(gpus.acquire()) for _ in range(3)]
    assert [lease.slot for lease in held] == [0, 1, 2] and "slot 2 of 3, token" in repr(held[2])
    assert (gpus.slots, held[2].slots, repr(gpus)) == (3, 3, "<Lock 'gpu', 3 slots>")
    assert sorted({lease.token for lease in held}) == [lease.token for lease in held]
    state = await gpus.inspect()
    assert state.slots == 3
    five = client.semaphore("gpu", 5)
    with pytest.raises(fairlock.Busy, match="3 of 3; this one says 5"):
        await world.get(five.try_acquire())
    assert [(one.slot, one.slots, one.token) for one in state.holders] == [(at.slot, 3, at.token) for at in held]

    with pytest.raises(fairlock.Busy, match="unless renewed, and by 2 others") as busy:
        await world.get(gpus.try_acquire())
    assert busy.value.held == 3 and busy.value.slots == 3 and [one.slot for one in busy.value.holders] == [0, 1, 2]
    with pytest.raises(fairlock.Timeout):
        await world.get(gpus.acquire(timeout=0.05))
    assert (await gpus.inspect()).waiting == 0

    await world.do(held[1].release)
    assert held[1].slot == 1, "a lease that is over tells the slot that it had"
    again = await world.get(gpus.acquire(timeout=SOON))
    assert again.slot == 1, "the lowest that is free"
    for lease in (held[0], held[2], again):
        await world.do(lease.release)
    await world.is_free(gpus)
    assert (await gpus.inspect()).slots is None


@in_both_worlds
async def test_waiters_are_served_in_order(world: World, client: fairlock.Client) -> None:
    gpus = client.semaphore("gpu", 2)
    held = [await world.get(gpus.acquire()) for _ in range(2)]
    places = [await world.get(gpus.enqueue()) for _ in range(4)]
    assert [await world.do(place.position) for place in places] == [1, 2, 3, 4]
    for place in places:
        before = held.pop(0)
        await world.do(before.release)
        held.append(await world.granted(place))
        assert held[-1].ticket == place.ticket and held[-1].slot == before.slot
    for lease in held:
        await world.do(lease.release)
    await world.is_free(gpus)


@in_both_worlds
async def test_locks_of_all_kinds_are_taken_together(world: World, client: fairlock.Client) -> None:
    gpus, index = client.semaphore("gpu", 2), client.rw_lock("index")
    other = await world.get(gpus.acquire())
    every = client.lock_all(["reports", gpus, index.reader, "reports"], timeout=SOON, label="job 7")
    held = await world.get(every)
    assert "slots {'gpu': 1, " in repr(held)
    assert list(held.tokens) == ["gpu", "index", "reports"] and held.slot_of == {"gpu": 1, "index": 0, "reports": 0}
    holders = [(await client.lock(name).inspect()).holders[-1] for name in held.tokens]
    assert [(one.label, one.slots) for one in holders] == [("job 7", 2), ("job 7", 1000), ("job 7", 1)]
    await world.do((await world.get(index.try_read())).release)
    with pytest.raises(fairlock.Timeout) as timeout:
        await world.get(client.lock_all([index.writer, "a"], timeout=0.05))
    assert getattr(timeout.value, "name") == "index"
    await world.do(held.release)

    # A name that is given twice counts once, as the lock that lets fewer in.
    with pytest.raises(fairlock.Timeout):
        await world.get(client.lock_all([gpus, "gpu"], timeout=0.05))
    await world.do(other.release)
    held = await world.get(client.lock_all([gpus, "gpu", index.reader, index.writer, index.reader], timeout=SOON))
    assert held.slot_of == {"gpu": 0, "index": 0}
    assert [(await lock.inspect()).holders[0].slots for lock in (gpus, index.reader)] == [1, 1]
    await world.do(held.release)
    for lock in (gpus, index.writer, client.lock("reports"), client.lock("a")):
        await world.is_free(lock)


def test_locks_of_two_clients_are_not_taken_together(client: fairlock.Client, server: Server) -> None:
    stranger = fairlock.Client(server.url).semaphore("gpu", 2)
    with pytest.raises(fairlock.InvalidOption, match="'gpu' is of another client"):
        client.lock_all(["a", stranger])
    with pytest.raises(fairlock.InvalidOption, match="'gpu' is of another client"):
        client.lock_all([stranger])


class Site:
    """What happens under the semaphore. Each that holds it waits until as many do as may."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.mutex = threading.Lock()
        self.held: Set[int] = set()
        self.most = 0

    def begin(self, held: Any) -> None:
        with self.mutex:
            assert held.slot < self.slots and held.slot not in self.held
            self.held.add(held.slot)
            self.most = max(self.most, len(self.held))

    def end(self, held: Any) -> None:
        with self.mutex:
            self.held.remove(held.slot)

    def is_full(self) -> bool:
        return self.most == self.slots


def test_never_more_hold_it_than_may_among_threads_and_tasks(server: Server, client: fairlock.Client) -> None:
    site, failures = Site(3), list[BaseException]()

    def thread(client: fairlock.Client) -> None:
        try:
            for _ in range(5):
                with client.semaphore("gpu", 3).acquire(timeout=2 * SOON) as held:
                    site.begin(held)
                    eventually("as many hold it as may", site.is_full)
                    site.end(held)
        except BaseException as failure:
            failures.append(failure)

    async def task(client: fairlock.Client) -> None:
        for _ in range(5):
            async with client.semaphore("gpu", 3).acquire(timeout=2 * SOON) as held:
                site.begin(held)
                while not site.is_full():
                    await asyncio.sleep(0.01)
                site.end(held)

    async def tasks(other: fairlock.Client) -> None:
        await asyncio.gather(*(task(one) for one in (client, other) for _ in range(3)))

    with fairlock.connect(server.url) as other:
        threads = [threading.Thread(target=thread, args=(one,)) for one in (client, other) for _ in range(3)]
        for one in threads:
            one.start()
        asyncio.run(tasks(other))
        for one in threads:
            one.join()
    assert not failures and site.is_full() and not site.held
    is_free(client.semaphore("gpu", 3))


def test_a_task_that_is_cancelled_leaves_the_queue_or_its_slot(client: fairlock.Client) -> None:
    gpus = client.semaphore("gpu", 2)

    async def job() -> None:
        async with gpus.acquire():
            await asyncio.sleep(SOON)

    async def main() -> None:
        tasks = [asyncio.create_task(job()) for _ in range(4)]
        while (state := await gpus.inspect()).waiting < 2:
            await asyncio.sleep(0.01)
        assert len(state.holders) == 2
        first, _, third, _ = tasks
        third.cancel()
        first.cancel()
        await asyncio.wait([first, third])
        # The fourth follows.
        while (state := await gpus.inspect()).waiting:
            await asyncio.sleep(0.01)
        assert [holder.slot for holder in state.holders] == [0, 1]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    asyncio.run(main())
    is_free(gpus)


def test_the_slot_of_a_process_that_was_killed_comes_back_once(
    client: fairlock.Client, child: Callable[..., Child]
) -> None:
    gpus = client.semaphore("gpu", 2)
    process = child("held = client.semaphore('gpu', 2, lease=2).acquire().wait(); print(held.slot); sys.stdin.read()")
    assert process.line() == "0"
    with gpus.acquire() as other:
        place, last = gpus.enqueue().wait(), gpus.enqueue().wait()
        process.process.kill()
        with place as held:
            assert (other.slot, held.slot, last.position()) == (1, 0, 1)
            other.check()
        with last as held:
            assert held.slot == 0
    is_free(gpus)


def test_a_decorated_function_runs_as_often_at_once_as_there_are_slots(client: fairlock.Client) -> None:
    both, held, inside = threading.Barrier(2), list[int](), list[str]()

    @client.locked("exports:{tenant}", slots=2, timeout=SOON)
    def export(tenant: str) -> None:
        both.wait(SOON)
        held.append(len(client.lock(f"exports:{tenant}").inspect().wait().holders))

    @client.locked("exports:{tenant}", slots=2, timeout=SOON)
    async def export_async(tenant: str) -> None:
        inside.append(tenant)
        while len(inside) < 2:
            await asyncio.sleep(0.01)

    threads = [threading.Thread(target=export, args=("acme",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 4 and max(held) <= 2

    async def main() -> None:
        await asyncio.wait_for(asyncio.gather(export_async("acme"), export_async("acme")), SOON)

    asyncio.run(main())
    is_free(client.lock("exports:acme"))


@in_both_worlds
async def test_two_versions_that_disagree_keep_what_each_was_promised(world: World, client: fairlock.Client) -> None:
    """A rolling deployment from 3 to 5, and back."""
    three, five = client.semaphore("gpu", 3), client.semaphore("gpu", 5)
    old = await world.get(three.acquire())
    new = [await world.get(five.acquire()), await world.get(five.acquire())]
    for full in (three, five):
        with pytest.raises(fairlock.Busy):
            await world.get(full.try_acquire())
    place = await world.get(five.enqueue())
    assert await world.do(place.position) == 1, "while a lease of three lasts, three hold"
    await world.do(old.release)
    new.append(await world.granted(place))
    new += [await world.get(five.acquire()), await world.get(five.acquire())]
    assert {one.slot for one in new} == set(range(5))

    # One of three waits until it is one of three, and those behind it wait for it.
    old, behind = await world.get(three.enqueue()), await world.get(five.enqueue())
    assert [(one.slots) for one in (await five.inspect()).queue] == [3, 5]
    for _ in range(2):
        await world.do(new.pop().release)
        assert (await world.do(old.position), await world.do(behind.position)) == (1, 2)
    await world.do(new.pop().release)
    new.append(await world.granted(old))
    assert {one.slots for one in (await five.inspect()).holders} == {3, 5} and await world.do(behind.position) == 1
    await world.do(new.pop().release)
    new.append(await world.granted(behind))
    for lease in new:
        await world.do(lease.release)
    await world.is_free(five)


def test_a_forgotten_job_that_takes_the_name_for_a_lock_is_alone(
    client: fairlock.Client, child: Callable[..., Child]
) -> None:
    gpus = client.semaphore("gpu", 3)
    first, second = gpus.acquire().wait(), gpus.acquire().wait()
    forgotten = child("""
        with client.lock("gpu").acquire(label="forgotten"):
            print("alone")
            sys.stdin.readline()
    """)
    waiting(gpus, 1)
    behind = gpus.enqueue().wait()
    assert [waiter.slots for waiter in gpus.inspect().wait().queue] == [1, 3]
    first.release()
    assert behind.position() == 2
    second.release()
    assert forgotten.line() == "alone"
    state = gpus.inspect().wait()
    assert [(holder.label, holder.slots) for holder in state.holders] == [("forgotten", 1)] and state.waiting == 1
    assert forgotten.process.stdin is not None
    forgotten.process.stdin.write("\n")
    forgotten.process.stdin.flush()
    with behind as held:
        assert held.slot == 0
    assert forgotten.end() == ""
    is_free(gpus)


def test_history_tells_the_slots(client: fairlock.Client) -> None:
    gpus = client.semaphore("gpu", 2)
    gpus.record_history(True).wait()
    first, second = gpus.acquire().wait(), gpus.acquire().wait()
    second.release()
    first.release()
    assert [grant.slot for grant in gpus.history().wait().grants] == [0, 1]
