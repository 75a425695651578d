"""redis-py's ``Lock``, in both worlds: ``redis.Redis().lock("name", lock_class=fairlock.compat.Lock)``.

Exclusion is among users of fairlock: a process that still uses redis-py's own class under the same name is not seen.

What differs, because fairlock's promises forbid a copy: waiters are served in the order of arrival, ``sleep`` has no
meaning; a lock without ``timeout`` ends when its process does, and not never; a lease is never shortened, so
``extend(…, replace_ttl=True)`` prolongs it only, and a negative time is refused; the end of the process releases what it
holds; no key has the lock's name, so none can be read, and deleting it frees nothing; there are no scripts to replace and
no ``do_…`` methods to override. ``LockError`` also refuses what fairlock cannot do: a ``timeout`` below 50 ms or above 30
days, and a name of more than 512 bytes, that begins with ``}``, or that is not UTF-8.
"""

from __future__ import annotations

import inspect
import logging
import threading
import uuid
from types import SimpleNamespace, TracebackType
from typing import Any, Literal, NoReturn, Optional, Type, Union

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import LockError, LockNotOwnedError

from .. import _errors
from .._held import AsyncHeld, Held
from .._lock import Acquire
from .._lock import Lock as FairLock
from ._kept import forget, keep, wait
from ._settings import client_of, text_of

_logger = logging.getLogger(__name__)
Number = Union[int, float]

#: What redis-py's class has and a subclass may override. Nothing uses it here.
_HOOKS = (
    "do_acquire", "do_release", "do_extend", "do_reacquire", "register_scripts",
    "LUA_RELEASE_SCRIPT", "LUA_EXTEND_SCRIPT", "LUA_REACQUIRE_SCRIPT",
)  # fmt: skip
_SCRIPTS = ("lua_release", "lua_extend", "lua_reacquire")


class _Script:
    """A script of redis-py's class. Some programs replace it to change what the lock does."""

    def __set_name__(self, owner: Type[Any], name: str) -> None:
        self._why = (
            f"fairlock has no script {name} to read or to replace: its locks are other keys and other scripts. A program "
            "that needs it must keep redis-py's class"
        )

    def __get__(self, lock: Any, owner: Type[Any]) -> NoReturn:
        raise AttributeError(self._why)

    def __set__(self, lock: Any, script: Any) -> NoReturn:
        raise AttributeError(self._why)


