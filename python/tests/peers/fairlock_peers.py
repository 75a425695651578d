"""For the test suites of other locks: puts fairlock's classes in the place of redis-py's, before
the tests import them. (The folder `redis_lock` is in the place of the package of that name.)"""

from __future__ import annotations

from typing import List

import pytest
import redis.asyncio.lock
import redis.lock

import fairlock.compat

try:
    import process_tests
except ImportError:
    process_tests = None  # the suite of redis-py does without

if process_tests is not None:
    # Its tests give their servers two seconds to start, which is too short on a busy machine.
    wait = process_tests.wait_for_strings
    process_tests.wait_for_strings = lambda read, seconds, *texts: wait(read, max(seconds, 30), *texts)

redis.lock.Lock = fairlock.compat.Lock  # type: ignore[misc]
redis.asyncio.lock.Lock = fairlock.compat.AsyncLock  # type: ignore[assignment, misc]


def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """Leaves out variants: threads of eventlet, under which fairlock refuses to work, and all but one combination of
    decoded responses, which make no difference to a class that only reads settings."""
    left_out = ("eventlet", "=True-decode_responses=True", "decode_responses=False-")
    chosen = [item for item in items if not any(variant in item.name for variant in left_out)]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = chosen


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown() -> None:
    """Their tests flush the server in between. fairlock's clients would bring back what they hold, so they end before
    that. A lock that a failed test leaves behind ends with its client."""
    fairlock.compat.forget_clients()
