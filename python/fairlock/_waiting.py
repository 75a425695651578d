"""Places in a queue."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Generator, Optional, Type

from . import _native
from ._held import AsyncHeld, Held, check_on_lost
from ._operation import run, wait
from ._options import OnLost
from ._values import OfOneProcess


class _Place(OfOneProcess):
    __slots__ = ("_waiting", "_ticket", "_on_lost", "__weakref__")

    def __init__(self, waiting: _native.Waiting, on_lost: Optional[OnLost]) -> None:
        self._waiting = waiting
        self._ticket = waiting.ticket
        self._on_lost: Optional[OnLost] = on_lost

    @property
    def ticket(self) -> int:
        """Lower tickets are served first."""
        return self._ticket

    def leave(self) -> None:
        """Leaves the queue, in the background."""
        self._waiting.leave()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, ticket {self._ticket}>"


class Waiting(_Place):
    """A place in the queue, for threads. It is given up when nobody refers to it any more."""

    __slots__ = ("_held",)

    def position(self) -> int:
        """The position in the queue: 1 for the next to be served, 0 if it waits no longer. One round trip."""
        return int(wait(self._waiting.position()))

    def wait(self) -> Held:
        """Waits for the grant. Raises what ``acquire`` raises."""
        check_on_lost(self._on_lost, "interrupt")
        return Held(wait(self._waiting.grant()), self._on_lost)

    def __enter__(self) -> Held:
        self._held = self.wait()
        return self._held

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._held.__exit__(kind, error, trace)


class AsyncWaiting(_Place):
    """A place in the queue, for tasks of asyncio: ``await`` it to wait for the grant."""

    __slots__ = ("_held",)

    async def position(self) -> int:
        """As :meth:`Waiting.position`."""
        return int(await run(self._waiting.position()))

    async def _grant(self) -> AsyncHeld:
        return AsyncHeld(await run(self._waiting.grant()), self._on_lost)

    def __await__(self) -> Generator[Any, None, AsyncHeld]:
        return self._grant().__await__()

    async def __aenter__(self) -> AsyncHeld:
        self._held = await self._grant()
        return await self._held.__aenter__()

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self._held.__aexit__(kind, error, trace)
