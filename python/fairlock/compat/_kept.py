"""Leases that outlive the object that acquired them.

The classes that are replaced leave their key at the server when they are collected, and programs rely on it: a lock
that is never released marks a job that must not run again for an hour. So a lease is kept until it is released or over.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple, Union

from .._held import AsyncHeld, Held
from .._lock import Acquire, Lock

# Without a mutex: a handler of a signal, or the collector, may come here while this thread does. Each change is one
# operation of the dict, and what goes through all goes through a copy.
_held: Dict[Tuple[str, int], Union[Held, AsyncHeld]] = {}
_most = 64


def wait(acquire: Acquire) -> Held:
    """Waits on the spot. In a coroutine such a lease does not count as one of its loop's: where a program acquires twice, with
    a timeout, the classes that are replaced return False in the end.
    """
    return acquire._granted()


def keep(held: Union[Held, AsyncHeld]) -> None:
    """Keeps a lease until :func:`forget`, or until it is over."""
    global _most
    _held[(held.name, held.token)] = held
    if len(_held) > _most:
        for key, kept in _held.copy().items():
            if kept.lost:
                _held.pop(key, None)
        _most = max(64, 2 * len(_held))


def forget(held: Union[Held, AsyncHeld]) -> None:
    """It is released."""
    _held.pop((held.name, held.token), None)


def take_all() -> List[Union[Held, AsyncHeld]]:
    """All, for whoever releases them."""
    taken = (_held.pop(key, None) for key in _held.copy())
    return [held for held in taken if held is not None]


def kept_for(lock: Lock, owner: str) -> Optional[Union[Held, AsyncHeld]]:
    """The lease of this process that has the lock for this owner."""
    for held in _held.copy().values():
        if held.name == lock.name and held.owner == owner and not held.lost:
            return held
    return None
