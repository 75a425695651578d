"""Where the drop-in classes are not the classes that they replace: what a program hears of it."""

from __future__ import annotations

import asyncio
import unittest.mock
from typing import Any, Callable, List

import fakeredis
import fakeredis.aioredis
import pytest
import redis
import redis.asyncio
import redis.exceptions
from conftest import SOON, Server, is_free, waiting

import fairlock
from fairlock import compat
from fairlock.compat import redis_lock

#: Seconds. Nobody waits for its end.
LEASE = 3600


# Fixtures that empty the server


def test_a_fixture_that_empties_the_server_and_forgets_its_clients(server: Server) -> None:
    r = server.redis()
    of_the_program = r.lock("of the program", timeout=LEASE, lock_class=compat.Lock)
    for _ in range(3):
        compat.forget_clients()
        r.flushdb()
        of_the_test = r.lock("of the test", timeout=LEASE, lock_class=compat.Lock)
        for lock in (of_the_program, of_the_test):
            assert lock.acquire(blocking=False)
        # Some tests release, some leave it behind.
        of_the_test.release()
        assert of_the_program.owned()
    # What is forgotten, or the server would be taken for one that has lost its data:
    r.flushdb()
    assert not of_the_test.acquire(blocking=False)


def test_what_is_held_when_clients_are_forgotten_is_lost(
    server: Server, client: fairlock.Client, recwarn: pytest.WarningsRecorder
) -> None:
    r = server.redis()
    locks = [
        r.lock("redis-py", lock_class=compat.Lock),
        redis_lock.Lock(r, "python-redis-lock"),
        compat.RedisFairLock("RedisFairLock", r),
    ]
    cluster_lock = compat.ClusterLock(r, "ClusterLock", "me", LEASE)
    for lock in locks:
        assert lock.acquire()
    assert cluster_lock.try_acquire() == "me"
    compat.forget_clients()
    # That releases them. Nobody has dropped them.
    assert not [one.message for one in recwarn if "was dropped" in str(one.message)]
    for name in ("redis-py", "lock:python-redis-lock", "RedisFairLock", "ClusterLock"):
        is_free(client.lock(name))
    with pytest.raises(redis.exceptions.LockNotOwnedError):
        locks[0].release()
    with pytest.raises(redis_lock.NotAcquired):
        locks[1].release()
    locks[2].release()
    assert not cluster_lock.refresh()
    for lock in locks:
        assert lock.acquire()
        lock.release()


def test_tasks_whose_clients_are_forgotten(server: Server, client: fairlock.Client) -> None:
    async def main() -> None:
        r: Any = redis.asyncio.Redis(unix_socket_path=str(server.path))
        lock, other = (r.lock("lock", lock_class=compat.Lock) for _ in range(2))
        await lock.acquire()
        waiter = asyncio.ensure_future(other.acquire())
        await asyncio.to_thread(waiting, client.lock("lock"), 1)
        compat.forget_clients()
        with pytest.raises(redis.exceptions.LockError, match="closed"):
            await waiter
        await asyncio.to_thread(is_free, client.lock("lock"))
        assert await other.acquire()
        await other.release()
        await r.aclose()

    asyncio.run(main())


# Clients that do not connect to a server


class Own(redis.Connection):
    """As programs have it, to notice connections."""


class Tunnel(redis.Connection):
    def _connect(self) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    "make",
    [
        fakeredis.FakeRedis,
        fakeredis.aioredis.FakeRedis,
        unittest.mock.MagicMock,
        lambda: unittest.mock.create_autospec(redis.Redis),
        lambda: redis.Redis(connection_pool=redis.ConnectionPool(connection_class=Tunnel)),
        object,
    ],
)
def test_a_client_that_does_not_connect_to_a_server_is_refused(make: Callable[[], Any]) -> None:
    r = make()
    with pytest.raises(TypeError, match=r"fairlock\.testing\.LockService"):
        compat.client_of(r)
    with pytest.raises(TypeError, match="that connects to a server"):
        compat.RedisFairLock("lock", r)
    if not isinstance(r, redis.asyncio.Redis):
        with pytest.raises(TypeError, match="that connects to a server"):
            compat.Lock(r, "lock").acquire()


def test_a_connection_class_of_ones_own_is_taken_if_it_connects_as_usual(server: Server) -> None:
    pool = redis.ConnectionPool(connection_class=Own, host="localhost", port=7)
    assert "localhost:7" in repr(compat.client_of(redis.Redis(connection_pool=pool)))


