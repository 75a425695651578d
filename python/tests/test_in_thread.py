"""A thread that works for a task which holds a lock: the lock is not given away before the thread has ended."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, List

import pytest
from conftest import SOON, eventually, is_free, waiting
from test_tasks import in_a_loop

import fairlock


class Work:
    """Works in its thread until it is let go, and notes that it has ended."""

    def __init__(self, notes: List[str], error: Exception | None = None) -> None:
        self.begun, self.over = threading.Event(), threading.Event()
        self.notes, self.error = notes, error

    def __call__(self, *args: Any) -> Any:
        self.begun.set()
        assert self.over.wait(SOON)
        self.notes.append("the thread ends")
        if self.error is not None:
            raise self.error
        return args

    async def has_begun(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self.begun.wait, SOON)


async def next_one(client: fairlock.Client, notes: List[str]) -> None:
    async with client.lock("lock").acquire():
        notes.append("the next one holds it")


async def cancelled_while_the_thread_works(client: fairlock.Client, work: Work, job: "asyncio.Task[Any]") -> None:
    """Cancels the task, twice, while another one waits for the lock. Only then the thread is let go."""
    await work.has_begun()
    follows = asyncio.ensure_future(next_one(client, work.notes))
    await asyncio.to_thread(waiting, client.lock("lock"), 1)
    for _ in range(2):
        job.cancel()
        # Long enough for a release, if there were one.
        for _ in range(3):
            await client.lock("lock").inspect()
    assert not job.done()
    work.over.set()
    await asyncio.wait([job])
    await follows
    assert job.cancelled()
    assert work.notes == ["the thread ends", "the next one holds it"]


@in_a_loop
async def test_a_cancelled_task_keeps_the_lock_until_its_thread_has_ended(client: fairlock.Client) -> None:
    work = Work([])

    async def holds() -> None:
        async with client.lock("lock").acquire() as held:
            await held.in_thread(work)

    job = asyncio.ensure_future(holds())
    await cancelled_while_the_thread_works(client, work, job)


@in_a_loop
async def test_a_decorated_function_keeps_its_lock_too(client: fairlock.Client) -> None:
    work = Work([])

    @client.locked("lock")
    async def holds() -> None:
        await fairlock.aheld().in_thread(work)

    job = asyncio.ensure_future(holds())
    await cancelled_while_the_thread_works(client, work, job)


@in_a_loop
async def test_several_locks_are_kept_too(client: fairlock.Client) -> None:
    work = Work([], ZeroDivisionError("of the thread"))

    async def holds() -> None:
        async with client.lock_all(["another", "lock"]) as held:
            await held.in_thread(work)

    job = asyncio.ensure_future(holds())
    await cancelled_while_the_thread_works(client, work, job)


@in_a_loop
async def test_a_loss_cancels_the_block_when_the_thread_has_ended(client: fairlock.Client) -> None:
    lock, work, leases = client.lock("lock"), Work([]), list[fairlock.AsyncHeld]()

    async def holds() -> None:
        async with lock.acquire(on_lost="cancel") as held:
            leases.append(held)

            def steps() -> None:
                work()
                with pytest.raises(fairlock.LockLost):
                    held.check()
                work.notes.append("it heard of the loss")

            await held.in_thread(steps)

    job = asyncio.ensure_future(holds())
    await work.has_begun()
    await lock.break_lease(leases[0].token, force=True)
    await leases[0].lost.wait()
    for _ in range(3):
        await lock.inspect()
    assert not job.done()
    work.over.set()
    await asyncio.wait([job])
    assert isinstance(job.exception(), fairlock.LockLost)
    assert work.notes == ["the thread ends", "it heard of the loss"]


@in_a_loop
async def test_a_call_that_has_not_begun_is_taken_back(client: fairlock.Client) -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    before, work = Work([]), Work([])

    async def holds() -> None:
        async with client.lock("lock").acquire() as held:
            work.notes.append("it holds the lock")
            await held.in_thread(work)

    busy = asyncio.get_running_loop().run_in_executor(None, before)
    job = asyncio.ensure_future(holds())
    while not work.notes:
        await asyncio.sleep(0.01)
    job.cancel()
    await asyncio.wait([job])
    assert job.cancelled() and not before.notes
    before.over.set()
    await busy
    # The thread has gone on to what came after it, if it was not taken back.
    await asyncio.get_running_loop().run_in_executor(None, int)
    assert not work.begun.is_set()


@in_a_loop
async def test_it_gives_what_the_function_gives(client: fairlock.Client) -> None:
    variable = contextvars.ContextVar[str]("variable")
    variable.set("as in the task")

    def function(number: int, *, name: str) -> str:
        assert threading.current_thread() is not threading.main_thread()
        return f"{number} {name} {variable.get()} {fairlock.held().name}"

    @client.locked("lock")
    async def holds() -> None:
        held = fairlock.aheld()
        assert await held.in_thread(function, 7, name="seven") == "7 seven as in the task lock"
        with pytest.raises(ZeroDivisionError):
            await held.in_thread(lambda: 1 // 0)

    await holds()


def test_ctrl_c_waits_for_the_thread(client: fairlock.Client, child: Callable[..., Any]) -> None:
    """A real one, in a program, with another task that is cancelled by it."""
    lock, other, notes = client.lock("lock"), client.lock("other"), list[str]()
    process = child(
        """
        def work():
            print("works", flush=True)
            sys.stdin.readline()
            print("ends", flush=True)
        async def holds():
            async with client.lock("lock").acquire() as held:
                await held.in_thread(work)
        async def waits():
            async with client.lock("other").acquire(): pass
        async def main():
            await asyncio.gather(holds(), waits())
        try: asyncio.run(main())
        except KeyboardInterrupt: print("interrupted", flush=True)
        """
    )
    with other.acquire():
        waiting(other, 1)
        assert process.line() == "works"

        def follows() -> None:
            with lock.acquire():
                notes.append("the next one holds it")

        thread = threading.Thread(target=follows)
        thread.start()
        waiting(lock, 1)
        process.process.send_signal(2)
        waiting(other, 0)
        eventually("the other task is gone", lambda: other.inspect().wait().waiting == 0)
        notes.append("the thread goes on")
        process.process.stdin.write("end\n")
        process.process.stdin.flush()
        assert (process.line(), process.line()) == ("ends", "interrupted")
        thread.join(SOON)
    assert notes == ["the thread goes on", "the next one holds it"]
    is_free(lock)
