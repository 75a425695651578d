"""Functions that run under a lock."""

from __future__ import annotations

import functools
import inspect
import string
from typing import Any, Callable, Optional, TypeVar

from ._errors import InvalidOption
from ._lock import Acquire, Lock

F = TypeVar("F", bound=Callable[..., Any])


def decorate(
    function: F,
    name: Optional[str],
    lock: Callable[[str], Lock],
    acquire: Callable[[Lock, Optional[str]], Acquire],
    on_lost: Optional[str],
) -> F:
    """The function, each call of which holds the lock."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(
            f"{function.__qualname__} is a generator: it would run after the lock is released. "
            "Acquire the lock within it"
        )
    chosen = _names(function, name, lock)
    wrapper: Any
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def hold_async(*args: Any, **kwargs: Any) -> Any:
            async with acquire(chosen(args, kwargs), on_lost or "cancel"):
                return await function(*args, **kwargs)

        wrapper = hold_async
    else:

        @functools.wraps(function)
        def hold(*args: Any, **kwargs: Any) -> Any:
            with acquire(chosen(args, kwargs), on_lost):
                return function(*args, **kwargs)

        wrapper = hold
    result: F = wrapper
    return result


def _names(function: Callable[..., Any], name: Optional[str], lock: Callable[[str], Lock]) -> Callable[..., Lock]:
    """What chooses the lock of a call."""
    if name is None:
        # Braces in a name choose a cluster slot; `<locals>` of nested functions has none.
        name, fields = f"{function.__module__}.{function.__qualname__}", []
    else:
        fields = [field for _, field, _, _ in string.Formatter().parse(name) if field is not None]
        name = name if fields else name.format()
    if not fields:
        only = lock(name)

        def the_only(args: Any, kwargs: Any) -> Lock:
            return only

        return the_only
    signature, template = inspect.signature(function), name
    for field in fields:
        argument = field.split(".")[0].split("[")[0]
        if argument not in signature.parameters:
            raise InvalidOption(
                f"the lock's name {template!r} mentions {{{argument}}}, but {function.__qualname__}{signature} has no "
                "such argument"
            )

    def of_call(args: Any, kwargs: Any) -> Lock:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return lock(template.format(**bound.arguments))

    return of_call
