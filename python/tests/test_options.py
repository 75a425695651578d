"""What is refused, with what is allowed, before anything is sent."""

from __future__ import annotations

from typing import Any, Callable, Dict

import pytest

import fairlock
import fairlock.compat

#: Wrong on purpose: checkers of types would say so.
Anything = Any


@pytest.fixture
def lazy() -> Anything:
    return fairlock.Client("unix:///nonexistent/socket")


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"max_waiting": -1}, "max_waiting is -1, but must be a whole number from 0 to 4294967295"),
        ({"max_waiting": 2**40}, "must be a whole number from 0"),
        ({"replicas": 1.5}, "replicas is 1.5, but must be a whole number"),
        ({"slots": 0}, "slots is 0, but must be a whole number from 1 to 1000"),
        ({"slots": 1001}, "slots is 1001, but must be a whole number from 1 to 1000"),
        ({"slots": True}, "slots is True, but must be a whole number from 1 to 1000"),
        ({"max_waiting": True}, "max_waiting is True, but must be a whole number from 0"),
        ({"slots": "4"}, "slots is '4', but must be a whole number from 1 to 1000"),
        ({"label": 5}, "label is 5, but must be a text"),
        ({"owner": "\ud800"}, "must be a text that UTF-8 can write"),
        ({"lease": "30"}, "must be a number of seconds or a timedelta"),
        ({"lease": float("inf")}, "lease is inf s, but must be a finite time from 0 on"),
        ({"lease": float("nan")}, "lease is NaN s, but must be a finite time from 0 on"),
    ],
)
def test_a_wrong_option_of_a_lock_names_what_is_allowed(lazy: Anything, options: Dict[str, Any], allowed: str) -> None:
    for use in (lazy.lock, lazy.keyed_mutex, lazy.locked, lazy.rw_lock):
        with pytest.raises(fairlock.InvalidOption, match=allowed):
            use("name", **options)(lambda: None)
            # The decorator has the label and the owner of each call.
            use("name", **options)(lambda: None)()


@pytest.mark.parametrize(
    ("use", "allowed"),
    [
        (lambda client: client.lock("\ud800"), "the lock's name"),
        (lambda client: client.lock(5), "the lock's name is 5, but must be a text"),
        # At the call, and not when it waits. Elsewhere -1 is for ever.
        (lambda client: client.lock("a").acquire(timeout=float("inf")), "timeout is inf s, but must be a finite time"),
        (lambda client: client.lock("a").acquire(timeout=-1), "timeout is -1 s.*to wait for ever leave it out, and a try"),
        (lambda client: client.lock("a").try_acquire(timeout=float("nan")), "timeout is nan s, but must be a finite time"),
        (lambda client: client.lock("a").enqueue(timeout=-1), "timeout is -1 s"),
        (lambda client: client.lock_all(["a"], timeout=-1), "timeout is -1 s"),
        (lambda client: client.rw_lock("a").read(timeout=-0.5), "timeout is -0.5 s"),
        (lambda client: client.locked("a", timeout=-1), "timeout is -1 s"),
        (lambda client: client.keyed_mutex("a", timeout=-1), "timeout is -1 s"),
        (lambda client: client.lock("a").acquire(label=5), "label is 5"),
        (lambda client: client.lock("a").try_acquire(owner=b"x"), "owner is b'x'"),
        (lambda client: client.lock("a").enqueue(label="\ud800"), "UTF-8"),
        (lambda client: client.lock("a").break_lease(-1), "token is -1, but must be a whole number from 0"),
        (lambda client: client.lock("a").history(10**12), "count is 1000000000000, but must be"),
        (lambda client: client.semaphore("a", 0), "slots is 0, but must be a whole number from 1 to 1000"),
        (lambda client: client.semaphore("a", 1001), "slots is 1001, but must be a whole number from 1 to 1000"),
        (lambda client: client.semaphore("a", True), "slots is True, but must be a whole number from 1 to 1000"),
        (lambda client: client.semaphore("a", None), "slots is None, but must be a whole number from 1 to 1000"),
        (lambda client: client.semaphore("a", 4, lease="30"), "must be a number of seconds or a timedelta"),
        (lambda client: client.rw_lock("a", slots=5), "5 slots were given for a read-write lock.*leave the option"),
        (lambda client: client.rw_lock("a", slots=1), "1 slots were given for a read-write lock.*leave the option"),
        (lambda client: client.rw_lock(5), "the lock's name is 5, but must be a text"),
        (lambda client: client.rw_lock("a").read(timeout="3"), "a time is '3', but must be a number of seconds"),
        (lambda client: client.keyed_mutex("a", slots=2), r"2 slots were given.*use `semaphore\(f\"a:\{key\}\", 2\)`"),
        (lambda client: client.lock_all("ab"), r"locks is 'ab', but must be a list of names and locks: \['ab'\]"),
        (lambda client: client.lock_all(["a", None]), "each of locks is a name or a lock, but one is None"),
        (lambda client: client.lock_all([client.rw_lock("a")]), "one is <RwLock 'a'> .of a read-write lock give the reader"),
        (lambda client: client.lock_all(["a"], label=5), "label is 5"),
    ],
)
def test_a_wrong_value_names_what_is_allowed(lazy: Anything, use: Callable[[Anything], object], allowed: str) -> None:
    with pytest.raises(fairlock.InvalidOption, match=allowed):
        use(lazy)


@pytest.mark.parametrize(
    ("settings", "allowed"),
    [
        ({"prefix": 5}, "prefix is 5, but must be a text"),
        ({"password": b"secret"}, "must be a text"),
        ({"sentinels": "host", "master": "m"}, "must be a list of texts"),
        ({"nodes": "host"}, "must be a list of texts"),
        # One of them would be left out.
        ({"sentinels": ["host"]}, "sentinels and master belong together, but only sentinels is given"),
        ({"url": "redis://a", "nodes": ["b"]}, "only one of url, sentinels, nodes can be given, and not url and nodes"),
        ({"password": "a", "password_file": "b"}, "only one of password"),
        ({"user": "me"}, "user is given without password"),
        ({"ca_file": "a", "key_file": "b"}, "certificate_file and key_file belong together"),
    ],
)
def test_wrong_settings_of_a_client_name_what_is_allowed(settings: Dict[str, Any], allowed: str) -> None:
    with pytest.raises(fairlock.InvalidOption, match=allowed):
        fairlock.Client(**settings)


def test_numbers_of_other_libraries_are_numbers(lazy: Anything) -> None:
    class Seven:
        def __index__(self) -> int:
            return 7

    lazy.lock("a", max_waiting=Seven())
    lazy.semaphore("a", Seven())


def test_what_people_import_is_what_tracebacks_name() -> None:
    for name in fairlock.__all__:
        assert getattr(fairlock, name).__module__ == "fairlock", name
    assert fairlock.compat.Lock.__module__ == "fairlock.compat"
    assert fairlock.__version__.count(".") == 2
