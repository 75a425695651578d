"""For the test suites of other locks: puts fairlock's classes in the place of redis-py's, before
the tests import them. (The folder `redis_lock` is in the place of the package of that name.)"""

from __future__ import annotations

import pytest

import redis.asyncio.lock
import redis.lock

import fairlock.compat
from fairlock.compat import _kept, _settings

redis.lock.Lock = fairlock.compat.Lock  # type: ignore[misc]
redis.asyncio.lock.Lock = fairlock.compat.AsyncLock  # type: ignore[assignment, misc]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Their tests flush the server in between. fairlock's clients would bring back what they hold, so they end before
    that. A lock that a failed test leaves behind ends with its client."""
    for client in _settings._clients.values():
        client.close()
    _settings._clients.clear()
    _kept._held.clear()
