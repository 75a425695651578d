"""Locks of threads."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import timedelta
from typing import Callable, List

import pytest
from conftest import SOON, Child, Server, eventually, is_free, waiting

import fairlock


def test_the_example_of_the_readme(client: fairlock.Client) -> None:
    lock = client.lock("reports:nightly")
    with lock.acquire(timeout=30, label="job 7") as held:
        held.check()
        state = lock.inspect().wait()
        seen = [(holder.token, holder.label, holder.id, holder.slot, holder.slots) for holder in state.holders]
        assert seen == [(held.token, "job 7", held.id, 0, 1)]
    is_free(lock)
    with pytest.raises(fairlock.LockLost) as lost:
        held.check()
    assert lost.value.reason == "released" and lost.value.token == held.token and not held.lost.is_set()


def test_waiters_are_served_in_order(client: fairlock.Client) -> None:
    lock, order = client.lock("lock"), list[int]()
    held = lock.acquire().wait()

    def wait(number: int) -> None:
        with lock.acquire(timeout=SOON):
            order.append(number)

    threads: List[threading.Thread] = []
    for number in range(8):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        waiting(lock, number + 1)
    held.release()
    for thread in threads:
        thread.join()
    assert order == list(range(8))


def test_tokens_rise(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    tokens = [0]
    for _ in range(10):
        with lock.acquire() as held:
            tokens.append(held.token)
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("timeout", [0.05, timedelta(milliseconds=50), 0])
def test_a_timeout_leaves_the_queue(client: fairlock.Client, timeout: fairlock._values.Seconds) -> None:
    lock = client.lock("lock")
    with lock.acquire():
        with pytest.raises(fairlock.Timeout) as error, lock.acquire(timeout=timeout):
            pass
        assert isinstance(error.value, TimeoutError) and isinstance(error.value, fairlock.Error)
        assert error.value.waited >= (0.05 if timeout else 0) and error.value.cause is None
        waiting(lock, 0)
    is_free(lock)


def test_a_try_names_the_holder(client: fairlock.Client) -> None:
    lock = client.lock("lock", owner="team A")
    with lock.try_acquire() as held, pytest.raises(fairlock.Busy) as busy:
        lock.try_acquire().wait()
    assert [(holder.token, holder.owner) for holder in busy.value.holders] == [(held.token, "team A")]
    assert (busy.value.held, busy.value.waiting, busy.value.recovering_for) == (1, 0, None)


def test_a_full_queue_is_told(client: fairlock.Client) -> None:
    lock = client.lock("lock", max_waiting=1)
    with lock.acquire(), pytest.raises(fairlock.QueueFull) as full:
        place = lock.enqueue().wait()
        lock.acquire().wait()
    assert full.value.waiting == 1
    place.leave()


def test_a_place_in_the_queue(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    held = lock.acquire().wait()
    first, second = lock.enqueue().wait(), lock.enqueue().wait()
    assert first.ticket < second.ticket and (first.position(), second.position()) == (1, 2)
    first.leave()
    eventually("the second is the next", lambda: second.position() == 1)
    held.release()
    with second as next_held:
        assert next_held.ticket == second.ticket
    is_free(lock)


def test_the_gil_is_free_while_waiting(client: fairlock.Client) -> None:
    lock, granted = client.lock("lock"), threading.Event()

    def wait() -> None:
        with lock.acquire():
            granted.set()

    with lock.acquire():
        thread = threading.Thread(target=wait)
        thread.start()
        waiting(lock, 1)
        # A waiter that kept the GIL would let nothing run here.
        assert sum(range(100_000)) and not granted.is_set()
    thread.join()


def test_an_exception_releases_and_goes_on(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    with pytest.raises(KeyError), lock.acquire():
        raise KeyError("of the block")
    is_free(lock)


def test_a_held_lock_that_nobody_refers_to_is_released(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    held = lock.acquire().wait()
    assert lock.is_locked().wait()
    del held
    is_free(lock)


def test_a_release_may_be_repeated(client: fairlock.Client) -> None:
    held = client.lock("lock").acquire().wait()
    held.release()
    held.release()
    with pytest.raises(fairlock.LockLost):
        held.renew()


def test_a_loss_is_told_and_not_taken_for_a_clean_end(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    with pytest.raises(fairlock.LockLost) as lost, lock.acquire() as held:
        assert held.lost.wait(timeout=0.01) is None and not held.lost
        assert lock.break_lease(held.token, force=True).wait().outcome == "ended"
        told = held.lost.wait(timeout=SOON)
        assert told is not None and told.reason == "broken" and held.lost.is_set() and held.lost.error is not None
        with pytest.raises(fairlock.LockLost):
            held.check()
    assert lost.value.reason == "broken" and lost.value.name == "lock"


def test_the_wait_for_a_loss_ends_with_the_release(client: fairlock.Client) -> None:
    held = client.lock("lock").acquire().wait()
    told: List[object] = []
    thread = threading.Thread(target=lambda: told.append(held.lost.wait()))
    thread.start()
    held.release()
    thread.join(SOON)
    assert told == [None]


def test_a_break_tells_the_holder(client: fairlock.Client) -> None:
    lock = client.lock("lock", lease=30)
    held = lock.acquire().wait()
    broken = lock.break_lease(held.token).wait()
    assert broken.outcome == "told" and broken.remaining is not None and broken.remaining <= 30
    assert held.lost.wait(SOON) is not None
    assert lock.break_lease(held.token + 1).wait().outcome == "unknown"


def test_renew_and_extend(client: fairlock.Client) -> None:
    lock = client.lock("lock", lease=10, manual_renewal=True)
    with lock.acquire() as held:
        assert held.lease == 10 and held.remaining <= 10
        held.extend(timedelta(seconds=50))
        assert held.remaining > 50 and held.verify()
        held.renew()
        held.refresh()
        with pytest.raises(fairlock.InvalidOption):
            held.extend(timedelta(days=31))


def test_a_lease_without_renewal_ends(client: fairlock.Client) -> None:
    lock = client.lock("lock", lease=4, manual_renewal=True)
    held = lock.acquire().wait()
    lost = held.lost.wait(SOON)
    assert lost is not None and lost.reason == "not renewed"
    with pytest.raises(fairlock.LockLost):
        held.release()


def test_renewals_are_told(client: fairlock.Client) -> None:
    with client.lock("lock", lease=30, renew_every=0.1).acquire() as held:
        assert 0 < held.wait_renewed(timeout=SOON) <= 30
        held.set_automatic_renewal(False)


def test_several_locks_at_once(client: fairlock.Client) -> None:
    with client.lock_all(["b", "a", "b"], timeout=SOON) as held:
        assert list(held.tokens) == ["a", "b"] and held.remaining > 0
        held.check()
        with pytest.raises(fairlock.Timeout) as timeout, client.lock_all(["a", "c"], timeout=0.05):
            pass
        assert getattr(timeout.value, "name") == "a" and "'a'" in str(timeout.value).replace('"', "'")
        assert held.wait_lost(timeout=0.01) is None
    for name in "abc":
        is_free(client.lock(name))


def test_history(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    lock.record_history(True).wait()
    with lock.acquire(label="the job") as held:
        pass
    history = lock.history(10).wait()
    assert history.recorded and [(grant.token, grant.label, grant.ended) for grant in history.grants] == [
        (held.token, "the job", "released")
    ]
    assert abs(history.grants[0].granted_at - time.time()) < 3600


def test_keys(client: fairlock.Client) -> None:
    users = client.keyed_mutex("users", timeout=SOON)
    with users.locked(7) as held:
        assert held.name == "users:7"
        with users.locked("{8}%"), pytest.raises(fairlock.Timeout):
            users.locked(7, timeout=0).wait()
    held = users.acquire(7)
    assert users.release(7) and not users.release(7) and not held.lost
    is_free(users.lock(7))


def test_keys_of_different_spaces_are_different_locks(client: fairlock.Client) -> None:
    # The library for Rust has the same names in its tests.
    for space, key, name in [
        ("user", "1:2", "user:1:2"),
        ("user:1", "2", "user%3A1:2"),
        ("user%3A1", "2", "user%253A1:2"),
        ("{a}:b", "{a}%", "{a}%3Ab:%7Ba%7D%25"),
    ]:
        assert client.keyed_mutex(space).lock(key).name == name


def test_a_decorated_function_holds_the_lock(client: fairlock.Client) -> None:
    @client.locked("reports:{user_id}", timeout=30)
    def rebuild(user_id: int, more: str = "") -> str:
        """Rebuilds."""
        return f"{user_id}{more}{client.lock(f'reports:{user_id}').is_locked().wait()}"

    assert rebuild(7) == "7True" and rebuild(user_id=8, more="!") == "8!True" and rebuild.__doc__ == "Rebuilds."
    is_free(client.lock("reports:7"))

    @client.locked
    def named() -> bool:
        return client.lock(f"{__name__}.{named.__qualname__}").is_locked().wait()

    assert named()
    with pytest.raises(fairlock.InvalidOption, match="no such argument"):
        client.locked("reports:{other}")(rebuild)
    with pytest.raises(TypeError, match="generator"):

        @client.locked("lock")
        def generator():  # type: ignore[no-untyped-def]
            yield 1


def test_what_cannot_work_is_refused_before_anything_is_sent(client: fairlock.Client) -> None:
    for name, lease in [("", 9.0), ("x" * 513, 9.0), ("a", 0.0), ("a", -1.0), ("a", float("nan")), ("a", 1e300)]:
        with pytest.raises(fairlock.InvalidOption) as error:
            client.lock(name, lease=lease)
        assert isinstance(error.value, ValueError)
    with pytest.raises(fairlock.InvalidOption, match="timedelta"):
        client.lock("a", lease="30")  # type: ignore[arg-type]
    with pytest.raises(fairlock.InvalidOption):
        client.lock("a").acquire(timeout=-1).wait()
    with pytest.raises(fairlock.InvalidOption, match="cancel"):
        client.lock("a").acquire(on_lost="cancel").wait()
    with pytest.raises(fairlock.InvalidOption):
        client.lock_all([]).wait()
    with pytest.raises(fairlock.InvalidOption):
        fairlock.Client("http://localhost")


def test_a_call_that_nobody_waits_for_warns(client: fairlock.Client) -> None:
    with pytest.warns(RuntimeWarning, match="neither awaited nor waited for"):
        client.lock("lock").acquire()
    acquire = client.lock("lock").acquire()
    assert "not begun" in repr(acquire)
    acquire.wait().release()
    with pytest.raises(RuntimeError, match="already"):
        acquire.wait()


def test_a_call_that_cannot_be_made_complains_of_that_alone(child: Callable[..., Child]) -> None:
    process = child("""
        from fairlock._lock import Acquire
        for arguments in ((), ("what",)):
            try: Acquire(*arguments)
            except TypeError: print("refused")
    """)
    assert process.line() == "refused" and process.line() == "refused"
    assert "AttributeError" not in process.end()


@pytest.mark.parametrize("how", ["pass", "raise ValueError"])
def test_the_end_of_a_block_does_not_wait_for_a_server_that_is_gone(server: Server, how: str) -> None:
    lock = fairlock.connect(server.url).lock("lock", lease=10 * SOON)
    begun = time.monotonic()
    with contextlib.suppress(ValueError), lock.acquire():
        server.kill()
        exec(how)
    assert time.monotonic() - begun < SOON


def test_a_server_that_is_not_there(tmp_path: object) -> None:
    with pytest.raises(fairlock.ConnectionError) as error:
        fairlock.connect("unix:///nonexistent/socket")
    assert isinstance(error.value, ConnectionError)
    lazy = fairlock.Client("unix:///nonexistent/socket")
    with pytest.raises(fairlock.Timeout) as timeout:
        lazy.lock("lock").acquire(timeout=0.2).wait()
    assert timeout.value.cause
    lazy.close()


def test_a_wrong_login(server: Server) -> None:
    server.redis().config_set("requirepass", "secret")
    with pytest.raises(fairlock.AuthenticationError):
        fairlock.connect(server.url, password="wrong")
    with fairlock.connect(server.url, password="secret") as client, client.lock("lock").acquire():
        pass
    assert "secret" not in repr(fairlock.Client("redis://user:secret@localhost/"))


def test_a_closed_client_tells_everybody(server: Server) -> None:
    client = fairlock.connect(server.url)
    held, lock = client.lock("lock").acquire().wait(), client.lock("lock")
    errors: List[fairlock.Error] = []

    def wait() -> None:
        try:
            lock.acquire().wait()
        except fairlock.Error as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    waiting(lock, 1)
    client.close()
    thread.join(SOON)
    assert isinstance(errors[0], fairlock.Closed)
    assert held.lost.error is not None and held.lost.error.reason == "closed"
    with pytest.raises(fairlock.Closed):
        lock.acquire().wait()


def test_the_environment_names_the_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", server.url)
    monkeypatch.setenv("FAIRLOCK_LABEL", "the environment")
    with fairlock.Client.from_env() as client, client.lock("lock").acquire() as held:
        assert held.label == "the environment"


def test_reprs_help(client: fairlock.Client) -> None:
    with client.lock("lock").acquire() as held:
        assert f"token {held.token}" in repr(held) and "left unless renewed" in repr(held)
    assert "released" in repr(held) and repr(client.lock("lock")) == "<Lock 'lock'>"
