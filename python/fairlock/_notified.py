"""Operations that an event loop or a hub waits for: each is polled when its waker has written to the socket."""

from __future__ import annotations

import itertools
from typing import Callable, Dict, Tuple

from . import _native


class Notified:
    """What waits at one socket."""

    def __init__(self) -> None:
        self.notifier = _native.Notifier()
        #: By its key, and how whoever waits for it is told of its end.
        self.pending: Dict[int, Tuple[_native.Operation, Callable[[], object]]] = {}
        self._keys = itertools.count(1)

    def begin(self, operation: _native.Operation, wake: Callable[[], object]) -> int:
        """A key to :meth:`forget` it by; 0 if it has ended already."""
        key = next(self._keys)
        if self.notifier.poll(operation, key):
            return 0
        self.pending[key] = (operation, wake)
        return key

    def forget(self, key: int) -> None:
        """Nobody waits for it any more."""
        self.pending.pop(key, None)
