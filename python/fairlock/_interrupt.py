"""``on_lost="interrupt"``: the loss of a lease interrupts the main thread, as Ctrl-C does; under gevent the greenlet.

The signal is ``SIGURG`` and not ``SIGINT``: a shell script starts its jobs with ``SIGINT`` ignored, and a handler that
is fairlock's own knows whether a block is left to interrupt. What does not know that signal ignores it.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Optional, Set

from . import _green, _native
from ._errors import InvalidOption, LockLost
from ._operation import wait

_SIGNAL = signal.SIGURG
# Blocks whose lease is lost, and that were not interrupted yet.
_due: Set[Interrupt] = set()


def _interrupt(number: int, frame: Optional[FrameType]) -> None:
    due = list(_due)
    _due.difference_update(due)

    def is_armed() -> bool:
        return any(one.armed for one in due)

    if is_armed() and not _green.interrupt_main(is_armed):
        raise KeyboardInterrupt


def check_possible() -> None:
    """Refuses what cannot be interrupted."""
    if _green.hub() is not None:
        return
    if threading.current_thread() is not threading.main_thread():
        raise InvalidOption('on_lost="interrupt" is for the main thread: other threads cannot be interrupted')
    if signal.getsignal(signal.SIGINT) not in (signal.default_int_handler, signal.SIG_IGN, signal.SIG_DFL):
        raise InvalidOption(
            'on_lost="interrupt" raises KeyboardInterrupt, but this program has its own handler for SIGINT and does not '
            "expect one: call held.check(), or wait for held.lost in a thread"
        )
    if signal.getsignal(_SIGNAL) not in (_interrupt, signal.SIG_DFL, signal.SIG_IGN):
        raise InvalidOption(
            'on_lost="interrupt" needs SIGURG, for which this program has its own handler: call held.check(), or wait '
            "for held.lost in a thread"
        )
    signal.signal(_SIGNAL, _interrupt)


class Interrupt:
    """Interrupts the main thread, or the greenlet, when this lease is lost, until it is disarmed."""

    def __init__(self, guard: _native.Guard) -> None:
        #: Until the block ends. A signal that arrives later interrupts nothing.
        self.armed = True
        self.loss: Optional[LockLost] = None
        hub, ended = _green.hub(), guard.ended()
        self._greenlet = None if hub is None else _green.Interrupt(hub)
        if self._greenlet is not None:
            self._greenlet.watch(lambda: self._watch(ended))
        else:
            threading.Thread(target=self._watch, args=(ended,), name="fairlock-on-lost", daemon=True).start()

    def _watch(self, ended: _native.Operation) -> None:
        loss: Optional[LockLost] = wait(ended)
        if not self.armed or loss is None:
            return
        self.loss = loss
        main = threading.main_thread().ident
        if self._greenlet is not None:
            self._greenlet.send(lambda: self.armed)
        elif main is not None:
            _due.add(self)
            signal.pthread_kill(main, _SIGNAL)
