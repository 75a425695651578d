"""One scenario for both worlds: threads that wait on the spot, and tasks of asyncio."""

from __future__ import annotations

import asyncio
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Awaitable, Callable

import pytest
from conftest import SOON, is_free
from kit import Kit

import fairlock


class World:
    """What an operation gives in this world, and what a call of what it gave does."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def get(self, operation: Any) -> Any:
        if self.name == "tasks":
            return await operation
        return await asyncio.get_running_loop().run_in_executor(None, operation.wait)

    async def do(self, call: Callable[..., Any], *arguments: Any) -> Any:
        if self.name == "tasks":
            return await call(*arguments)
        return await asyncio.get_running_loop().run_in_executor(None, call, *arguments)

    async def granted(self, place: Any) -> Any:
        """The lease of a place in the queue."""
        return await place if self.name == "tasks" else await self.do(place.wait)

    async def is_free(self, lock: fairlock.Lock) -> None:
        await asyncio.get_running_loop().run_in_executor(None, is_free, lock)


def in_both_worlds(scenario: Callable[..., Awaitable[None]], bound: float = 2 * SOON) -> Any:
    """A test that runs the scenario once in each of them. Its further arguments are fixtures, as of every test."""

    def run(world: str, **fixtures: Any) -> None:
        async def bounded() -> None:
            asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64))
            try:
                await asyncio.wait_for(scenario(World(world), **fixtures), bound)
            except BaseException:
                # The end of the loop waits for its threads, which may wait for a grant.
                for clients in fixtures.values():
                    if isinstance(clients, (fairlock.Client, Kit)):
                        clients.close()
                raise

        asyncio.run(bounded())

    functools.update_wrapper(run, scenario, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    return pytest.mark.parametrize("world", ["threads", "tasks"])(run)
