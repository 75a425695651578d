"""Real servers, proxies, clocks, Sentinel and clusters. The test kit of the tests in Rust starts and ends them:
testkit/src/serve/mod.rs has its requests."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any, Dict, List

import redis

import fairlock

PROGRAM = Path(__file__).parents[2] / "target/debug/fairlock-testkit"


class Testkit:
    """Its process. All that it started ends with it, and it ends with this process, however that ends."""

    __test__ = False  # It has the name of a class of tests.

    def __init__(self) -> None:
        program = os.environ.get("FAIRLOCK_TESTKIT", PROGRAM)
        # Ctrl-C reaches the tests only, and they end what they use in their order.
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([program], stdin=pipe, stdout=pipe, text=True, start_new_session=True)
        self._one_at_a_time = threading.Lock()

    def ask(self, do: str, **fields: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        with self._one_at_a_time:
            self.process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline() or '{"error": "the test kit has ended"}')
        assert "ok" in answer, f"{do}: {answer['error']}"
        return answer["ok"]

    def end(self) -> None:
        self.process.communicate()


class Kit:
    """What one test starts, and the clients that it connects there."""

    def __init__(self, testkit: Testkit) -> None:
        self.ask = testkit.ask
        self._started: List[int] = []
        self._clients: List[fairlock.Client] = []

    def _start(self, what: str, **fields: Any) -> Dict[str, Any]:
        answer: Dict[str, Any] = self.ask(what, **fields)
        self._started.append(answer["id"])
        return answer

    def server(self, **setup: Any) -> Server:
        return Server(self, self._start("server", **setup), setup.get("password"))

    def proxy(self, server: Server) -> Proxy:
        return Proxy(self, self._start("proxy", of=server.id))

    def clock(self) -> Clock:
        return Clock(self, self._start("clock")["id"])

    def certificates(self, host: str) -> Dict[str, Any]:
        return self._start("certificates", host=host)

    def sentinels(self, **setup: Any) -> SetUp:
        return SetUp(self, self._start("sentinels", **setup), setup.get("password"))

    def cluster(self, **setup: Any) -> SetUp:
        return SetUp(self, self._start("cluster", **setup), setup.get("node", {}).get("password"))

    def client(self, url: str) -> fairlock.Client:
        self._clients.append(fairlock.connect(url))
        return self._clients[-1]

    def close(self) -> None:
        while self._clients:
            self._clients.pop().close()
        while self._started:
            self.ask("end", of=self._started.pop())


class Thing:
    def __init__(self, kit: Kit, id: int) -> None:
        self.kit = kit
        self.id = id

    def ask(self, do: str, **fields: Any) -> Any:
        return self.kit.ask(do, of=self.id, **fields)


class Server(Thing):
    """A private redis-server, on a unix socket and perhaps at a port."""

    def __init__(self, kit: Kit, place: Dict[str, Any], password: str | None) -> None:
        super().__init__(kit, place["id"])
        self.folder = Path(place["folder"])
        self.path = Path(place["socket"])
        self.url = f"unix://{self.path}"
        self.port: int = place.get("port", 0)
        self.password = password

    def redis(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.path), password=self.password)

    def commands(self) -> int:
        """How many scripts were called."""
        stats = self.redis().info("commandstats")
        return sum(stats[name]["calls"] for name in stats if name in ("cmdstat_evalsha", "cmdstat_eval"))

    def kill(self) -> None:
        self.ask("kill")

    def stop(self) -> None:
        self.ask("stop")

    def cont(self) -> None:
        self.ask("cont")

    def nothing_is_left(self) -> None:
        self.ask("nothing_left")

    def await_copies(self, key: str, replicas: int) -> None:
        self.ask("await_copies", key=key, replicas=replicas)


class Proxy(Thing):
    def __init__(self, kit: Kit, place: Dict[str, Any]) -> None:
        super().__init__(kit, place["id"])
        self.url = f"unix://{place['socket']}"

    def fault(self, side: str, act: Any, **target: Any) -> Fault:
        return Fault(self.kit, self.ask("fault", side=side, act=act, **target)["id"])


class Fault(Thing):
    def struck(self) -> int:
        return int(self.ask("struck")["times"])

    def lift(self) -> None:
        self.ask("lift")


class Clock(Thing):
    """The wall clock of servers that were given its id."""

    def step(self, seconds: float, server: Server) -> None:
        """Sets it forward, or back, and waits until this server shows that."""
        self.ask("step", seconds=seconds, seen_by=[server.id])


class SetUp(Thing):
    """Sentinels with their servers, or a cluster."""

    def __init__(self, kit: Kit, places: Dict[str, Any], password: str | None) -> None:
        super().__init__(kit, places["id"])
        self.servers = [Server(kit, place, password) for place in places["servers"]]
        self.sentinels = [Server(kit, place, None) for place in places.get("sentinels", [])]
        at = ",".join(f"127.0.0.1:{server.port}" for server in self.sentinels or self.servers)
        self.url = f"redis+sentinel://{at}/{places['master']}" if self.sentinels else f"redis+cluster://{at}"

    def _one(self, answer: Dict[str, Any]) -> Server:
        [server] = [server for server in self.servers if server.id == answer["id"]]
        return server

    def master(self, key: str) -> Server:
        return self._one(self.ask("master", key=key))

    def migrate(self, key: str, **keys: int) -> List[str]:
        """Moves the slot of this key to another master, or so many keys of it. What was moved."""
        moved: List[str] = self.ask("migrate", key=key, **keys)["moved"]
        return moved

    def await_promotion(self, key: str, old: Server) -> Server:
        return self._one(self.ask("await_promotion", key=key, old=old.id))
