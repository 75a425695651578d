"""Leases that outlive the object that acquired them.

The classes that are replaced leave their key at the server when they are collected, and programs rely on it: a lock
that is never released marks a job that must not run again for an hour. So a lease is kept until it is released or over.
"""

from __future__ import annotations

import threading
from typing import Dict, Optional, Tuple, Union

from .._held import AsyncHeld, Held
from .._lock import Lock

_held: Dict[Tuple[str, int], Union[Held, AsyncHeld]] = {}
_mutex = threading.Lock()
_most = 64


def keep(held: Union[Held, AsyncHeld]) -> None:
    """Keeps a lease until :func:`forget`, or until it is over."""
    global _most
    with _mutex:
        _held[(held.name, held.token)] = held
        if len(_held) > _most:
            for key in [key for key, kept in _held.items() if kept.lost]:
                del _held[key]
            _most = max(64, 2 * len(_held))


def forget(held: Union[Held, AsyncHeld]) -> None:
    """It is released."""
    with _mutex:
        _held.pop((held.name, held.token), None)


def forget_all() -> None:
    """All are released by others."""
    with _mutex:
        _held.clear()


def kept_for(lock: Lock, owner: str) -> Optional[Union[Held, AsyncHeld]]:
    """The lease of this process that has the lock for this owner."""
    with _mutex:
        for held in _held.values():
            if held.name == lock.name and held.owner == owner and not held.lost:
                return held
    return None
