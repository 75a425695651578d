"""What people type first who know the locks of threading, asyncio and redis-py. It works, or it is refused before anything
runs, and they are told what to write."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import warnings
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator

import pytest
import redis
from conftest import Server, is_free
from worlds import World, in_both_worlds

import fairlock

Make = Callable[[fairlock.Client], Any]

#: Each is what a test for truth would ask, were it not for the error.
QUESTIONS: Dict[str, Make] = {
    "acquire": lambda client: client.lock("lock").acquire(timeout=1),
    "try_acquire": lambda client: client.lock("lock").try_acquire(),
    "read": lambda client: client.rw_lock("lock").read(),
    "try_write": lambda client: client.rw_lock("lock").try_write(),
    "lock_all": lambda client: client.lock_all(["lock"]),
    "locked": lambda client: client.keyed_mutex("lock").locked(7),
    "enqueue": lambda client: client.lock("lock").enqueue(),
    "is_locked": lambda client: client.lock("lock").is_locked(),
    "is_locked_by_me": lambda client: client.lock("lock").is_locked_by_me(),
    "inspect": lambda client: client.lock("lock").inspect(),
    "end_recovery": lambda client: client.lock("lock").end_recovery(),
}


@contextmanager
def no_warnings() -> Iterator[None]:
    gc.collect()  # What other tests have left.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RuntimeWarning)
        yield
        gc.collect()
    assert not caught


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_call_that_is_not_begun_is_neither_true_nor_false(server: Server, client: fairlock.Client, name: str) -> None:
    before = server.commands()
    held = name in ("acquire", "try_acquire", "read", "try_write", "lock_all", "locked")
    instead = "take what `.wait()` (`await`) gives. They raise fairlock.Timeout" if held else "what `.wait()` or `await`"
    says = rf"^{name}\(.*neither true nor false, because nothing is done yet.*{re.escape(instead)}"
    with no_warnings(), pytest.raises(TypeError, match=says):  # and none that says the same
        if QUESTIONS[name](client):
            pytest.fail("it ran without the lock")
    assert server.commands() == before


def test_what_a_task_asks_of_its_lease_is_neither_true_nor_false(client: fairlock.Client) -> None:
    """A coroutine would always be true."""

    async def task() -> None:
        async with client.lock("lock").acquire() as held, client.lock_all(["a", "b"]) as both:
            place = await client.lock("lock").enqueue()
            with no_warnings():
                for call in (
                    held.verify, held.refresh, held.renew, held.downgrade, held.release, both.release, place.position,
                    lambda: held.extend(1),
                ):  # fmt: skip
                    with pytest.raises(TypeError, match="is neither true nor false.*nothing is done yet: write `await` before"):
                        if call():
                            pytest.fail("it is always true")
            assert await held.verify() and await place.position() == 1
            place.leave()
            with pytest.warns(RuntimeWarning, match=r"^release\(\) of the lock 'lock' was neither awaited nor waited for"):
                held.release()
            assert await asyncio.wait_for(held.verify(), 5) is True
            for lease in (held, held, both, both):  # The second time there is nothing to do.
                await lease.release()

    asyncio.run(task())
    is_free(client.lock("lock"))


BLOCKS: Dict[str, Make] = {
    "lock.acquire()": lambda client: client.lock("lock"),
    "lock.acquire() ": lambda client: client.semaphore("lock", 2),
    "lock.acquire()  ": lambda client: client.rw_lock("lock").reader,
    "index.read()": lambda client: client.rw_lock("lock"),
}


@pytest.mark.parametrize("instead", BLOCKS)
def test_a_lock_has_no_block_of_its_own(client: fairlock.Client, instead: str) -> None:
    lock = BLOCKS[instead](client)

    async def task() -> None:
        async with lock:
            pytest.fail("it ran without the lock")

    with pytest.raises(TypeError, match=re.escape(f"write `with {instead.strip()} as held:`")):
        with lock:
            pytest.fail("it ran without the lock")
    with pytest.raises(TypeError, match=re.escape(f"write `with {instead.strip()} as held:`")):
        asyncio.run(task())


NAMES: Dict[str, str] = {
    "lock.release": (
        "`held.release`, where `held` is what acquire() has given: `with lock.acquire() as held:`. If `acquire()` stood alone "
        "on its line, what ran since then did not hold the lock"
    ),
    "lock.extend": "`held.extend`",
    "lock.token": "`held.token`",
    "lock.lost": "`held.lost`",
    "lock.reacquire": "`held.renew()`",
    "lock.owned": "`held.verify()`, in a task `await held.verify()`, or",
    "lock.locked": "`lock.is_locked().wait()`, or in a task `await lock.is_locked()`",
    "index.locked": "`index.is_locked().wait()`, or in a task `await index.is_locked()`",
    "index.acquire": "`with index.read() as held:` or `with index.write() as held:`",
    "index.read_lock": "`with index.read() as held:`",
    "index.reader_lock": "`with index.read() as held:`",
    "index.acquire_write": "`with index.write() as held:`",
    "index.history": "`index.reader.history` or `index.writer.history`",
    "index.release": "`held.release`, where `held` is what read() or write() has given",
    "index.downgrade": "`held.downgrade`",
}


@pytest.mark.parametrize("name", NAMES)
def test_an_attribute_of_other_locks_says_what_to_write(client: fairlock.Client, name: str) -> None:
    lock: Any = client.lock("lock") if name.startswith("lock") else client.rw_lock("index")
    attribute = name.partition(".")[2]
    expected = f"has no attribute '{attribute}': write {NAMES[name]}"
    with pytest.raises(AttributeError, match=re.escape(expected)):
        getattr(lock, attribute)
    assert not hasattr(lock, attribute)


def test_an_attribute_that_nobody_knows_is_only_not_there(client: fairlock.Client) -> None:
    for lock in (client.lock("lock"), client.rw_lock("lock")):
        for name in ("nothing", "_guard", "__len__"):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}'$"):
                getattr(lock, name)


#: What is asked of a call, although only what it gives has that.
FORGOTTEN: Dict[str, Make] = {
    "acquire.release": lambda client: client.lock("lock").acquire(),
    "acquire.check": lambda client: client.semaphore("lock", 2).acquire(timeout=1),
    "try_acquire.token": lambda client: client.lock("lock").try_acquire(),
    "read.in_thread": lambda client: client.rw_lock("lock").read(),
    "lock_all.release": lambda client: client.lock_all(["lock"]),
    "lock_all.wait_lost": lambda client: client.lock_all(["lock"]),
    "enqueue.position": lambda client: client.lock("lock").enqueue(),
}


@pytest.mark.parametrize("name", FORGOTTEN)
def test_a_wait_that_is_forgotten_is_told(server: Server, client: fairlock.Client, name: str) -> None:
    call, _, attribute = name.partition(".")
    before = server.commands()
    says = rf"no attribute '{attribute}': take what `\.wait\(\)` \(or `await`\) gives: {call}\(.* has not begun$"
    with no_warnings(), pytest.raises(AttributeError, match=says):  # and none that says the same
        getattr(FORGOTTEN[name](client), attribute)
    assert server.commands() == before


def test_a_block_that_closes_an_acquire_is_told(client: fairlock.Client) -> None:
    says = r"no attribute 'close': acquire\(\) of .* has not begun, and what ran in the block did not hold the lock: write `with`"
    acquire: Any = client.lock("lock").acquire()
    with no_warnings(), pytest.raises(AttributeError, match=says):  # and none that says the same
        with contextlib.closing(acquire):
            del acquire
    acquire = client.lock("lock").acquire()
    with acquire, pytest.raises(AttributeError, match="no attribute 'close': write `with`"):
        acquire.close()
    asked: Any = client.lock("lock").is_locked()
    with no_warnings(), pytest.raises(AttributeError, match=r"'close': is_locked\(\) of .* has not begun: ask what `.wait"):
        asked.close()


def test_a_lease_is_not_asked_for_by_its_acquire(client: fairlock.Client) -> None:
    acquire: Any = client.lock("lock").acquire()
    with acquire, pytest.raises(AttributeError, match=r"no attribute 'check': take what `\.wait\(\)` .* has given$"):
        acquire.check()
    with pytest.warns(RuntimeWarning, match="was neither awaited nor waited for"):
        # What nobody knows is only not there, and nobody was told that it has not begun.
        for name in ("nothing", "_guard", "position"):
            with pytest.raises(AttributeError, match=f"has no attribute '{name}'$"):
                getattr(client.lock("lock").acquire(), name)


ARGUMENTS: Dict[str, Make] = {
    "lock() has no argument 'timeout': `lease=` is how long": lambda client: client.lock("lock", timeout=3),  # type: ignore
    "lock() has no argument 'expire': client.lock() takes `lease=`": lambda client: client.lock("l", expire=3),  # type: ignore
    "acquire() has no argument 'blocking': try_acquire()": lambda client: client.lock("l").acquire(blocking=False),  # type: ignore
    "acquire() has no argument 'blocking_timeout': acquire() takes `timeout=`": (
        lambda client: client.lock("lock").acquire(blocking_timeout=3)  # type: ignore
    ),
    # As of threading, redis-py and asyncio, without the names.
    "acquire() takes at most 1 positional argument, and got 2: write `acquire(timeout=3)` to wait so long; try_acquire()": (
        lambda client: client.lock("lock").acquire(True, 3)  # type: ignore
    ),
    "write() takes at most 1 positional argument, and got 2: write `write(timeout=3)`": (
        lambda client: client.rw_lock("lock").write(True, 3)  # type: ignore
    ),
    # As of threading's and asyncio's semaphores, whose number is one of places.
    "acquire() takes no positional argument here: write `timeout=` to wait so long. One acquire takes one place; "
    "`client.lock('lock')` takes all": lambda client: client.semaphore("lock", 4).acquire(2),
    "enqueue() takes no positional argument here: ": lambda client: client.semaphore("lock", 4).enqueue(2),
    "try_acquire() takes no positional argument, and got 1": lambda client: client.lock("lock").try_acquire(True),  # type: ignore
    "lock() takes at most 1 positional argument, and got 2: `lease=` is how long it lasts without a renewal, and": (
        lambda client: client.lock("lock", 60)  # type: ignore
    ),
    "semaphore() takes at most 2 positional arguments, and got 3: `lease=` is": (
        lambda client: client.semaphore("lock", 2, 60)  # type: ignore
    ),
    "read() has no argument 'blocking'": lambda client: client.rw_lock("lock").read(blocking=False),  # type: ignore
    "try_write() has no argument 'lease'": lambda client: client.rw_lock("lock").try_write(lease=3),  # type: ignore
    "semaphore() has no argument 'leas'": lambda client: client.semaphore("lock", 2, leas=3),  # type: ignore
    "rw_lock() has no argument 'leas'": lambda client: client.rw_lock("lock", leas=3),  # type: ignore
    "keyed_mutex() has no argument 'leas'": lambda client: client.keyed_mutex("lock", leas=3),  # type: ignore
    "locked() has no argument 'leas'": lambda client: client.locked("lock", leas=3),  # type: ignore
    "connect() has no argument 'leas'": lambda client: fairlock.connect(leas=3),  # type: ignore
    "connect() has no argument 'host': the URL says it: `redis://host:port/db`": (
        lambda client: fairlock.connect(host="localhost", port=6379)  # type: ignore
    ),
    "Client() has no argument 'port': the URL says it: ": lambda client: fairlock.Client(port=6379),  # type: ignore
    "Client() has no argument 'username': the login is `user=`": (
        lambda client: fairlock.Client("redis://h", username="me")  # type: ignore
    ),
    "aconnect() has no argument 'leas'": lambda client: asyncio.run(fairlock.aconnect(leas=3)),  # type: ignore
}


@pytest.mark.parametrize("says", ARGUMENTS)
def test_an_argument_that_is_not_there_is_refused_by_the_function_that_was_called(client: fairlock.Client, says: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(says)}"):
        ARGUMENTS[says](client)


#: Names and classes of others.
NOT_HERE: Dict[str, Callable[[], Any]] = {
    "has no attribute 'RLock': no lock here is acquired again by its holder: hand `held` down, or ask": lambda: fairlock.RLock,  # type: ignore
    "has no attribute 'Semaphore': write `client.semaphore(name, slots)`": lambda: fairlock.Semaphore(4),  # type: ignore
    "has no attribute 'nothing'": lambda: fairlock.nothing,  # type: ignore
    "a Lock is made by a client: write `fairlock.connect(url).lock(name)`": lambda: fairlock.Lock("x"),  # type: ignore
    "a Lock is made by a client: ": lambda: fairlock.Lock(redis.Redis(), "x", timeout=60),  # type: ignore
    "a Lock is made by a client:  ": lambda: fairlock.Lock(redis.Redis(), "x", 60),  # type: ignore
    "a RwLock is made by a client: write `fairlock.connect(url).rw_lock(name)`": lambda: fairlock.RwLock("x"),  # type: ignore
    "the URL is an object of redis.client.Redis, but must be a text: give its URL, or write `fairlock.compat.client_of(": (
        lambda: fairlock.connect(redis.Redis(password="secret"))  # type: ignore
    ),
    "the URL is an object of builtins.bytes, but must be a text": lambda: fairlock.connect(b"redis://:secret@h"),  # type: ignore
}


@pytest.mark.parametrize("says", NOT_HERE)
def test_a_class_of_others_says_what_to_write(says: str) -> None:
    with pytest.raises((AttributeError, TypeError, fairlock.InvalidOption), match=re.escape(says.rstrip())) as raised:
        NOT_HERE[says]()
    assert len(str(raised.value)) < 250 and "secret" not in str(raised.value)
    assert not hasattr(fairlock, "RLock")


def test_what_other_locks_take_for_a_try_is_no_time(client: fairlock.Client) -> None:
    with pytest.raises(fairlock.InvalidOption, match=r"a time is False.*a try that does not wait is try_acquire\(\)"):
        client.lock("lock").acquire(False)


def test_locks_that_are_no_list_are_refused(client: fairlock.Client) -> None:
    for one in ("lock", client.lock("lock"), client.rw_lock("lock")):
        with pytest.raises(fairlock.InvalidOption, match="must be a list of names and locks"):
            client.lock_all(one)  # type: ignore


def test_what_they_are_told_works(client: fairlock.Client) -> None:
    lock, index = client.lock("lock"), client.rw_lock("index")
    with lock.acquire(timeout=1) as held:
        assert lock.is_locked().wait() and held.verify()
        held.renew()
        with pytest.raises(fairlock.Busy):
            lock.try_acquire().wait()
    with index.read() as held, index.try_read():
        held.extend(1)
    with index.write() as held:
        held.downgrade()
    is_free(lock)
    is_free(index.writer)


def test_a_lease_that_nobody_keeps_warns_at_the_line(client: fairlock.Client) -> None:
    """`await lock.acquire()` alone on a line, as of a lock of asyncio, `if await lock.acquire():`, and what asks the lease
    for something and does not keep it."""
    lock, index = client.lock("lock"), client.rw_lock("index")

    async def tasks() -> None:
        await lock.acquire()
        if await index.read():
            pass
        await client.lock_all(["lock", "index"])
        assert (await lock.acquire()).token
        assert await (await lock.acquire()).verify()

    with pytest.warns(RuntimeWarning, match="^the lease of .* was dropped without a release, and is released now") as caught:
        lock.acquire().wait()
        if index.read().wait():
            pass
        client.lock_all(["lock", "index"]).wait()
        assert lock.acquire().wait().token
        lock.acquire().wait().check()
        lock.acquire().wait().renew()
        assert "token" in str(lock.acquire().wait())
        assert client.lock_all(["lock", "index"]).wait().tokens
        asyncio.run(tasks())
    assert [warning.filename for warning in caught] == 13 * [__file__]
    is_free(lock)
    is_free(index.writer)


@in_both_worlds
async def test_a_lease_that_ends_does_not_warn(world: World, client: fairlock.Client) -> None:
    lock = client.lock("lock")
    with no_warnings():
        held = await world.get(lock.acquire())
        await world.do(held.release)
        del held
        held = await world.get(lock.acquire())
        await lock.break_lease(held.token, force=True)
        await world.do(held.lost.wait)
        del held
        async with lock.acquire(), client.lock_all(["a", "b"]), client.semaphore("gpu", 2).acquire():
            pass
    await world.is_free(lock)