class _Base:
    """What both worlds share: everything that does not wait."""

    lua_release = _Script()
    lua_extend = _Script()
    lua_reacquire = _Script()

    def __init__(
        self,
        redis: Any,
        name: Union[str, bytes],
        timeout: Optional[Number] = None,
        sleep: Number = 0.1,
        blocking: bool = True,
        blocking_timeout: Optional[Number] = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        self.redis = redis
        self.name = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        #: ``token`` is the text by which the holder is known; None if this lock is not held.
        self.local: Any = threading.local() if self.thread_local else SimpleNamespace()
        self.local.token = None
        self._made: Optional[FairLock] = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        overridden = [name for name in _HOOKS if hasattr(cls, name)]
        overridden += [name for name in _SCRIPTS if not isinstance(inspect.getattr_static(cls, name), _Script)]
        if overridden:
            raise TypeError(
                f"{cls.__qualname__} has {', '.join(overridden)}, but fairlock calls no such method and sends no such "
                "script: override acquire, release, extend and reacquire, or keep redis-py's class"
            )

    @property
    def _lock(self) -> FairLock:
        if self._made is None:
            # 0 is no timeout, too.
            renewed = not self.timeout
            lease = None if renewed else self.timeout
            self._made = client_of(self.redis).lock(text_of(self.name), lease=lease, manual_renewal=not renewed)
        return self._made

    def _acquire(
        self, blocking: Optional[bool], blocking_timeout: Optional[Number], token: Any
    ) -> tuple[Acquire, bytes]:
        text = uuid.uuid1().hex if token is None else text_of(token)
        blocking = self.blocking if blocking is None else blocking
        after = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if blocking:
            # A time that is over is one try.
            return self._lock.acquire(None if after is None else max(after, 0), owner=text), text.encode()
        return self._lock.try_acquire(owner=text), text.encode()

    def _keep(self, held: Union[Held, AsyncHeld], token: bytes) -> Literal[True]:
        keep(held)
        self.local.token, self.local.held = token, held
        return True

    def _held(self, to_do: str) -> Any:
        if getattr(self.local, "token", None) is None:
            raise self._error(f"Cannot {to_do} an unlocked lock")
        if to_do != "release" and self.timeout is None:
            raise self._error(f"Cannot {to_do} a lock with no timeout")
        return self.local.held

    def _take(self) -> Any:
        held = self._held("release")
        self.local.token = self.local.held = None
        forget(held)
        return held

    def _error(self, message: str, kind: Type[LockError] = LockError) -> LockError:
        return kind(message, lock_name=self.name if isinstance(self.name, str) else self.name.decode(errors="replace"))

    def _not_acquired(self) -> LockError:
        return self._error("Unable to acquire lock within the time specified")

    def _missing(self, additional_time: Number, replace_ttl: bool) -> Number:
        """What is to be added to the lease."""
        return max(additional_time - self.local.held.remaining, 0) if replace_ttl else additional_time

    def _exit_error(self, error: LockError) -> None:
        if self.raise_on_release_error:
            raise error
        _logger.warning("Lock was unlocked or no longer owned when exiting context manager.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class _ErrorsAsTheirs:
    """A block whose errors of fairlock are raised as redis-py's users expect them."""

    def __init__(self, lock: _Base, to_do: str) -> None:
        self._lock = lock
        self._to_do = to_do

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if isinstance(error, _errors.LockLost):
            message = f"Cannot {self._to_do} a lock that's no longer owned"
            raise self._lock._error(message, LockNotOwnedError) from error
        if isinstance(error, _errors.ConnectionError):
            raise RedisConnectionError(str(error)) from error
        if isinstance(error, _errors.Error):
            raise self._lock._error(str(error)) from error


class Lock(_Base):
    """A lock for threads. With a client of ``redis.asyncio`` it makes an :class:`AsyncLock`."""

    def __new__(cls, redis: Any, *args: Any, **kwargs: Any) -> Any:
        if cls is Lock and any(base.__module__.startswith("redis.asyncio") for base in type(redis).__mro__):
            return AsyncLock(redis, *args, **kwargs)
        return super().__new__(cls)

    def acquire(
        self,
        sleep: Optional[Number] = None,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[Number] = None,
        token: Optional[Union[str, bytes]] = None,
    ) -> bool:
        """Waits for its turn; False at the end of ``blocking_timeout``, or if ``blocking`` is false and it is taken."""
        with _ErrorsAsTheirs(self, "acquire"):
            try:
                acquire, token = self._acquire(blocking, blocking_timeout, token)
                return self._keep(wait(acquire), token)
            except (_errors.Timeout, _errors.Busy):
                return False

    def locked(self) -> bool:
        """Whether anybody holds the lock."""
        with _ErrorsAsTheirs(self, "ask about"):
            return self._lock.is_locked().wait()

    def owned(self) -> bool:
        """Whether this lock is held by this object (and thread, if ``thread_local``)."""
        if getattr(self.local, "token", None) is None:
            return False
        try:
            with _ErrorsAsTheirs(self, "ask about"):
                return bool(self.local.held.verify())
        except LockNotOwnedError:
            return False

    def release(self) -> None:
        """Releases the lock. Raises ``LockError`` if it is not held, ``LockNotOwnedError`` if its lease had ended."""
        held = self._take()
        with _ErrorsAsTheirs(self, "release"):
            held.release()

    def extend(self, additional_time: Number, replace_ttl: bool = False) -> Literal[True]:
        """Adds so many seconds to the lease; with ``replace_ttl`` it lasts so many seconds from now at least."""
        held = self._held("extend")
        with _ErrorsAsTheirs(self, "extend"):
            held.extend(self._missing(additional_time, replace_ttl))
        return True

    def reacquire(self) -> Literal[True]:
        """Prolongs the lease to its full length."""
        held = self._held("reacquire")
        with _ErrorsAsTheirs(self, "reacquire"):
            held.renew()
        return True

    def __enter__(self) -> Lock:
        if self.acquire():
            return self
        raise self._not_acquired()

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            self.release()
        except LockError as failure:
            self._exit_error(failure)


class AsyncLock(_Base):
    """A lock for tasks of asyncio, as ``redis.asyncio.lock.Lock``."""

    async def acquire(
        self,
        sleep: Optional[Number] = None,
        blocking: Optional[bool] = None,
        blocking_timeout: Optional[Number] = None,
        token: Optional[Union[str, bytes]] = None,
    ) -> bool:
        """As :meth:`Lock.acquire`."""
        with _ErrorsAsTheirs(self, "acquire"):
            try:
                acquire, token = self._acquire(blocking, blocking_timeout, token)
                return self._keep(await acquire, token)
            except (_errors.Timeout, _errors.Busy):
                return False

    async def locked(self) -> bool:
        """As :meth:`Lock.locked`."""
        with _ErrorsAsTheirs(self, "ask about"):
            return await self._lock.is_locked()

    async def owned(self) -> bool:
        """As :meth:`Lock.owned`."""
        if getattr(self.local, "token", None) is None:
            return False
        try:
            with _ErrorsAsTheirs(self, "ask about"):
                return bool(await self.local.held.verify())
        except LockNotOwnedError:
            return False

    async def release(self) -> None:
        """As :meth:`Lock.release`."""
        held = self._take()
        with _ErrorsAsTheirs(self, "release"):
            await held.release()

    async def extend(self, additional_time: Number, replace_ttl: bool = False) -> Literal[True]:
        """As :meth:`Lock.extend`."""
        held = self._held("extend")
        with _ErrorsAsTheirs(self, "extend"):
            await held.extend(self._missing(additional_time, replace_ttl))
        return True

    async def reacquire(self) -> Literal[True]:
        """As :meth:`Lock.reacquire`."""
        held = self._held("reacquire")
        with _ErrorsAsTheirs(self, "reacquire"):
            await held.renew()
        return True

    async def __aenter__(self) -> AsyncLock:
        if await self.acquire():
            return self
        raise self._not_acquired()

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        try:
            await self.release()
        except LockError as failure:
            self._exit_error(failure)
