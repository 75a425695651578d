"""Failovers, cut connections and stepped clocks: holders and waiters keep what docs/guarantees.md promises."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Any, List, Tuple

import pytest
from conftest import SOON
from kit import Kit, Server
from worlds import World, in_both_worlds

import fairlock

# Hundreds of cycles, each with a connection that is made again.
in_both_worlds_at_each_byte = partial(in_both_worlds, bound=10 * SOON)
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="no server has a clock of its own there")


class Queue:
    """A holder and three waiters behind it, each of a client of its own. Their leases outlive an election on a slow
    machine."""

    def __init__(self, world: World, kit: Kit, url: str) -> None:
        self.world = world
        self.locks = [kit.client(url).lock("lock", lease=2 * SOON, liveness=SOON) for _ in range(4)]

    async def form(self) -> None:
        first, *others = self.locks
        self.held = await self.world.get(first.acquire())
        self.places = [await self.world.get(lock.enqueue()) for lock in others]

    async def stands(self) -> None:
        """The holder holds, the waiters wait in their order, and a newcomer gets nothing."""
        # The newcomer asks first: a renewal that comes first brings back a lease that is over.
        with pytest.raises(fairlock.Busy):
            await self.world.get(self.locks[-1].try_acquire())
        state = await self.world.get(self.locks[-1].inspect())
        assert [holder.token for holder in state.holders] == [self.held.token]
        assert [waiter.ticket for waiter in state.queue] == [place.ticket for place in self.places]
        await self.world.do(self.held.renew)

    async def is_served(self) -> None:
        """One after the other, with rising tokens."""
        served: List[Tuple[int, int]] = []
        inside = [self.held]

        async def turn(place: Any) -> None:
            held = await self.world.granted(place)
            inside.append(held)
            served.append((place.ticket, held.token))
            await self.world.do(held.renew)
            assert inside == [held]
            inside.remove(held)
            await self.world.do(held.release)

        turns = [asyncio.ensure_future(turn(place)) for place in reversed(self.places)]
        self.held.check()
        inside.remove(self.held)
        await self.world.do(self.held.release)
        await asyncio.gather(*turns)
        assert [ticket for ticket, _ in served] == [place.ticket for place in self.places]
        tokens = [self.held.token, *(token for _, token in served)]
        assert tokens == sorted(set(tokens))
        await self.world.is_free(self.locks[0])


@pytest.mark.parametrize("servers", ["sentinels", "cluster"])
@in_both_worlds
async def test_holder_and_waiters_go_on_at_the_promoted_server(world: World, kit: Kit, servers: str) -> None:
    set_up = kit.sentinels(replicas=1) if servers == "sentinels" else kit.cluster(replicas=True)
    queue = Queue(world, kit, set_up.url)
    await queue.form()
    old = set_up.master("lock")
    old.await_copies("lock", 1)
    old.kill()
    set_up.await_promotion("lock", old)
    await queue.stands()
    await queue.is_served()


@in_both_worlds
async def test_holder_and_waiters_go_on_while_their_slot_moves(world: World, kit: Kit) -> None:
    cluster = kit.cluster(node_timeout_ms=100_000)
    queue = Queue(world, kit, cluster.url)
    await queue.form()
    old = cluster.master("lock")
    # Its two keys are on two nodes for a moment, and nobody is granted anything.
    assert len(cluster.migrate("lock", keys=1)) == 1
    assert len(cluster.migrate("lock")) == 1
    assert cluster.master("lock") is not old
    await queue.stands()
    await queue.is_served()


@pytest.mark.parametrize("side", ["request", "reply"])
@in_both_worlds_at_each_byte
async def test_a_cycle_whose_connection_is_cut_at_any_byte_goes_on(
    world: World, kit: Kit, server: Server, client: fairlock.Client, side: str
) -> None:
    proxy = kit.proxy(server)
    ours, theirs = kit.client(proxy.url).lock("lock", lease=4 * SOON), client.lock("lock", lease=4 * SOON)
    last, bytes, whole = 0, 0, False
    while not whole:
        cut = proxy.fault(side, {"cut_after": bytes}, times=1)
        held = await world.get(ours.acquire(timeout=SOON))
        assert held.token > last
        with pytest.raises(fairlock.Busy):
            await world.get(theirs.try_acquire())
        await world.do(held.release)
        # Nothing is left: it is free at once, for anybody.
        other = await world.get(theirs.try_acquire())
        assert other.token > held.token
        await world.do(other.release)
        whole, last, bytes = cut.struck() == 0, other.token, bytes + 1
        cut.lift()
    server.nothing_is_left()
    assert bytes > 100, "a cycle has so many bytes at least"


@in_both_worlds_at_each_byte
async def test_a_grant_whose_message_is_cut_at_any_byte_arrives(
    world: World, kit: Kit, server: Server, client: fairlock.Client
) -> None:
    proxy = kit.proxy(server)
    ours, theirs = kit.client(proxy.url).lock("lock", lease=4 * SOON), client.lock("lock", lease=4 * SOON)
    bytes, whole = 0, False
    while not whole:
        cut = proxy.fault("push", {"cut_after": bytes}, times=1)
        other = await world.get(theirs.acquire(timeout=SOON))
        place = await world.get(ours.enqueue(timeout=SOON))
        await world.do(other.release)
        held = await world.granted(place)
        assert held.ticket == place.ticket and held.token > other.token
        with pytest.raises(fairlock.Busy):
            await world.get(theirs.try_acquire())
        await world.do(held.release)
        whole, bytes = cut.struck() == 0, bytes + 1
        cut.lift()
    server.nothing_is_left()
    assert bytes > 20, "a message has so many bytes at least"


@linux_only
@pytest.mark.parametrize("by", [1800, -7200])
@in_both_worlds
async def test_a_queue_stands_when_the_clock_of_the_server_jumps(world: World, kit: Kit, by: int) -> None:
    clock = kit.clock()
    server = kit.server(clock=clock.id)
    queue = Queue(world, kit, server.url)
    await queue.form()
    clock.step(by, server)
    await queue.stands()
    await queue.is_served()
    server.nothing_is_left()


@linux_only
@in_both_worlds
async def test_a_holder_alone_is_told_when_the_clock_of_the_server_jumps_over_its_lease(world: World, kit: Kit) -> None:
    clock = kit.clock()
    server = kit.server(clock=clock.id)
    ours, theirs = (kit.client(server.url).lock("lock", lease=2 * SOON) for _ in range(2))
    held = await world.get(ours.acquire())
    clock.step(3 * SOON, server)
    other = await world.get(theirs.try_acquire())
    assert other.token > held.token
    with pytest.raises(fairlock.LockLost):
        await world.do(held.renew)
    assert held.lost
    other.check()
    await world.do(other.release)
    # Tokens rise also when the clock is set right.
    clock.step(-3 * SOON, server)
    again = await world.get(ours.acquire(timeout=SOON))
    assert again.token > other.token
    await world.do(again.release)
    server.nothing_is_left()


@linux_only
@in_both_worlds
async def test_a_lease_ends_in_its_time_when_the_clock_of_the_server_was_set_back(world: World, kit: Kit) -> None:
    clock = kit.clock()
    server = kit.server(clock=clock.id)
    proxy = kit.proxy(server)
    held = await world.get(kit.client(proxy.url).lock("lock", lease=3).acquire())
    proxy.ask("refuse")
    proxy.ask("cut")
    clock.step(-7200, server)
    other = await world.get(kit.client(server.url).lock("lock").acquire(timeout=SOON))
    assert held.lost and other.token > held.token
    await world.do(other.release)
    server.nothing_is_left()
