"""A lock that another version of fairlock keeps: each call says what to do, and nobody waits for ever."""

from __future__ import annotations

from typing import Any, Callable, List

import pytest
from conftest import Server

import fairlock

KEYS = ["fairlock:{x}:lock", "fairlock:{x}:waiters"]


def test_each_call_refuses_a_lock_of_another_layout_and_says_what_to_do(server: Server) -> None:
    client = fairlock.connect(server.url)
    lock = client.lock("x")
    # The first byte of its state is the version of the layout.
    server.redis().hset(KEYS[0], mapping={"": b"\x63 the state of a later version", "theirs.1": b"a place"})
    server.redis().zadd(KEYS[1], {"theirs.1": 1})
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
        for part in ["is kept in layout 99, this client knows layout ", "upgrade together", "delete the keys", *KEYS]:
            assert part in told
    assert [server.redis().dump(key) for key in KEYS] == found
    server.redis().delete(*KEYS)
    with lock.acquire():
        pass
    client.close()