# What subclasses and programs do to redis-py's class


@pytest.mark.parametrize("lock_class", [compat.Lock, compat.AsyncLock])
def test_scripts_cannot_be_replaced_and_hooks_are_not_called(server: Server, lock_class: Any) -> None:
    r = server.redis()
    lock = r.lock("lock", timeout=10, lock_class=lock_class)
    for name in ("lua_extend", "lua_release", "lua_reacquire"):
        # celery-redbeat does this, so that `extend` sets a time and does not add one.
        with pytest.raises(AttributeError, match=f"fairlock has no script {name}"):
            setattr(lock, name, r.register_script("return 1"))
        with pytest.raises(AttributeError, match=f"fairlock has no script {name}"):
            getattr(lock, name)
        with pytest.raises(TypeError, match=f"Own has {name}"):
            type("Own", (lock_class,), {name: None})
    for name in ("do_acquire", "do_extend", "register_scripts", "LUA_EXTEND_SCRIPT"):
        with pytest.raises(TypeError, match=f"Own has {name}"):
            type("Own", (lock_class,), {name: None})
    mixin = type("Mixin", (), {"do_release": lambda self, token: None})
    with pytest.raises(TypeError, match="Own has do_release"):
        type("Own", (mixin, lock_class), {})
    type("Own", (lock_class,), {"acquire": lambda self: True})


# Values


def test_redis_pys_times_that_mean_none_or_now(server: Server, client: fairlock.Client) -> None:
    r = server.redis()
    with r.lock("lock", timeout=0, lock_class=compat.Lock) as lock:
        other = r.lock("lock", lock_class=compat.Lock)
        assert other.acquire(blocking_timeout=-1) is False
        waiting(client.lock("lock"), 0)
        assert lock.owned()
    assert other.acquire(blocking_timeout=-1) is True
    other.release()


@pytest.mark.parametrize(
    ("name", "timeout", "why"),
    [
        (b"\xff\xfe", 10, "not UTF-8"),
        ("n" * 513, 10, "512"),
        ("}x{", 10, "}"),
        ("lock", 0.02, "50"),
        ("lock", 40 * 86_400, "30"),
    ],
)
def test_what_fairlock_cannot_do_is_a_lock_error(server: Server, name: Any, timeout: float, why: str) -> None:
    lock = server.redis().lock(name, timeout=timeout, lock_class=compat.Lock)
    for act in (lock.acquire, lock.locked):
        with pytest.raises(redis.exceptions.LockError, match=why) as error:
            act()
        assert error.value.lock_name == (name if isinstance(name, str) else "\ufffd\ufffd")


def test_a_server_that_is_gone_is_redis_pys_connection_error(server: Server) -> None:
    r = server.redis()
    lock = r.lock("lock", timeout=10, lock_class=compat.Lock)
    assert lock.acquire()
    server.kill()
    with pytest.raises(redis.exceptions.ConnectionError):
        lock.locked()


def test_a_lease_is_never_shortened(server: Server) -> None:
    lock = server.redis().lock("lock", timeout=10, lock_class=compat.Lock)
    with lock:
        with pytest.raises(redis.exceptions.LockError, match="from 0 on"):
            lock.extend(-3)
        assert lock.extend(1, replace_ttl=True) and lock.local.held.remaining > 5


def test_a_name_that_others_use_as_a_semaphore_has_several_owners(server: Server, client: fairlock.Client) -> None:
    r = server.redis()

    def hold(name: str) -> List[fairlock.Held]:
        return [client.semaphore(name, 2).acquire(owner=owner).wait() for owner in ("first", "second")]

    held = hold("lock:lock")
    second, third = (redis_lock.Lock(r, "lock", id=id) for id in ("second", "third"))
    assert (second.get_owner_id(), third.get_owner_id()) == ("second", "first")
    assert third.locked() and not third.acquire(blocking=False)
    with pytest.raises(redis_lock.AlreadyAcquired):
        second.acquire(blocking=False)
    third.reset()
    assert all(lease.lost.wait(SOON) for lease in held) and not third.locked()

    held = hold("job")
    assert [compat.ClusterLock(r, "job", owner, 60).try_acquire() for owner in ("second", "third")] == ["second", "first"]
