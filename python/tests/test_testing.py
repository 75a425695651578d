"""The lock service in the process."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Iterator, List

import pytest
import redis as redis_py
from conftest import SOON, eventually, is_free

import fairlock
from fairlock import compat
from fairlock.testing import LockService


@pytest.fixture
def service() -> Iterator[LockService]:
    with LockService() as service:
        yield service


def test_clients_processes_and_drop_in_classes_share_a_service(service: LockService) -> None:
    lock = service.client(label="first").lock("lock")
    code = f"import fairlock; print(fairlock.connect({service.url!r}).lock('lock').try_acquire().wait().token)"
    with lock.acquire(timeout=SOON) as held:
        assert lock.inspect().wait().holders
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert child.returncode == 1 and "fairlock.Busy" in child.stderr and "first" in child.stderr
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(child.stdout) > held.token
    is_free(lock)
    with redis_py.Redis.from_url(service.url).lock("lock", timeout=10, lock_class=compat.Lock):
        assert lock.is_locked().wait()


def test_services_have_nothing_in_common(service: LockService) -> None:
    with LockService() as other, service.client().lock("lock").acquire():
        assert other.url != service.url
        other.client().lock("lock").try_acquire().wait()


def test_a_holder_that_has_died(service: LockService) -> None:
    held = service.client().lock("lock", lease=timedelta(minutes=1)).acquire().wait()
    next_in_line = service.client().lock("lock").enqueue().wait()
    service.advance(timedelta(seconds=20))
    assert next_in_line.position() == 1
    service.advance(held.lease - 20)
    assert next_in_line.wait().token > held.token
    with pytest.raises(fairlock.LockLost, match="ended"):
        held.renew()
    with pytest.raises(fairlock.InvalidOption, match="advance"):
        service.advance(-1)


def test_an_operator(service: LockService) -> None:
    assert not service.break_lease("lock")
    held = service.client().lock("lock").acquire().wait()
    assert service.break_lease("lock")
    loss = held.lost.wait(SOON)
    assert loss is not None and loss.reason == "broken"


def test_a_service_has_semaphores_and_read_write_locks(service: LockService) -> None:
    gpus, index = service.client().semaphore("gpu", 2), service.client().rw_lock("index")
    held = [gpus.acquire().wait(), gpus.acquire().wait()]
    place = gpus.enqueue().wait()
    assert [holder.slot for holder in gpus.inspect().wait().holders] == [0, 1]
    assert service.break_lease("gpu"), "all of them"
    for lease in held:
        loss = lease.lost.wait(SOON)
        assert loss is not None and loss.reason == "broken"
    assert place.wait().slot == 0

    readers = [index.read().wait(), index.read().wait()]
    writer = index.writer.enqueue().wait()
    service.advance(readers[0].lease)
    with writer as write:
        assert write.slot == 0 and not service.break_lease("another")
        write.downgrade()
        index.read(timeout=SOON).wait().release()
    for reader in readers:
        with pytest.raises(fairlock.LockLost, match="ended"):
            reader.renew()


def test_holders_come_back_to_their_slots_after_a_loss_of_data(service: LockService) -> None:
    gpus = service.client().semaphore("gpu", 3, lease=10, renew_every=0.1)
    other = service.client().semaphore("gpu", 3, lease=10, renew_every=0.1)
    held = [gpus.acquire().wait(), other.acquire().wait()]
    service.lose_data()
    eventually("both are back", lambda: len(gpus.inspect().wait().holders) == 2)
    seen = [(holder.slot, holder.token) for holder in gpus.inspect().wait().holders]
    assert seen == [(lease.slot, lease.token) for lease in held]


def test_an_operator_ends_a_recovery(service: LockService) -> None:
    held = service.client().lock("lock").acquire().wait()
    operator = service.client().lock("lock")
    assert not operator.end_recovery().wait()
    service.lose_data()
    held.renew()
    assert operator.inspect().wait().recovering_for is not None
    assert operator.end_recovery().wait()


def test_a_server_that_hangs(service: LockService) -> None:
    lock = service.client().lock("lock")
    service.pause()
    with pytest.raises(fairlock.Timeout):
        lock.acquire(timeout=0.05).wait()
    service.resume()
    lock.acquire(timeout=SOON).wait()


def test_a_server_that_loses_its_data(service: LockService) -> None:
    lock = service.client().lock("lock", lease=10, renew_every=0.1)
    held = lock.acquire().wait()
    service.lose_data()
    eventually("the holder brings back its lease", lambda: bool(lock.inspect().wait().holders))
    held.check()
    held.release()


def test_a_server_that_is_gone(service: LockService) -> None:
    lock = service.client().lock("lock")
    service.close()
    service.close()
    with pytest.raises(fairlock.ConnectionError):
        fairlock.connect(service.url)
    with pytest.raises(fairlock.Timeout):
        lock.acquire(timeout=0.05).wait()
    for act in (service.pause, service.resume, service.lose_data, lambda: service.break_lease("lock")):
        with pytest.raises(fairlock.Closed):
            act()


def test_the_end_of_the_block_ends_everything() -> None:
    def services() -> int:
        def name(task: Path) -> str:
            try:
                return task.read_text()
            except OSError:  # It has just ended.
                return ""

        return sum(name(task).startswith("fairlock-testi") for task in Path("/proc/self/task").glob("*/comm"))

    with LockService() as service:
        held = service.client().lock("lock").acquire().wait()
        eventually("that of the test before is gone", lambda: services() == 1)
    loss = held.lost.wait(SOON)
    assert loss is not None and loss.reason == "closed", "the clients end before the service"
    eventually("its thread is gone", lambda: services() == 0)


def test_a_service_belongs_to_its_process() -> None:
    service = LockService()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(service)
    url = service.url
    child = os.fork()
    if child == 0:
        try:
            try:
                service.advance(1)
            except fairlock.Forked:
                pass
            else:
                os._exit(2)
            service.close()
            # It waits for no thread: the child has none.
            del service
            fairlock.connect(url).lock("lock").acquire().wait()
            os._exit(0)
        finally:
            os._exit(3)
    status: List[int] = []

    def ended() -> bool:
        process, how = os.waitpid(child, os.WNOHANG)
        status.append(how)
        return process != 0

    try:
        eventually("the child ends", ended)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        raise
    assert os.waitstatus_to_exitcode(status[-1]) == 0
    with service.client() as client:
        client.lock("lock").acquire(timeout=SOON).wait()
    service.close()


def test_a_client_that_was_closed_does_not_care_for_its_service(caplog: pytest.LogCaptureFixture) -> None:
    with LockService() as service:
        # Many, so that one that cares is heard before the one that is not closed.
        closed = [service.client() for _ in range(20)]
        for client in closed:
            with client.lock("lock").acquire():
                pass
            client.close()
        other = fairlock.connect(service.url)
    eventually("the loss is told", lambda: "the connection was lost" in caplog.text)
    assert caplog.text.count("the connection was lost") == 1
    other.close()
