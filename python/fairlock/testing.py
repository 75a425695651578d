"""A lock service in the process: tests of programs that use locks need no Redis server.

The real client runs, with its thread, its connections and its timers. Only the server is another: a model of it, which
fairlock's own tests compare with Redis step by step. The package does not need pytest; a fixture takes three lines::

    @pytest.fixture
    def redis():
        with fairlock.testing.LockService() as service:
            yield service

    def test_a_busy_report_is_refused(redis, monkeypatch):
        monkeypatch.setenv("REDIS_URL", redis.url)         # the program connects as ever
        other = redis.client().lock("report").acquire().wait()
        assert build_report() == "busy"
        redis.advance(other.lease)                         # the holder has died: nobody renews its lease
        assert build_report() == "built"

Tests that empty a *real* server in between (``FLUSHDB``) are another matter: clients that hold or know leases take that
for a loss of data, and the next test waits for a lease. Close them first, give each test a ``prefix=`` of its own, or,
with the drop-in classes, call :func:`fairlock.compat.forget_clients`.

Each test can have its own service: it costs a thread and a port. Let tests wait for events and not for time: ``held.lost``,
``waiting.position()``, ``lock.inspect()``.
"""

from __future__ import annotations

from types import TracebackType
from typing import List, Optional, Type

from . import _native
from ._client import Client, connect
from ._hints import explains
from ._options import ClientOptions, Unpack
from ._values import OfOneProcess, Seconds, seconds


class LockService(OfOneProcess):
    """Listens at a port of 127.0.0.1 until the end of the ``with`` block, or :meth:`close`. Any number of clients,
    threads and processes may use it.

    It is **one server** without TLS, users, replicas and databases: every login is accepted, and ``replicas=1`` waits
    in vain. It answers the requests of this version of fairlock only, so the other keys of a program need a real server.
    A request takes time in proportion to the length of its queue; ``history()`` has the latest eight grants.

    Raises :exc:`OSError` if the system has no port or no thread left. After the end the methods raise
    :exc:`fairlock.Closed`. In a forked process they raise :exc:`fairlock.Forked`; the process may use the :attr:`url`.
    """

    def __init__(self) -> None:
        self._service = _native.LockService()
        self._clients: List[Client] = []

    @property
    def url(self) -> str:
        """``redis://127.0.0.1:PORT/``: for :func:`fairlock.connect`, ``REDIS_URL``, another process, or the client of
        redis-py that a drop-in class of :mod:`fairlock.compat` takes."""
        return self._service.url

    @explains(ClientOptions)
    def client(self, **settings: Unpack[ClientOptions]) -> Client:
        """A new client of this service, connected; the settings are those of :class:`fairlock.Client`. The end of the
        ``with`` block closes it.

        Raises :exc:`fairlock.ConnectionError` after 5 seconds if the service is paused.
        """
        client = connect(self.url, **settings)
        self._clients.append(client)
        return client

    def pause(self) -> None:
        """Answers nothing from now on, as a server that hangs. The other methods of the service work meanwhile."""
        self._service.pause()

    def resume(self) -> None:
        """Ends a :meth:`pause`. What has arrived meanwhile is executed now. Leases have gone on; waiters keep their
        places."""
        self._service.resume()

    def lose_data(self) -> None:
        """Loses all data, as by ``FLUSHALL``. Clients bring back their leases and places. Meanwhile nothing is granted,
        for three heartbeats of the slowest waiter, and for as long as a lease may last of which a client knows. Use
        :meth:`advance` to shorten that."""
        self._service.lose_data()

    def break_lease(self, name: str) -> bool:
        """Ends the lease of this lock at once, as an operator may: of a semaphore or a read-write lock all leases. The
        holders are told, and the next waiters are granted the lock. False if nobody holds it."""
        return self._service.break_lease(name)

    def advance(self, by: Seconds) -> None:
        """Sets the clock of the service forward, as if no holder had sent a renewal meanwhile. A lease that would end in
        this time (``held.lease``) ends at once, and the next waiter is granted the lock, as if the process of the holder
        had died. Waiters keep their places if their processes live.

        The clock of the clients does not change: timeouts and ``held.remaining`` go by true time, and a holder whose
        lease was ended hears of it with its next renewal, after a third of the lease in true time, or by
        ``held.renew()`` at once.

        :param by: seconds or a timedelta; more than 71 years count as 71 years.

        Raises :exc:`fairlock.InvalidOption`.
        """
        self._service.advance(seconds(by))

    def close(self) -> None:
        """Ends the service, as a server that is gone: its clients are cut off, and cannot connect again."""
        self._service.end()

    def __enter__(self) -> LockService:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        for client in self._clients:
            client.close()
        self.close()

    def __repr__(self) -> str:
        return f"<LockService at {self.url}>"
