"""The drop-in classes with clients of Sentinel, of a cluster, and over TLS: at real servers, in both worlds."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest
import redis
import redis.asyncio
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.exceptions
import redis.sentinel
from conftest import SOON, Server, eventually, is_free, waiting

import fairlock
from fairlock import compat
from fairlock.compat import _settings

# As they are used: their types are narrower than their values.
of_sentinels: Any = redis.sentinel.Sentinel
of_sentinels_for_tasks: Any = redis.asyncio.sentinel.Sentinel
of_cluster: Any = redis.RedisCluster
of_cluster_for_tasks: Any = redis.asyncio.cluster.RedisCluster

#: From the port of a node of a cluster to that of its bus.
BUS = 10_000


def free_port() -> int:
    """One of 127.0.0.1 whose bus is free too. The system hands out neither by itself."""
    while True:
        port = random.randrange(12_000, 22_000)
        try:
            for candidate in (port, port + BUS):
                socket.create_server(("127.0.0.1", candidate)).close()
            return port
        except OSError:
            pass


def at_a_port(*arguments: str, password: str, option: str = "--port", file: str = "") -> Server:
    """A server that also listens at ``server.port``."""
    port = free_port()
    return Server("--bind", "127.0.0.1", option, str(port), *arguments, file=file, port=port, password=password)


@pytest.fixture
def servers() -> Iterator[List[Server]]:
    """Those that the test starts."""
    started: List[Server] = []
    yield started
    for server in started:
        server.stop()


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


def test_a_master_that_sentinels_know(servers: List[Server]) -> None:
    master = at_a_port(password="of the master")
    servers.append(master)
    watched = f"sentinel monitor my-master 127.0.0.1 {master.port} 1\nsentinel auth-pass my-master \"of the master\"\n"
    sentinel = at_a_port("--sentinel", password="of the sentinel", file=watched)
    servers.append(sentinel)
    ignorant = at_a_port("--sentinel", password="of the sentinel", file="# watches nothing\n")
    servers.append(ignorant)
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


def test_a_master_that_is_killed(servers: List[Server]) -> None:
    """The objects that hold and wait go on at the replica that is promoted, in the order of the queue."""
    own = ("--masterauth", "secret", "--repl-diskless-sync-delay", "0")
    master = at_a_port(*own, password="secret")
    servers.append(master)
    replica = at_a_port(*own, "--replicaof", "127.0.0.1", str(master.port), password="secret")
    servers.append(replica)
    watched = f"monitor my-master 127.0.0.1 {master.port} 1", "auth-pass my-master secret"
    # Until it is killed, a master that is slow is no dead one.
    times = "down-after-milliseconds my-master 60000", "failover-timeout my-master 10000"
    file = "".join(f"sentinel {line}\n" for line in (*watched, *times))
    eventually("the replica follows", lambda: replica.redis().info("replication")["master_link_status"] == "up")
    sentinel = at_a_port("--sentinel", password="of the sentinel", file=file)
    servers.append(sentinel)

    def asked(*command: str) -> Any:
        r: Any = sentinel.redis()
        return r.execute_command("SENTINEL " + command[0], *command[1:])

    def replica_is_known() -> bool:
        known = [(one["port"], one["master-link-status"]) for one in asked("SLAVES", "my-master")]
        return known == [(replica.port, "ok")]

    eventually("the sentinel knows the replica", replica_is_known)
    with contextlib.suppress(redis.exceptions.ResponseError):  # Redis 6 has no such setting.
        asked("DEBUG", "TILT-PERIOD", "1000")

    # Two names of the sentinel, so two clients of fairlock.
    login: Dict[str, Any] = {"sentinel_kwargs": {"password": "of the sentinel"}, "password": "secret"}
    hosts = "127.0.0.1", "localhost"
    one, other = (of_sentinels([(host, sentinel.port)], **login).master_for("my-master") for host in hosts)
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
        written = master.redis().info("replication")["master_repl_offset"]
        eventually("all of it is copied", lambda: replica.redis().info("replication")["master_repl_offset"] >= written)
        # With less than a second a sentinel often takes the new master for dead, too.
        asked("SET", "my-master", "down-after-milliseconds", "1200")
        master.process.kill()
        master.process.wait()
        eventually("it is promoted", lambda: replica.redis().info("replication")["role"] == "master")
        eventually("it is named", lambda: int(asked("GET-MASTER-ADDR-BY-NAME", "my-master")[1]) == replica.port)
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


def cluster(node: Server, *command: Any) -> Any:
    r: Any = node.redis()
    return r.execute_command("CLUSTER " + command[0], *command[1:])


def test_a_cluster(servers: List[Server]) -> None:
    login: Any = {"password": "secret"}
    for first, last in ((0, 5_460), (5_461, 10_922), (10_923, 16_383)):
        node = at_a_port("--cluster-enabled", "yes", **login)
        servers.append(node)
        cluster(node, "ADDSLOTS", *range(first, last + 1))
        cluster(node, "SET-CONFIG-EPOCH", len(servers))
        if node is not servers[0]:
            cluster(node, "MEET", "127.0.0.1", servers[0].port)
    def is_whole() -> bool:
        states = [cluster(node, "INFO") for node in servers]
        return all(state["cluster_state"] == "ok" and state["cluster_known_nodes"] == "3" for state in states)

    eventually("the cluster is whole", is_whole)
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


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority (ca.pem), and what it has issued for 127.0.0.1 (own.pem, own.key)."""
    folder = tmp_path_factory.mktemp("certificates")
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make certificates")

    def make(name: str, subject: str, *more: str) -> None:
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-noenc", "-keyout", f"{name}.key")
        request = ["openssl", "req", "-x509", *key, "-out", f"{name}.pem", "-subj", subject, *more]
        made = subprocess.run(request, cwd=folder, capture_output=True, text=True)
        assert made.returncode == 0, made.stderr

    make("ca", "/CN=authority")
    issued = ("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE")
    make("own", "/CN=server", "-CA", "ca.pem", "-CAkey", "ca.key", *issued)
    return folder


