"""A thread that works for a task. The task can be cancelled, and the thread cannot."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Callable, Optional, TypeVar

T = TypeVar("T")


async def to_its_end(call: Callable[[], T]) -> T:
    """Makes the call in a thread of the loop's executor, as ``asyncio.to_thread``, and ends only when the thread has. A
    cancellation is raised then. One that comes before the thread has begun takes the call back.
    """
    # Whoever has it, the thread or a cancellation, decides whether the call is made.
    decided = threading.Lock()
    context = contextvars.copy_context()

    def work() -> T:
        if not decided.acquire(blocking=False):
            raise asyncio.CancelledError
        return context.run(call)

    # It is no task: what cancels all tasks of a loop, as `asyncio.run` does in the end, does not find it.
    working = asyncio.get_running_loop().run_in_executor(None, work)
    cancelled: Optional[asyncio.CancelledError] = None
    while not working.done():
        try:
            await asyncio.wait([working])
        except asyncio.CancelledError as error:
            if decided.acquire(blocking=False):
                working.cancel()
                raise
            cancelled = error
    if cancelled is not None:
        raise cancelled from working.exception()
    return working.result()
