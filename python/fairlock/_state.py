"""What is told of a lock. Times are seconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import List, Optional


@dataclass(frozen=True)
class Holder:
    """A holder of a lock. A semaphore or a read-write lock may have several."""

    #: The id of the acquire, the same as :attr:`fairlock.Held.id` in its process.
    id: str
    #: Which of the slots its lease has, the same as :attr:`fairlock.Held.slot`.
    slot: int
    #: How many may hold the lock together while this lease lasts, itself among them: 1 for a lock or a writer, N for a
    #: semaphore, 1000 for a reader.
    slots: int
    #: The fencing token of its lease.
    token: int
    #: Its label, by default ``host:pid``.
    label: str
    #: Its owner, by default empty.
    owner: str
    #: What is left of its lease unless it is renewed, in seconds.
    remaining: float
    #: For how long it has held the lock.
    held_for: float
    #: Whether an operator broke the lease (:meth:`Lock.break_lease`). It is not renewed any more, and ends when its holder
    #: releases it, or after :attr:`remaining`.
    broken: bool
    #: Whether the holder is known to have heard of the grant. If it stays False for more than a moment, its process is
    #: dead or cut off, and its lease ends after :attr:`remaining`.
    confirmed: bool


@dataclass(frozen=True)
class QueuedWaiter:
    """One waiter in the queue of a lock."""

    #: The id of the acquire.
    id: str
    #: Lower tickets are served first.
    ticket: int
    #: Its label, by default ``host:pid``.
    label: str
    #: Its owner, by default empty.
    owner: str
    #: For how long it has waited.
    waited: float
    #: False: its client has been silent for longer than its liveness and the buffer, so its place is given up when its turn
    #: comes.
    alive: bool
    #: How many may hold the lock together with it once it is granted the lock.
    slots: int


@dataclass(frozen=True)
class LockState:
    """The state of a lock at one moment."""

    #: The holders, in the order of their slots. While one of them may hold the lock alone, there is one at most.
    holders: List[Holder] = field(default_factory=lambda: [])
    #: The number of waiters.
    waiting: int = 0
    #: The waiters, in the order in which they will be served.
    queue: List[QueuedWaiter] = field(default_factory=lambda: [])
    #: For how long nothing is granted at most, because the server lost data; usually None.
    recovering_for: Optional[float] = None

    @property
    def slots(self) -> Optional[int]:
        """How many may hold the lock together now: the smallest number that a holder said. None if nobody holds it. An
        acquire whose :attr:`Lock.slots` is higher waits all the same, and nobody tells it why."""
        return min((holder.slots for holder in self.holders), default=None)


@dataclass(frozen=True)
class Broken:
    """What ``break_lease`` did."""

    #: ``"told"``: the holder was told, and its lease ends when it releases it, at the latest after :attr:`remaining`.
    #: ``"ended"``: the lease was ended at once, by force. ``"unknown"``: no lease with that token is alive.
    outcome: str
    #: What is left of the lease in seconds, if the holder was told; otherwise None.
    remaining: Optional[float] = None


@dataclass(frozen=True)
class PastGrant:
    """One grant of the history of a lock."""

    #: The id of the acquire, the same as :attr:`fairlock.Held.id` in its process.
    id: str
    #: The fencing token of its lease.
    token: int
    #: Its label, by default ``host:pid``.
    label: str
    #: Its owner, by default empty.
    owner: str
    #: For how long the acquire had waited.
    waited: float
    #: For how long the lock was held.
    held: float
    #: Which of the slots it had.
    slot: int
    #: By the server's clock, in seconds since 1970.
    granted_at: float
    #: ``"released"`` by its holder, ``"expired"`` without a renewal, ``"broken"`` by force, or ``"lost"``: the server lost
    #: its data meanwhile.
    ended: str


@dataclass(frozen=True)
class History:
    """The latest grants of a lock, the newest first."""

    #: Whether the server records them now.
    recorded: bool
    grants: List[PastGrant] = field(default_factory=lambda: [])
