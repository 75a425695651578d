"""The settings of a redis-py client as those of a fairlock client."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple
from urllib.parse import quote

from .._client import Client
from .._errors import InvalidOption
from . import _kept

_clients: Dict[Tuple[Tuple[str, Any], ...], Client] = {}


def client_of(redis: Any) -> Client:
    """A client for the server of this redis-py client (``redis.Redis``, ``redis.RedisCluster`` or their counterparts in
    ``redis.asyncio``). Clients of the same server share one, which lives as long as the process.

    Its settings are read, and its connections are not used. Login, TLS, Sentinel and Cluster are taken over. A credential
    provider is asked at each login, and every ten minutes. A client that does not connect to a server (fakeredis, a mock)
    is a ``TypeError``: a :class:`fairlock.testing.LockService` has a URL for tests.
    """
    if isinstance(redis, Client):
        return redis
    settings = settings_of(redis)
    key = tuple(sorted(settings.items()))
    client = _clients.get(key)
    if client is None:
        # Of two that are made at the same time, by a handler of a signal for example, one is never used.
        client = _clients.setdefault(key, Client(**settings))
    return client


def forget_clients() -> None:
    """Releases all locks of the drop-in classes, leaves their queues, and forgets what was known of their servers. Their
    objects go on: they connect anew.

    For fixtures that empty the server: ``compat.forget_clients(); redis.flushdb()``. Otherwise the clients of this
    process remember their leases, and to them an emptied server has lost its data: nothing is granted there until the
    longest lease of which they know would be over. Closing the clients takes a second at most.
    """
    # Kept until their clients have released them: then they are dropped by nobody who should have kept them.
    held = _kept.take_all()
    for client in list(_clients.values()):
        client._begin_anew()
    held.clear()


def settings_of(redis: Any) -> Dict[str, Any]:
    """The arguments for :class:`fairlock.Client`."""
    nodes: Any = getattr(redis, "nodes_manager", None)
    if nodes is not None:
        _check(redis, type(nodes), "initialize")
        arguments: Dict[str, Any] = dict(nodes.connection_kwargs)
        addresses = _list((node.host, node.port) for node in nodes.startup_nodes.values())
        return _with_login(arguments, f"{_scheme('redis+cluster', _is_encrypted(arguments))}://{addresses}")
    pool: Any = getattr(redis, "connection_pool", None)
    _check(redis, getattr(pool, "connection_class", None), "_connect")
    arguments = {**pool.connection_kwargs, "connection_class": pool.connection_class}
    encrypted = _is_encrypted(arguments)
    database = arguments.get("db") or 0
    if hasattr(pool, "sentinel_manager"):
        pools: List[Any] = [one.connection_pool for one in pool.sentinel_manager.sentinels]
        sentinels = [{**one.connection_kwargs, "connection_class": one.connection_class} for one in pools]
        if _is_encrypted(sentinels[0]) != encrypted:
            raise InvalidOption(
                "fairlock encrypts the connections to the sentinels and to their master, or neither: give ssl=True "
                "both to the client and in sentinel_kwargs"
            )
        addresses = _list((one["host"], one.get("port", 26379)) for one in sentinels)
        url = f"{_scheme('redis+sentinel', encrypted)}://{addresses}/{quote(pool.service_name, safe='')}/{database}"
        user, password = _login(sentinels[0])
        if password is not None:
            login = {"sentinel_user": user, "sentinel_password": password}
            url += "?" + "&".join(f"{name}={quote(text, safe='')}" for name, text in login.items() if text)
        return _with_login(arguments, url)
    path: Optional[str] = arguments.get("path")
    if path is not None:
        return _with_login(arguments, f"unix://{quote(path)}?db={database}")
    address = _address(arguments.get("host", "localhost"), arguments.get("port", 6379))
    return _with_login(arguments, f"{_scheme('redis', encrypted)}://{address}/{database}")


def _check(redis: Any, cls: Any, method: str) -> None:
    """The class that has the method must be redis-py's (or that of its copy, valkey-py): what connects in another way
    has settings that lead nowhere, or to another server."""
    owner = next((base for base in getattr(cls, "__mro__", ()) if method in vars(base)), None)
    if owner is None or owner.__module__.partition(".")[0] not in ("redis", "valkey"):
        raise TypeError(
            f"a client of redis-py that connects to a server is needed, and not {redis!r}: fairlock makes connections of "
            "its own. For tests, fairlock.testing.LockService has a URL for redis-py"
        )


def _is_encrypted(arguments: Dict[str, Any]) -> bool:
    return bool(arguments.get("ssl")) or "SSL" in getattr(arguments.get("connection_class"), "__name__", "")


def _scheme(scheme: str, encrypted: bool) -> str:
    return scheme.replace("redis", "rediss", 1) if encrypted else scheme


def _address(host: Any, port: Any) -> str:
    return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


def _list(addresses: Iterable[Tuple[Any, Any]]) -> str:
    """Sorted: redis-py changes the order while it runs, and the same servers are one client."""
    return ",".join(sorted(_address(host, port) for host, port in addresses))


class _Provider:
    """The credential provider of a redis-py client, as fairlock asks for credentials. Equal for the same provider."""

    LIFE = 750.0  # seconds; it is asked again when four fifths of them are over

    def __init__(self, provider: Any) -> None:
        self.provider = provider

    def __call__(self) -> Tuple[Optional[str], str, float]:
        given: Tuple[str, ...] = tuple(self.provider.get_credentials())
        user, password = given if len(given) == 2 else (None, given[0])
        return user, str(password), self.LIFE

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Provider) and self.provider is other.provider

    def __hash__(self) -> int:
        return id(self.provider)


def _login(arguments: Dict[str, Any]) -> Tuple[Optional[str], Optional[str]]:
    return arguments.get("username"), arguments.get("password")


def _with_login(arguments: Dict[str, Any], url: str) -> Dict[str, Any]:
    settings: Dict[str, Any] = {"url": url}
    user, password = _login(arguments)
    if arguments.get("credential_provider") is not None:
        settings["credentials"] = _Provider(arguments["credential_provider"])
    elif password is not None:
        settings["password"] = str(password)
        if user is not None:
            settings["user"] = str(user)
    if url.startswith("rediss"):
        if arguments.get("ssl_cert_reqs") in ("none", 0):
            raise InvalidOption("fairlock verifies certificates: give the client ssl_ca_certs instead of ssl_cert_reqs")
        for theirs in ("ssl_ca_data", "ssl_ca_path", "ssl_password"):
            if arguments.get(theirs):
                raise InvalidOption(f"fairlock reads certificates from files (ssl_ca_certs, …), and not {theirs}")
        files = {"ca_file": "ssl_ca_certs", "certificate_file": "ssl_certfile", "key_file": "ssl_keyfile"}
        settings.update({ours: arguments[theirs] for ours, theirs in files.items() if arguments.get(theirs)})
    return settings


def text_of(name: Any) -> str:
    """A lock's name; redis-py also takes bytes."""
    if not isinstance(name, (bytes, bytearray)):
        return str(name)
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise InvalidOption(f"the name {bytes(name)!r} is not UTF-8, which the names of fairlock are") from None
