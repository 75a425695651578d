"""Locks and acquires."""

from __future__ import annotations

from types import FunctionType, TracebackType
from typing import Any, Callable, Generic, List, Optional, SupportsIndex, Type, TypeVar, Union

from . import _native
from ._all_held import AllHeld, AsyncAllHeld
from ._held import AsyncHeld, Held, check_on_lost
from ._hints import Foreign, explains, made_by
from ._loops import Key, hold, waits
from ._operation import Operation, nothing, the_same
from ._options import OnLost, text, whole
from ._state import Broken, History, LockState
from ._values import OfOneProcess, Seconds, timeout_of
from ._waiting import AsyncWaiting, Waiting

S = TypeVar("S", bound=Union[Held, AllHeld])
A = TypeVar("A", bound=Union[AsyncHeld, AsyncAllHeld])


class _Scoped(Operation[S, A], _native.Block, Generic[S, A]):
    """One whose result is held for a block."""

    __slots__ = ("_entered", "_waits", "_endless", "__weakref__")

    def __init__(
        self,
        what: str,
        begin: Callable[[], _native.Operation],
        sync: Callable[[Any], S],
        aio: Callable[[Any], A],
        timeout: Optional[float],
        awaited: Optional[Callable[[], List[Key]]],
        gives: Type[A],
    ) -> None:
        # 0 is a try.
        super().__init__(what, begin, sync, aio, None if timeout == 0 else awaited, gives)
        #: Whether it waits now, for as long as it takes.
        self._waits = False
        self._endless = timeout is None

    def wait(self) -> S:
        try:
            held = self._granted()
            hold(held)
            return held
        except BaseException:
            self._give_up()
            raise

    def _granted(self) -> S:
        """As :meth:`wait`, for a lease that does not count as one of the running loop."""
        return super().wait()

    async def _run(self) -> A:
        self._waits = self._endless
        waits(self)
        try:
            return await super()._run()
        finally:
            self._waits = False

    def _keys(self) -> List[Key]:
        return self._awaited() if self._waits and self._awaited is not None else []

    def _instead(self) -> str:
        return (
            "write `with` (in a task `async with`), or take what `.wait()` (`await`) gives. They raise fairlock.Timeout or "
            "fairlock.Busy where other locks return False"
        )

    def _closing(self) -> str:
        begun = "" if self._begun else f"{self._what} has not begun, and what ran in the block did not hold the lock: "
        return f"{begun}write `with` (in a task `async with`) without contextlib.closing()"

    def __enter__(self) -> S:
        try:
            entered = self.wait()
            self._entered: Any = entered
            return entered
        except BaseException:
            self._give_up()
            raise

    async def __aenter__(self) -> A:
        try:
            entered = await self
            self._entered = entered
            await entered.__aenter__()
            return entered
        except BaseException:
            self._give_up()
            raise

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self._entered.__aexit__(kind, error, trace)


class Acquire(_Scoped[Held, AsyncHeld]):
    """An acquire: use it by ``with``, ``async with``, ``await`` or :meth:`wait`. Nothing happens before.

    ``with`` and ``wait()`` give a :class:`Held`, ``async with`` and ``await`` an :class:`AsyncHeld`.
    """

    __slots__ = ("_on_lost",)

    def __init__(
        self,
        what: str,
        begin: Callable[[], _native.Operation],
        on_lost: Optional[OnLost],
        timeout: Optional[float] = 0,
        awaited: Optional[Callable[[], List[Key]]] = None,
    ) -> None:
        super().__init__(
            what,
            begin,
            lambda guard: Held(guard, on_lost),
            lambda guard: AsyncHeld(guard, on_lost),
            timeout,
            awaited,
            AsyncHeld,
        )
        self._on_lost: Optional[OnLost] = on_lost

    def wait(self) -> Held:
        """Waits on the spot for the lock. Other threads run meanwhile. A KeyboardInterrupt ends the wait at once and
        leaves the queue.

        Raises RuntimeError if a task of this thread's event loop holds the lock: the wait would never end.
        """
        return super().wait()

    def _check(self, on_lost: str) -> None:
        check_on_lost(self._on_lost, on_lost)


class AcquireAll(_Scoped[AllHeld, AsyncAllHeld]):
    """An acquire of several locks, all or nothing: use it by ``with``, ``async with``, ``await`` or :meth:`wait`."""

    __slots__ = ()

    def __init__(
        self,
        what: str,
        begin: Callable[[], _native.Operation],
        timeout: Optional[float],
        awaited: Callable[[], List[Key]],
    ) -> None:
        super().__init__(what, begin, AllHeld, AsyncAllHeld, timeout, awaited, AsyncAllHeld)


