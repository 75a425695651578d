"""The exceptions. All are a subclass of :class:`Error`; their messages say what was found and what to change."""

from __future__ import annotations

import builtins
from typing import Any, List, Optional

from ._state import Holder


class Error(Exception):
    """Any failure that fairlock reports."""

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        for name, value in fields.items():
            setattr(self, name, value)


class Timeout(Error, TimeoutError):
    """The turn did not come in time. The place in the queue was given up."""

    #: Seconds that were waited.
    waited: float
    #: The last known position in the queue: 1 for the first waiter. None if it never had a place.
    position: Optional[int]
    #: How old that is, in seconds: others may have been served since.
    position_age: Optional[float]
    #: The last error, if the server could not be reached.
    cause: Optional[str]


class Busy(Error):
    """A try found that others hold the lock, as many as may, or wait for it."""

    #: The holders, of more than 16 those of the lowest slots; empty if there is none. :meth:`Lock.inspect` tells all.
    holders: List[Holder]
    #: How many hold the lock.
    held: int
    #: How many may hold it together as this try said. A holder may have said less.
    slots: int
    #: The number of waiters.
    waiting: int
    #: Seconds for which nothing is granted at most, because the server lost data; usually None.
    recovering_for: Optional[float]


class QueueFull(Error):
    """As many waiters as ``max_waiting`` allows were in the queue."""

    #: How many there were.
    waiting: int


class NotTaken(Error):
    """The lock was granted, but the event loop was blocked for a whole lease, so it was released."""


class LeaseBroken(Error):
    """An operator broke the lease before it was handed out."""


class LockLost(Error):
    """The lease is over, or about to be: stop using what the lock protects."""

    #: The lock.
    name: str
    #: The fencing token of the lease.
    token: int
    #: ``"not renewed"``, ``"ended"``, ``"broken"``, ``"max_hold"``, ``"closed"``, ``"released"``, ``"forked"`` or
    #: ``"client failed"``.
    reason: str


class ReleaseUnknown(Error):
    """No answer to the release came before the lease's deadline. The client repeats the release; the lease ends."""


class InvalidOption(Error, ValueError):
    """A name, a time, a URL or another option cannot work."""


class ConnectionError(Error, builtins.ConnectionError):  # noqa: A001
    """The server cannot be used."""


class AuthenticationError(ConnectionError):
    """The server denies the login."""


class MissingRight(ConnectionError):
    """The server's user lacks a right that locks need. The message names it."""


class Unavailable(ConnectionError):
    """The server gave no answer in time. Waiting may help."""


class Refused(Error):
    """The server refuses the request each time."""


class Closed(Error):
    """The client was closed."""


class Forked(Error):
    """This object was made in the parent process, before a fork: acquire again in the child."""
