"""The drop-in classes with clients of Sentinel, of a cluster, and over TLS: at real servers, in both worlds."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, List, Tuple

import pytest
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.sentinel
from conftest import SOON, Server, is_free, waiting
from kit import Kit

import fairlock
from fairlock import compat
from fairlock.compat import _settings

# As they are used: their types are narrower than their values.
of_sentinels: Any = redis.sentinel.Sentinel
of_sentinels_for_tasks: Any = redis.asyncio.sentinel.Sentinel
of_cluster: Any = redis.RedisCluster
of_cluster_for_tasks: Any = redis.asyncio.cluster.RedisCluster

def excludes(r: Any, client: fairlock.Client) -> None:
    """A lock of this client of redis-py is one of fairlock's, which another client sees and which excludes others."""
    assert r.ping()
    lock, other = r.lock("lock", lock_class=compat.Lock), r.lock("lock", lock_class=compat.Lock)
    with lock:
        [holder] = client.lock("lock").inspect().wait().holders
        assert holder.owner.encode() == lock.local.token
        assert lock.owned() and not other.acquire(blocking=False)
        with pytest.raises(fairlock.Busy):
            client.lock("lock").try_acquire().wait()
    is_free(client.lock("lock"))


async def excludes_tasks(r: Any, client: fairlock.Client) -> None:
    """The same for a client of redis.asyncio."""
    assert await r.ping()
    lock, other = r.lock("lock", lock_class=compat.Lock), r.lock("lock", lock_class=compat.Lock)
    async with lock:
        [holder] = (await client.lock("lock").inspect()).holders
        assert holder.owner.encode() == lock.local.token
        assert await lock.owned() and not await other.acquire(blocking=False)
        with pytest.raises(fairlock.Busy):
            await client.lock("lock").try_acquire()
    assert not await lock.locked()


def test_a_master_that_sentinels_know(kit: Kit) -> None:
    master = kit.server(tcp=True, password="of the master")
    watches = f"sentinel monitor my-master 127.0.0.1 {master.port} 1", 'sentinel auth-pass my-master "of the master"'
    own: Dict[str, Any] = {"tcp": True, "arguments": ["--sentinel"], "password": "of the sentinel"}
    sentinel, ignorant = kit.server(config=watches, **own), kit.server(**own)
    # redis-py exchanges them: the one that knows the master is asked first then.
    addresses = [("127.0.0.1", ignorant.port), ("127.0.0.1", sentinel.port)]
    login: Dict[str, Any] = {"sentinel_kwargs": {"password": "of the sentinel"}, "password": "of the master", "db": 1}

    r = of_sentinels(addresses, **login).master_for("my-master")
    with fairlock.connect(f"{master.url}?db=1", password="of the master") as client:
        before = _settings.client_of(r)
        excludes(r, client)
        asked_first = r.connection_pool.sentinel_manager.sentinels[0]
        assert asked_first.connection_pool.connection_kwargs["port"] == sentinel.port
        assert _settings.client_of(r) is before

        async def tasks() -> None:
            r = of_sentinels_for_tasks(addresses, **login).master_for("my-master")
            await excludes_tasks(r, client)
            await r.aclose()

        asyncio.run(tasks())


