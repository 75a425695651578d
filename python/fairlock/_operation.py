"""Calls that wait: ``await`` them, or call ``wait()``."""

from __future__ import annotations

import asyncio
import threading
import weakref
from typing import TYPE_CHECKING, Any, Callable, Generator, Generic, List, NoReturn, Optional, Type, TypeVar

from . import _green, _logging, _loops, _native
from ._errors import Error, LockLost
from ._notified import Notified
from ._values import OfOneProcess

#: What a thread gets from ``wait()``.
S = TypeVar("S")
#: What a task gets from ``await``.
A = TypeVar("A")


def wait(operation: Optional[_native.Operation], longest: Optional[float] = None) -> Any:
    """Waits on the spot, without the GIL; under gevent by the hub. Raises TimeoutError when the time is over. None is nothing
    to do."""
    if operation is None:
        return None
    if _native.has_exited():
        # Nobody knows any more which thread this is, nor has greenlets.
        return operation.wait(False, longest)
    _logging.listen()
    hub = _green.hub()
    if hub is not None:
        return _green.wait(hub, operation, longest)
    return operation.wait(threading.current_thread() is threading.main_thread(), longest)


async def run(operation: Optional[_native.Operation], longest: Optional[float] = None) -> Any:
    """Waits in the running event loop. If the task is cancelled, the operation is given up. Raises TimeoutError when
    the time is over. None is nothing to do.
    """
    if operation is None:
        return None
    _logging.listen()
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
    return await driver.run(loop, operation, longest)


class _Driver(Notified):
    """The operations of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        loop.add_reader(self.notifier.fileno(), self.notifier.wake_due, self.pending)

    async def run(self, loop: asyncio.AbstractEventLoop, operation: _native.Operation, longest: Optional[float]) -> Any:
        ended: asyncio.Future[None] = loop.create_future()
        # The task may have been cancelled at the same moment.
        key = self.begin(operation, lambda: None if ended.done() else ended.set_result(None))
        try:
            if key:
                over = None if longest is None else loop.call_later(longest, _over, ended)
                await ended
                if over is not None:
                    over.cancel()
            return operation.take()
        except BaseException:
            # Also a result that came at the same moment is given up: a lock is released again.
            self.forget(key)
            operation.cancel()
            raise


def _over(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_exception(TimeoutError("the time is over"))


# A loop has its driver for as long as it lives. The driver does not keep the loop.
_drivers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Driver] = weakref.WeakKeyDictionary()


#: How many seconds the end of a block waits for the answer to its release. The client repeats the release until the
#: server answers or the lease ends, whether somebody waits for that or not.
_END = 1.0


def await_release(releasing: Optional[_native.Operation], kind: Optional[Type[BaseException]]) -> None:
    """Waits at the end of a block. Raises LockLost if the block must not be taken for one that ran under the lock; an
    exception of its own says more.
    """
    try:
        wait(releasing, _END)
    except LockLost:
        if kind is None:
            raise
    except (Error, TimeoutError):
        pass


async def released(releasing: Optional[_native.Operation], kind: Optional[Type[BaseException]]) -> None:
    """As :func:`await_release`, in a task. A coroutine that is closed, or collected, may await nothing more."""
    if kind is GeneratorExit:
        return
    try:
        await run(releasing, _END)
    except LockLost:
        if kind is None:
            raise
    except (Error, TimeoutError):
        pass


class Operation(_native.Call, OfOneProcess, Generic[S, A]):
    """A call that waits for the server or for a turn: ``await`` it, or call :meth:`wait`.

    Nothing happens before. If it is neither awaited nor waited for, a ``RuntimeWarning`` says so.
    """

    __slots__ = ("_begin", "_sync", "_async", "_awaited", "_gives")

    def __init__(
        self,
        what: str,
        begin: Callable[[], Optional[_native.Operation]],
        sync: Callable[[Any], S],
        aio: Callable[[Any], A],
        awaited: Optional[Callable[[], List[_loops.Key]]] = None,
        gives: Type[Any] = object,
    ) -> None:
        self._begin = begin
        self._sync = sync
        self._async = aio
        #: The locks for which it waits as long as they are held.
        self._awaited = awaited
        #: The class of what a task gets, if people call its methods here. It has all that a thread gets.
        self._gives = gives

    def wait(self) -> S:
        """Waits on the spot. Other threads run meanwhile; a KeyboardInterrupt gives the call up at once.

        In a coroutine use ``await``: this would block the event loop, and a ``RuntimeWarning`` says so.
        """
        self._mark_begun()
        self._check("interrupt")
        _loops.check_wait(self._what, self._awaited)
        try:
            return self._sync(wait(self._start(self._begin)))
        except BaseException:
            # A KeyboardInterrupt that came with the result: nobody has that, but the exception may keep it alive.
            self._give_up()
            raise

    def __await__(self) -> Generator[Any, None, A]:
        return self._run().__await__()

    async def _run(self) -> A:
        self._mark_begun()
        self._check("cancel")
        try:
            return self._async(await run(self._start(self._begin)))
        except BaseException:
            self._give_up()
            raise

    def __bool__(self) -> NoReturn:
        self._mark_told()
        raise TypeError(f"{self._what} is neither true nor false, because nothing is done yet: {self._instead()}")

    def _instead(self) -> str:
        """What to write."""
        return "ask what `.wait()` or `await` gives"

    def _closing(self) -> str:
        """What to write instead of a block that closes it."""
        return self._instead() if self._begun else f"{self._what} has not begun: {self._instead()}"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            if not name.startswith("_") and hasattr(self._gives, name):
                self._mark_told()
                found = f"{type(self).__name__!r} object has no attribute {name!r}"
                state = "has given" if self._begun else f"gives: {self._what} has not begun"
                raise AttributeError(f"{found}: take what `.wait()` (or `await`) {state}")
            if name in ("close", "aclose"):
                # contextlib.closing() asks for it at the end of its block, and for nothing before.
                self._mark_told()
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}: {self._closing()}")
            # Raises what Python says of any attribute that is not there.
            return object.__getattribute__(self, name)

    def _check(self, on_lost: str) -> None:
        """Refuses what cannot work in this world, whose ``on_lost`` is this."""

    def __repr__(self) -> str:
        return f"<{self._what}{'' if self._begun else ', not begun: await it, or call wait()'}>"


def the_same(value: Any) -> Any:
    """For results that are alike in both worlds."""
    return value


def nothing(value: Any) -> None:
    """For operations without a result."""


class OfTask(Operation[A, A]):
    """What a task asks of what it has."""

    __slots__ = ()

    def __init__(self, what: str, begin: Callable[[], Optional[_native.Operation]], result: Callable[[Any], A]) -> None:
        super().__init__(what, begin, result, result)

    def _instead(self) -> str:
        return "write `await` before it"
