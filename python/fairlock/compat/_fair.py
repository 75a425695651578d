"""``RedisFairLock`` and ``ClusterLock``. Exclusion is among users of fairlock: a process that still uses the old class
under the same key is not seen."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Any, Dict, Optional, Type

from .. import _errors
from .._held import Held
from .._lock import Lock as FairLock
from .._values import Seconds
from ._kept import forget, keep, kept_for, wait
from ._settings import client_of, text_of

_logger = logging.getLogger(__name__)


class RedisFairLock:
    """A fair lock with a ``with`` block.

    Waiters are woken by a message, so ``retry_interval`` has no meaning. A waiter that lives is never cleaned up, so the
    timeout of one decides nothing about others. Two threads that share an object hold the lock one after the other.

    :param expire: the lease in seconds.
    :param timeout: how many seconds an acquire waits (default: for ever). 0 is a try.
    :param auto_renewal: whether the client's own thread renews the lease. If that fails, the lock counts as lost.
    """

    #: Seconds after its liveness at which a dead waiter is passed over.
    CLEANUP_BUFFER = 2

    def __init__(
        self,
        key: Any,
        redis_client: Any,
        expire: Seconds = 30,
        retry_interval: float = 0.1,
        timeout: Optional[Seconds] = None,
        auto_renewal: bool = True,
    ) -> None:
        self.key = key
        self.expire = expire
        self.retry_interval = retry_interval
        self.timeout = timeout
        self.auto_renewal = auto_renewal
        self._lock: FairLock = client_of(redis_client).lock(
            text_of(key), lease=expire, manual_renewal=not auto_renewal, buffer=self.CLEANUP_BUFFER
        )
        # By thread: what one thread acquires, another one that shares the object does not hold.
        self._held: Dict[int, Held] = {}

    def acquire(self) -> bool:
        """Waits for its turn. False at the timeout; it has left the queue then."""
        try:
            held = wait(self._lock.acquire(self.timeout))
        except _errors.Timeout:
            return False
        keep(held)
        self._held[threading.get_ident()] = held
        return True

    def release(self) -> None:
        """Releases the lock of this thread, or if it has none that of another one. It waits for no renewal. Nothing if
        it is not held."""
        held = None
        for thread in (threading.get_ident(), *self._held.copy()):
            held = held or self._held.pop(thread, None)
        if held is None:
            return
        forget(held)
        try:
            held.release()
        except _errors.LockLost as lost:
            _logger.warning("%s", lost)

    def __enter__(self) -> RedisFairLock:
        if not self.acquire():
            raise _errors.Timeout(
                f"the lock {self.key!r} was not acquired within {self.timeout} s", waited=self.timeout, position=None,
                position_age=None, cause=None,
            )  # fmt: skip
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.release()


class ClusterLock:
    """A lock with an owner that the caller chooses. No method raises; nothing is asked before the first call.

    The lease is ``timeout`` seconds and is renewed by :meth:`refresh` only. No other's lock is ever deleted.
    """

    def __init__(self, redis: Any, key: Any, owner_id: str, timeout: int) -> None:
        self.redis = redis
        self.key = key
        self.owner_id = owner_id
        self.timeout = timeout
        #: 0 lets the next refresh write.
        self._last_refresh: float = 1
        self._made: Optional[FairLock] = None

    @property
    def _lock(self) -> FairLock:
        if self._made is None:
            self._made = client_of(self.redis).lock(
                text_of(self.key), lease=self.timeout, manual_renewal=True, owner=self.owner_id
            )
        return self._made

    def try_acquire(self) -> Optional[str]:
        """The id of the owner: this one, if it is granted or was held by it already; another's; or None on any error."""
        try:
            held = wait(self._lock.try_acquire())
            keep(held)
            return self.owner_id
        except _errors.Busy as busy:
            # Others may use the name as a semaphore.
            holders = busy.holders if busy.held <= len(busy.holders) else self._lock.inspect().wait().holders
            owners = [holder.owner for holder in holders]
            return self.owner_id if self.owner_id in owners else next(iter(owners), None)
        except Exception as error:
            _logger.warning("%s", error)
            return None

    def refresh(self) -> bool:
        """Whether the lock is held. Asks the server each time, and renews the lease at most once every
        ``max(timeout // 10, 1)`` seconds. False also on errors."""
        try:
            held = kept_for(self._lock, self.owner_id)
            if not isinstance(held, Held):
                # Another process of the same owner may have it; only that one can renew it.
                return self._lock.is_locked_by_me().wait()
            if self._last_refresh == 0:
                self._last_refresh = 1
                held.renew()
            else:
                held.refresh()
            return True
        except Exception as error:
            if not isinstance(error, _errors.LockLost):
                _logger.warning("%s", error)
            return False

    def release(self) -> None:
        """Releases the lock, if this process holds it for this owner."""
        try:
            held = kept_for(self._lock, self.owner_id)
            if isinstance(held, Held):
                forget(held)
                held.release()
        except Exception as error:
            _logger.warning("%s", error)
