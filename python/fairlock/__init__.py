"""Fair distributed locks on Redis: waiters are served strictly in the order in which they arrived.

>>> client = fairlock.connect("redis://localhost")
>>> with client.lock("reports:nightly").acquire(timeout=30, label="job 7") as held:
...     work(token=held.token)
"""

from typing import TYPE_CHECKING

from . import _interpreter as _interpreter  # first: it refuses sub-interpreters
from . import _native
from ._all_held import AllHeld, AsyncAllHeld
from ._client import Client, aconnect, connect
from ._decorator import aheld, held
from ._errors import (
    AuthenticationError,
    Busy,
    Closed,
    ConnectionError,
    Error,
    Forked,
    InvalidOption,
    LeaseBroken,
    LockLost,
    MissingRight,
    NotTaken,
    QueueFull,
    Refused,
    ReleaseUnknown,
    Timeout,
    Unavailable,
)
from ._held import AsyncHeld, AsyncLost, Held, Lost
from ._hints import no_such_name as _no_such_name
from ._keyed import KeyedMutex
from ._lock import Acquire, AcquireAll, Lock
from ._operation import Operation
from ._rw_lock import RwLock
from ._state import Broken, History, Holder, LockState, PastGrant, QueuedWaiter
from ._waiting import AsyncWaiting, Waiting

__all__ = [
    "Acquire",
    "AcquireAll",
    "AllHeld",
    "AsyncAllHeld",
    "AsyncHeld",
    "AsyncLost",
    "AsyncWaiting",
    "AuthenticationError",
    "Broken",
    "Busy",
    "Client",
    "Closed",
    "ConnectionError",
    "Error",
    "Forked",
    "Held",
    "History",
    "Holder",
    "InvalidOption",
    "KeyedMutex",
    "LeaseBroken",
    "Lock",
    "LockLost",
    "LockState",
    "Lost",
    "MissingRight",
    "NotTaken",
    "Operation",
    "PastGrant",
    "QueueFull",
    "QueuedWaiter",
    "Refused",
    "ReleaseUnknown",
    "RwLock",
    "Timeout",
    "Unavailable",
    "Waiting",
    "aconnect",
    "aheld",
    "connect",
    "held",
]

#: The version of this package, which is that of the Rust library.
__version__ = _native.version()

# Tracebacks and pickles name what people import.
for _name in __all__:
    globals()[_name].__module__ = __name__

if not TYPE_CHECKING:
    __getattr__ = _no_such_name
