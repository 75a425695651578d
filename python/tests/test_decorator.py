"""Functions that run under a lock."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Iterator, List

import pytest
from conftest import SOON, Server, is_free

import fairlock
import fairlock.compat


def is_held(client: fairlock.Client) -> bool:
    return client.lock("lock").is_locked().wait()


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that hides what it decorates, as those of frameworks do."""

    def inner() -> Any:
        return function()

    return inner


def test_a_coroutine_function_in_disguise_is_refused(client: fairlock.Client) -> None:
    ran: List[bool] = []

    async def coroutine() -> None:
        ran.append(is_held(client))

    def generator() -> Iterator[None]:
        ran.append(is_held(client))
        yield

    async def asynchronous_generator() -> Any:
        ran.append(is_held(client))
        yield

    async def main() -> None:
        def task() -> Any:
            return asyncio.ensure_future(coroutine())

        for disguised in (coroutine, generator, asynchronous_generator, task):
            with pytest.raises(TypeError, match="would run after the lock is released"):
                client.locked("lock")(plain(disguised))()
        # Nothing of them runs later.
        await asyncio.sleep(0)

    asyncio.run(main())
    assert not ran
    is_free(client.lock("lock"))


def test_an_object_that_is_called_as_a_coroutine_function_holds_the_lock(client: fairlock.Client) -> None:
    class Job:
        async def __call__(self) -> bool:
            return await client.lock("lock").is_locked()

    class Generator:
        def __call__(self) -> Iterator[None]:
            yield

    assert asyncio.run(client.locked("lock")(Job())())
    with pytest.raises(TypeError, match="is a generator"):
        client.locked("lock")(Generator())
    with pytest.raises(fairlock.InvalidOption, match="no name that is the same in all processes"):
        client.locked(Job())
    is_free(client.lock("lock"))


class Account:
    """Has no text of its own."""

    id = 7


def test_a_value_without_a_text_names_no_lock(client: fairlock.Client) -> None:
    """Its text would be its address: another lock in each process."""

    class Named(Account):
        def __str__(self) -> str:
            return "named"

    def is_locked(name: str) -> bool:
        return client.lock(name).is_locked().wait()

    @client.locked("a:{a.id}:{b}")
    def texts(a: object, b: object) -> bool:
        return is_locked(f"a:7:{b}")

    assert texts(Account(), Named()) and texts(Account(), "<x at 0x7f>")
    for template, field in (("a:{a}:{b}", "b"), ("a:{a!r}", "a"), ("{b!s:>9}", "b"), ("a:{c[0]}", "c[0]"), ("a:{c}", "c")):

        @client.locked(template)
        def refused(a: object, b: object, c: object) -> None:
            raise AssertionError("it ran")

        says = rf"^{{{re.escape(field)}}} in the lock's name .* is '.* at 0x.*another text in each process.*as {{{re.escape(field)}\.id}}"
        with pytest.raises(fairlock.InvalidOption, match=says):
            refused(Named(), Account(), [Account()])
    mutex = client.keyed_mutex("accounts")
    assert mutex.lock(Named()).name == "accounts:named"
    with pytest.raises(fairlock.InvalidOption, match="^a key of 'accounts' is '.*has no text of its own.*as `key.id`"):
        mutex.locked(Account())


def test_a_class_is_refused(client: fairlock.Client) -> None:
    with pytest.raises(TypeError, match="Account is a class: the lock would be held while an object is made.*its methods"):
        client.locked("account")(Account)


def test_a_function_asks_which_slot_it_has(client: fairlock.Client) -> None:
    both = threading.Barrier(2, timeout=SOON)

    def helper() -> int:
        return fairlock.held().slot

    @client.locked("gpu", slots=2)
    def train(number: int) -> int:
        both.wait()  # Both hold it now.
        held = fairlock.held()
        held.check()
        assert held.name == "gpu" and helper() == held.slot
        return helper()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(train, range(2))) == [0, 1]
        for run in (fairlock.held, pool.submit(fairlock.held).result):
            with pytest.raises(RuntimeError, match="no function that client.locked.. decorates runs.*A block has its own: "):
                run()
    is_free(client.lock("gpu"))


def test_each_task_has_the_lease_of_its_own_function(client: fairlock.Client) -> None:
    inside: List[int] = []

    @client.locked("gpu", slots=2)
    async def train() -> int:
        inside.append(fairlock.held().slot)
        while len(inside) < 2:
            await asyncio.sleep(0.01)
        with pytest.raises(ZeroDivisionError):
            await fails()
        assert fairlock.aheld().name == fairlock.held().name == "gpu" and await fairlock.aheld().verify()
        return fairlock.held().slot

    @client.locked("inner")
    async def fails() -> None:
        assert (fairlock.held().name, fairlock.held().slot) == ("inner", 0)
        raise ZeroDivisionError

    async def main() -> None:
        assert sorted(await asyncio.gather(train(), train())) == [0, 1]
        with pytest.raises(RuntimeError):
            fairlock.held()

    asyncio.run(asyncio.wait_for(main(), SOON))
    is_free(client.lock("gpu"))


