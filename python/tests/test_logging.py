"""Events of the library reach ``logging``, by a thread that nobody else needs."""

from __future__ import annotations

import logging
import threading
from typing import Iterator, List

import pytest
from conftest import SOON, Server, eventually

import fairlock


class Records(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: List[logging.LogRecord] = []
        self.threads = set[str]()
        self.gate = threading.Event()
        self.gate.set()

    def emit(self, record: logging.LogRecord) -> None:
        self.threads.add(threading.current_thread().name)
        self.gate.wait(SOON)
        self.records.append(record)

    def has(self, text: str) -> bool:
        return any(text in record.getMessage() for record in self.records)


@pytest.fixture
def records() -> Iterator[Records]:
    logger, handler = logging.getLogger("fairlock"), Records()
    before = logger.level
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(before)


def test_a_loss_is_a_warning_with_fields(records: Records, client: fairlock.Client) -> None:
    held = client.lock("lock").acquire().wait()
    client.lock("lock").break_lease(held.token, force=True).wait()
    eventually("it is told", lambda: records.has("lease lost"))
    (record,) = [record for record in records.records if "lease lost" in record.getMessage()]
    assert record.levelno == logging.WARNING and "an operator broke it" in record.getMessage()
    assert getattr(record, "fairlock")["lock"] == "lock" and getattr(record, "fairlock")["token"] == str(held.token)
    assert records.threads == {"fairlock-logging"}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_what_runs_without_its_lock_is_an_error(records: Records, client: fairlock.Client) -> None:
    """Each time, also where Python shows its warning once, or ignores the error that a filter makes of it."""
    for _ in range(2):
        client.lock("dropped").acquire().wait()
        client.lock("never begun").acquire()
    for text in ('the lease of "dropped" was dropped', "of the lock 'never begun' was neither awaited nor waited for"):
        eventually("it is told", lambda: len([True for one in records.records if text in one.getMessage()]) == 2)
    assert {record.levelno for record in records.records} == {logging.ERROR}


def test_the_level_of_the_logger_decides(records: Records, server: Server) -> None:
    logging.getLogger("fairlock").setLevel(logging.DEBUG)
    with fairlock.connect(server.url) as client, client.lock("lock").acquire():
        pass
    eventually("it is told", lambda: records.has("released"))
    assert records.has("granted")
    logging.getLogger("fairlock").setLevel(logging.WARNING)
    fairlock.connect(server.url).close()
    records.records.clear()
    with fairlock.connect(server.url) as client, client.lock("quiet").acquire():
        pass
    with fairlock.connect(server.url) as client:
        held = client.lock("loud").acquire().wait()
        client.lock("loud").break_lease(held.token, force=True).wait()
        eventually("the loss is told", lambda: records.has("lease lost"))
    assert not records.has("quiet")


def test_a_level_that_is_set_after_the_client_was_made_decides(records: Records, client: fairlock.Client) -> None:
    with client.lock("quiet").acquire():
        pass
    logging.getLogger("fairlock").setLevel(logging.DEBUG)
    with client.lock("told").acquire():
        pass
    eventually("it is told", lambda: records.has("released"))
    names = {getattr(record, "fairlock")["lock"] for record in records.records if "granted" in record.getMessage()}
    assert names == {"told"}


def test_a_handler_that_blocks_holds_up_no_lock(records: Records, client: fairlock.Client) -> None:
    records.gate.clear()
    try:
        for _ in range(20):
            held = client.lock("lock").acquire(timeout=SOON).wait()
            client.lock("lock").break_lease(held.token, force=True).wait()
            assert held.lost.wait(SOON) is not None
        assert not records.records
        with client.lock("renewed", lease=10, renew_every=0.1).acquire() as renewed:
            for _ in range(5):
                renewed.wait_renewed(SOON)
    finally:
        records.gate.set()
    eventually("all are told", lambda: sum("lease lost" in record.getMessage() for record in records.records) == 20)
