"""What ends with a process, or begins anew in a forked one."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from typing import Dict, Tuple

from . import _children, _green, _logging, _native
from ._operation import wait

# Rises in each forked process: what was made before belongs to the parent.
_generation = 0
# Clients of this process that are to be closed at its end.
_clients: Dict[int, weakref.ref[_Client]] = {}
# Whether a thread other than the main one has forked this process. Its end is then the return of that thread.
_is_of_a_thread = False
# Whether somebody sees to that.
_ending: Dict[str, object] = {}


class _Client:
    """A native client, and the process that it belongs to."""

    __slots__ = ("native", "generation", "__weakref__")

    def __init__(self, native: _native.Client) -> None:
        self.native = native
        self.generation = _generation


def own(native: _native.Client) -> _Client:
    """Remembers a client, to close it when the process ends."""
    client, key = _Client(native), id(native)
    _clients[key] = weakref.ref(client, lambda _: _clients.pop(key, None))
    if _is_of_a_thread:
        _end_with_the_threads()
    return client


def is_of_this_process(client: _Client) -> bool:
    """Whether no fork lies between."""
    return client.generation == _generation


def _before_fork() -> None:
    global _is_of_a_thread_next
    in_a_thread = _is_of_a_thread or threading.current_thread() is not threading.main_thread()
    # All greenlets are copied, that of the main program too.
    _is_of_a_thread_next = in_a_thread and not _green.replaces_threads()


def _after_fork() -> None:
    global _generation, _is_of_a_thread
    _generation += 1
    _is_of_a_thread = _is_of_a_thread_next
    _clients.clear()
    _ending.clear()
    _green.after_fork()
    _logging.after_fork()
    _children.at_end(_at_exit)


def _end_with_the_threads() -> None:
    """CPython does not finalize a process whose first thread is one that forked: the process ends when its last thread
    returns. The native threads of a client never do.
    """
    mine = object()
    if _ending.setdefault("thread", mine) is mine:
        main = threading.main_thread()
        threading.Thread(target=_end_after, args=(main,), name="fairlock-end", daemon=True).start()


def _end_after(main: threading.Thread) -> None:
    main.join()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    _close()
    os._exit(0)


def _at_exit() -> None:
    # From here on threads that wait do not return to an interpreter that ends.
    _native.exiting()
    try:
        _close()
    finally:
        _native.exited()


def _close() -> None:
    clients = [reference() for reference in _clients.copy().values()]
    closing: Tuple[_native.Operation, ...] = tuple(client.native.close() for client in clients if client is not None)
    for operation in closing:
        # Everything is given back. A server that does not answer delays the exit by a second.
        wait(operation)
    _logging.stop()


_is_of_a_thread_next = False
os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
atexit.register(_at_exit)
_children.at_end(_at_exit, imported=True)
