"""python-redis-lock: ``from fairlock.compat.redis_lock import Lock`` instead of ``from redis_lock import Lock``.

Exclusion is among users of fairlock: a process that still uses the old class under the same name is not seen.

What differs, because fairlock's promises forbid a copy: waiters are served in the order of arrival; a lock without
``expire`` ends when its process does, and not never; a lease is never shortened, so ``extend`` prolongs it only, and only
in the process that acquired it; the end of the process releases what it holds; :func:`reset_all` resets the locks of
this process. An ``expire`` above 30 days is a :exc:`fairlock.InvalidOption`.
"""

from __future__ import annotations

import logging
import weakref
from base64 import b64encode
from os import urandom
from types import TracebackType
from typing import Any, Optional, Type, Union

from .. import _errors, _native
from .._held import Held
from .._lock import Lock as FairLock
from ._kept import forget, keep, kept_for, wait
from ._settings import client_of

_logger = logging.getLogger("redis_lock")
# The locks of this process that were used.
_used: weakref.WeakSet[Lock] = weakref.WeakSet()
# What was acquired without `expire`.
_endless: weakref.WeakSet[Held] = weakref.WeakSet()


class AlreadyAcquired(RuntimeError):
    pass


class NotAcquired(RuntimeError):
    pass


class AlreadyStarted(RuntimeError):
    pass


class TimeoutNotUsable(RuntimeError):
    pass


class InvalidTimeout(RuntimeError):
    pass


class TimeoutTooLarge(RuntimeError):
    pass


class NotExpirable(RuntimeError):
    pass


class Lock:
    """A lock with the interface of python-redis-lock's."""

    def __init__(
        self,
        redis_client: Any,
        name: str,
        expire: Union[None, int, float, str] = None,
        id: Union[None, str, bytes] = None,
        auto_renewal: bool = False,
        strict: bool = True,
        signal_expire: int = 1000,
        blocking: bool = True,
    ) -> None:
        if strict and not hasattr(redis_client, "connection_pool"):
            raise ValueError("redis_client must be a client of redis-py")
        if auto_renewal and expire is None:
            raise ValueError("Expire may not be None when auto_renewal is set")
        self._client = redis_client
        self._expire: Optional[int] = _seconds(expire) if expire else None
        self._expire = self._expire or None
        if id is None:
            self._id = b64encode(urandom(18)).decode("ascii")
        elif isinstance(id, bytes):
            try:
                self._id = id.decode("ascii")
            except UnicodeDecodeError:
                self._id = b64encode(id).decode("ascii")
        elif isinstance(id, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            self._id = id
        else:
            raise TypeError(f"Incorrect type for `id`. Must be bytes/str not {type(id)}.")
        self._name = "lock:" + name
        self._signal_expire = signal_expire
        self._auto_renewal = auto_renewal
        self.blocking = blocking
        self._made: Optional[FairLock] = None

    @property
    def _lock(self) -> FairLock:
        if self._made is None:
            renewed = self._auto_renewal or self._expire is None
            self._made = client_of(self._client).lock(self._name, lease=self._expire, manual_renewal=not renewed)
            _used.add(self)
        return self._made

    @property
    def id(self) -> str:
        """The text by which its holder is known."""
        return self._id

    @property
    def _held(self) -> bool:
        try:
            return self.id == self.get_owner_id()
        except _errors.Unavailable:
            # The acquire outlives a server that is slow, and so must this question.
            return kept_for(self._lock, self.id) is not None

    def get_owner_id(self) -> Optional[str]:
        """The id of the holder, or None. If others use the name as a semaphore: this lock's, or that of the first."""
        owners = [holder.owner for holder in self._lock.inspect().wait().holders]
        return self._id if self._id in owners else next(iter(owners), None)

    def acquire(self, blocking: bool = True, timeout: Union[None, int, str] = None) -> bool:
        """Waits for its turn; False at the end of the timeout, or if ``blocking`` is false and it is taken."""
        _logger.debug("Acquiring Lock(%r) ...", self._name)
        if self._held:
            raise AlreadyAcquired("Already acquired from this Lock instance.")
        if not blocking and timeout is not None:
            raise TimeoutNotUsable("Timeout cannot be used if blocking=False")
        after = int(timeout) if timeout else None
        if after is not None and after < 0:
            raise InvalidTimeout(f"Timeout ({after}) cannot be less than or equal to 0")
        if after and self._expire and not self._auto_renewal and after > self._expire:
            raise TimeoutTooLarge(f"Timeout ({after}) cannot be greater than expire ({self._expire})")
        lock = self._lock
        try:
            how = lock.acquire(after or None, owner=self._id) if blocking else lock.try_acquire(owner=self._id)
            held = wait(how)
            keep(held)
            if self._expire is None:
                _endless.add(held)
        except _errors.Timeout:
            return False
        except _errors.Busy:
            _logger.warning("Failed to acquire Lock(%r).", self._name)
            return False
        _logger.info("Acquired Lock(%r).", self._name)
        return True

    def _kept(self) -> Held:
        held = kept_for(self._lock, self._id)
        if not isinstance(held, Held):
            raise NotAcquired(f"Lock {self._name} is not acquired or it already expired.")
        return held

    def extend(self, expire: Union[None, int, float, str] = None) -> None:
        """Lets the lease last so many seconds from now at least (default: ``expire`` of the lock)."""
        seconds = (_seconds(expire) if expire else None) or self._expire
        if seconds is None:
            raise TypeError(
                "To extend a lock 'expire' must be provided as an argument to extend() method or at initialization time."
            )
        held = self._kept()
        if held in _endless:
            raise NotExpirable(f"Lock {self._name} has no assigned expiration time")
        try:
            held.extend(max(seconds - held.remaining, 0))
        except _errors.LockLost as lost:
            raise NotAcquired(f"Lock {self._name} is not acquired or it already expired.") from lost

    def release(self) -> None:
        """Releases the lock, also if another instance of this process with the same id acquired it."""
        _logger.debug("Releasing Lock(%r).", self._name)
        if _native.exits():
            return  # It was released with all others.
        held = self._kept()
        forget(held)
        try:
            held.release()
        except _errors.LockLost as lost:
            raise NotAcquired(f"Lock({self._name}) is not acquired or it already expired.") from lost

    def reset(self) -> None:
        """Ends whatever leases there are, at once. Use this with care."""
        for holder in self._lock.inspect().wait().holders:
            self._lock.break_lease(holder.token, force=True).wait()

    def locked(self) -> bool:
        """Whether anybody holds the lock."""
        return self._lock.is_locked().wait()

    def __enter__(self) -> Lock:
        if not self.acquire(blocking=self.blocking):
            if self.blocking:
                raise AssertionError(f"Lock({self._name}) wasn't acquired, but blocking=True was used!")
            raise NotAcquired(f"Lock({self._name}) is not acquired or it already expired.")
        return self

    def __exit__(
        self,
        exc_type: Optional[Type[BaseException]] = None,
        exc_value: Optional[BaseException] = None,
        traceback: Optional[TracebackType] = None,
    ) -> None:
        self.release()


def _seconds(expire: Union[int, float, str]) -> int:
    seconds = int(expire)
    if seconds < 0:
        raise ValueError("A negative expire is not acceptable.")
    return seconds


def reset_all(redis_client: Any) -> None:
    """Ends the leases of all locks for which this process has an object, at this server. Use this with care."""
    client = client_of(redis_client)
    for lock in list(_used):
        if client_of(lock._client) is client:
            lock.reset()
