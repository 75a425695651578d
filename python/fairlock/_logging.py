"""Events of the library, to the logger ``fairlock``.

A thread of its own calls ``logging``: a handler that blocks, or a lock that a handler needs, holds up neither renewals
nor wake-ups.
"""

from __future__ import annotations

import logging
import threading
from typing import Optional

from . import _native

_logger = logging.getLogger("fairlock")
_thread: Optional[threading.Thread] = None
_starting = threading.Lock()


def start() -> None:
    """Begins, with the level that the logger has now."""
    global _thread
    level = _logger.getEffectiveLevel()
    _native.log_level(level if level > logging.NOTSET else logging.WARNING)
    with _starting:
        if _thread is None or not _thread.is_alive():
            _thread = threading.Thread(target=_tell, name="fairlock-logging", daemon=True)
            _thread.start()


def after_fork() -> None:
    """The thread stayed in the parent."""
    global _thread, _starting
    _thread, _starting = None, threading.Lock()


def stop() -> None:
    """Tells what is left, and ends the thread."""
    _native.no_more_logs()
    if _thread is not None and _thread.is_alive():
        _thread.join(1)


def _tell() -> None:
    while True:
        taken = _native.next_logs()
        if taken is None:
            return
        entries, left_out = taken
        for level, message, fields in entries:
            if _logger.isEnabledFor(level):
                more = ", ".join(f"{name}={value}" for name, value in fields)
                _logger.log(level, "%s", f"{message} ({more})" if more else message, extra={"fairlock": dict(fields)})
        if left_out:
            _logger.warning("%d more events were left out, because the handlers of this logger are slow", left_out)
