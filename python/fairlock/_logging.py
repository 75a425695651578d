"""Events of the library, to the logger ``fairlock``.

A thread of its own calls ``logging``: a handler that blocks, or a lock that a handler needs, holds up neither renewals
nor wake-ups. Under gevent it is a greenlet.
"""

from __future__ import annotations

import logging
import threading
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

from . import _green, _native

T = TypeVar("T")
_Entries = Tuple[List[Tuple[int, str, List[Tuple[str, str]]]], int]
_logger = logging.getLogger("fairlock")
_level = -1
# Who tells events in this process: nobody, or somebody, or an object while it is being started. (A mutex would stop a
# signal handler that makes the same call meanwhile.)
_tellers: Dict[str, Any] = {}
_NAME = "fairlock-logging"


def listen() -> None:
    """From now on events are told, from the level on that the logger has now. Called with each operation, also with those
    of objects that are collected when the interpreter ends: a thread that is started then never runs, and up to CPython
    3.11 its start never ends.
    """
    global _level
    level = _logger.getEffectiveLevel()
    if level != _level:
        _level = level
        _native.log_level(level if level > logging.NOTSET else logging.WARNING)
    if _NAME not in _tellers and not _native.exits():
        _start()


def _start() -> None:
    mine = object()
    if _tellers.setdefault(_NAME, mine) is not mine:
        return
    try:
        teller: Any
        if _green.replaces_threads():
            teller = _green.Teller(_native.logs_fileno(), _tell_what_is_there, _has_ended)
        else:
            teller = threading.Thread(target=_tell_all, name=_NAME, daemon=True)
            teller.start()
        _tellers[_NAME] = teller
    except BaseException as error:
        del _tellers[_NAME]
        if not isinstance(error, (RuntimeError, OSError)):
            raise
        # Nothing can be started within a tight limit, or, which nobody need be told, while the interpreter ends: locks work
        # all the same. (`threading` declares its main thread dead before the handlers of atexit are called.)
        if threading.main_thread().is_alive():
            _logger.warning("events are not told: %s", error)


def ask(function: Callable[[], T]) -> T:
    """Calls a function of the program on a thread of the library; under gevent in a greenlet."""
    teller = _tellers.get(_NAME)
    return teller.ask(function) if isinstance(teller, _green.Teller) else function()


def after_fork() -> None:
    """The thread stayed in the parent; a greenlet was copied."""
    teller = _tellers.pop(_NAME, None)
    if isinstance(teller, _green.Teller):
        teller.after_fork()


def stop() -> None:
    """Tells what is left."""
    teller = _tellers.get(_NAME)
    if isinstance(teller, (_green.Teller, threading.Thread)):
        _native.no_more_logs()
        teller.join(1)


def _tell_all() -> None:
    try:
        while _tell(_native.next_logs()):
            pass
    finally:
        _has_ended()


def _tell_what_is_there() -> bool:
    return _tell(_native.take_logs())


def _has_ended() -> None:
    _tellers.pop(_NAME, None)


def _tell(taken: Optional[_Entries]) -> bool:
    """False at the end."""
    if taken is None:
        return False
    entries, left_out = taken
    for level, message, fields in entries:
        if _logger.isEnabledFor(level):
            more = ", ".join(f"{name}={value}" for name, value in fields)
            _logger.log(level, "%s", f"{message} ({more})" if more else message, extra={"fairlock": dict(fields)})
    if left_out:
        _logger.warning("%d more events were left out, because the handlers of this logger are slow", left_out)
    return True