def test_a_lease_that_was_given_back_is_none_of_a_function(client: fairlock.Client) -> None:
    """An interrupt may come after the end of a function, and before its lease is forgotten."""
    outer: List[int] = []

    @client.locked("gpu", slots=2)
    def interrupted() -> None:
        @client.locked("inner")
        def inner() -> None:
            fairlock.held().release()
            assert fairlock.held().name == "gpu"  # that of the outer one

        inner()
        outer.append(fairlock.held().slot)
        fairlock.held().release()
        with pytest.raises(RuntimeError, match="no function that client.locked.. decorates runs"):
            fairlock.held()

    def forgets(before: Any) -> None:
        raise KeyboardInterrupt

    interrupted()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairlock._decorator._leave", forgets)
        with pytest.raises(KeyboardInterrupt):
            client.locked("lock")(lambda: None)()
    for asked in (fairlock.held, fairlock.aheld):
        with pytest.raises(RuntimeError, match="no function that client.locked.. decorates runs"):
            asked()
    # The next one begins with nothing around it.
    assert client.locked("lock")(lambda: fairlock.held().name)() == "lock" and outer == [0]


def test_each_world_has_its_own_view_of_the_lease(client: fairlock.Client) -> None:
    index = client.rw_lock("index")

    @client.locked(index.writer)
    def plain_one() -> None:
        with pytest.raises(RuntimeError, match=r"is no coroutine function: call fairlock.held\(\)"):
            fairlock.aheld()
        fairlock.held().downgrade()
        index.try_read().wait().release()
        fairlock.held().renew()
        assert fairlock.held().lost.wait(0) is None

    @client.locked(index.writer)
    async def coroutine() -> None:
        await fairlock.aheld().downgrade()
        await (await index.try_read()).release()
        fairlock.held().check()
        assert fairlock.held().token == fairlock.aheld().token

    plain_one()
    asyncio.run(coroutine())
    is_free(index.writer)


def test_a_coroutine_that_is_closed_from_outside_says_nothing(client: fairlock.Client) -> None:
    inside: List[str] = []

    @client.locked("lock")
    async def suspended() -> None:
        inside.append(fairlock.held().name)
        await asyncio.sleep(SOON)

    async def main() -> None:
        coroutine = suspended()
        task = asyncio.ensure_future(coroutine)
        while not inside:
            await asyncio.sleep(0.01)
        coroutine.close()  # in the context of this task, and not of that one
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    is_free(client.lock("lock"))


def test_a_lock_that_is_there_is_held_by_a_function(client: fairlock.Client) -> None:
    gpus, index = client.semaphore("gpu", 2), client.rw_lock("index")
    held: List[int] = []

    @client.locked(index.reader)
    def reads() -> None:
        index.try_read().wait().release()
        with pytest.raises(fairlock.Busy):
            index.try_write().wait()
        held.append(fairlock.held().slots)

    @client.locked(index.writer, timeout=SOON, label="job")
    def writes() -> None:
        with pytest.raises(fairlock.Busy):
            index.try_read().wait()
        assert index.inspect().wait().holders[0].label == "job"
        held.append(fairlock.held().slots)

    @client.locked(gpus)
    async def trains() -> None:
        held.append(fairlock.aheld().slots)

    reads()
    writes()
    asyncio.run(trains())
    assert held == [1000, 1, 2]
    refused: List[Any] = [7, index, b"lock", client]
    for one in refused:
        with pytest.raises(fairlock.InvalidOption, match="takes a name, a lock or a function, and not"):
            client.locked(one)
    with pytest.raises(fairlock.InvalidOption, match="has its own slots"):
        client.locked(gpus, slots=3)
    with pytest.raises(fairlock.InvalidOption, match="has its own lease"):
        client.locked(gpus, lease=3)
    is_free(gpus)
    is_free(index.writer)


def test_a_function_of_a_program_needs_a_name(server: Server, tmp_path: Path) -> None:
    program = tmp_path / "nightly.py"
    program.write_text(f"""
import fairlock, fairlock.compat
client = fairlock.Client({server.url!r})
for decorate in (client.locked, client.locked(), fairlock.compat.distributed_lock_decorator()):
    try:
        @decorate
        def rebuild(): pass
    except fairlock.InvalidOption as error:
        print(error)
@client.locked("rebuild")
def rebuild(): pass
rebuild()
""")
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("rebuild is a function of a program, __main__") == 3, run.stdout
