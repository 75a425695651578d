"""Places in a queue."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Generator, List, Optional, Type

from . import _native
from ._held import AsyncHeld, Held, check_on_lost
from ._loops import Key, check_wait, hold, waits
from ._operation import OfTask, Operation, run, wait
from ._options import OnLost
from ._values import OfOneProcess


class _Place(OfOneProcess):
    __slots__ = ("_waiting", "_ticket", "_key", "_operation", "_on_lost", "_waits", "__weakref__")

    def __init__(self, waiting: _native.Waiting, key: Key, on_lost: Optional[OnLost], endless: bool) -> None:
        self._waiting = waiting
        self._ticket = waiting.ticket
        self._key = key
        self._operation: Optional[_native.Operation] = None
        self._on_lost: Optional[OnLost] = on_lost
        # Whether it waits, for as long as it takes.
        self._waits = endless
        waits(self)

    def _keys(self) -> List[Key]:
        return [self._key] if self._waits else []

    @property
    def ticket(self) -> int:
        """Lower tickets are served first."""
        return self._ticket

    def leave(self) -> None:
        """Leaves the queue, in the background."""
        self._waits = False
        self._waiting.leave()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, ticket {self._ticket}>"


class Waiting(_Place, _native.Block):
    """A place in the queue, for threads. It is given up when nobody refers to it any more."""

    __slots__ = ("_entered",)

    def position(self) -> int:
        """The position in the queue: 1 for the next to be served, 0 if it waits no longer. One round trip."""
        return int(wait(self._waiting.position()))

    def wait(self) -> Held:
        """Waits for the grant. Raises what ``acquire`` raises."""
        check_on_lost(self._on_lost, "interrupt")
        check_wait(f"the wait for the lock {self._key[1]!r}", self._awaited)
        self._operation = self._waiting.grant()
        self._waits = False
        try:
            held = Held(wait(self._operation), self._on_lost)
            hold(held)
            return held
        except BaseException:
            self._operation.cancel()
            raise

    def _awaited(self) -> List[Key]:
        return [self._key]

    def __enter__(self) -> Held:
        try:
            self._entered = self.wait()
            return self._entered
        except BaseException:
            # There is no block that would end.
            self.leave()
            if self._operation is not None:
                self._operation.cancel()
            raise


class AsyncWaiting(_Place):
    """A place in the queue, for tasks of asyncio: ``await`` it to wait for the grant."""

    __slots__ = ("_held",)

    def position(self) -> Operation[int, int]:
        """As :meth:`Waiting.position`."""
        return OfTask(f"position() in the queue of the lock {self._key[1]!r}", self._waiting.position, int)

    async def _grant(self) -> AsyncHeld:
        operation = self._waiting.grant()
        try:
            return AsyncHeld(await run(operation), self._on_lost)
        except BaseException:
            operation.cancel()
            raise
        finally:
            self._waits = False

    def __await__(self) -> Generator[Any, None, AsyncHeld]:
        return self._grant().__await__()

    async def __aenter__(self) -> AsyncHeld:
        self._held = await self._grant()
        return await self._held.__aenter__()

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self._held.__aexit__(kind, error, trace)
