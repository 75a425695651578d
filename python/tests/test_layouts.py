"""A lock that another version of fairlock keeps: each call says what to do, and nobody waits for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, List

import pytest
from conftest import Server

import fairlock

KEYS = ["fairlock:{x}:lock", "fairlock:{x}:waiters"]
WRITTEN = Path(__file__).parents[2] / "testkit" / "src" / "layout_2.txt"


def keep_in_layout_2(server: Server, state: str) -> None:
    """As ``testkit/src/layout_2.rs`` describes."""
    raw = server.redis()
    for of, key, field, value in (line.split(" ") for line in WRITTEN.read_text().splitlines()):
        if of == state and key == "waiters":
            raw.zadd(KEYS[1], {field: float(value)})
        elif of == state:
            raw.hset(KEYS[0], field.strip("-"), bytes.fromhex(value))


@pytest.mark.parametrize("state", ["idle", "held", "waiting"])
def test_each_call_refuses_a_lock_of_another_layout_and_says_what_to_do(server: Server, state: str) -> None:
    client = fairlock.connect(server.url)
    lock = client.lock("x")
    keep_in_layout_2(server, state)
    found = [server.redis().dump(key) for key in KEYS]
    calls: List[Callable[[], Any]] = [
        lambda: lock.acquire().wait(),
        lambda: lock.acquire(timeout=3600).wait(),
        lambda: lock.try_acquire().wait(),
        lambda: lock.enqueue().wait(),
        lambda: lock.inspect().wait(),
        lambda: lock.is_locked().wait(),
        lambda: lock.break_lease(1).wait(),
        lambda: lock.break_lease(1, force=True).wait(),
        lambda: lock.end_recovery().wait(),
        lambda: lock.history().wait(),
        lambda: lock.record_history(True).wait(),
        lambda: client.lock_all(["w", "x"]).wait(),
    ]
    for call in calls:
        with pytest.raises(fairlock.Refused) as refused:
            call()
        told = str(refused.value)
        for part in ["is kept in layout 2, this client knows layout 4", "upgrade together", "delete the keys", *KEYS]:
            assert part in told
    assert [server.redis().dump(key) for key in KEYS] == found
    server.redis().delete(*KEYS)
    with lock.acquire():
        pass
    client.close()
