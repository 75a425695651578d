"""Clients."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Callable, Dict, Iterable, Optional, Type, TypeVar, Union, overload

from . import _green, _native, _process
from ._decorator import decorate
from ._errors import InvalidOption
from ._hints import explains
from ._keyed import KeyedMutex
from ._lock import AcquireAll, Lock
from ._operation import run, wait
from ._options import (
    SLOTS,
    ClientOptions,
    Credentials,
    LeaseOptions,
    LockOptions,
    OnLost,
    Path,
    Unpack,
    asked,
    check_client,
    lock_options,
    path,
    required,
    text,
    texts,
    url_text,
    whole,
)
from ._rw_lock import RwLock
from ._values import OfOneProcess, Seconds, timeout_of

F = TypeVar("F", bound=Callable[..., Any])

#: Makes a lock of this name and these options.
_Make = Callable[[_native.Client, str, Dict[str, Any]], _native.Lock]
_plain: _Make = _native.Client.lock

_OF_RW_LOCK = " (of a read-write lock give the reader or the writer)"


class Client(OfOneProcess):
    """A connection to the server, with the thread that renews this process's leases. One for a process is enough; all
    threads, event loops and forked processes may use it.

    A new ``Client(...)`` connects when it is first used, and waits for a server that is not there yet.
    :func:`fairlock.connect` tells at once what is wrong. In a forked process a client that was made before connects
    anew when it is first used; what the parent holds stays with the parent.

    :param url: ``redis://[user:password@]host[:port][/db]``, ``rediss://…`` (encrypted), ``unix:///path``,
        ``redis+sentinel://host,host/MASTER`` or ``redis+cluster://host,host``. Default ``redis://127.0.0.1/``.
    :param sentinels: addresses of sentinels (``host`` or ``host:port``) that know the ``master``; instead of a URL.
    :param nodes: some nodes of a cluster; instead of a URL.
    :param user, password: the login, instead of the one in the URL.
    :param password_file: a file with the password, read at each connection.
    :param credentials: a function that gives ``(user, password)`` or ``(user, password, seconds)``, for passwords that
        live for minutes, such as the tokens of AWS IAM or Entra. It is asked at each login, and again when four fifths of
        the seconds are over: the client then logs in anew, and leases and places are kept. It is called on a thread of
        its own, under gevent in a greenlet, and must answer within 5 seconds. It must not use this client.
    :param tls: encrypts connections to sentinels or nodes. A URL says it by its scheme.
    :param ca_file, certificate_file, key_file: certificates in PEM files (default: those that the system trusts).
    :param prefix: of all keys and channels (default ``fairlock``). Clients with other prefixes use other locks.
    :param label: what this process calls itself where others look (default ``host:pid``).

    Raises :exc:`InvalidOption`.
    """

    @explains()
    def __init__(
        self,
        url: Optional[str] = None,
        *,
        sentinels: Optional[Iterable[str]] = None,
        master: Optional[str] = None,
        nodes: Optional[Iterable[str]] = None,
        user: Optional[str] = None,
        password: Optional[str] = None,
        password_file: Optional[Path] = None,
        credentials: Optional[Credentials] = None,
        tls: bool = False,
        ca_file: Optional[Path] = None,
        certificate_file: Optional[Path] = None,
        key_file: Optional[Path] = None,
        prefix: Optional[str] = None,
        label: Optional[str] = None,
        _environment: bool = False,
        _connected: bool = False,
    ) -> None:
        _green.refuse_eventlet()
        self._settings: Dict[str, Any] = {
            "url": url_text(url),
            "sentinels": None if sentinels is None else texts("sentinels", sentinels),
            "master": text("master", master),
            "nodes": None if nodes is None else texts("nodes", nodes),
            "user": text("user", user),
            "password": text("the password", password),
            "password_file": path(password_file),
            "credentials": None if credentials is None else asked(credentials),
            "tls": bool(tls),
            "ca_file": path(ca_file),
            "certificate_file": path(certificate_file),
            "key_file": path(key_file),
            "prefix": text("prefix", prefix),
            "label": text("label", label),
            "environment": _environment,
        }
        check_client(self._settings)
        self._client = None if _connected else _process.own(_native.connect_lazy(self._settings))

    def _begin_anew(self) -> None:
        """Closes the native client. This object and its locks connect anew when they are used."""
        self.close()
        self._client = None

    def _connect(self) -> _native.Operation:
        return _native.connect(self._settings)

    def _connected(self, native: _native.Client) -> Client:
        self._client = _process.own(native)
        return self

    def _native(self) -> _native.Client:
        """The client of this process."""
        client = self._client
        if client is None or not _process.is_of_this_process(client):
            # Two threads may do this at once: then one of the clients ends unused.
            client = self._client = _process.own(_native.connect_lazy(self._settings))
        return client.native

    @classmethod
    def from_env(cls) -> Client:
        """Connects to the server that the environment names: ``REDIS_URL``, ``FAIRLOCK_PREFIX``, ``FAIRLOCK_LABEL``.
        Raises what :func:`fairlock.connect` raises.
        """
        client = cls(_environment=True, _connected=True)
        return client._connected(wait(client._connect()))

    @explains()
    def lock(
        self,
        name: str,
        *,
        slots: Optional[int] = None,
        lease: Optional[Seconds] = None,
        renew_every: Optional[Seconds] = None,
        manual_renewal: bool = False,
        notice: Optional[Seconds] = None,
        liveness: Optional[Seconds] = None,
        buffer: Optional[Seconds] = None,
        max_hold: Optional[Seconds] = None,
        confirm_grants: bool = False,
        max_waiting: Optional[int] = None,
        owner: Optional[str] = None,
        label: Optional[str] = None,
        replicas: Optional[int] = None,
    ) -> Lock:
        """The lock of this name, of 1 to 512 bytes. No round trip. Times are seconds or timedeltas.

        :param slots: how many may hold the lock together: a semaphore (default 1, at most 1000).
        :param lease: how long a holder keeps the lock without a renewal, thus after it died (default 30 s).
        :param renew_every: how often it is renewed (default: a third of the lease).
        :param manual_renewal: only ``renew()`` prolongs the lease.
        :param notice: how long before its end a lease that cannot be renewed counts as lost (default: a tenth of it).
        :param liveness: how long a waiting process counts as alive without a sign of life (default 10 s).
        :param buffer: what the server adds to that before it passes a waiter over (default 2 s).
        :param max_hold: no renewal after this time (default: none).
        :param confirm_grants: a grant is handed out only with its whole lease.
        :param max_waiting: an acquire raises :exc:`QueueFull` if so many wait (default: any number).
        :param owner, label: texts that others see in ``inspect()``.
        :param replicas: a grant counts only once so many replicas have it (default 0).

        Raises :exc:`InvalidOption`.
        """
        options = lock_options(
            lease, renew_every, manual_renewal, notice, liveness, buffer, max_hold, confirm_grants, max_waiting, owner,
            label, replicas, slots,
        )  # fmt: skip
        return self._lock(name, options)

    @explains(LockOptions)
    def semaphore(self, name: str, slots: int, **options: Unpack[LockOptions]) -> Lock:
        """A lock that as many hold together as it has slots, from 1 to 1000: :meth:`lock` with ``slots``. No round trip.

        Waiters are served in order, as those of any lock, and :attr:`Held.slot` says which of the places a holder has.
        The number is not stored at the server. While a lease lasts, no more hold the lock than *its own* number, so
        programs may disagree during a deployment, and one that takes the name for a plain lock holds it alone. The first
        waiter is served first whatever its number is, so that nobody starves. Tokens rise in each slot.

        :param options: as in :meth:`lock`.

        Raises :exc:`InvalidOption`.
        """
        return self._lock(name, lock_options(**options, slots=whole("slots", slots, SLOTS)))

    @explains(LockOptions, refused=("slots",))
    def rw_lock(self, name: str, **options: Unpack[LockOptions]) -> RwLock:
        """The read-write lock of this name: up to 1000 readers hold it together, or one writer. No round trip.

        :param options: as in :meth:`lock`, for readers and writers.

        Raises :exc:`InvalidOption`.
        """
        checked, client = lock_options(**options), _native.Client
        return RwLock(self._lock(name, checked, client.reader), self._lock(name, checked, client.writer))

    def _lock(self, name: str, options: Dict[str, Any], make: _Make = _plain) -> Lock:
        # What cannot work is refused now.
        made = make(self._native(), required("the lock's name", name), options)
        made_by = self._client

        def of_this_process() -> _native.Lock:
            nonlocal made, made_by
            if made_by is None or made_by is not self._client or not _process.is_of_this_process(made_by):
                made = make(self._native(), name, options)
                made_by = self._client
            return made

        return Lock(name, of_this_process, self)

    @explains()
    def lock_all(
        self,
        locks: Iterable[Union[str, Lock]],
        *,
        timeout: Optional[Seconds] = None,
        label: Optional[str] = None,
        owner: Optional[str] = None,
        lease: Optional[Seconds] = None,
    ) -> AcquireAll:
        """Acquires several locks in the order of their names, all or nothing by one timeout: two of these never wait
        for each other. It takes one after the other, and holds each while it waits for the next, so set a timeout. Use it
        as :meth:`Lock.acquire`.

        :param locks: names, each of which is held alone, and locks of this client: semaphores, and the readers and writers
            of read-write locks. A name that occurs twice counts once, as the lock with fewer slots:
            ``[gpus, "gpu"]`` takes gpu alone.
        :param label, owner: what others see at each of the locks (default: as the lock says).
        :param lease: of those that are given by their names.

        Raises what ``acquire`` raises, with the name of the lock, and :exc:`LockLost` if a lease was lost meanwhile.
        """
        options = lock_options(lease=lease)
        if isinstance(locks, (str, bytes, Lock, RwLock)):
            # A single text would be taken for its letters.
            raise InvalidOption(f"locks is {locks!r}, but must be a list of names and locks: [{locks!r}]")
        chosen = [self._one(lock, options) for lock in locks]
        how = timeout_of(timeout), text("label", label), text("owner", owner)
        return AcquireAll(
            f"lock_all({[lock.name for lock in chosen]!r})",
            lambda: _native.lock_all([lock._native_lock() for lock in chosen], *how),
            how[0],
            lambda: [lock._key() for lock in chosen],
        )

    def _one(self, lock: Union[str, Lock], options: Dict[str, Any]) -> Lock:
        if isinstance(lock, str):
            return self._lock(lock, options)
        if not isinstance(lock, Lock):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidOption(f"each of locks is a name or a lock, but one is {lock!r}{_OF_RW_LOCK}")
        if lock._client is not self:
            raise InvalidOption(
                f"the lock {lock.name!r} is of another client than this one: acquire all of them by one client"
            )
        return lock

    @explains(LockOptions, refused=("slots",))
    def keyed_mutex(
        self, space: str, *, timeout: Optional[Seconds] = None, **options: Unpack[LockOptions]
    ) -> KeyedMutex:
        """A lock for each key of a space (accounts, users, files). The lock of a key is named ``SPACE:KEY``.

        :param timeout: of each acquire (default: waits for ever).
        :param options: as in :meth:`lock`.
        """
        checked = lock_options(**options)
        if (checked["slots"] or 1) > 1:
            raise InvalidOption(
                f"{checked['slots']} slots were given for a KeyedMutex, in which one holds a key: leave slots out, or use "
                f"`semaphore(f\"{space}:{{key}}\", {checked['slots']})` for each key"
            )
        return KeyedMutex(space, timeout_of(timeout), lambda name: self._lock(name, checked))

    @overload
    def locked(self, name: F) -> F: ...
    @overload
    def locked(
        self,
        name: Union[None, str, Lock] = None,
        *,
        slots: Optional[int] = None,
        timeout: Optional[Seconds] = None,
        label: Optional[str] = None,
        owner: Optional[str] = None,
        on_lost: Optional[OnLost] = None,
        **options: Unpack[LeaseOptions],
    ) -> Callable[[F], F]: ...
    @explains(LeaseOptions)
    def locked(
        self,
        name: Union[F, None, str, Lock] = None,
        *,
        slots: Optional[int] = None,
        timeout: Optional[Seconds] = None,
        label: Optional[str] = None,
        owner: Optional[str] = None,
        on_lost: Optional[OnLost] = None,
        **options: Unpack[LeaseOptions],
    ) -> Union[F, Callable[[F], F]]:
        """Decorates a function, or a coroutine function: each call holds the lock. With ``slots`` so many calls
        run at once, and :func:`fairlock.held` tells the function which of the slots is its.

        A function that only returns an awaitable or a generator is refused, when it is called: what it returns would run
        without the lock. Decorate the coroutine function itself. A class is refused: decorate its methods.

        :param name: the lock (default ``module.qualname``), with arguments in braces: ``"reports:{user.id}"``; an object without
            a text of its own is refused. Or a lock, such as a semaphore, ``index.reader`` or ``index.writer``, which has its
            own slots and options. A function of a program, which is the module ``__main__``, needs a name: the default
            would be that of such functions of other programs, and another one where the file is imported.
        :param on_lost: as in :meth:`Lock.acquire`; a coroutine function is cancelled by default.
        :param options: as in :meth:`lock`.
        """
        checked = lock_options(**options, slots=slots)
        if isinstance(name, Lock) and (options or slots is not None):
            raise InvalidOption(f"{name!r} has its own {', '.join(options) or 'slots'}: give that to what makes the lock")
        after = timeout_of(timeout)

        def of(function: F, name: Union[None, str, Lock]) -> F:
            return decorate(
                function,
                name,
                lambda chosen: self._lock(chosen, checked),
                lambda lock, lost: lock.acquire(timeout=after, label=label, owner=owner, on_lost=lost),
                on_lost,
            )

        if callable(name):
            return of(name, None)
        if not isinstance(name, (str, Lock, type(None))):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidOption(f"locked() takes a name, a lock or a function, and not {name!r}{_OF_RW_LOCK}")
        return lambda function: of(function, name)

    def close(self) -> None:
        """Leaves all queues, releases all locks, and ends the client; a second at most. Holders hear
        :exc:`LockLost`, waiters :exc:`Closed`. The end of the process does the same.
        """
        client = self._client
        if client is not None and _process.is_of_this_process(client):
            wait(client.native.close())

    async def aclose(self) -> None:
        """As :meth:`close`, for tasks of asyncio."""
        client = self._client
        if client is not None and _process.is_of_this_process(client):
            await run(client.native.close())

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        settings = self._settings
        # A URL may have passwords, before the hosts and behind.
        url = (settings["url"] or "").rpartition("@")[2].partition("?")[0]
        where = url or settings["master"] or settings["nodes"]
        server = where or ("the server of the environment" if settings["environment"] else "redis://127.0.0.1/")
        return f"<Client of {server}>"


@explains(ClientOptions)
def connect(url: Optional[str] = None, **settings: Unpack[ClientOptions]) -> Client:
    """Connects to the server, in about three round trips. The settings are those of :class:`Client`.

    Raises :exc:`ConnectionError` within 5 seconds if the server cannot be reached or cannot be used,
    :exc:`AuthenticationError`, :exc:`MissingRight` or :exc:`InvalidOption`.
    """
    client = Client(url, _connected=True, **settings)
    return client._connected(wait(client._connect()))


@explains(ClientOptions)
async def aconnect(url: Optional[str] = None, **settings: Unpack[ClientOptions]) -> Client:
    """As :func:`connect`, for tasks of asyncio."""
    client = Client(url, _connected=True, **settings)
    return client._connected(await run(client._connect()))