def test_a_master_that_is_killed(kit: Kit) -> None:
    """The objects that hold and wait go on at the replica that is promoted, in the order of the queue."""
    set_up = kit.sentinels(replicas=1, password="secret")
    # Two names of a sentinel, so two clients of fairlock.
    addresses = [[(host, set_up.sentinels[0].port)] for host in ("127.0.0.1", "localhost")]
    one, other = (of_sentinels(address, password="secret").master_for("mymaster") for address in addresses)
    assert _settings.client_of(one) is not _settings.client_of(other)
    holding: Any = one.lock("lock", lock_class=compat.Lock)
    queue: List[Any] = [
        other.lock("lock", lock_class=compat.Lock, blocking_timeout=4 * SOON),
        compat.RedisFairLock("lock", one, timeout=4 * SOON),
        compat.RedisFairLock("lock", other, timeout=4 * SOON),
        one.lock("lock", lock_class=compat.Lock, blocking_timeout=4 * SOON),
    ]
    served: List[Tuple[int, bool]] = []
    inside = threading.Lock()

    def take(number: int) -> None:
        assert queue[number].acquire()
        alone = inside.acquire(blocking=False)
        served.append((number, alone))
        if alone:
            inside.release()
        queue[number].release()

    observed = _settings.client_of(other).lock("lock")
    with ThreadPoolExecutor(len(queue)) as threads:
        assert holding.acquire() and inside.acquire(blocking=False)
        turns = []
        for number in range(len(queue)):
            turns.append(threads.submit(take, number))
            waiting(observed, number + 1)
        master = set_up.master("lock")
        master.await_copies("lock", 1)
        master.kill()
        replica = set_up.await_promotion("lock", master)
        assert holding.owned() and not served
        waiting(observed, len(queue))
        inside.release()
        holding.release()
        for turn in turns:
            turn.result()
    assert served == [(number, True) for number in range(len(queue))]

    with fairlock.connect(replica.url, password="secret") as client:
        for lock in (holding, *queue):
            assert lock.acquire()
            assert client.lock("lock").is_locked().wait()
            lock.release()
        is_free(client.lock("lock"))


def test_a_cluster(kit: Kit) -> None:
    login: Any = {"password": "secret"}
    servers = kit.cluster(node_timeout_ms=100_000, node=login).servers
    ports = sorted(node.port for node in servers)
    with fairlock.connect(f"redis+cluster://127.0.0.1:{ports[0]}", **login) as client:
        # A client of redis-py that has met the cluster knows all its nodes.
        clients = [of_cluster(host="127.0.0.1", port=port, **login) for port in ports]
        for r in clients:
            excludes(r, client)
        assert len({id(_settings.client_of(r)) for r in clients}) == 1

        async def tasks() -> None:
            r = of_cluster_for_tasks("127.0.0.1", ports[1], **login)
            await excludes_tasks(r, client)
            assert _settings.client_of(r) is _settings.client_of(clients[0])
            await r.aclose()

        asyncio.run(tasks())
        # Every node has keys of locks: the drop-in class finds the one that has the slot.
        for name in ("a", "b", "c", "d", "e", "f", "g"):
            with clients[0].lock(name, lock_class=compat.Lock):
                assert client.lock(name).is_locked().wait()
        assert all(node.redis().dbsize() for node in servers)


def test_a_server_that_demands_certificates(kit: Kit, server: Server) -> None:
    if not server.redis().config_get("tls-port"):
        pytest.skip("this redis-server was built without TLS")
    issued = kit.certificates("127.0.0.1")
    authority, own, key = issued["authority"], issued["certificate"], issued["key"]
    setup: Dict[str, Any] = {"tcp": True, "certificates": issued["id"], "password": "secret"}
    encrypted = kit.server(**setup)
    where: Dict[str, Any] = {"host": "127.0.0.1", "port": encrypted.port, "password": "secret", "ssl": True}
    identity: Dict[str, Any] = {"ssl_ca_certs": authority, "ssl_certfile": own, "ssl_keyfile": key}
    with fairlock.connect(encrypted.url, password="secret") as client:
        excludes(redis.Redis(**where, **identity), client)

        async def tasks() -> None:
            r: Any = redis.asyncio.Redis(**where, **identity)
            await excludes_tasks(r, client)
            await r.aclose()

        asyncio.run(tasks())

    # Only the scheme says that a cluster is encrypted.
    cluster = kit.cluster(node_timeout_ms=100_000, node=setup)
    at = f"127.0.0.1:{cluster.servers[0].port}"
    ours: Any = {"ca_file": authority, "certificate_file": own, "key_file": key}
    with fairlock.connect(f"rediss+cluster://{at}", password="secret", **ours) as client:
        excludes(of_cluster.from_url(f"rediss://:secret@{at}", **identity), client)

    # What the client of redis-py does not trust or show, fairlock does not either.
    incomplete: List[Dict[str, Any]] = [{"ssl_ca_certs": authority}, {"ssl_certfile": own, "ssl_keyfile": key}]
    for missing in incomplete:
        settings = _settings.settings_of(redis.Redis(**where, **missing))
        with pytest.raises(fairlock.ConnectionError):
            fairlock.connect(**settings)
