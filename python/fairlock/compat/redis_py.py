"""redis-py's ``Lock``, in both worlds: ``redis.Redis().lock("name", lock_class=fairlock.compat.Lock)``.

Exclusion is among users of fairlock: a process that still uses redis-py's own class under the same name is not seen.

What differs, because fairlock's promises forbid a copy: waiters are served in the order of arrival, ``sleep`` has no
meaning; a lock without ``timeout`` ends when its process does, and not never; a lease is never shortened, so
``extend(…, replace_ttl=True)`` prolongs it only; the end of the process releases what it holds; no key has the lock's
name.
"""

from __future__ import annotations

import logging
import threading
import uuid
from types import SimpleNamespace, TracebackType
from typing import Any, Literal, Optional, Type, Union

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import LockError, LockNotOwnedError

from .. import _errors
from .._held import AsyncHeld, Held
from .._lock import Acquire
from .._lock import Lock as FairLock
from ._kept import forget, keep
from ._settings import client_of, text_of

_logger = logging.getLogger(__name__)
Number = Union[int, float]


def _as_theirs(error: _errors.Error, name: Union[str, bytes]) -> Exception:
    """An error of fairlock as redis-py's users expect it."""
    if isinstance(error, _errors.ConnectionError):
        return RedisConnectionError(str(error))
    return LockError(str(error), lock_name=text_of(name))


class _Base:
    """What both worlds share: everything that does not wait."""

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

    @property
    def _lock(self) -> FairLock:
        if self._made is None:
            renewed = self.timeout is None
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
            return self._lock.acquire(after, owner=text), text.encode()
        return self._lock.try_acquire(owner=text), text.encode()

    def _keep(self, held: Union[Held, AsyncHeld], token: bytes) -> Literal[True]:
        keep(held)
        self.local.token, self.local.held = token, held
        return True

    def _held(self, to_do: str) -> Any:
        if getattr(self.local, "token", None) is None:
            raise LockError(f"Cannot {to_do} an unlocked lock", lock_name=text_of(self.name))
        if to_do != "release" and self.timeout is None:
            raise LockError(f"Cannot {to_do} a lock with no timeout", lock_name=text_of(self.name))
        return self.local.held

    def _take(self) -> Any:
        held = self._held("release")
        self.local.token = self.local.held = None
        forget(held)
        return held

    def _not_owned(self, to_do: str) -> LockNotOwnedError:
        return LockNotOwnedError(f"Cannot {to_do} a lock that's no longer owned", lock_name=text_of(self.name))

    def _not_acquired(self) -> LockError:
        return LockError("Unable to acquire lock within the time specified", lock_name=text_of(self.name))

    def _missing(self, additional_time: Number, replace_ttl: bool) -> Number:
        """What is to be added to the lease."""
        return max(additional_time - self.local.held.remaining, 0) if replace_ttl else additional_time

    def _exit_error(self, error: LockError) -> None:
        if self.raise_on_release_error:
            raise error
        _logger.warning("Lock was unlocked or no longer owned when exiting context manager.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


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
        try:
            acquire, token = self._acquire(blocking, blocking_timeout, token)
            return self._keep(acquire.wait(), token)
        except (_errors.Timeout, _errors.Busy):
            return False
        except _errors.Error as error:
            raise _as_theirs(error, self.name) from error

    def locked(self) -> bool:
        """Whether anybody holds the lock."""
        return self._lock.is_locked().wait()

    def owned(self) -> bool:
        """Whether this lock is held by this object (and thread, if ``thread_local``)."""
        if getattr(self.local, "token", None) is None:
            return False
        try:
            return bool(self.local.held.verify())
        except _errors.LockLost:
            return False

    def release(self) -> None:
        """Releases the lock. Raises ``LockError`` if it is not held, ``LockNotOwnedError`` if its lease had ended."""
        held = self._take()
        try:
            held.release()
        except _errors.LockLost as lost:
            raise self._not_owned("release") from lost
        except _errors.Error as error:
            raise _as_theirs(error, self.name) from error

    def extend(self, additional_time: Number, replace_ttl: bool = False) -> Literal[True]:
        """Adds so many seconds to the lease; with ``replace_ttl`` it lasts so many seconds from now at least."""
        held = self._held("extend")
        try:
            held.extend(self._missing(additional_time, replace_ttl))
        except _errors.LockLost as lost:
            raise self._not_owned("extend") from lost
        except _errors.Error as error:
            raise _as_theirs(error, self.name) from error
        return True

    def reacquire(self) -> Literal[True]:
        """Prolongs the lease to its full length."""
        held = self._held("reacquire")
        try:
            held.renew()
        except _errors.LockLost as lost:
            raise self._not_owned("reacquire") from lost
        except _errors.Error as error:
            raise _as_theirs(error, self.name) from error
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
        try:
            acquire, token = self._acquire(blocking, blocking_timeout, token)
            return self._keep(await acquire, token)
        except (_errors.Timeout, _errors.Busy):
            return False
        except _errors.Error as error:
            raise _as_theirs(error, self.name) from error

    async def locked(self) -> bool:
        """As :meth:`Lock.locked`."""
        return await self._lock.is_locked()

    async def owned(self) -> bool:
        """As :meth:`Lock.owned`."""
        if getattr(self.local, "token", None) is None:
            return False
        try:
            return bool(await self.local.held.verify())
        except _errors.LockLost:
            return False

    async def release(self) -> None:
        """As :meth:`Lock.release`."""
        held = self._take()
        try:
            await held.release()
        except _errors.LockLost as lost:
            raise self._not_owned("release") from lost
        except _errors.Error as error:
            raise _as_theirs(error, self.name) from error

    async def extend(self, additional_time: Number, replace_ttl: bool = False) -> Literal[True]:
        """As :meth:`Lock.extend`."""
        held = self._held("extend")
        try:
            await held.extend(self._missing(additional_time, replace_ttl))
        except _errors.LockLost as lost:
            raise self._not_owned("extend") from lost
        except _errors.Error as error:
            raise _as_theirs(error, self.name) from error
        return True

    async def reacquire(self) -> Literal[True]:
        """As :meth:`Lock.reacquire`."""
        held = self._held("reacquire")
        try:
            await held.renew()
        except _errors.LockLost as lost:
            raise self._not_owned("reacquire") from lost
        except _errors.Error as error:
            raise _as_theirs(error, self.name) from error
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
