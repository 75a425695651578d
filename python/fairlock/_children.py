"""Children of :mod:`multiprocessing`. They end by ``os._exit``, which runs no handler of :mod:`atexit`, but what that
module was told to run."""

from __future__ import annotations

import sys
import threading
from typing import Any, Callable


class _Key:
    """The module keeps weak references to what it is told."""


_key = _Key()
_told = False


def at_end(close: Callable[[], None], imported: bool = False) -> None:
    """Lets a child of multiprocessing call this at its end. For each forked process, and when fairlock is imported."""
    global _told
    util: Any = sys.modules.get("multiprocessing.util")
    if util is None:
        return

    def end() -> None:
        # Threads that are no daemons may go on after this, and then they keep what they hold.
        if all(thread.daemon or thread is threading.current_thread() for thread in threading.enumerate()):
            close()

    def begin(key: object) -> None:
        # After what others have registered, and after this child's own children.
        util.Finalize(None, end, exitpriority=-100)

    if not _told:
        _told = True
        # A child forgets what its parent has registered, and then calls this.
        util.register_after_fork(_key, begin)
    if imported and sys.modules["multiprocessing.process"].parent_process() is not None:
        begin(_key)
