"""Several locks that are held together."""

from __future__ import annotations

import functools
from types import TracebackType
from typing import TYPE_CHECKING, Callable, List, Optional, Type, TypeVar

from . import _native
from ._errors import LockLost
from ._loops import Key, client_of, hold
from ._operation import OfTask, Operation, await_release, nothing, released, run, wait
from ._threads import to_its_end
from ._values import OfOneProcess, Seconds, seconds

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")
T = TypeVar("T")


class _All(OfOneProcess):
    __slots__ = ("_guard", "__weakref__")

    def __init__(self, guard: _native.AllGuard) -> None:
        self._guard = guard

    def _keys(self) -> List[Key]:
        try:
            self._guard.check()
        except LockLost:
            return []
        return [(client_of(id), name, most) for id, name, most in self._guard.leases]

    @property
    def tokens(self) -> dict[str, int]:
        """The fencing token of each lock, by its name."""
        return self._guard.tokens

    @property
    def slot_of(self) -> dict[str, int]:
        """The slot of each lock, by its name: see :attr:`Held.slot`."""
        return self._guard.slot_of

    @property
    def remaining(self) -> float:
        """How many seconds are left of the lease that ends first."""
        return self._guard.remaining

    def check(self) -> None:
        """Raises :exc:`LockLost` unless all leases are held. No round trip."""
        self._guard.check()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} tokens {self.tokens}, slots {self.slot_of}>"


class AllHeld(_All, _native.Block):
    """Several locks that are held together, for threads. It is lost when one of them is (:meth:`check`, :meth:`wait_lost`),
    and all leases are renewed. It has no ``lost``, ``on_lost``, ``extend()``, ``renew()`` or ``downgrade()``: where one of
    the locks needs these, acquire it by itself.
    """

    __slots__ = ()

    def wait_lost(self, timeout: Optional[Seconds] = None) -> Optional[LockLost]:
        """Waits until a lease is lost, and returns which; or None, when they were released or the time is over."""
        try:
            loss: Optional[LockLost] = wait(self._guard.ended(), seconds(timeout))
        except TimeoutError:
            return None
        return loss

    def release(self) -> None:
        """Releases all locks. Raises :exc:`LockLost` if one was not held to the end. One round trip."""
        wait(self._guard.release())

    def __enter__(self) -> AllHeld:
        return self

    def _ended(
        self, releasing: Optional[_native.Operation], kind: Optional[Type[BaseException]], error: Optional[BaseException]
    ) -> None:
        await_release(releasing, kind)


class AsyncAllHeld(_All):
    """Several locks that are held together, for tasks of asyncio."""

    __slots__ = ()

    def __init__(self, guard: _native.AllGuard) -> None:
        super().__init__(guard)
        hold(self)

    async def wait_lost(self) -> Optional[LockLost]:
        """As :meth:`AllHeld.wait_lost`."""
        loss: Optional[LockLost] = await run(self._guard.ended())
        return loss

    def release(self) -> Operation[None, None]:
        """As :meth:`AllHeld.release`."""
        return OfTask("release() of several locks", self._guard.release, nothing)

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As :meth:`AsyncHeld.in_thread`."""
        return await to_its_end(functools.partial(function, *args, **kwargs))

    async def __aenter__(self) -> AsyncAllHeld:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await released(self._guard.release(), kind)
