"""Calls that wait: ``await`` them, or call ``wait()``."""

from __future__ import annotations

import asyncio
import threading
import warnings
import weakref
from typing import Any, Callable, Dict, Generator, Generic, Optional, Tuple, TypeVar

from . import _native
from ._values import OfOneProcess

#: What a thread gets from ``wait()``.
S = TypeVar("S")
#: What a task gets from ``await``.
A = TypeVar("A")


def wait(operation: _native.Operation, longest: Optional[float] = None) -> Any:
    """Waits on the spot, without the GIL."""
    return operation.wait(threading.current_thread() is threading.main_thread(), longest)


async def run(operation: _native.Operation) -> Any:
    """Waits in the running event loop. If the task is cancelled, the operation is given up."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "no event loop of asyncio runs here, and fairlock awaits on asyncio only: elsewhere (trio, anyio on trio) "
            "call wait() in a thread"
        ) from None
    driver = _drivers.get(loop)
    if driver is None:
        driver = _drivers[loop] = _Driver(loop)
    return await driver.run(loop, operation)


class _Driver:
    """Polls the operations of one event loop when their wakers have written to the socket that the loop watches."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._notifier = _native.Notifier()
        self._pending: Dict[int, Tuple[_native.Operation, asyncio.Future[None]]] = {}
        self._key = 0
        loop.add_reader(self._notifier.fileno(), self._poll_due)

    def _poll_due(self) -> None:
        for key in self._notifier.drain():
            pending = self._pending.get(key)
            if pending is not None and pending[0].poll(self._notifier, key):
                del self._pending[key]
                if not pending[1].done():
                    pending[1].set_result(None)

    async def run(self, loop: asyncio.AbstractEventLoop, operation: _native.Operation) -> Any:
        self._key += 1
        key = self._key
        try:
            if not operation.poll(self._notifier, key):
                ended: asyncio.Future[None] = loop.create_future()
                self._pending[key] = (operation, ended)
                await ended
            return operation.take()
        except BaseException:
            # Also a result that came at the same moment is given up: a lock is released again.
            self._pending.pop(key, None)
            operation.cancel()
            raise


# A loop has its driver for as long as it lives. The driver does not keep the loop.
_drivers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Driver] = weakref.WeakKeyDictionary()


class Operation(OfOneProcess, Generic[S, A]):
    """A call that waits for the server or for a turn: ``await`` it, or call :meth:`wait`.

    Nothing happens before. If it is neither awaited nor waited for, a ``RuntimeWarning`` says so.
    """

    __slots__ = ("_what", "_begin", "_sync", "_async", "_begun")

    def __init__(
        self, what: str, begin: Callable[[], _native.Operation], sync: Callable[[Any], S], aio: Callable[[Any], A]
    ) -> None:
        self._what = what
        self._begin = begin
        self._sync = sync
        self._async = aio
        self._begun = False

    def _mark_begun(self) -> None:
        if self._begun:
            raise RuntimeError(f"{self._what} was waited for already: call it again")
        self._begun = True

    def _operation(self) -> _native.Operation:
        self._mark_begun()
        return self._begin()

    def wait(self) -> S:
        """Waits on the spot. Other threads run meanwhile; a KeyboardInterrupt gives the call up at once.

        In a coroutine use ``await``: this would block the event loop.
        """
        return self._sync(wait(self._operation()))

    def __await__(self) -> Generator[Any, None, A]:
        return self._run().__await__()

    async def _run(self) -> A:
        return self._async(await run(self._operation()))

    def __repr__(self) -> str:
        return f"<{self._what}{'' if self._begun else ', not begun: await it, or call wait()'}>"

    def __del__(self) -> None:
        if not self._begun:
            warnings.warn(
                f"{self._what} was neither awaited nor waited for, so nothing was done: use `with`, `async with`, "
                "`await` or `.wait()`",
                RuntimeWarning,
                stacklevel=2,
                source=self,
            )


def the_same(value: Any) -> Any:
    """For results that are alike in both worlds."""
    return value


def nothing(value: Any) -> None:
    """For operations without a result."""
