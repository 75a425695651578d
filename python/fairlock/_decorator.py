"""Functions that run under a lock."""

from __future__ import annotations

import functools
import inspect
import string
from contextlib import suppress
from contextvars import ContextVar, Token
from typing import Any, Callable, Dict, NoReturn, Optional, Tuple, TypeVar, Union

from ._errors import InvalidOption
from ._held import AsyncHeld, Held
from ._lock import Acquire, Lock
from ._options import OnLost, has_address, own_text

F = TypeVar("F", bound=Callable[..., Any])

#: A lease, and what was held outside of it.
_Entry = Tuple[Union[Held, AsyncHeld], Any]
_held: ContextVar[Optional[_Entry]] = ContextVar("fairlock.held", default=None)


def held() -> Held:
    """The lease under which a function that :meth:`Client.locked` decorates runs in this thread or task, the innermost of
    them: its slot, its token, and whether it is still held. In a coroutine function :func:`aheld` has what can be awaited.

    Raises RuntimeError where none runs, and when its lease was released.
    """
    lease = _lease("held")
    return lease if isinstance(lease, Held) else Held(lease._guard)


def aheld() -> AsyncHeld:
    """As :func:`held`, in a coroutine function."""
    lease = _lease("aheld")
    if isinstance(lease, Held):
        raise RuntimeError("the function that client.locked() decorates is no coroutine function: call fairlock.held()")
    return lease


def _lease(asked: str) -> Union[Held, AsyncHeld]:
    entry = _innermost()
    if entry is None:
        raise RuntimeError(
            f"no function that client.locked() decorates runs in this thread or task: call fairlock.{asked}() in one, or "
            "in what it calls. A block has its own: `with lock.acquire() as held:`"
        )
    return entry[0]


def _innermost() -> Optional[_Entry]:
    """An interrupt between the end of a function and its :func:`_leave` lets the entry stay, but not the lease."""
    entry = _held.get()
    while entry is not None and entry[0]._guard.given_back:
        entry = entry[1]
    return entry


def _enter(lease: Union[Held, AsyncHeld]) -> Token[Optional[_Entry]]:
    return _held.set((lease, _innermost()))


def _leave(before: Token[Optional[_Entry]]) -> None:
    # A coroutine that is closed, and not awaited to its end, may end in another context.
    with suppress(ValueError):
        _held.reset(before)


def decorate(
    function: F,
    name: Union[None, str, Lock],
    lock: Callable[[str], Lock],
    acquire: Callable[[Lock, Optional[OnLost]], Acquire],
    on_lost: Optional[OnLost],
) -> F:
    """The function, each call of which holds the lock."""
    if inspect.isclass(function):
        raise TypeError(
            f"{called(function)} is a class: the lock would be held while an object is made, and not while it is used. "
            "Decorate its methods"
        )
    if _is_one(inspect.isgeneratorfunction, function) or _is_one(inspect.isasyncgenfunction, function):
        raise TypeError(
            f"{called(function)} is a generator: it would run after the lock is released. Acquire the lock within it"
        )
    chosen = _names(function, name, lock)
    wrapper: Any
    if _is_one(inspect.iscoroutinefunction, function):

        @functools.wraps(function)
        async def hold_async(*args: Any, **kwargs: Any) -> Any:
            async with acquire(chosen(args, kwargs), on_lost or "cancel") as lease:
                before = _enter(lease)
                try:
                    return await function(*args, **kwargs)
                finally:
                    _leave(before)

        wrapper = hold_async
    else:

        @functools.wraps(function)
        def hold(*args: Any, **kwargs: Any) -> Any:
            with acquire(chosen(args, kwargs), on_lost) as lease:
                before = _enter(lease)
                try:
                    result = function(*args, **kwargs)
                finally:
                    _leave(before)
                if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
                    _refuse(function, result)
                return result

        wrapper = hold
    result: F = wrapper
    return result


def _is_one(kind: Callable[[Any], bool], function: Callable[..., Any]) -> bool:
    """Whether this function, or the object that is called as one, is of the kind."""
    return kind(function) or kind(getattr(function, "__call__", None))


def _refuse(function: Callable[..., Any], result: Any) -> NoReturn:
    """What a plain function has begun runs after it has returned: without the lock."""
    for name in ("close", "cancel"):
        end = getattr(result, name, None)
        if end is not None:
            end()
            break
    raise TypeError(
        f"{called(function)} returned {result!r}, which would run after the lock is released: decorate the coroutine "
        "function itself, beneath other decorators, or acquire the lock within it"
    )


def called(function: Callable[..., Any]) -> str:
    """How others call it."""
    return getattr(function, "__qualname__", None) or repr(function)


def default_name(function: Callable[..., Any], in_module: Optional[str]) -> str:
    """The name of a lock that is called as its function. A script has another module name than an importer sees."""
    if in_module is None:
        raise InvalidOption(f"{function!r} has no name that is the same in all processes: name the lock")
    if function.__module__ in ("__main__", "__mp_main__"):
        raise InvalidOption(
            f"{called(function)} is a function of a program, {function.__module__}, so its lock would have the name of "
            "such functions of other programs, and not the one that it has where this file is imported: name the lock"
        )
    return f"{function.__module__}.{in_module}"


def _names(
    function: Callable[..., Any], name: Union[None, str, Lock], lock: Callable[[str], Lock]
) -> Callable[..., Lock]:
    """What chooses the lock of a call."""
    if isinstance(name, Lock):
        return _always(name)
    if name is None:
        # Braces in a name choose a cluster slot; `<locals>` of nested functions has none.
        name, fields = default_name(function, getattr(function, "__qualname__", None)), []
    else:
        fields = [field for _, field, _, _ in string.Formatter().parse(name) if field is not None]
        name = name if fields else name.format()
    if not fields:
        return _always(lock(name))
    signature, template = inspect.signature(function), name
    for field in fields:
        argument = field.split(".")[0].split("[")[0]
        if argument not in signature.parameters:
            raise InvalidOption(
                f"the lock's name {template!r} mentions {{{argument}}}, but {called(function)}{signature} has no "
                "such argument"
            )

    def of_call(args: Any, kwargs: Any) -> Lock:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        chosen = template.format(**bound.arguments)
        if has_address(chosen):
            _refuse_addresses(template, bound.arguments)
        return lock(chosen)

    return of_call


def _refuse_addresses(template: str, arguments: Dict[str, Any]) -> None:
    """Names the argument whose text has an address in it. A ``str`` says what its caller wants."""
    formatter = string.Formatter()
    for _, field, _, conversion in formatter.parse(template):
        value = "" if field is None else formatter.get_field(field, (), arguments)[0]
        if not isinstance(value, str):
            text = str(formatter.convert_field(value, conversion))
            own_text(f"{{{field}}} in the lock's name {template!r}", value, text, f"{{{field}.id}}")


def _always(lock: Lock) -> Callable[..., Lock]:
    def of_call(args: Any, kwargs: Any) -> Lock:
        return lock

    return of_call