def test_a_server_that_demands_certificates(servers: List[Server], server: Server, certificates: Path) -> None:
    if not server.redis().config_get("tls-port"):
        pytest.skip("this redis-server was built without TLS")
    authority, own, key = (str(certificates / name) for name in ("ca.pem", "own.pem", "own.key"))
    files = ("--tls-ca-cert-file", authority, "--tls-cert-file", own, "--tls-key-file", key)
    encrypted = at_a_port(*files, "--tls-auth-clients", "yes", option="--tls-port", password="secret")
    servers.append(encrypted)
    where: Dict[str, Any] = {"host": "127.0.0.1", "port": encrypted.port, "password": "secret", "ssl": True}
    identity: Dict[str, Any] = {"ssl_ca_certs": authority, "ssl_certfile": own, "ssl_keyfile": key}
    with fairlock.connect(encrypted.url, password="secret") as client:
        excludes(redis.Redis(**where, **identity), client)

        async def tasks() -> None:
            r: Any = redis.asyncio.Redis(**where, **identity)
            await excludes_tasks(r, client)
            await r.aclose()

        asyncio.run(tasks())

    # A cluster of one node. Only the scheme says that it is encrypted.
    node = at_a_port(*files, "--cluster-enabled", "yes", "--tls-cluster", "yes", option="--tls-port", password="secret")
    servers.append(node)
    cluster(node, "ADDSLOTS", *range(16_384))
    eventually("the cluster is whole", lambda: bool(cluster(node, "INFO")["cluster_state"] == "ok"))
    at = f"127.0.0.1:{node.port}"
    ours: Any = {"ca_file": authority, "certificate_file": own, "key_file": key}
    with fairlock.connect(f"rediss+cluster://{at}", password="secret", **ours) as client:
        excludes(of_cluster.from_url(f"rediss://:secret@{at}", **identity), client)

    # What the client of redis-py does not trust or show, fairlock does not either.
    incomplete: List[Dict[str, Any]] = [{"ssl_ca_certs": authority}, {"ssl_certfile": own, "ssl_keyfile": key}]
    for missing in incomplete:
        settings = _settings.settings_of(redis.Redis(**where, **missing))
        with pytest.raises(fairlock.ConnectionError):
            fairlock.connect(**settings)
