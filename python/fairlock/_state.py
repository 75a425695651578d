"""What is told of a lock. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional


@dataclass(frozen=True)
class Holder:
    """The holder of a lock."""

    #: The id of the acquire, the same as :attr:`fairlock.Held.id` in its process.
    id: str
    #: The fencing token of its lease.
    token: int
    #: Its label, by default ``host:pid``.
    label: str
    #: Its owner, by default empty.
    owner: str
    #: What is left of its lease unless it is renewed.
    remaining: float
    #: For how long it has held the lock.
    held_for: float
    #: Whether an operator broke the lease: it is not renewed any more.
    broken: bool
    #: Whether the holder is known to have heard of the grant.
    confirmed: bool


@dataclass(frozen=True)
class QueuedWaiter:
    """One waiter in the queue of a lock."""

    #: The id of the acquire.
    id: str
    #: Lower tickets are served first.
    ticket: int
    label: str
    owner: str
    #: For how long it has waited.
    waited: float
    #: Whether its process is known to be alive.
    alive: bool


@dataclass(frozen=True)
class LockState:
    """The state of a lock at one moment."""

    #: The holder, if there is one.
    holder: Optional[Holder] = None
    #: The number of waiters.
    waiting: int = 0
    #: The waiters, in the order in which they will be served.
    queue: List[QueuedWaiter] = field(default_factory=lambda: [])
    #: For how long nothing is granted at most, because the server lost data; usually None.
    recovering_for: Optional[float] = None


@dataclass(frozen=True)
class Broken:
    """What ``break_lease`` did."""

    #: ``"told"``: the holder was told, its lease ends after :attr:`remaining`. ``"ended"``: the lease was ended.
    #: ``"unknown"``: no lease with that token is alive.
    outcome: str
    #: What is left of the lease, if the holder was told.
    remaining: Optional[float] = None


@dataclass(frozen=True)
class PastGrant:
    """One grant of the history of a lock."""

    id: str
    token: int
    label: str
    owner: str
    #: For how long the acquire had waited.
    waited: float
    #: For how long the lock was held.
    held: float
    #: By the server's clock, in seconds since 1970.
    granted_at: float
    #: ``"released"``, ``"expired"``, ``"broken"`` or ``"lost"``.
    ended: str


@dataclass(frozen=True)
class History:
    """The latest grants of a lock, the newest first."""

    #: Whether the server records them now.
    recorded: bool
    grants: List[PastGrant] = field(default_factory=lambda: [])
