"""What people write who know other locks, and what they are told to write here. Checkers of types know only what works."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Dict, Iterable, NoReturn, Optional, Tuple, Type, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: Arguments of threading, asyncio, redis-py and python-redis-lock.
_ARGUMENTS: Dict[str, str] = {
    "blocking": "try_acquire(), try_read() and try_write() do not wait, and raise fairlock.Busy",
    "blocking_timeout": "acquire() takes `timeout=` for how long to wait",
    "db": "the URL says it: `redis://host:port/db`",
    "decode_responses": "nothing of the server's is handed out, so leave it out",
    "expire": "client.lock() takes `lease=` for how long the lock lasts without a renewal",
    "host": "the URL says it: `redis://host:port/db`",
    "port": "the URL says it: `redis://host:port/db`",
    "sleep": "nobody polls here, so leave it out",
    "ssl": "the URL says it: `rediss://host:port/db`",
    "thread_local": "a lease belongs to whoever has `held`, so leave it out",
    "timeout": "`lease=` is how long it lasts without a renewal, and acquire() takes `timeout=` for how long to wait",
    "unix_socket_path": "the URL says it: `unix:///path`",
    "username": "the login is `user=` and `password=`",
    "value": "`slots=` is how many may hold it together",
}


def explains(
    *options: Type[Any], refused: Iterable[str] = (), positional_to: Callable[[Any], Optional[str]] = lambda _: None
) -> Callable[[F], F]:
    """A function that names itself when it refuses an argument, and not an inner function, and says what to write if other
    locks have such an argument, or take it without its name.

    :param options: the types of those that it unpacks.
    :param refused: arguments that it refuses itself, because it knows why.
    :param positional_to: why this object takes no argument without its name, if it does not.
    """

    def decorate(function: F) -> F:
        parameters = inspect.signature(function).parameters
        known = set(parameters).union(refused, *(one.__optional_keys__ for one in options))
        positional = [name for name, one in parameters.items() if one.kind is one.POSITIONAL_OR_KEYWORD]
        # Nobody gives `self`.
        own = positional.count("self")
        most = len(positional) - own
        takes = f"at most {most} positional argument{'s' if most > 1 else ''}" if most else "no positional argument"
        title = function.__qualname__.split(".")[0] if function.__name__ == "__init__" else function.__name__
        hint = ""
        if "timeout" in positional:
            hint = f": write `{title}(timeout=3)` to wait so long; {_ARGUMENTS['blocking']}"
        elif "lease" in known:
            hint = f": {_ARGUMENTS['timeout']}"

        def check(values: Tuple[Any, ...], names: Iterable[str]) -> None:
            if len(values) > len(positional):
                raise TypeError(f"{title}() takes {takes}, and got {len(values) - own}{hint}")
            why = positional_to(values[0]) if len(values) > own > 0 else None
            if why is not None:
                raise TypeError(f"{title}() takes no positional argument here: {why}")
            for name in names:
                if name not in known:
                    instead = f": {_ARGUMENTS[name]}" if name in _ARGUMENTS else ""
                    raise TypeError(f"{title}() has no argument {name!r}{instead}")

        result: Any
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: Any, **kwargs: Any) -> Any:
                check(args, kwargs)
                return await function(*args, **kwargs)

            result = awaited
        else:

            @functools.wraps(function)
            def called(*args: Any, **kwargs: Any) -> Any:
                check(args, kwargs)
                return function(*args, **kwargs)

            result = called
        return result  # type: ignore[no-any-return]

    return decorate


def made_by(form: str, kind: Type[Any]) -> Callable[[F], F]:
    """An ``__init__`` that only this package calls: its second argument is of this kind.

    :param form: what people write.
    """

    def decorate(function: F) -> F:
        most = len(inspect.signature(function).parameters)

        @functools.wraps(function)
        def init(*args: Any, **kwargs: Any) -> Any:
            if kwargs or len(args) != most or not isinstance(args[2], kind):
                raise TypeError(f"a {type(args[0]).__name__} is made by a client: write `{form}`")
            return function(*args)

        result: Any = init
        return result  # type: ignore[no-any-return]

    return decorate


#: What other packages have, and this one has not.
_NAMES: Dict[str, str] = {
    "RLock": "no lock here is acquired again by its holder: hand `held` down, or ask `fairlock.held()` in what it calls",
    "Semaphore": "write `client.semaphore(name, slots)`",
    "BoundedSemaphore": "write `client.semaphore(name, slots)`",
    "AsyncLock": "write `async with client.lock(name).acquire() as held:`",
    "Redis": "write `fairlock.connect(url)`",
    "LockError": "write `fairlock.Error`, or `fairlock.LockLost` for a lease that is over",
    "LockNotOwnedError": "write `fairlock.LockLost`",
    "compat": "write `import fairlock.compat`",
    "testing": "write `import fairlock.testing`",
}


def no_such_name(name: str) -> NoReturn:
    """The ``__getattr__`` of the package."""
    hint = f": {_NAMES[name]}" if name in _NAMES else ""
    raise AttributeError(f"module 'fairlock' has no attribute {name!r}{hint}")


class Foreign:
    """An object that other libraries know in another form."""

    __slots__ = ()

    #: What to write for a block.
    _block: ClassVar[str]
    #: What to write for attributes of others, by their names.
    _instead: ClassVar[Tuple[Tuple[Iterable[str], str], ...]]

    if not TYPE_CHECKING:

        def _refuse_block(self, *ignored: Any) -> NoReturn:
            raise TypeError(f"{self!r} has no block of its own: write {self._block}")

        __enter__ = __exit__ = __aenter__ = __aexit__ = _refuse_block

        def __getattr__(self, name: str) -> NoReturn:
            for names, hint in self._instead:
                if name in names and not name.startswith("_"):
                    found = f"{type(self).__name__!r} object has no attribute {name!r}"
                    raise AttributeError(f"{found}: {hint.format(name=name)}")
            # Raises what Python says of any attribute that is not there.
            return object.__getattribute__(self, name)
