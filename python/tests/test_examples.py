"""The examples, as people run them. Left out where their packages are not installed."""

from __future__ import annotations

import asyncio
import errno
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
from io import StringIO
from pathlib import Path
from typing import Any, Iterator, List

import pytest
from conftest import SOON, Server, eventually, is_free, waiting

import fairlock

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def of_examples(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("REDIS_URL", server.url)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    yield
    for name in ("celery_tasks", "scheduled_job", "django_command"):
        sys.modules.pop(name, None)


def test_celery_tasks_wait_their_turn_in_prefork_workers(
    server: Server, client: fairlock.Client, of_examples: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("celery")
    monkeypatch.setenv("REDIS_URL", f"redis+socket://{server.path}")
    command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "--concurrency", "3", "-l", "warning"]
    with subprocess.Popen(command, cwd=EXAMPLES, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as worker:
        try:
            import celery_tasks

            lock = client.lock("reports:7", lease=10)
            results = [celery_tasks.rebuild.delay("7", 0) for _ in range(6)]
            tokens = [result.get(timeout=2 * SOON) for result in results]
            assert len(set(tokens)) == 6

            # A soft time limit interrupts a wait, which leaves the queue.
            with lock.acquire():
                limited = celery_tasks.rebuild.apply_async(("7",), soft_time_limit=8)
                waiting(lock, 1)
                assert limited.get(timeout=2 * SOON) is None
                waiting(lock, 0)

                # One that waits is revoked: another worker is served.
                revoked = celery_tasks.rebuild.delay("7")
                waiting(lock, 1)
                revoked.revoke(terminate=True, signal="SIGKILL")
                other = celery_tasks.rebuild.delay("7", 0)
                waiting(lock, 2)
            assert other.get(timeout=2 * SOON) > max(tokens)
        finally:
            worker.terminate()
            worker.wait(2 * SOON)
    is_free(lock)


@pytest.mark.parametrize("workers", [1, 2])
def test_an_endpoint_of_fastapi(client: fairlock.Client, of_examples: None, tmp_path: Path, workers: int) -> None:
    httpx: Any = pytest.importorskip("httpx")
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    lock, path = client.lock("reports:7"), str(tmp_path / "uvicorn")
    # Nobody's time is over before a hang-up and the end of the server.
    environment = {**os.environ, "REPORT_TIMEOUT": "3600"}
    command = [sys.executable, "-m", "uvicorn", "fastapi_app:app", "--uds", path, "--workers", str(workers)]

    def serves() -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            return connection.connect_ex(path) == 0

    async def main(uvicorn: subprocess.Popen[str]) -> None:
        transport = httpx.AsyncHTTPTransport(uds=path)
        async with httpx.AsyncClient(transport=transport, base_url="http://test", timeout=2 * SOON) as web:
            answers = await asyncio.gather(*(web.post("/reports/7") for _ in range(10)))
            assert len({answer.json()["token"] for answer in answers}) == 10
            async with lock.acquire():
                # A client that hangs up leaves the queue.
                _, client_that_waits = await asyncio.open_unix_connection(path)
                client_that_waits.write(b"POST /reports/7 HTTP/1.1\r\nHost: test\r\nContent-Length: 0\r\n\r\n")
                await asyncio.to_thread(waiting, lock, 1)
                client_that_waits.close()
                await asyncio.to_thread(waiting, lock, 0)
                # So do requests of a server that is told to end, and it ends.
                requests = [asyncio.ensure_future(web.post("/reports/7")) for _ in range(5)]
                await asyncio.to_thread(waiting, lock, 5)
                uvicorn.send_signal(signal.SIGTERM)
                assert {answer.status_code for answer in await asyncio.gather(*requests)} == {503}
                await asyncio.to_thread(uvicorn.wait, 2 * SOON)
                assert (await lock.inspect()).waiting == 0

    with subprocess.Popen(command, cwd=EXAMPLES, env=environment, stderr=subprocess.PIPE, text=True) as uvicorn:
        try:
            eventually("it serves", serves)
            asyncio.run(main(uvicorn))
        finally:
            uvicorn.kill()
    is_free(lock)


def test_a_scheduled_job_runs_on_one_machine(client: fairlock.Client, of_examples: None) -> None:
    pytest.importorskip("apscheduler")
    environment = {**os.environ, "EVERY": "0.2"}
    command = [sys.executable, str(EXAMPLES / "scheduled_job.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as job:
        assert job.stdout is not None
        assert "running" in job.stdout.readline()
        with client.lock("reports:nightly").acquire():
            while "skipped: busy" not in job.stdout.readline():
                pass
        while "running" not in job.stdout.readline():
            pass
        job.send_signal(signal.SIGTERM)
        job.communicate()


def test_a_pool_of_workers_has_a_limit_for_each_tenant(client: fairlock.Client, of_examples: None, tmp_path: Path) -> None:
    environment = {**os.environ, "SECONDS_A_JOB": "0.05"}
    said, running = tmp_path / "said", set[str]()
    acme = client.semaphore("tenants:acme", 2)
    held = [acme.acquire().wait(), acme.acquire().wait()]
    with said.open("a") as out:
        pools = [
            subprocess.Popen(
                [sys.executable, str(EXAMPLES / "tenant_pool.py")], stdin=subprocess.PIPE, stdout=out, env=environment
            )
            for _ in range(2)
        ]
    for pool, names in zip(pools, ("one", "two")):
        assert pool.stdin is not None
        with pool.stdin as jobs:
            for number in range(10):
                jobs.write(f"acme {names}-{number}\nother {names}-other-{number}\n".encode())
    try:
        # Those that wait for this tenant's turn keep no worker from the other.
        waiting(acme, 20)
        eventually("all jobs of the other tenant end", lambda: said.read_text().count("ends in other-") == 20)
        assert "acme" not in said.read_text()
        for lease in held:
            lease.release()
        for pool in pools:
            assert pool.wait(2 * SOON) == 0
    finally:
        for pool in pools:
            pool.kill()
            pool.wait()
    lines = said.read_text().splitlines()
    assert len(lines) == 80
    for line in lines:
        job, what, _, slot = line.split()
        if what == "begins":
            assert slot in ("acme-0", "acme-1", "other-0", "other-1") and slot not in running, f"{job}: {lines}"
            running.add(slot)
        else:
            running.remove(slot)
    is_free(acme)


def test_a_pool_that_is_interrupted_gives_no_slot_away_while_its_job_works(
    client: fairlock.Client, of_examples: None, tmp_path: Path
) -> None:
    said, gates = tmp_path / "said", {job: tmp_path / f"gate of {job}" for job in ("one", "two")}
    for gate in gates.values():
        os.mkfifo(gate)
    # The example, with jobs that work until they are let go.
    program = f"""
import asyncio, sys, tenant_pool
def work(tenant, job, scratch):
    print(job, "works in", scratch, flush=True)
    open({str(tmp_path)!r} + "/gate of " + job).close()
    print(job, "stops in", scratch, flush=True)
tenant_pool.work = work
try:
    asyncio.run(tenant_pool.main())
except KeyboardInterrupt:
    pass
"""
    acme, other = client.semaphore("tenants:acme", 2), client.semaphore("tenants:other", 2)
    held = [acme.acquire().wait(), other.acquire().wait(), other.acquire().wait()]
    pools: List[subprocess.Popen[bytes]] = []

    def start(jobs: bytes) -> None:
        with said.open("a") as out:
            command = [sys.executable, "-c", program]
            # A shell that starts this run in the background ignores SIGINT, and so would its children.
            heeds = functools.partial(signal.signal, signal.SIGINT, signal.default_int_handler)
            pools.append(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, cwd=EXAMPLES, preexec_fn=heeds)
            )
        stdin = pools[-1].stdin
        assert stdin is not None
        with stdin:
            stdin.write(jobs)

    def say(text: str) -> None:
        eventually(text, lambda: text in said.read_text().splitlines())

    def let_go(job: str) -> None:
        def opens() -> bool:
            try:
                os.close(os.open(gates[job], os.O_WRONLY | os.O_NONBLOCK))
            except OSError as error:
                assert error.errno == errno.ENXIO  # nobody reads there yet
                return False
            return True

        eventually(f"{job} is at its gate", opens)

    try:
        start(b"acme one\nother waits\n")
        say("one works in acme-1")
        waiting(other, 1)
        start(b"acme two\n")
        waiting(acme, 1)
        pools[0].send_signal(signal.SIGINT)
        # The interrupt has come to its tasks.
        waiting(other, 0)
        let_go("one")
        say("two works in acme-1")
        let_go("two")
        assert pools[1].wait(2 * SOON) == 0
        pools[0].wait(2 * SOON)
    finally:
        for pool in pools:
            pool.kill()
            pool.wait()
    told = [line for line in said.read_text().splitlines() if line.split()[1] in ("works", "stops")]
    assert told == ["one works in acme-1", "one stops in acme-1", "two works in acme-1", "two stops in acme-1"]
    for lease in held:
        lease.release()
    is_free(acme)


def test_a_management_command_of_django(server: Server, client: fairlock.Client, of_examples: None) -> None:
    pytest.importorskip("django")
    import django
    from django.conf import settings
    from django.core.management import CommandError, call_command

    if not settings.configured:
        settings.configure(FAIRLOCK_URL=server.url)
        django.setup()
    import django_command

    said = StringIO()
    call_command(django_command.Command(), stdout=said)
    assert "rebuilt with token" in said.getvalue()
    with client.lock("reports:rebuild").acquire(label="another"), pytest.raises(CommandError, match="another"):
        call_command(django_command.Command(), timeout=0.05)
    is_free(client.lock("reports:rebuild"))


def test_a_cell_of_jupyter_can_be_interrupted(server: Server, client: fairlock.Client) -> None:
    manager: Any = pytest.importorskip("jupyter_client.manager")
    pytest.importorskip("ipykernel")
    lock = client.lock("lock")
    kernel, channels = manager.start_new_kernel(startup_timeout=2 * SOON)
    try:
        said: List[str] = []

        def hear(message: Any) -> None:
            said.append(str(message["content"].get("ename", message["content"].get("text", ""))))

        def run(code: str) -> None:
            channels.execute_interactive(code, output_hook=hear, timeout=2 * SOON)

        run(f"import fairlock; client = fairlock.connect({server.url!r}); lock = client.lock('lock')")
        with lock.acquire():
            cell = threading.Thread(target=run, args=("with lock.acquire(): print('granted')",))
            cell.start()
            waiting(lock, 1)
            kernel.interrupt_kernel()
            cell.join(2 * SOON)
            assert "KeyboardInterrupt" in said
            waiting(lock, 0)
        # A cell may await, too.
        run("async with lock.acquire() as held: print('held', held.token)")
        assert any("held" in text for text in said), said
    finally:
        channels.stop_channels()
        kernel.shutdown_kernel(now=True)
    eventually("the kernel's client is gone", lambda: not lock.is_locked().wait())


def test_a_program_is_tested_with_the_lock_service_in_the_process(tmp_path: Path) -> None:
    # In another process, and with the settings that others have: none.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", str(EXAMPLES)]
    example = EXAMPLES / "test_with_lock_service.py"
    tested = subprocess.run([*command, str(example)], cwd=tmp_path, capture_output=True, text=True, timeout=2 * SOON)
    assert tested.returncode == 0 and f"{example.read_text().count('def test_')} passed" in tested.stdout, tested.stdout
