"""Locks that are held, for threads, and for tasks of asyncio."""

from __future__ import annotations

import asyncio
import functools
import sys
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, List, Optional, Type, TypeVar

from . import _native
from ._errors import InvalidOption, LockLost
from ._interrupt import Interrupt, check_possible
from ._loops import Key, client_of, hold
from ._operation import OfTask, Operation, await_release, nothing, released, run, wait
from ._options import OnLost
from ._threads import to_its_end
from ._values import OfOneProcess, Seconds, seconds

if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    P = ParamSpec("P")
T = TypeVar("T")


def _loss(guard: _native.Guard) -> Optional[LockLost]:
    try:
        guard.check()
    except LockLost as lost:
        return None if lost.reason == "released" else lost
    return None


class _Event(OfOneProcess):
    """The loss of a lease, as an event. A release is no loss."""

    __slots__ = ("_guard",)

    def __init__(self, guard: _native.Guard) -> None:
        self._guard = guard

    def is_set(self) -> bool:
        """Whether the lease is lost. No round trip."""
        return _loss(self._guard) is not None

    __bool__ = is_set

    @property
    def error(self) -> Optional[LockLost]:
        """The loss as an exception, or None."""
        return _loss(self._guard)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._guard.name!r}: {self.error or 'not lost'}>"


class Lost(_Event):
    """The loss of a lease, as an event that a thread can wait for."""

    __slots__ = ()

    def wait(self, timeout: Optional[Seconds] = None) -> Optional[LockLost]:
        """Waits until the lease is lost, and returns why; or None, when the lock was released or the time is over."""
        try:
            loss: Optional[LockLost] = wait(self._guard.ended(), seconds(timeout))
        except TimeoutError:
            return None
        return loss


class AsyncLost(_Event):
    """The loss of a lease, as an event that a task can wait for."""

    __slots__ = ()

    async def wait(self) -> Optional[LockLost]:
        """Waits until the lease is lost, and returns why; or None, when the lock was released."""
        loss: Optional[LockLost] = await run(self._guard.ended())
        return loss


class _Lease(OfOneProcess):
    """What is known of a lease without asking the server."""

    __slots__ = ("_guard", "__weakref__")

    def __init__(self, guard: _native.Guard) -> None:
        self._guard = guard

    def _keys(self) -> List[Key]:
        try:
            self._guard.check()
        except LockLost:
            return []
        return [(client_of(self._guard.id), self._guard.name, self._guard.slots)]

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._guard.name

    @property
    def token(self) -> int:
        """The fencing token. It rises with every grant of the lock: pass it to stores that refuse lower ones. For a
        semaphore a store keeps one for each :attr:`slot`: of two holders either may have the higher one. Who holds the
        name alone (:attr:`slots` is 1) uses what all slots stand for, and first writes its token for each of them."""
        return self._guard.token

    @property
    def slot(self) -> int:
        """Which of the places this lease has, from 0 on: the lowest that was free at its grant, and nobody else's. 0 if only
        one may hold the lock."""
        return self._guard.slot

    @property
    def slots(self) -> int:
        """How many may hold the lock together while this lease lasts, itself among them: 1 for a lock or a writer, N for a
        semaphore, 1000 for a reader, and for a writer after :meth:`Held.downgrade`."""
        return self._guard.slots

    @property
    def ticket(self) -> int:
        """The place in the order of arrival, lower than the token."""
        return self._guard.ticket

    @property
    def id(self) -> str:
        """The id of this acquire, as others see it in ``inspect()``."""
        return self._guard.id

    @property
    def owner(self) -> str:
        """The owner that others see."""
        return self._guard.owner

    @property
    def label(self) -> str:
        """The label that others see."""
        return self._guard.label

    @property
    def lease(self) -> float:
        """The length of the lease in seconds, to which every renewal prolongs it."""
        return self._guard.lease

    @property
    def granted_at(self) -> float:
        """When this process heard of the grant, in seconds since 1970."""
        return self._guard.granted_at

    @property
    def waited(self) -> float:
        """How many seconds the acquire took."""
        return self._guard.waited

    @property
    def remaining(self) -> float:
        """How many seconds are left of the lease, by a clock that counts suspended time. 0 in a forked process."""
        return self._guard.remaining

    def check(self) -> None:
        """Raises :exc:`LockLost` unless the lease is held. No round trip: call it before each step that matters."""
        self._guard.check()

    def set_automatic_renewal(self, on: bool) -> None:
        """Switches the renewal by the client's own thread on or off."""
        self._guard.set_automatic_renewal(on)

    def __repr__(self) -> str:
        try:
            self._guard.check()
            state = f"{self._guard.remaining:.1f} s left unless renewed"
        except LockLost as lost:
            state = "released" if lost.reason == "released" else f"lost: {lost.reason}"
        slot = f"slot {self.slot} of {self.slots}, " if self.slots > 1 else ""
        return f"<{type(self).__name__} {self.name!r}, {slot}token {self.token}, {state}>"


