"""Tests of a program that uses a lock, with the lock service in the process: no Redis server is needed.

    pytest test_with_lock_service.py
"""

import fairlock
import fairlock.testing
import pytest

# The program.


def build_report(client):
    """Builds the report, unless another process does."""
    try:
        with client.lock("report").try_acquire() as held:
            held.check()  # ... and here it builds the report
            return "built"
    except fairlock.Busy as busy:
        return f"{busy.holders[0].label} builds it" if busy.holders else "nobody can build it yet"


# Its tests.


@pytest.fixture
def redis():
    with fairlock.testing.LockService() as service:
        yield service


@pytest.fixture
def client(redis, monkeypatch):
    monkeypatch.setenv("REDIS_URL", redis.url)
    with fairlock.Client.from_env() as client:
        yield client


def test_a_free_report_is_built(client):
    assert build_report(client) == "built"


def test_a_report_is_built_by_one_process_at_a_time(redis, client):
    with redis.client(label="another").lock("report").acquire():
        assert build_report(client) == "another builds it"
    assert build_report(client) == "built"


def test_a_report_is_built_when_the_other_process_has_died(redis, client):
    other = redis.client(label="another").lock("report").acquire().wait()
    assert build_report(client) == "another builds it"
    redis.advance(other.lease)
    assert build_report(client) == "built"


def test_no_report_is_built_right_after_a_loss_of_data(redis, client):
    assert build_report(client) == "built"
    redis.lose_data()
    assert build_report(client) == "nobody can build it yet", "a holder from before the loss may come back"
    redis.advance(30)
    assert build_report(client) == "built"


def test_a_holder_is_told_that_its_lease_was_broken(redis, client):
    with pytest.raises(fairlock.LockLost), client.lock("report").acquire() as held:
        assert redis.break_lease("report")
        assert held.lost.wait(30)
        held.check()
