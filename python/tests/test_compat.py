"""The drop-in classes: what their users rely on, and the defects that they do not have any more."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any, List

import pytest
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.exceptions
import redis.sentinel
from conftest import SOON, Server, eventually, is_free, waiting

import fairlock
from fairlock import compat
from fairlock.compat import _settings, redis_lock


def held_by(client: fairlock.Client, name: str) -> Any:
    return next(iter(client.lock(name).inspect().wait().holders), None)


# redis-py, in both worlds


def test_redis_py_lock(server: Server, client: fairlock.Client) -> None:
    r = server.redis()
    lock = r.lock("lock", timeout=10, lock_class=compat.Lock)
    with lock:
        assert held_by(client, "lock").owner.encode() == lock.local.token
        assert lock.owned() and lock.locked() and lock.extend(20) and lock.extend(20, replace_ttl=True) and lock.reacquire()
        other = r.lock("lock", blocking_timeout=0.05, lock_class=compat.Lock)
        assert not other.acquire() and not other.acquire(blocking=False) and not other.owned()
        with pytest.raises(redis.exceptions.LockError) as error, other:
            pass
        assert error.value.lock_name == "lock"
    with pytest.raises(redis.exceptions.LockError):
        lock.release()
    is_free(client.lock("lock"))


def test_redis_py_lock_whose_lease_is_lost(server: Server, client: fairlock.Client) -> None:
    lock = server.redis().lock("lock", timeout=10, lock_class=compat.Lock)
    for act in (lock.release, lambda: lock.extend(1), lock.reacquire):
        assert lock.acquire(token="mine") and lock.local.token == b"mine"
        client.lock("lock").break_lease(held_by(client, "lock").token, force=True).wait()
        with pytest.raises(redis.exceptions.LockNotOwnedError):
            act()
        lock.local.token = None


def test_redis_py_lock_without_a_timeout_is_renewed(server: Server, client: fairlock.Client) -> None:
    lock = server.redis().lock("lock", lock_class=compat.Lock)
    assert lock.acquire()
    with pytest.raises(redis.exceptions.LockError, match="no timeout"):
        lock.extend(1)
    lock.release()


def test_redis_py_lock_that_nobody_releases_stays_until_its_timeout(server: Server, client: fairlock.Client) -> None:
    assert server.redis().lock("lock", timeout=5, lock_class=compat.Lock).acquire()
    gc.collect()
    assert held_by(client, "lock") is not None
    with client.lock("lock").acquire(timeout=SOON) as held:
        assert held.waited > 0


def test_redis_py_waiters_have_an_order(server: Server, client: fairlock.Client) -> None:
    r, order = server.redis(), list[int]()

    def wait(number: int) -> None:
        with r.lock("lock", lock_class=compat.Lock):
            order.append(number)

    threads: List[threading.Thread] = []
    with r.lock("lock", lock_class=compat.Lock):
        for number in range(6):
            threads.append(threading.Thread(target=wait, args=(number,)))
            threads[-1].start()
            waiting(client.lock("lock"), number + 1)
    for thread in threads:
        thread.join()
    assert order == list(range(6))


def test_redis_py_lock_in_asyncio(server: Server, client: fairlock.Client) -> None:
    async def main() -> None:
        r: Any = redis.asyncio.Redis(unix_socket_path=str(server.path))
        lock = r.lock("lock", timeout=10, lock_class=compat.Lock)
        assert isinstance(lock, compat.AsyncLock)
        async with lock:
            assert await lock.owned() and await lock.locked() and await lock.extend(20) and await lock.reacquire()
            assert not await r.lock("lock", lock_class=compat.Lock).acquire(blocking=False)
            assert not await r.lock("lock", lock_class=compat.AsyncLock).acquire(blocking_timeout=0.05)
        with pytest.raises(redis.exceptions.LockError):
            await lock.release()
        await r.aclose()

    asyncio.run(main())
    is_free(client.lock("lock"))


# python-redis-lock


def test_python_redis_lock_at_a_server_that_is_silent_for_longer_than_a_question_waits(server: Server) -> None:
    r = server.redis()
    lock = redis_lock.Lock(r, "name")
    r.client_pause(7_000, all=True)
    assert lock.acquire()
    r.client_pause(7_000, all=True)
    with pytest.raises(redis_lock.AlreadyAcquired):
        lock.acquire()


def test_python_redis_lock(server: Server, client: fairlock.Client) -> None:
    r = server.redis()
    lock = redis_lock.Lock(r, "name", expire=10, auto_renewal=True)
    with lock:
        assert held_by(client, "lock:name").owner == lock.id == lock.get_owner_id() and lock.locked()
        with pytest.raises(redis_lock.AlreadyAcquired):
            lock.acquire()
        assert not redis_lock.Lock(r, "name").acquire(blocking=False)
        assert redis_lock.Lock(r, "name").acquire(timeout=1) is False
        redis_lock.Lock(r, "name", id=lock.id).extend(20)
        with pytest.raises(redis_lock.NotAcquired):
            redis_lock.Lock(r, "name").extend(20)
    with pytest.raises(redis_lock.NotAcquired):
        lock.release()
    lock.acquire()
    redis_lock.reset_all(r)
    is_free(client.lock("lock:name"))


# RedisFairLock


def test_redis_fair_lock(server: Server, client: fairlock.Client) -> None:
    lock = compat.RedisFairLock("lock", server.redis(), 10, 0.01, SOON, True)
    other = compat.RedisFairLock("lock", server.redis(), expire=10, timeout=0)
    with lock:
        assert held_by(client, "lock") is not None
        assert other.acquire() is False
        waiting(client.lock("lock"), 0)
    assert other.acquire() is True
    other.release()
    other.release()
    is_free(client.lock("lock"))


def test_a_redis_fair_lock_without_time_evicts_nobody(server: Server, client: fairlock.Client) -> None:
    patient = client.lock("lock")
    with patient.acquire():
        place = patient.enqueue().wait()
        for _ in range(5):
            assert not compat.RedisFairLock("lock", server.redis(), timeout=0).acquire()
        assert place.position() == 1
        place.leave()


def test_two_threads_share_a_redis_fair_lock(server: Server) -> None:
    lock, inside, most = compat.RedisFairLock("lock", server.redis()), 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(30):
            with lock:
                inside += 1
                most = max(most, inside)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_a_redis_fair_lock_without_renewal_expires(server: Server) -> None:
    first = compat.RedisFairLock("lock", server.redis(), expire=4, auto_renewal=False)
    second = compat.RedisFairLock("lock", server.redis(), timeout=SOON)
    assert first.acquire() and second.acquire()
    first.release()
    assert not compat.RedisFairLock("lock", server.redis(), timeout=0).acquire(), "the release ended no other's lease"
    second.release()


# ClusterLock


def test_cluster_lock(server: Server, client: fairlock.Client) -> None:
    r = server.redis()
    one, other = compat.ClusterLock(r, "lock", "worker-1", 600), compat.ClusterLock(r, "lock", "worker-2", 600)
    assert not one.refresh() and one.release() is None  # type: ignore[func-returns-value]
    assert one.try_acquire() == "worker-1" and one.try_acquire() == "worker-1" and other.try_acquire() == "worker-1"
    token = held_by(client, "lock").token
    assert one.refresh() and not other.refresh()

    def refresh_renews() -> bool:
        before = held_by(client, "lock").remaining
        one._last_refresh = 0
        assert one.refresh()
        return bool(held_by(client, "lock").remaining > before)

    eventually("a refresh renews", refresh_renews)
    other.release()
    assert held_by(client, "lock").token == token
    client.lock("lock").break_lease(token, force=True).wait()
    assert other.try_acquire() == "worker-2" and not one.refresh()
    one.release()
    assert held_by(client, "lock").owner == "worker-2", "another's lock is not deleted"
    other.release()
    is_free(client.lock("lock"))
    assert (one.redis, one.key, one.owner_id, one.timeout) == (r, "lock", "worker-1", 600)


def test_a_cluster_lock_does_not_raise(server: Server) -> None:
    nowhere = redis.Redis(unix_socket_path="/nonexistent/socket")
    lock = compat.ClusterLock(nowhere, "}", "worker-1", 60)
    assert lock.try_acquire() is None and lock.refresh() is False
    lock.release()


# AsyncRedisKeyedMutex


@pytest.mark.filterwarnings("ignore:.*blocks the running event loop")
def test_async_redis_keyed_mutex(server: Server, client: fairlock.Client) -> None:
    async def main() -> None:
        r: Any = redis.asyncio.Redis(unix_socket_path=str(server.path))
        mutex = compat.AsyncRedisKeyedMutex(r, timeout=None)
        async with mutex.locked(7) as lock:
            assert await lock.owned() and held_by(client, "7") is not None
            async with mutex.locked("other"):
                pass
        lock = await mutex.acquire("a{b}")
        assert await lock.locked()
        waiter = asyncio.create_task(mutex.acquire("a{b}"))
        while (await client.lock("a%7Bb%7D").inspect()).waiting != 1:
            await asyncio.sleep(0.01)
        await mutex.release("a{b}")
        await waiter
        await mutex.acquire(8)
        await mutex.release_all_locks()
        await mutex.release("never held")
        assert not mutex._locks
        async with mutex.locked(8):
            pass
        await r.aclose()

    asyncio.run(main())
    for name in ("7", "8", "a%7Bb%7D"):
        is_free(client.lock(name))


# DistributedLock


@pytest.mark.filterwarnings("ignore:.*blocks the running event loop")
def test_distributed_lock(server: Server, client: fairlock.Client) -> None:
    async def main() -> None:
        r: Any = redis.asyncio.Redis(unix_socket_path=str(server.path), decode_responses=False)
        lock = compat.DistributedLock(r, "lock", timeout=10)
        other = compat.DistributedLock(r, "lock", retry_times=2, retry_delay=0.02, auto_renewal=True)
        assert lock.lock_name == "distributed_lock:lock" and await lock.acquire()
        assert await lock.is_locked_by_me() and await other.is_locked_by_anyone() and not await other.is_locked_by_me()
        assert await lock.extend(30) and not await other.extend() and not await other.release()
        assert not await other.acquire() and not await other.acquire(blocking=False)
        with pytest.raises(RuntimeError, match="Failed to acquire lock: distributed_lock:lock"):
            async with other:
                pass
        assert await lock.release() and not await lock.release() and not await lock.is_locked_by_anyone()
        async with compat.distributed_lock("lock", redis=r, retry_delay=SOON) as third:
            assert await third.is_locked_by_me()
        compat.set_default_redis(r)

        @compat.distributed_lock_decorator(retry_delay=SOON)
        async def job() -> bool:
            return held_by(client, f"distributed_lock:{__name__}.job") is not None

        assert await job()
        await r.aclose()

    asyncio.run(main())
    is_free(client.lock("distributed_lock:lock"))


# The settings of redis-py's clients. None of these connects.


def of(client: Any) -> Any:
    return _settings.settings_of(client)


def test_settings_of_a_client(server: Server) -> None:
    assert of(redis.Redis()) == {"url": "redis://localhost:6379/0"}
    assert of(redis.Redis("::1", 7, 2, "secret", username="me")) == {
        "url": "redis://[::1]:7/2", "user": "me", "password": "secret",
    }  # fmt: skip
    assert of(redis.Redis.from_url("unix:///a b?db=3&password=p")) == {"url": "unix:///a%20b?db=3", "password": "p"}
    encrypted = redis.Redis("host", ssl=True, ssl_ca_certs="/ca.pem", ssl_certfile="/c.pem", ssl_keyfile="/k.pem")
    assert of(encrypted) == {
        "url": "rediss://host:6379/0", "ca_file": "/ca.pem", "certificate_file": "/c.pem", "key_file": "/k.pem",
    }  # fmt: skip
    with pytest.raises(fairlock.InvalidOption, match="verifies"):
        of(redis.Redis("host", ssl=True, ssl_cert_reqs="none"))
    with pytest.raises(fairlock.InvalidOption, match="ssl_ca_data"):
        of(redis.Redis("host", ssl=True, ssl_ca_data="-----BEGIN CERTIFICATE-----"))
    provider = redis.UsernamePasswordCredentialProvider("me", "secret")
    assert of(redis.Redis(credential_provider=provider))["credentials"]()[:2] == ("me", "secret")
    assert of(redis.Redis(credential_provider=provider)) == of(redis.Redis(credential_provider=provider))
    with pytest.raises(TypeError):
        of(object())
    one: Any = redis.Redis(unix_socket_path=str(server.path))
    assert compat.client_of(one) is compat.client_of(server.redis())


def test_settings_of_sentinel_and_cluster() -> None:
    secret = {"username": "s", "password": "p/w"}
    make: Any = redis.sentinel.Sentinel
    sentinel = make([("a", 1), ("b", 26379)], sentinel_kwargs=secret)
    assert of(sentinel.master_for("my master", password="secret", db=2)) == {
        "url": "redis+sentinel://a:1,b:26379/my%20master/2?sentinel_user=s&sentinel_password=p%2Fw",
        "password": "secret",
    }

    ipv6 = sentinel.__class__([("::2", 7), ("::1", 7)], sentinel_kwargs={"ssl": True}).master_for("m", ssl=True)
    assert of(ipv6) == {"url": "rediss+sentinel://[::1]:7,[::2]:7/m/0"}
    with pytest.raises(fairlock.InvalidOption, match="neither"):
        of(sentinel.master_for("m", ssl=True))
    assert "p%2F" not in repr(compat.client_of(sentinel.master_for("m")))

    async def cluster(*address: Any, **more: Any) -> Any:
        return of(redis.asyncio.cluster.RedisCluster(*address, **more))

    assert asyncio.run(cluster("node", 7000, password="secret")) == {
        "url": "redis+cluster://node:7000", "password": "secret",
    }  # fmt: skip
    assert asyncio.run(cluster("::1", 7000, ssl=True)) == {"url": "rediss+cluster://[::1]:7000"}


def test_a_class_of_ones_own_on_redis_asyncio_has_locks_for_tasks() -> None:
    class Own(redis.asyncio.Redis):
        pass

    own: Any = Own()
    assert isinstance(own.lock("lock", lock_class=compat.Lock), compat.AsyncLock)


def test_a_login_is_taken_over(server: Server) -> None:
    server.redis().config_set("requirepass", "secret")
    r = redis.Redis(unix_socket_path=str(server.path), password="secret")
    with r.lock("lock", lock_class=compat.Lock) as lock:
        eventually("it is locked", lock.locked)
