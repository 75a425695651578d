"""Fixtures: real servers, and real processes that are ended by their handles; and how to wait for what happens soon."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Callable, Iterator, List, Tuple

import pytest
from kit import Kit, Server as Server, Testkit

import fairlock

#: Longer than anything takes that works.
SOON = 30.0


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


@pytest.fixture(scope="session")
def testkit() -> Iterator[Testkit]:
    testkit = Testkit()
    yield testkit
    testkit.end()


@pytest.fixture
def kit(testkit: Testkit) -> Iterator[Kit]:
    kit = Kit(testkit)
    yield kit
    kit.close()


@pytest.fixture
def server(kit: Kit) -> Server:
    return kit.server()


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
