"""Handlers of signals, and their exceptions, between any two lines; and the collector, which runs as they do."""

from __future__ import annotations

import gc
import signal
import sys
import time
from types import FrameType
from typing import Any, Callable, Dict, List, Optional, Tuple

import pytest
from conftest import SOON, Server, is_free

import fairlock
from fairlock import compat
from fairlock.compat import redis_lock


class Interrupted(KeyboardInterrupt):
    pass


def block(client: fairlock.Client, lock: fairlock.Lock) -> None:
    with lock.acquire(timeout=SOON) as held:
        held.check()


def place(client: fairlock.Client, lock: fairlock.Lock) -> None:
    with lock.enqueue(timeout=SOON).wait() as held:
        held.check()


def several(client: fairlock.Client, lock: fairlock.Lock) -> None:
    with client.lock_all([lock.name], timeout=SOON) as held:
        held.check()


def interrupted(at: int, code: Callable[[], None]) -> Tuple[bool, Optional[BaseException]]:
    """Runs this, with an exception at a moment at which a signal may raise one in the package: when a function is
    entered, or before another line. Whether there is such a moment, and the exception."""
    moments = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal moments
        if not frame.f_globals.get("__name__", "").startswith("fairlock."):
            return None
        # While a place is entered, nobody has it but this frame: that exception must be dropped.
        is_entry = frame.f_code.co_name == "__enter__" and frame.f_lineno <= frame.f_code.co_firstlineno + 1
        if event in ("call", "line") and not (is_entry and code.__name__ == "place"):
            moments += 1
            if moments == at:
                raise Interrupted
        return trace

    sys.settrace(trace)
    try:
        code()
        return moments >= at, None
    except Interrupted as error:
        return True, error
    finally:
        sys.settrace(None)


@pytest.mark.filterwarnings("ignore:.*was neither awaited nor waited for")
@pytest.mark.parametrize("code", [block, place, several])
def test_ctrl_c_at_any_line_of_a_block_releases_though_the_exception_is_kept(
    client: fairlock.Client, code: Callable[[fairlock.Client, fairlock.Lock], None]
) -> None:
    kept: List[BaseException] = []
    at, found = 0, True
    while found:
        at += 1
        lock = client.lock(f"lock {at}")

        def run() -> None:
            code(client, lock)

        run.__name__ = code.__name__
        found, error = interrupted(at, run)
        if found:
            assert error is not None, f"the exception at moment {at} was swallowed"
            # As a notebook, a debugger or a logger keeps it.
            kept.append(error)
            is_free(lock)
    assert at > 30
    del run, error
    kept.clear()
    gc.collect()


def test_no_interrupt_is_swallowed_and_no_lock_is_kept_where_a_program_does_nothing_but_lock(
    client: fairlock.Client,
) -> None:
    lock, handled, kept = client.lock("lock"), 0, list[KeyboardInterrupt]()

    def handle(number: int, frame: Optional[FrameType]) -> None:
        nonlocal handled
        handled += 1
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGPROF, handle)
    try:
        for turn in range(200):
            try:
                signal.setitimer(signal.ITIMER_PROF, 0.001 + turn % 50 * 1e-5)
                until = time.monotonic() + SOON
                while time.monotonic() < until:
                    with lock.acquire():
                        pass
            except KeyboardInterrupt as error:
                kept.append(error)
            is_free(lock)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert len(kept) == handled == 200


CYCLES: Dict[str, Callable[[fairlock.Client, str, Any], None]] = {}


def cycle(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def add(function: Callable[..., None]) -> Callable[..., None]:
        CYCLES[name] = function
        return function

    return add


@cycle("a block")
def of_block(client: fairlock.Client, name: str, redis: Any) -> None:
    with client.lock(name).acquire():
        pass


@cycle("a block that a loss interrupts")
def of_interrupt(client: fairlock.Client, name: str, redis: Any) -> None:
    with client.lock(name).acquire(on_lost="interrupt"):
        pass


@cycle("a key")
def of_key(client: fairlock.Client, name: str, redis: Any) -> None:
    mutex = KEYS.setdefault(client, client.keyed_mutex("keys"))
    mutex.acquire(name)
    mutex.release(name)


@cycle("redis-py's class")
def of_redis_py(client: fairlock.Client, name: str, redis: Any) -> None:
    with redis.lock(name, timeout=5, lock_class=compat.Lock):
        pass


@cycle("python-redis-lock's class")
def of_redis_lock(client: fairlock.Client, name: str, redis: Any) -> None:
    with redis_lock.Lock(redis, name, expire=5):
        pass


@cycle("RedisFairLock")
def of_fair_lock(client: fairlock.Client, name: str, redis: Any) -> None:
    with compat.RedisFairLock(name, redis):
        pass


KEYS: Dict[fairlock.Client, fairlock.KeyedMutex] = {}


@pytest.mark.parametrize("cycle", CYCLES.values(), ids=CYCLES.keys())
def test_a_handler_of_a_signal_locks_while_its_thread_does(
    server: Server, client: fairlock.Client, cycle: Callable[[fairlock.Client, str, Any], None]
) -> None:
    redis, handled = server.redis(), 0

    def handle(number: int, frame: Optional[FrameType]) -> None:
        nonlocal handled
        cycle(client, "of the handler", redis)
        handled += 1
        signal.setitimer(signal.ITIMER_PROF, 0.0005 + handled % 10 * 1e-4)

    before = signal.signal(signal.SIGPROF, handle)
    try:
        signal.setitimer(signal.ITIMER_PROF, 0.001)
        while handled < 300:
            cycle(client, "of the program", redis)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    for name in ("of the handler", "of the program"):
        is_free(client.lock(name))
