"""Two locks of one name: what readers take, and what writers take."""

from __future__ import annotations

from typing import Optional, SupportsIndex

from ._held import Held
from ._hints import Foreign, explains, made_by
from ._lock import Acquire, Lock
from ._operation import Operation
from ._options import AcquireOptions, Unpack, WithoutTimeout
from ._state import Broken, LockState
from ._values import OfOneProcess, Seconds


class RwLock(OfOneProcess, Foreign):
    """A fair read-write lock, made by :meth:`Client.rw_lock`: up to 1000 readers hold it together, or one writer alone.

    Readers and writers wait in one queue, in the order of their arrival, so neither starves: a reader that comes after a
    writer waits behind it, also while others read. So a thread or a task that reads must not read once more within that:
    a writer between the two would wait for the first, and the second for the writer.

    :meth:`Held.downgrade` makes a reader of a writer. A reader cannot become a writer: two that waited for each other's
    end would wait for ever. Release it, write, and look again at what was read.
    """

    __slots__ = ("_reader", "_writer", "__weakref__")

    _block = "`with index.read() as held:` or `with index.write() as held:`, or in a task `async with`"
    _instead = (
        (("reader_lock", "read_lock", "acquire_read", "gen_rlock"), "write `with index.read() as held:`"),
        (("writer_lock", "write_lock", "acquire_write", "gen_wlock"), "write `with index.write() as held:`"),
        (("acquire", "try_acquire"), "write `with index.read() as held:` or `with index.write() as held:`"),
        (("locked",), "write `index.is_locked().wait()`, or in a task `await index.is_locked()`"),
        (dir(Lock), "write `index.reader.{name}` or `index.writer.{name}`: both are locks"),
        (dir(Held), "write `held.{name}`, where `held` is what read() or write() has given: `with index.read() as held:`"),
    )

    @made_by("fairlock.connect(url).rw_lock(name)", Lock)
    def __init__(self, reader: Lock, writer: Lock) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def name(self) -> str:
        """The name of both locks."""
        return self._writer.name

    @property
    def reader(self) -> Lock:
        """The lock that readers take, for all that a lock can do."""
        return self._reader

    @property
    def writer(self) -> Lock:
        """The lock that writers take, for all that a lock can do."""
        return self._writer

    @explains(WithoutTimeout)
    def read(self, timeout: Optional[Seconds] = None, **how: Unpack[WithoutTimeout]) -> Acquire:
        """Waits for its turn and holds the lock together with other readers: ``with index.read() as held:``. Arguments and
        exceptions are those of :meth:`Lock.acquire`."""
        return self._reader._acquire("read()", timeout, **how)

    @explains(WithoutTimeout)
    def write(self, timeout: Optional[Seconds] = None, **how: Unpack[WithoutTimeout]) -> Acquire:
        """Waits for its turn and holds the lock alone, as :meth:`read`."""
        return self._writer._acquire("write()", timeout, **how)

    @explains(AcquireOptions)
    def try_read(self, **how: Unpack[AcquireOptions]) -> Acquire:
        """Reads if no writer holds the lock and nobody waits, as :meth:`Lock.try_acquire`."""
        return self._reader._try("try_read()", **how)

    @explains(AcquireOptions)
    def try_write(self, **how: Unpack[AcquireOptions]) -> Acquire:
        """Writes if nobody holds the lock and nobody waits, as :meth:`Lock.try_acquire`."""
        return self._writer._try("try_write()", **how)

    def inspect(self) -> Operation[LockState, LockState]:
        """Who reads or writes, and who waits, as :meth:`Lock.inspect`."""
        return self._writer.inspect()

    def is_locked(self) -> Operation[bool, bool]:
        """Whether anybody reads or writes. One round trip."""
        return self._writer.is_locked()

    def break_lease(self, token: SupportsIndex, *, force: bool = False) -> Operation[Broken, Broken]:
        """Ends the lease with this token, of a reader or a writer, as :meth:`Lock.break_lease`."""
        return self._writer.break_lease(token, force=force)

    def __repr__(self) -> str:
        return f"<RwLock {self.name!r}>"
