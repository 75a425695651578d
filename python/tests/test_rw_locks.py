"""Many readers or one writer: what each waits for, and writers that become readers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Callable, Iterator, List, Tuple

import pytest
from conftest import SOON, Child, Server, is_free, waiting
from worlds import World, in_both_worlds

import fairlock
from fairlock.testing import LockService


@in_both_worlds
async def test_readers_hold_it_together_and_a_writer_alone(world: World, client: fairlock.Client) -> None:
    index = client.rw_lock("index")
    assert (index.name, index.reader.name, index.writer.name, repr(index)) == (*["index"] * 3, "<RwLock 'index'>")
    readers = [await world.get(index.read(timeout=SOON, label=f"reader {number}")) for number in range(2)]
    assert [(reader.slot, reader.label) for reader in readers] == [(0, "reader 0"), (1, "reader 1")]
    for taken in (index.try_write(), index.write(timeout=0), client.lock("index").try_acquire()):
        with pytest.raises((fairlock.Busy, fairlock.Timeout)):
            await world.get(taken)
    readers.append(await world.get(index.try_read()))
    for reader in readers:
        await world.do(reader.release)

    writer = await world.get(index.write(SOON, label="writer"))
    assert [(one.label, one.slots) for one in (await index.reader.inspect()).holders] == [("writer", 1)]
    for taken in (index.try_read(), index.read(0), index.try_write()):
        with pytest.raises((fairlock.Busy, fairlock.Timeout)):
            await world.get(taken)
    await world.do(writer.release)
    await world.is_free(index.writer)


@in_both_worlds
async def test_a_writer_waits_for_the_readers_before_it_and_those_after_it_for_the_writer(
    world: World, client: fairlock.Client
) -> None:
    index = client.rw_lock("index")
    first = await world.get(index.read())
    writer = await world.get(index.writer.enqueue())
    readers = [await world.get(index.reader.enqueue()) for _ in range(2)]
    with pytest.raises(fairlock.Busy):
        await world.get(index.try_read())
    assert [waiter.slots for waiter in (await index.reader.inspect()).queue] == [1, 1000, 1000]
    await world.do(first.release)
    writes = await world.granted(writer)
    assert [await world.do(reader.position) for reader in readers] == [1, 2]
    await world.do(writes.release)
    for held in [await world.granted(reader) for reader in readers]:
        await world.do(held.release)
    await world.is_free(index.reader)


def test_nobody_starves_and_each_is_served_in_its_turn(server: Server, client: fairlock.Client) -> None:
    grants: List[Tuple[int, int]] = []
    at_work = {"readers": 0, "writers": 0}
    mutex, failures = threading.Lock(), list[BaseException]()

    def work(client: fairlock.Client, what: str) -> None:
        index = client.rw_lock("index")
        try:
            for _ in range(20):
                with (index.read if what == "readers" else index.write)(timeout=2 * SOON) as held:
                    with mutex:
                        grants.append((held.token, held.ticket))
                        at_work[what] += 1
                        assert at_work["writers"] == 0 or sum(at_work.values()) == 1
                    with mutex:
                        at_work[what] -= 1
        except BaseException as failure:
            failures.append(failure)

    with fairlock.connect(server.url) as other:
        crew = [(client, "readers")] * 4 + [(other, "readers")] * 4 + [(client, "writers"), (other, "writers")]
        threads = [threading.Thread(target=work, args=one) for one in crew]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures and len(grants) == 200
    tickets = [ticket for _, ticket in sorted(grants)]
    assert tickets == sorted(tickets), "in the order of arrival"
    is_free(client.rw_lock("index").writer)


@in_both_worlds
async def test_a_writer_becomes_a_reader_under_the_same_token_and_slot(world: World, client: fairlock.Client) -> None:
    index = client.rw_lock("index", lease=10, renew_every=0.1)
    writer = await world.get(index.write())
    token, slot = writer.token, writer.slot
    reader, next_writer = await world.get(index.reader.enqueue()), await world.get(index.writer.enqueue())
    assert writer.slots == 1
    await world.do(writer.downgrade)
    assert writer.slots == 1000
    reads = await world.granted(reader)
    writer.check()
    assert (writer.token, writer.slot, reads.slot) == (token, slot, 1)
    assert [one.slots for one in (await index.writer.inspect()).holders] == [1000, 1000]
    # Doing it again changes nothing, and it goes on to be renewed as a reader.
    await world.do(writer.downgrade)
    await world.do(writer.wait_renewed)
    await world.do(writer.renew)
    assert [one.slots for one in (await index.writer.inspect()).holders] == [1000, 1000]
    await world.do(reads.release)
    assert await world.do(next_writer.position) == 1
    await world.do(writer.release)
    await world.do((await world.granted(next_writer)).release)
    await world.is_free(index.writer)


@in_both_worlds
async def test_what_is_no_writer_cannot_become_a_reader(world: World, client: fairlock.Client) -> None:
    index, gpus = client.rw_lock("index"), client.semaphore("gpu", 4)
    for shared in (index.read(), gpus.acquire()):
        held = await world.get(shared)
        with pytest.raises(fairlock.InvalidOption, match="cannot be downgraded: only a writer, or the holder of a lock"):
            await world.do(held.downgrade)
        held.check()
        await world.do(held.release)

    # Whoever holds a lock alone is a writer.
    alone = await world.get(client.lock("index").acquire())
    await world.do(alone.downgrade)
    await world.do((await world.get(index.try_read())).release)
    await index.writer.break_lease(alone.token, force=True)
    with pytest.raises(fairlock.LockLost):
        while True:
            await world.do(alone.downgrade)


@pytest.fixture
def service() -> Iterator[LockService]:
    with LockService() as service:
        yield service


def test_a_downgrade_that_is_cancelled_can_be_repeated(service: LockService) -> None:
    index = service.client().rw_lock("index")

    async def main() -> None:
        async with index.write() as held:
            service.pause()
            downgrade = asyncio.ensure_future(held.downgrade())
            await asyncio.sleep(0)
            downgrade.cancel()
            with pytest.raises(asyncio.CancelledError):
                await downgrade
            service.resume()
            await held.downgrade()
            async with index.read(timeout=SOON):
                held.check()

    asyncio.run(main())
    is_free(index.writer)


def test_a_writer_that_gives_up_lets_the_readers_behind_it_in(client: fairlock.Client) -> None:
    index = client.rw_lock("index")
    granted: List[int] = []

    async def read() -> None:
        async with index.read(timeout=SOON) as held:
            granted.append(held.slot)

    async def main(give_up: Callable[[Any], Any], timeout: Any) -> None:
        async with index.read():
            writer = asyncio.ensure_future(index.write(timeout))
            while (await index.writer.inspect()).waiting < 1:
                await asyncio.sleep(0.01)
            reader = asyncio.create_task(read())
            give_up(writer)
            with pytest.raises((asyncio.CancelledError, fairlock.Timeout)):
                await writer
            await reader

    asyncio.run(main(lambda writer: writer.cancel(), None))
    asyncio.run(main(lambda writer: None, 0.2))
    assert granted == [1, 1]
    is_free(index.reader)


def test_a_read_write_lock_works_in_a_forked_process(client: fairlock.Client, child: Callable[..., Child]) -> None:
    index = client.rw_lock("index")
    with index.read():
        process = child("""
            index = client.rw_lock("index")
            held = index.read(timeout=30).wait()
            if os.fork() == 0:
                with index.read(timeout=30) as inner:
                    print(inner.slot)
                try:
                    held.check()
                except fairlock.LockLost as lost:
                    print(held.slot, lost.reason)
                os._exit(0)
            os.wait()
            held.release()
            with index.write(timeout=30) as held:
                print("wrote", held.slot)
        """)
        assert process.line() == "2" and process.line() == "1 forked"
        waiting(index.writer, 1)
    assert process.line() == "wrote 0" and process.end() == ""
    is_free(index.writer)


def test_the_loss_of_a_reader_cancels_its_block_and_no_other(client: fairlock.Client) -> None:
    index = client.rw_lock("index")

    async def main() -> None:
        async with index.read() as other:
            with pytest.raises(fairlock.LockLost, match="broke it"):
                async with index.read(on_lost="cancel") as held:
                    await index.reader.break_lease(held.token, force=True)
                    await asyncio.sleep(SOON)
            other.check()

    asyncio.run(main())
    is_free(index.reader)


@in_both_worlds
async def test_the_lock_says_who_reads_or_writes_and_ends_a_lease(world: World, client: fairlock.Client) -> None:
    index = client.rw_lock("index")
    assert not await world.get(index.is_locked())
    held = await world.get(index.read(label="reader"))
    assert await world.get(index.is_locked())
    state = await world.get(index.inspect())
    assert [(holder.label, holder.token) for holder in state.holders] == [("reader", held.token)]
    assert (await world.get(index.break_lease(held.token))).outcome == "told"
    assert (await world.get(index.break_lease(held.token, force=True))).outcome == "ended"
    assert not await world.get(index.is_locked())
