"""Threads with a running event loop, which a wait on the spot blocks: its tasks go no further meanwhile."""

from __future__ import annotations

import asyncio
import sys
import warnings
import weakref
from typing import Any, Callable, Dict, List, Optional, Tuple

#: A client, one of its locks, and how many may hold that together with this lease.
Key = Tuple[str, str, int]

_OfLoops = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, "weakref.WeakSet[Any]"]
# Leases that tasks of a loop hold. Each has `_keys()`, which is empty when it is over.
_held: _OfLoops = weakref.WeakKeyDictionary()
# What waits for leases in a loop, for as long as it takes. Likewise.
_waiting: _OfLoops = weakref.WeakKeyDictionary()


def client_of(id: str) -> str:
    """The client of an acquire."""
    return id.rpartition(".")[0]


def hold(lease: Any) -> None:
    """This lease is given back by a task of the running loop, if there is one."""
    _remember(_held, lease)


def waits(waiter: Any) -> None:
    """This waits for leases in the running loop, if there is one."""
    _remember(_waiting, waiter)


def _remember(of_loops: _OfLoops, one: Any) -> None:
    loop = asyncio._get_running_loop()
    if loop is not None:
        of_loops.setdefault(loop, weakref.WeakSet()).add(one)


def _by_lock(of_loops: _OfLoops, loop: asyncio.AbstractEventLoop) -> Dict[Tuple[str, str], List[int]]:
    """For each lock, how many may hold it together with each of these."""
    numbers: Dict[Tuple[str, str], List[int]] = {}
    for client, name, most in (key for one in list(of_loops.get(loop, ())) for key in one._keys()):
        numbers.setdefault((client, name), []).append(most)
    return numbers


def check_wait(what: str, awaited: Optional[Callable[[], List[Key]]] = None) -> None:
    """Raises RuntimeError if the wait can never end, because a task of this thread holds what it waits for; warns if it
    stops the loop for a while.
    """
    loop = asyncio._get_running_loop()
    if loop is None:
        return
    if _held.get(loop) and awaited is not None:
        held, waiting = _by_lock(_held, loop), _by_lock(_waiting, loop)
        for client, name, most in awaited():
            others = held.get((client, name), [])
            # Other holders may release it. These do not, and an acquire of this loop that waits for them lets nobody by.
            for number in [most, *waiting.get((client, name), [])]:
                if others and len(others) >= min([number, *others]):
                    raise RuntimeError(
                        f"{what} would wait for ever: a task of the running event loop holds the lock {name!r} and could "
                        "not release it, because this wait blocks the loop: use `async with` or `await`"
                    )
    if not _is_cell():
        warnings.warn(
            f"{what} blocks the running event loop: use `async with` or `await`", RuntimeWarning, stacklevel=_caller()
        )


def _is_cell() -> bool:
    """Jupyter runs the cells of a notebook in a loop, and no other task of the program is in it."""
    kernel: Any = sys.modules.get("ipykernel.kernelapp")
    return kernel is not None and bool(kernel.IPKernelApp.initialized())


def _caller() -> int:
    """The level of the first frame outside of this package, for whoever called this."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("fairlock."):
        level, frame = level + 1, frame.f_back
    return level
