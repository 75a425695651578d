"""Workers that are greenlets of gevent: Celery's and gunicorn's."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from conftest import SOON, Server, eventually, is_free, waiting

import fairlock

pytest.importorskip("gevent")
EXAMPLES = Path(__file__).parent.parent / "examples"


def test_celery_tasks_wait_their_turn_in_greenlets(
    server: Server, client: fairlock.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("celery")
    monkeypatch.setenv("REDIS_URL", f"redis+socket://{server.path}")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "-P", "gevent", "-c", "8"]
    with subprocess.Popen(command, cwd=EXAMPLES, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as worker:
        try:
            import celery_tasks

            with client.lock("reports:7", lease=10).acquire():
                results = [celery_tasks.rebuild.delay("7", 0) for _ in range(6)]
                waiting(client.lock("reports:7"), 6)
                # They stop nobody.
                assert celery_tasks.rebuild.delay("8", 0).get(timeout=2 * SOON) > 0
            assert len({result.get(timeout=2 * SOON) for result in results}) == 6
        finally:
            sys.modules.pop("celery_tasks", None)
            worker.terminate()
            worker.wait(2 * SOON)
    is_free(client.lock("reports:7"))


APPLICATION = """
import os, fairlock
client = fairlock.Client(os.environ["REDIS_URL"])
def application(environ, start):
    with client.lock(environ["PATH_INFO"]).acquire(timeout=60) as held:
        body = b"%d" % held.token
    start("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""


class Connection(http.client.HTTPConnection):
    """To a socket in the file system."""

    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=2 * SOON)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(2 * SOON)
        self.sock.connect(str(self.path))


@pytest.mark.parametrize("more", [[], ["--preload"]])
def test_requests_of_gunicorn_wait_in_greenlets(
    server: Server, client: fairlock.Client, tmp_path: Path, more: Any
) -> None:
    pytest.importorskip("gunicorn")
    (tmp_path / "web.py").write_text(APPLICATION)
    path = server.folder / "web"
    command = [sys.executable, "-m", "gunicorn", "-k", "gevent", "--bind", f"unix:{path}", *more]
    environment = {**os.environ, "REDIS_URL": server.url}

    def token(name: str) -> int:
        connection = Connection(path)
        connection.request("GET", name)
        return int(connection.getresponse().read())

    command.append("web:application")
    null = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=null, stderr=null) as web:
        try:
            eventually("it listens", lambda: socket.socket(socket.AF_UNIX).connect_ex(str(path)) == 0)
            with ThreadPoolExecutor(8) as requests:
                with client.lock("/lock").acquire():
                    tokens = [requests.submit(token, "/lock") for _ in range(8)]
                    waiting(client.lock("/lock"), 8)
                    # They stop nobody.
                    assert all(token("/other") > 0 for _ in range(6))
                assert len({each.result() for each in tokens}) == 8
        finally:
            web.terminate()
            web.wait(2 * SOON)
    is_free(client.lock("/lock"))