def _places(lock: Lock) -> Optional[str]:
    """Elsewhere the number is one of places."""
    if lock.slots == 1:
        return None
    return f"write `timeout=` to wait so long. One acquire takes one place; `client.lock({lock.name!r})` takes all"


class Lock(OfOneProcess, Foreign):
    """A lock with its name and options, made by :meth:`Client.lock`, or a semaphore (:meth:`Client.semaphore`). It holds
    nothing until it is acquired, and may be kept and shared by threads, tasks and forked processes.
    """

    __slots__ = ("_name", "_slots", "_native_lock", "_client", "__weakref__")

    _block = "`with lock.acquire() as held:`, or in a task `async with lock.acquire() as held:`"
    _instead = (
        (("locked",), "write `lock.is_locked().wait()`, or in a task `await lock.is_locked()`"),
        (("owned",), "write `held.verify()`, in a task `await held.verify()`, or `lock.is_locked_by_me().wait()`"),
        (("reacquire",), "write `held.renew()`, where `held` is what acquire() has given"),
        (
            ("release",),
            "write `held.release`, where `held` is what acquire() has given: `with lock.acquire() as held:`. If `acquire()` "
            "stood alone on its line, what ran since then did not hold the lock",
        ),
        (dir(Held), "write `held.{name}`, where `held` is what acquire() has given: `with lock.acquire() as held:`"),
    )

    @made_by("fairlock.connect(url).lock(name)", FunctionType)
    def __init__(self, name: str, native_lock: Callable[[], _native.Lock], client: object) -> None:
        self._name = name
        self._slots = native_lock().slots
        # The lock of this process: after a fork another one than before.
        self._native_lock = native_lock
        self._client = client

    @property
    def name(self) -> str:
        """The lock's name."""
        return self._name

    @property
    def lease(self) -> float:
        """The length of the lease in seconds."""
        return self._native_lock().lease

    @property
    def slots(self) -> int:
        """How many may hold the lock together while a lease of it lasts, as this program says: its slots, 1 for a plain lock
        or a writer, 1000 for a reader. Those who hold it now may have said less: :attr:`LockState.slots`."""
        return self._slots

    @property
    def owner(self) -> str:
        """The owner that others see."""
        return self._native_lock().owner

    @property
    def label(self) -> str:
        """The label that others see."""
        return self._native_lock().label

    @explains(positional_to=_places)
    def acquire(
        self,
        timeout: Optional[Seconds] = None,
        *,
        label: Optional[str] = None,
        owner: Optional[str] = None,
        on_lost: Optional[OnLost] = None,
    ) -> Acquire:
        """Waits for its turn and holds the lock: ``with lock.acquire() as held:``.

        :param timeout: gives up after so many seconds (default: waits for ever). 0 is a try.
        :param label: what others see in :meth:`inspect` (default ``host:pid``).
        :param owner: for whom the acquire is made, as others see it.
        :param on_lost: what the loss of the lease does to the block. ``"cancel"`` cancels the task of an ``async with``
            block, ``"interrupt"`` interrupts the main thread in a ``with`` block as Ctrl-C does (by ``SIGURG``, thus
            also where ``SIGINT`` is ignored); both blocks then raise :exc:`LockLost`. None (default): ask
            :meth:`Held.check`, or wait for :attr:`Held.lost`.

        Raises :exc:`Timeout`, :exc:`QueueFull`, :exc:`ConnectionError` where waiting does not help, and others of
        :exc:`Error`. If the wait is interrupted or cancelled, it leaves the queue.
        """
        return self._acquire("acquire()", timeout, label, owner, on_lost)

    def _acquire(
        self,
        function: str,
        timeout: Optional[Seconds],
        label: Optional[str] = None,
        owner: Optional[str] = None,
        on_lost: Optional[OnLost] = None,
    ) -> Acquire:
        """As :meth:`acquire`, for the public method with this name."""
        how = timeout_of(timeout), text("label", label), text("owner", owner)
        return Acquire(
            f"{function} of the lock {self._name!r}",
            lambda: self._native_lock().acquire(*how),
            on_lost,
            how[0],
            lambda: [self._key()],
        )

    @explains()
    def try_acquire(
        self,
        *,
        timeout: Optional[Seconds] = None,
        label: Optional[str] = None,
        owner: Optional[str] = None,
        on_lost: Optional[OnLost] = None,
    ) -> Acquire:
        """Holds the lock if nobody waits for it, and it is free or has a free slot; raises :exc:`Busy` otherwise, with the
        holders in it.

        :param timeout: how many seconds it waits for the server's answer (default 5).
        """
        return self._try("try_acquire()", timeout, label, owner, on_lost)

    def _try(
        self,
        function: str,
        timeout: Optional[Seconds] = None,
        label: Optional[str] = None,
        owner: Optional[str] = None,
        on_lost: Optional[OnLost] = None,
    ) -> Acquire:
        """As :meth:`try_acquire`, for the public method with this name."""
        how = timeout_of(timeout), text("label", label), text("owner", owner)
        return Acquire(f"{function} of the lock {self._name!r}", lambda: self._native_lock().try_acquire(*how), on_lost)

    @explains(positional_to=_places)
    def enqueue(
        self,
        timeout: Optional[Seconds] = None,
        *,
        label: Optional[str] = None,
        owner: Optional[str] = None,
        on_lost: Optional[OnLost] = None,
    ) -> Operation[Waiting, AsyncWaiting]:
        """Takes a place in the queue and returns as soon as it has a ticket. The timeout goes on meanwhile."""
        how = timeout_of(timeout), text("label", label), text("owner", owner)
        return Operation(
            f"enqueue() of the lock {self._name!r}",
            lambda: self._native_lock().enqueue(*how),
            lambda waiting: Waiting(waiting, self._key(), on_lost, how[0] is None),
            lambda waiting: AsyncWaiting(waiting, self._key(), on_lost, how[0] is None),
            None,
            AsyncWaiting,
        )

    def _key(self) -> Key:
        return (self._native_lock().client_id, self._name, self._slots)

    def _ask(self, what: str, ask: Callable[[_native.Lock], _native.Operation]) -> Operation[Any, Any]:
        return Operation(f"{what} of the lock {self._name!r}", lambda: ask(self._native_lock()), the_same, the_same)

    def inspect(self) -> Operation[LockState, LockState]:
        """Who holds the lock and who waits for it."""
        return self._ask("inspect()", lambda lock: lock.inspect())

    def is_locked(self) -> Operation[bool, bool]:
        """Whether anybody holds the lock, also if it has a free slot. One round trip."""
        return self._ask("is_locked()", lambda lock: lock.is_locked_by_anyone())

    def is_locked_by_me(self) -> Operation[bool, bool]:
        """Whether this lock's owner, or if it has none this client, holds the lock. One round trip."""
        return self._ask("is_locked_by_me()", lambda lock: lock.is_locked_by_me())

    def break_lease(self, token: SupportsIndex, *, force: bool = False) -> Operation[Broken, Broken]:
        """Ends the lease with this token: its holder hears at once that it is lost, and has the rest of it to stop. The
        slot passes on when the holder releases it, and at the latest when the lease ends.

        :param force: ends it at once. For holders that are certainly dead.
        """
        broken = whole("token", token, range(2**64))
        return self._ask("break_lease()", lambda lock: lock.break_lease(broken, force))

    def end_recovery(self) -> Operation[bool, bool]:
        """Ends a recovery (:attr:`LockState.recovering_for`), for an operator who knows that the holders from before the
        loss of data are gone: the server no longer waits for them. False: there is no recovery."""
        return self._ask("end_recovery()", lambda lock: lock.end_recovery())

    def record_history(self, on: bool) -> Operation[None, None]:
        """Lets the server keep the latest grants of the lock, or not."""
        return Operation(
            f"record_history() of the lock {self._name!r}",
            lambda: self._native_lock().record_history(on),
            nothing,
            nothing,
        )

    def history(self, count: SupportsIndex = 100) -> Operation[History, History]:
        """The latest grants of the lock, if they are recorded."""
        most = whole("count", count)
        return self._ask("history()", lambda lock: lock.history(most))

    def trouble(self) -> Operation[Optional[str], Optional[str]]:
        """What keeps the client from the server, if anything does. No round trip."""
        return self._ask("trouble()", lambda lock: lock.trouble())

    def __repr__(self) -> str:
        return f"<Lock {self._name!r}{f', {self._slots} slots' if self._slots > 1 else ''}>"


