"""Drives the package for `make conformance`: the lines of docs/conformance.md. With `--tasks` its waiters are tasks of
asyncio, which can be cancelled; otherwise they are threads."""

from __future__ import annotations

import asyncio
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Callable, Dict, Optional

import fairlock

SECOND = 1_000_000
TASKS = "--tasks" in sys.argv
held: Dict[str, Any] = {}
begun: Dict[str, asyncio.Task[None]] = {}
logging.disable()
threads = ThreadPoolExecutor(64)


async def in_thread(call: Callable[[], Any]) -> Any:
    return await asyncio.get_running_loop().run_in_executor(threads, call)


async def ended(operation: Any) -> Any:
    return await (operation if TASKS else in_thread(operation.wait))


async def acquire(lock: fairlock.Lock, waiter: str, timeout: Optional[str]) -> None:
    try:
        if timeout is None:
            held[waiter] = await ended(lock.try_acquire())
        else:
            place = await ended(lock.enqueue(None if timeout == "-" else int(timeout) / SECOND))
            print("queued", waiter, place.ticket, flush=True)
            held[waiter] = await ended(place)
        print("granted", waiter, held[waiter].token, held[waiter].ticket, flush=True)
    except fairlock.Busy:
        print("busy", waiter, flush=True)
    except (fairlock.Timeout, fairlock.Unavailable):
        print("timeout", waiter, flush=True)
    except asyncio.CancelledError:
        print("left", waiter, flush=True)
    except fairlock.Error as error:
        print("failed", waiter, repr(error), flush=True)


async def release(waiter: str) -> None:
    lease = held.pop(waiter)
    try:
        await (lease.release() if TASKS else in_thread(lease.release))
        print("released", waiter, flush=True)
    except (fairlock.LockLost, fairlock.ReleaseUnknown):
        print("lost", waiter, flush=True)


async def give_back(waiter: str) -> None:
    """It was granted before it heard that it should leave."""
    with suppress(fairlock.LockLost, fairlock.ReleaseUnknown):
        await held.pop(waiter).release()
    print("left", waiter, flush=True)


async def obey() -> None:
    _, url, prefix, name, *spans = (await in_thread(sys.stdin.readline)).split()
    lease, liveness, buffer, notice = (int(span) / SECOND for span in spans[:4])
    client = fairlock.Client(url, prefix=prefix)
    lock = client.lock(name, lease=lease, liveness=liveness, buffer=buffer, notice=notice)
    print("ready waits pushes full", "leaves" if TASKS else "", flush=True)
    while line := await in_thread(sys.stdin.readline):
        verb, waiter, *timeout = line.split()
        if verb == "held":
            believed = waiter in held and not held[waiter].lost and held[waiter].remaining > 0
            print("held" if believed else "lost", waiter, flush=True)
        elif verb == "leave":
            if not begun[waiter].cancel():
                begun[waiter] = asyncio.create_task(give_back(waiter))
        else:
            steps = release(waiter) if verb == "release" else acquire(lock, waiter, *(timeout or [None]))
            begun[waiter] = asyncio.create_task(steps)
    await asyncio.gather(*begun.values(), return_exceptions=True)
    await client.aclose()


asyncio.run(obey())
