"""Values as people write them, and objects that belong to one process."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import NoReturn, Optional, SupportsIndex, Union, overload

from ._errors import InvalidOption

#: A time: seconds, or a timedelta.
Seconds = Union[int, float, timedelta]


@overload
def seconds(time: Seconds) -> float: ...
@overload
def seconds(time: Optional[Seconds]) -> Optional[float]: ...
def seconds(time: Optional[Seconds]) -> Optional[float]:
    """A time in seconds."""
    if time is None:
        return None
    if isinstance(time, timedelta):
        return time.total_seconds()
    if isinstance(time, bool) or not isinstance(time, (int, float)):  # pyright: ignore[reportUnnecessaryIsInstance]
        hint = "; a try that does not wait is try_acquire()" if time is False else ""
        raise InvalidOption(f"a time is {time!r}, but must be a number of seconds or a timedelta{hint}")
    return float(time)


def timeout_of(time: Optional[Seconds]) -> Optional[float]:
    """How many seconds an acquire waits; None is for ever, as -1 is elsewhere."""
    after = seconds(time)
    if after is not None and not 0 <= after < math.inf:
        raise InvalidOption(
            f"timeout is {after:g} s, but must be a finite time from 0 on: to wait for ever leave it out, and a try that does "
            "not wait is try_acquire()"
        )
    return after


class OfOneProcess:
    """Cannot be pickled: it stands for connections, leases and places of this process."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} of fairlock cannot be pickled or copied, because what it stands for belongs to "
            "this process: pass the lock's name along, and make a client in the other process"
        )
