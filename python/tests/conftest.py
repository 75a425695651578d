"""Real servers, and real processes: started by the tests, and stopped by their handles."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import Callable, Iterator, List, Tuple

import pytest
import redis

import fairlock

#: Longer than anything takes that works.
SOON = 30.0


class Server:
    """A private redis-server on a socket in a folder of its own, and with these arguments at a port, too."""

    def __init__(self, *arguments: str, file: str = "", port: int = 0, password: str = "") -> None:
        self.port = port
        self.password = password
        self.folder = Path(tempfile.mkdtemp(prefix="fairlock-"))
        self.path = self.folder / "socket"
        self.url = f"unix://{self.path}"
        binary = os.environ.get("FAIRLOCK_REDIS_SERVER", "redis-server")
        usual = ["--port", "0", "--unixsocket", str(self.path), "--save", "", "--dir", str(self.folder)]
        if password:
            usual += ["--requirepass", password]
        if file:
            (self.folder / "redis.conf").write_text(file)
            usual.insert(0, str(self.folder / "redis.conf"))
        self.process = subprocess.Popen([binary, *usual, *arguments], stdout=subprocess.DEVNULL)
        eventually("the server answers", self._answers)

    def _answers(self) -> bool:
        assert self.process.poll() is None, "the server has ended"
        try:
            return bool(self.redis().ping())
        except redis.ConnectionError:
            return False

    def redis(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=str(self.path), password=self.password or None)

    def commands(self) -> int:
        """How many scripts were called."""
        stats = self.redis().info("commandstats")
        return sum(stats[name]["calls"] for name in stats if name in ("cmdstat_evalsha", "cmdstat_eval"))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def eventually(what: str, holds: Callable[[], bool]) -> None:
    until = time.monotonic() + SOON
    while not holds():
        assert time.monotonic() < until, f"never: {what}"
        time.sleep(0.01)


def waiting(lock: fairlock.Lock, count: int) -> None:
    eventually(f"{count} wait", lambda: lock.inspect().wait().waiting == count)


def is_free(lock: fairlock.Lock) -> None:
    def free() -> bool:
        state = lock.inspect().wait()
        return not state.holders and state.waiting == 0

    eventually("the lock is free", free)


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """Leaves out the test suites of other locks, unless they are asked for."""
    left_out = [item for item in items if item.get_closest_marker("peers") and os.environ.get("PEERS") != "1"]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def client(server: Server) -> Iterator[fairlock.Client]:
    with fairlock.connect(server.url) as client:
        yield client


class Child:
    """A Python process that runs this code, with the server's URL in ``url`` and a client in ``client``. ``before`` runs
    before the client is made, ``first`` before anything is imported. ``python`` is another program than that of the tests,
    and the folder of its packages."""

    def __init__(
        self, server: Server, code: str, before: str = "", first: str = "", python: Tuple[str, str] = (sys.executable, "")
    ) -> None:
        head = f"{first}\nimport fairlock, os, sys, time, threading, asyncio, signal\nurl = {server.url!r}\n"
        # A shell that starts this run in the background ignores SIGINT, and so would its children.
        head += "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        made = head + textwrap.dedent(before) + "client = fairlock.connect(url)\n" + textwrap.dedent(code)
        program, packages = python
        self.process = subprocess.Popen(
            [program, "-u", "-c", made],
            env={**os.environ, "PYTHONPATH": packages} if packages else None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # What it forks ends with it.
            start_new_session=True,
        )

    def is_asleep(self) -> bool:
        """Whether its main thread sleeps."""
        return Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def end(self) -> str:
        """Its exit must be clean. What it complained of."""
        return self.ended()[1]

    def ended(self) -> Tuple[str, str]:
        """As :meth:`end`, with what it said before that."""
        out, errors = self.process.communicate(timeout=SOON)
        assert self.process.returncode == 0, f"exit {self.process.returncode}\n{out}\n{errors}"
        return out, errors


@pytest.fixture
def child(server: Server) -> Iterator[Callable[..., Child]]:
    children: List[Child] = []

    def start(code: str, before: str = "", first: str = "", python: Tuple[str, str] = (sys.executable, "")) -> Child:
        children.append(Child(server, code, before, first, python))
        return children[-1]

    yield start
    for child in children:
        try:
            os.killpg(child.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.process.communicate()
