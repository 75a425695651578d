"""Refuses sub-interpreters. The native half keeps objects of one interpreter and would hand them to another."""

from __future__ import annotations

import importlib
from typing import Any


def is_the_main_one() -> bool:
    """Whether this interpreter is the process's first. Unknown counts as yes."""
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            interpreters: Any = importlib.import_module(name)
            return bool(interpreters.get_current() == interpreters.get_main())
        except (ImportError, AttributeError):
            continue
    return True


if not is_the_main_one():
    raise ImportError(
        "fairlock does not support sub-interpreters: import it in the main interpreter of a process (with mod_wsgi set "
        "WSGIApplicationGroup %{GLOBAL})"
    )