class Held(_Lease, _native.Block):
    """A lock that this process holds, for threads: until :meth:`release`, the end of its ``with`` block, or the loss of
    its lease. If nobody refers to it any more, it is released in the background, and a ``RuntimeWarning`` says so: neither
    ``await lock.acquire()`` alone on a line nor ``lock.acquire().wait().token`` keeps the lock.

    The client's own thread, which needs no GIL, renews the lease. Code cannot be stopped from outside when the lease is
    lost: call :meth:`check` before steps that matter, or wait for :attr:`lost`.
    """

    __slots__ = ("_interrupt",)

    def __init__(self, guard: _native.Guard, on_lost: Optional[OnLost] = None) -> None:
        super().__init__(guard)
        self._interrupt = Interrupt(guard) if on_lost == "interrupt" else None

    @property
    def lost(self) -> Lost:
        """The loss of the lease, as an event."""
        return Lost(self._guard)

    def release(self) -> None:
        """Releases the lock, which grants it to the next waiter. One round trip. Nothing if it was released before, as all
        are at the end of the interpreter.

        Raises :exc:`LockLost` if the lease had ended or an operator had broken it, :exc:`ReleaseUnknown` if no answer came
        until its end. Nothing need be done in either case.
        """
        if self._interrupt is not None:
            self._interrupt.armed = False
        wait(self._guard.release())

    def renew(self) -> None:
        """Renews the lease to its full length now. Needed with ``manual_renewal`` only. Raises :exc:`LockLost`."""
        wait(self._guard.renew())

    def extend(self, additional: Seconds) -> None:
        """Extends the lease by so many seconds beyond the end that it has now. Raises :exc:`LockLost`."""
        wait(self._guard.extend(seconds(additional)))

    def downgrade(self) -> None:
        """Lets readers in: from now on up to 1000 hold the lock together with this lease, which keeps its token and its
        slot. No other writer was in between. For who holds it alone: a writer (:meth:`Client.rw_lock`) or the holder of
        a plain lock; if others may share it, :exc:`InvalidOption`. Nothing if it was downgraded before.

        Write no more from the call on. It waits for the server's answer, until the end of the lease if it must. Raises
        :exc:`LockLost`. If the wait is interrupted, readers may be let in or not: call it again to be sure.
        """
        wait(self._guard.downgrade())

    def verify(self) -> bool:
        """Whether the server says that this lease holds the lock. One round trip."""
        return bool(wait(self._guard.verify()))

    def refresh(self) -> None:
        """Asks the server whether the lease is held, and renews it if a tenth of it is over. Raises :exc:`LockLost`."""
        wait(self._guard.refresh())

    def wait_renewed(self, timeout: Optional[Seconds] = None) -> float:
        """Waits for the next renewal, and returns the seconds that are left after it. Raises :exc:`LockLost`, or
        ``TimeoutError`` when the time is over."""
        return float(wait(self._guard.renewed(), seconds(timeout)))

    def __enter__(self) -> Held:
        return self

    def _ended(
        self, releasing: Optional[_native.Operation], kind: Optional[Type[BaseException]], error: Optional[BaseException]
    ) -> None:
        interrupt = self._interrupt
        if interrupt is not None:
            interrupt.armed = False
            if interrupt.loss is not None and (kind is None or isinstance(error, KeyboardInterrupt)):
                raise interrupt.loss from error
        await_release(releasing, kind)


