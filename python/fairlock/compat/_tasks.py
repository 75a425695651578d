"""``AsyncRedisKeyedMutex`` and ``DistributedLock``, for asyncio. Exclusion is among users of fairlock: a process that
still uses the old class under the same key is not seen."""

from __future__ import annotations

import functools
import os
import uuid
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, AsyncGenerator, Awaitable, Callable, Dict, Optional, Type, TypeVar

from .. import _errors
from .._client import Client
from .._decorator import default_name
from .._held import AsyncHeld
from .._lock import Lock as FairLock
from ._kept import forget, keep
from ._settings import client_of
from .redis_py import AsyncLock

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])


class AsyncRedisKeyedMutex:
    """A lock for each key. A key is anything that has a text; it needs memory only while it is held.

    :param timeout: seconds after which a lock ends by itself; None renews it while it is held.
    """

    def __init__(self, redis: Any, timeout: Optional[float] = 60) -> None:
        self.redis = redis
        self.timeout = timeout
        self._locks: Dict[str, AsyncLock] = {}

    @asynccontextmanager
    async def locked(self, key: object) -> AsyncGenerator[AsyncLock, None]:
        """Holds the key for an ``async with`` block."""
        lock = await self._acquired(key)
        try:
            yield lock
        finally:
            await self._release(lock)

    async def acquire(self, key: object) -> AsyncLock:
        """Waits for the key, and keeps it until :meth:`release`. The lock has ``locked``, ``owned`` and ``release``."""
        lock = await self._acquired(key)
        # One of an earlier lease that has ended gives way.
        self._locks[str(key)] = lock
        return lock

    async def release(self, key: object) -> None:
        """Releases the key. Nothing if it is not held."""
        lock = self._locks.pop(str(key), None)
        if lock is not None:
            await self._release(lock)

    async def release_all_locks(self) -> None:
        """Releases all keys that :meth:`acquire` has acquired, and goes on."""
        while self._locks:
            await self._release(self._locks.popitem()[1])

    async def _acquired(self, key: object) -> AsyncLock:
        text = str(key).replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
        lock = AsyncLock(self.redis, text, timeout=self.timeout, thread_local=False)
        await lock.acquire()
        return lock

    @staticmethod
    async def _release(lock: AsyncLock) -> None:
        if lock.local.token is not None:
            held: AsyncHeld = lock.local.held
            lock.local.token = lock.local.held = None
            forget(held)
            try:
                await held.release()
            except _errors.LockLost:
                pass


class DistributedLock:
    """A lock with a number of retries.

    The retries are a place in the queue for ``retry_times × retry_delay`` seconds. With ``auto_renewal`` the client's
    own thread renews the lease. A lease is never shortened: ``extend`` prolongs it only.
    """

    def __init__(
        self,
        redis: Any,
        lock_name: str,
        timeout: float = 30,
        retry_times: int = 0,
        retry_delay: float = 0.1,
        auto_renewal: bool = False,
        renewal_interval: Optional[float] = None,
    ) -> None:
        self.redis = redis
        self.lock_name = f"distributed_lock:{lock_name}"
        self.identifier = str(uuid.uuid4())
        self.timeout = timeout
        self.retry_times = retry_times
        self.retry_delay = retry_delay
        self.auto_renewal = auto_renewal
        self.renewal_interval = renewal_interval or max(1, timeout // 3)
        self._held: Optional[AsyncHeld] = None
        self._made: Optional[FairLock] = None

    @property
    def _lock(self) -> FairLock:
        if self._made is None:
            # An interval that is too long for the lease would lose it: then the usual third is better.
            every = self.renewal_interval if self.renewal_interval <= self.timeout * 0.8 else None
            self._made = client_of(self.redis).lock(
                self.lock_name,
                lease=self.timeout,
                manual_renewal=not self.auto_renewal,
                renew_every=every if self.auto_renewal else None,
                owner=self.identifier,
            )
        return self._made

    async def acquire(self, blocking: bool = True) -> bool:
        """Whether it is acquired: after ``retry_times × retry_delay`` seconds at most, or at once."""
        try:
            if blocking and self.retry_times > 0:
                held = await self._lock.acquire(self.retry_times * self.retry_delay)
            else:
                held = await self._lock.try_acquire()
        except (_errors.Busy, _errors.Timeout):
            return False
        keep(held)
        self._held = held
        return True

    async def release(self) -> bool:
        """Releases the lock; False if it is not held."""
        held, self._held = self._held, None
        if held is None:
            return False
        forget(held)
        try:
            await held.release()
        except _errors.LockLost:
            return False
        return True

    async def extend(self, additional_time: Optional[float] = None) -> bool:
        """Lets the lease last ``additional_time or timeout`` seconds from now at least; False if it is not held."""
        if self._held is None:
            return False
        try:
            await self._held.extend(max((additional_time or self.timeout) - self._held.remaining, 0))
        except _errors.LockLost:
            return False
        return True

    async def is_locked_by_me(self) -> bool:
        """Whether the server says that this object holds the lock."""
        if self._held is None:
            return False
        try:
            return await self._held.verify()
        except _errors.LockLost:
            return False

    async def is_locked_by_anyone(self) -> bool:
        """Whether anybody holds the lock."""
        return await self._lock.is_locked()

    async def __aenter__(self) -> DistributedLock:
        if not await self.acquire():
            raise RuntimeError(f"Failed to acquire lock: {self.lock_name}")
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.release()


_default: Any = None


def set_default_redis(redis: Any) -> None:
    """The client that :func:`distributed_lock` and :func:`distributed_lock_decorator` use where none is given."""
    global _default
    _default = redis


def _default_redis() -> Any:
    global _default
    if _default is None:
        _default = Client(os.environ.get("REDIS_URL") or None)
    return _default


@asynccontextmanager
async def distributed_lock(
    lock_name: str,
    timeout: float = 30,
    retry_times: int = 3,
    retry_delay: float = 0.1,
    auto_renewal: bool = False,
    redis: Any = None,
) -> AsyncGenerator[DistributedLock, None]:
    """Holds a :class:`DistributedLock` for an ``async with`` block."""
    client = _default_redis() if redis is None else redis
    async with DistributedLock(client, lock_name, timeout, retry_times, retry_delay, auto_renewal) as lock:
        yield lock


def distributed_lock_decorator(
    lock_name: Optional[str] = None,
    timeout: float = 30,
    retry_times: int = 3,
    retry_delay: float = 0.1,
    auto_renewal: bool = False,
) -> Callable[[F], F]:
    """Decorates a coroutine function: each call holds a :class:`DistributedLock` (default name: ``module.function``; in a
    program, which is the module ``__main__``, a name is needed)."""

    def decorate(function: F) -> F:
        name = lock_name or default_name(function, function.__name__)

        @functools.wraps(function)
        async def hold(*args: Any, **kwargs: Any) -> Any:
            async with distributed_lock(name, timeout, retry_times, retry_delay, auto_renewal):
                return await function(*args, **kwargs)

        result: Any = hold
        return result  # type: ignore[no-any-return]

    return decorate
