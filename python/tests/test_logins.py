"""Passwords that are good for a short time."""

from __future__ import annotations

from typing import Any, List, Tuple

import pytest
from conftest import Server, eventually

import fairlock


def test_leases_outlive_passwords(server: Server) -> None:
    redis: Any = server.redis()
    redis.execute_command("ACL", "SETUSER", "app", "on", ">password-0", "~*", "&*", "+@all")
    asked: List[int] = []

    def credentials() -> Tuple[str, str, float]:
        asked.append(1)
        return "app", f"password-{current}", 2.0

    current = 0
    with fairlock.connect(server.url, credentials=credentials) as client, client.lock("lock").acquire() as held:
        current = 1
        redis.execute_command("ACL", "SETUSER", "app", "resetpass", ">password-1")
        before = len(asked)
        eventually("it is asked again", lambda: len(asked) > before + 1)
        # As a service does with a login that has expired.
        redis.execute_command("CLIENT", "KILL", "USER", "app")
        held.renew()
        held.check()


def test_what_the_function_raises_is_told(server: Server) -> None:
    def credentials() -> Tuple[str, str]:
        raise OSError("no token today")

    with pytest.raises(fairlock.AuthenticationError, match="OSError: no token today"):
        fairlock.connect(server.url, credentials=credentials)