class AsyncHeld(_Lease):
    """The same as :class:`Held`, for tasks of asyncio. Calls that ask the server are operations: ``await`` them."""

    __slots__ = ("_on_lost", "_task", "_watcher", "_loss")

    def __init__(self, guard: _native.Guard, on_lost: Optional[OnLost] = None) -> None:
        super().__init__(guard)
        hold(self)
        self._on_lost = on_lost
        self._task: Optional[asyncio.Task[Any]] = None
        self._watcher: Optional[asyncio.Task[None]] = None
        self._loss: Optional[LockLost] = None

    @property
    def lost(self) -> AsyncLost:
        """The loss of the lease, as an event."""
        return AsyncLost(self._guard)

    def release(self) -> Operation[None, None]:
        """As :meth:`Held.release`. If the task is cancelled meanwhile, the lock is released nevertheless."""

        def begin() -> Optional[_native.Operation]:
            self._stop_watching()
            return self._guard.release()

        return OfTask(f"release() of the lock {self.name!r}", begin, nothing)

    def renew(self) -> Operation[None, None]:
        """As :meth:`Held.renew`."""
        return OfTask(f"renew() of the lock {self.name!r}", self._guard.renew, nothing)

    def extend(self, additional: Seconds) -> Operation[None, None]:
        """As :meth:`Held.extend`."""
        more = seconds(additional)
        return OfTask(f"extend() of the lock {self.name!r}", lambda: self._guard.extend(more), nothing)

    def downgrade(self) -> Operation[None, None]:
        """As :meth:`Held.downgrade`."""
        return OfTask(f"downgrade() of the lock {self.name!r}", self._guard.downgrade, nothing)

    def verify(self) -> Operation[bool, bool]:
        """As :meth:`Held.verify`."""
        return OfTask(f"verify() of the lock {self.name!r}", self._guard.verify, bool)

    def refresh(self) -> Operation[None, None]:
        """As :meth:`Held.refresh`."""
        return OfTask(f"refresh() of the lock {self.name!r}", self._guard.refresh, nothing)

    async def wait_renewed(self) -> float:
        """As :meth:`Held.wait_renewed`."""
        return float(await run(self._guard.renewed()))

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Calls the function in a thread, as ``asyncio.to_thread``, and ends only when the thread has: also if the task is
        cancelled meanwhile, by Ctrl-C, a timeout, or a loss with ``on_lost="cancel"``. So the block does not end, and the lock
        is not released, while the thread works. The cancellation is raised when it has ended, or at once if it has not begun.

        The function asks :meth:`check` before steps that matter.
        """
        return await to_its_end(functools.partial(function, *args, **kwargs))

    async def _watch(self) -> None:
        self._loss = await run(self._guard.ended())
        if self._loss is not None and self._task is not None:
            self._task.cancel()

    def _stop_watching(self) -> None:
        if self._watcher is not None:
            # With a loop that is closed all its tasks have ended.
            with suppress(RuntimeError):
                self._watcher.cancel()

    async def __aenter__(self) -> AsyncHeld:
        if self._on_lost == "cancel":
            self._task = asyncio.current_task()
            self._watcher = asyncio.ensure_future(self._watch())
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        task, self._task = self._task, None
        self._stop_watching()
        if self._loss is not None and task is not None:
            # Python 3.11 counts who has cancelled a task.
            others = task.uncancel() if sys.version_info >= (3, 11) else 0
            self._guard.drop()
            if not others and (kind is None or isinstance(error, asyncio.CancelledError)):
                raise self._loss from error
            return
        await released(self._guard.release(), kind)


def check_on_lost(on_lost: Optional[OnLost], allowed: str) -> None:
    """Refuses what this world cannot do."""
    if on_lost is None or on_lost == allowed:
        if on_lost == "interrupt":
            check_possible()
        return
    if on_lost in ("cancel", "interrupt"):
        world = "tasks of asyncio" if on_lost == "cancel" else "the main thread"
        raise InvalidOption(f'on_lost="{on_lost}" is for {world}; here it can be "{allowed}"')
    raise InvalidOption(f'on_lost is {on_lost!r}, but can be "cancel", "interrupt" or None')
