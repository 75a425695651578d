"""What ends with a process, or begins anew in a forked one."""

from __future__ import annotations

import atexit
import os
import weakref
from typing import Tuple

from . import _children, _logging, _native
from ._operation import wait

# Rises in each forked process: what was made before belongs to the parent.
_generation = 0
# Clients of this process that are to be closed at its end.
_clients: weakref.WeakSet[_Client] = weakref.WeakSet()


class _Client:
    """A native client, and the process that it belongs to."""

    __slots__ = ("native", "generation", "__weakref__")

    def __init__(self, native: _native.Client) -> None:
        self.native = native
        self.generation = _generation


def own(native: _native.Client) -> _Client:
    """Remembers a client, to close it when the process ends."""
    client = _Client(native)
    _clients.add(client)
    _logging.start()
    return client


def is_of_this_process(client: _Client) -> bool:
    """Whether no fork lies between."""
    return client.generation == _generation


def _after_fork() -> None:
    global _generation
    _generation += 1
    _clients.clear()
    _logging.after_fork()
    _children.at_end(_at_exit)


def _at_exit() -> None:
    # From here on threads that wait do not return to an interpreter that ends.
    _native.exiting()
    closing: Tuple[_native.Operation, ...] = tuple(client.native.close() for client in _clients)
    for operation in closing:
        # Everything is given back. A server that does not answer delays the exit by a second.
        wait(operation)
    _logging.stop()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
_children.at_end(_at_exit, imported=True)
