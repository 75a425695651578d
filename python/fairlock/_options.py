"""The options that people give, as types, and as the native half reads them."""

from __future__ import annotations

import operator
import os
import re
import sys
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterable,
    List,
    Literal,
    Optional,
    SupportsIndex,
    Tuple,
    TypedDict,
    Union,
)

from . import _logging
from ._errors import InvalidOption
from ._values import Seconds, seconds

if sys.version_info >= (3, 11):
    from typing import Unpack as Unpack
elif TYPE_CHECKING:
    from typing_extensions import Unpack as Unpack
else:
    # For those who ask for the types of a function at run time: something that has an index.
    Unpack = Optional

Path = Union[str, "os.PathLike[str]"]

#: A function that gives user and password, and for how many seconds they are good.
Credentials = Callable[[], Union[Tuple[Optional[str], str], Tuple[Optional[str], str, Seconds]]]

#: What the loss of a lease does to a block.
OnLost = Literal["cancel", "interrupt"]


class ClientOptions(TypedDict, total=False):
    """The options of :class:`fairlock.Client` but for the URL."""

    sentinels: Optional[Iterable[str]]
    master: Optional[str]
    nodes: Optional[Iterable[str]]
    user: Optional[str]
    password: Optional[str]
    password_file: Optional[Path]
    credentials: Optional[Credentials]
    tls: bool
    ca_file: Optional[Path]
    certificate_file: Optional[Path]
    key_file: Optional[Path]
    prefix: Optional[str]
    label: Optional[str]


class LeaseOptions(TypedDict, total=False):
    """The options of :meth:`fairlock.Client.lock` but for the slots, and the texts that others see."""

    lease: Optional[Seconds]
    renew_every: Optional[Seconds]
    manual_renewal: bool
    notice: Optional[Seconds]
    liveness: Optional[Seconds]
    buffer: Optional[Seconds]
    max_hold: Optional[Seconds]
    confirm_grants: bool
    max_waiting: Optional[int]
    replicas: Optional[int]


class LockOptions(LeaseOptions, total=False):
    """The options of :meth:`fairlock.Client.lock` but for the slots."""

    owner: Optional[str]
    label: Optional[str]


class WithoutTimeout(TypedDict, total=False):
    """The options of :meth:`fairlock.Lock.acquire` but for the timeout."""

    label: Optional[str]
    owner: Optional[str]
    on_lost: Optional[OnLost]


class AcquireOptions(WithoutTimeout, total=False):
    """The options of :meth:`fairlock.Lock.acquire`."""

    timeout: Optional[Seconds]


def check_client(settings: Dict[str, Any]) -> None:
    """Refuses settings of which one would be left out."""

    def given(*names: str) -> List[str]:
        return [name for name in names if settings[name] is not None]

    for names in (("url", "sentinels", "nodes"), ("password", "password_file", "credentials")):
        if len(given(*names)) > 1:
            raise InvalidOption(f"only one of {', '.join(names)} can be given, and not {' and '.join(given(*names))}")
    for pair in (("sentinels", "master"), ("certificate_file", "key_file")):
        if len(given(*pair)) == 1:
            raise InvalidOption(f"{' and '.join(pair)} belong together, but only {given(*pair)[0]} is given")
    if given("user") and not given("password", "password_file"):
        raise InvalidOption("user is given without password or password_file; credentials= gives its own user")


def asked(credentials: Credentials) -> Callable[[], Tuple[Optional[str], str, Optional[float]]]:
    """The function as the native half calls it."""

    def ask() -> Tuple[Optional[str], str, Optional[float]]:
        user, password, *life = _logging.ask(credentials)
        return user, password, seconds(life[0]) if life else None

    return ask


#: How many may hold a lock together.
SLOTS = range(1, 1001)


def lock_options(
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
    slots: Optional[int] = None,
) -> Dict[str, Any]:
    """The options of a lock as the native half reads them."""
    return {
        "lease": seconds(lease),
        "renew_every": seconds(renew_every),
        "manual_renewal": bool(manual_renewal),
        "notice": seconds(notice),
        "liveness": seconds(liveness),
        "buffer": seconds(buffer),
        "max_hold": seconds(max_hold),
        "confirm_grants": bool(confirm_grants),
        "max_waiting": None if max_waiting is None else whole("max_waiting", max_waiting),
        "owner": text("owner", owner),
        "label": text("label", label),
        "replicas": None if replicas is None else whole("replicas", replicas),
        "slots": None if slots is None else whole("slots", slots, SLOTS),
    }


def required(option: str, value: str) -> str:
    """A text that the server can store."""
    if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidOption(f"{option} is {value!r}, but must be a text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"{option} is {value!r}, but must be a text that UTF-8 can write") from None
    return value


def text(option: str, value: Optional[str]) -> Optional[str]:
    """A text, if there is one."""
    return None if value is None else required(option, value)


def url_text(url: Optional[str]) -> Optional[str]:
    """A URL, if there is one."""
    if url is None or isinstance(url, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        return text("the URL", url)
    # Its text may be long, and have a password.
    found = f"the URL is an object of {type(url).__module__}.{type(url).__qualname__}, but must be a text"
    if hasattr(url, "connection_pool") or hasattr(url, "nodes_manager"):
        found += ": give its URL, or write `fairlock.compat.client_of(client)`, which reads the settings of one of redis-py"
    raise InvalidOption(found)


def texts(option: str, values: Iterable[str]) -> List[str]:
    """Several texts. A single one would be taken for its letters."""
    if isinstance(values, (str, bytes)):
        raise InvalidOption(f"{option} is {values!r}, but must be a list of texts: [{values!r}]")
    return [required(f"each of {option}", value) for value in values]


def whole(option: str, value: SupportsIndex, allowed: range = range(2**32)) -> int:
    """A whole number that is allowed."""
    try:
        # True would count as 1.
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = -1
    if number not in allowed:
        raise InvalidOption(f"{option} is {value!r}, but must be a whole number from {allowed[0]} to {allowed[-1]}")
    return number


def has_address(text: str) -> bool:
    """Whether it may be the text that Python gives to an object without one of its own."""
    return re.search(" at 0x[0-9a-fA-F]+>", text) is not None


def own_text(what: str, value: object, text: str, instead: str) -> str:
    """The text of a value in a lock's name, if it is the same in all processes."""
    if has_address(text):
        raise InvalidOption(
            f"{what} is {text!r}, which is another text in each process: {type(value).__name__!r} has no text of its own. "
            f"Write what all processes know it by, as {instead}"
        )
    return text


def path(value: Optional[Path]) -> Optional[str]:
    """The path of a file."""
    return None if value is None else os.fspath(value)
