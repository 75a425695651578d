"""A lock for each key."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

from ._held import AsyncHeld, Held
from ._hints import explains
from ._lock import Acquire, Lock
from ._options import AcquireOptions, Unpack, own_text
from ._values import OfOneProcess


class KeyedMutex(OfOneProcess):
    """A lock for each key of a space, made by :meth:`Client.keyed_mutex`. A key is anything that has a text.

    ``with mutex.locked(key) as held:`` holds it for a block (``async with`` likewise). :meth:`acquire` and
    :meth:`release`, or :meth:`aacquire` and :meth:`arelease`, hold it from anywhere in the process. A key needs memory
    only while it is held.
    """

    def __init__(self, space: str, timeout: Optional[float], lock: Callable[[str], Lock]) -> None:
        # Its end must be the first colon: key `1:2` of `user` is not key `2` of `user:1`.
        self._space = space.replace("%", "%25").replace(":", "%3A")
        self._timeout = timeout
        self._lock = lock
        self._held: Dict[str, Any] = {}
        lock(self._space)  # refuses what cannot work

    def lock(self, key: object) -> Lock:
        """The lock of this key, ``SPACE:KEY``. No two keys share a name: in the key braces and percent signs are written as
        in URLs, in the space colons and percent signs.
        """
        text = key if isinstance(key, str) else own_text(f"a key of {self._space!r}", key, str(key), "`key.id`")
        text = text.replace("%", "%25").replace("{", "%7B").replace("}", "%7D")
        return self._lock(f"{self._space}:{text}")

    @explains(AcquireOptions)
    def locked(self, key: object, **how: Unpack[AcquireOptions]) -> Acquire:
        """Holds the key for a ``with`` or ``async with`` block. Other arguments are those of :meth:`Lock.acquire`."""
        how.setdefault("timeout", self._timeout)
        return self.lock(key)._acquire("locked()", **how)

    def acquire(self, key: object) -> Held:
        """Waits on the spot for the key, and keeps it until :meth:`release`."""
        held = self.locked(key).wait()
        self._keep(held)
        return held

    async def aacquire(self, key: object) -> AsyncHeld:
        """As :meth:`acquire`, for tasks of asyncio."""
        held = await self.locked(key)
        self._keep(held)
        return held

    def release(self, key: object) -> bool:
        """Releases the key, whatever thread or task of this process acquired it; False if none has."""
        held, of_task = self._take(key)
        if held is None:
            return False
        if of_task:
            raise TypeError(f"the key {key!r} was acquired by a task: await arelease()")
        held.release()
        return True

    async def arelease(self, key: object) -> bool:
        """As :meth:`release`, for what :meth:`aacquire` acquired."""
        held, of_task = self._take(key)
        if held is None:
            return False
        if of_task:
            await held.release()
        else:
            held.release()
        return True

    # A handler of a signal, or the collector, may do the same in the middle of this, on this thread. So there is no
    # mutex: each is one operation of a dict.

    def _keep(self, held: Any) -> None:
        # One of an earlier lease that was lost gives way.
        self._held[held.name] = held

    def _take(self, key: object) -> Tuple[Any, bool]:
        held = self._held.pop(self.lock(key).name, None)
        return held, isinstance(held, AsyncHeld)

    def __repr__(self) -> str:
        return f"<KeyedMutex {self._space!r}, {len(self._held)} held>"
