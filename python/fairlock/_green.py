"""Greenlets. All those of a thread share it with a hub, and a wait that stops the thread stops all of them.

Under gevent waits therefore go by the hub, which watches the socket of a notifier. And no thread of ours runs Python:
it and the greenlets would wait for each other's locks. Mutexes that were made before gevent replaced them stay those of
threads, so nothing here switches while it has one.
"""

from __future__ import annotations

import sys
import time
import weakref
from typing import Any, Callable, List, Optional, TypeVar

from . import _native
from ._notified import Notified

T = TypeVar("T")


def refuse_eventlet() -> None:
    """Raises RuntimeError where eventlet has replaced threads or sockets."""
    patcher: Any = sys.modules.get("eventlet.patcher")
    if patcher is not None and patcher.already_patched:
        raise RuntimeError(
            "fairlock does not work under eventlet.monkey_patch(): a wait would stop all green threads. Use gevent, "
            "threads or asyncio"
        )


def _hub_of_thread() -> Any:
    local: Any = sys.modules.get("gevent._hub_local")
    # `gevent.get_hub` would make one.
    return None if local is None else local.get_hub_if_exists()


def hub() -> Any:
    """The hub to which the current greenlet can switch; None where a wait may stop the thread."""
    here = _hub_of_thread()
    # A handler of a signal, or a callback, may run in the hub itself.
    return None if here is None or here is _current() else here


def replaces_threads() -> bool:
    """Whether gevent runs this program: there is a hub, or what looks like a thread or a socket waits by one."""
    monkey: Any = sys.modules.get("gevent.monkey")
    names = ("threading", "socket", "time")
    return hub() is not None or (monkey is not None and any(monkey.is_module_patched(name) for name in names))


def _current() -> Any:
    return sys.modules["greenlet"].getcurrent()


class _OfHub(Notified):
    """The waits of the greenlets of one hub."""

    def __init__(self, hub: Any) -> None:
        super().__init__()
        self._watcher: Any = hub.loop.io(self.notifier.fileno(), 1)

    def wait(self, operation: _native.Operation, longest: Optional[float]) -> None:
        """Returns when it has ended, when the time is over, or in a forked process."""
        from gevent.event import Event

        ended = Event()
        key = self.begin(operation, ended.set)
        if key:
            try:
                # While it is active, the hub does not complain that nothing can happen any more.
                if not self._watcher.active:
                    self._watcher.start(self.notifier.wake_due, self.pending)
                ended.wait(longest)
            finally:
                self.forget(key)
                if not self.pending and self._watcher.active:
                    self._watcher.stop()

    def after_fork(self) -> None:
        """The socket is the parent's. The greenlets that wait are here, too: they ask their operations again."""
        self._watcher.stop()
        for _, wake in self.pending.values():
            wake()


_of_hubs: weakref.WeakKeyDictionary[Any, _OfHub] = weakref.WeakKeyDictionary()


def wait(hub: Any, operation: _native.Operation, longest: Optional[float]) -> Any:
    """As ``operation.wait``, while the other greenlets run."""
    left, until = longest, None if longest is None else time.monotonic() + longest
    try:
        while True:
            of_hub = _of_hubs.get(hub)
            if of_hub is None:
                of_hub = _of_hubs[hub] = _OfHub(hub)
            of_hub.wait(operation, left)
            if of_hub.notifier.poll(operation, 0):
                return operation.take()
            if until is not None:
                left = until - time.monotonic()
                if left <= 0:
                    raise TimeoutError("the time is over")
    except BaseException:
        # A greenlet was killed, or a gevent.Timeout is over. A lease that came at the same moment is given back.
        operation.cancel()
        raise


class Teller:
    """A greenlet that calls ``tell`` whenever the socket can be read, until that returns False; then ``ended``."""

    def __init__(self, fileno: int, tell: Callable[[], bool], ended: Callable[[], object]) -> None:
        import gevent

        self.hub: Any = gevent.get_hub()
        # A program that waits for nothing else may end, or be told that it waits for ever.
        self._watcher: Any = self.hub.loop.io(fileno, 1, ref=False)
        self._tell, self._ended = tell, ended
        self._greenlet: Any = gevent.spawn(self._run)

    def _run(self) -> None:
        try:
            self.hub.wait(self._watcher)
            while self._tell():
                self.hub.wait(self._watcher)
        finally:
            # A Ctrl-C may have hit it: then the next operation starts another one.
            self._ended()

    def join(self, longest: float) -> None:
        """Waits for its end, if this is a greenlet of the same hub."""
        if hub() is self.hub:
            self._greenlet.join(longest)

    def after_fork(self) -> None:
        """The socket is the parent's."""
        self._ended = int
        self._watcher.stop()
        self._greenlet.kill(block=False)

    def ask(self, function: Callable[[], T]) -> T:
        """Calls this in a greenlet of the hub, for a thread that has none. The library waits no longer for a login."""
        import gevent
        from gevent import monkey

        outcome: List[Callable[[], T]] = []
        asked: Any = monkey.get_original("_thread", "allocate_lock")()
        asked.acquire()

        def run() -> None:
            try:
                answer = function()
                outcome.append(lambda: answer)
            except Exception as error:
                outcome.append(_raises(error))
            finally:
                asked.release()

        self.hub.loop.run_callback_threadsafe(gevent.spawn, run)
        if not asked.acquire(True, 5):
            raise TimeoutError("no greenlet could run for 5 seconds")
        return outcome[0]()


def _raises(error: Exception) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


def interrupt_main(is_armed: Callable[[], bool]) -> bool:
    """In a handler of a signal, which runs in any greenlet or in the hub: the main greenlet is to be interrupted, and not
    that one. False where it is the main greenlet."""
    here = _hub_of_thread()
    if here is None or here.parent is _current():
        return False
    Interrupt(here, here.parent).send(is_armed)
    return True


class Interrupt:
    """A KeyboardInterrupt for a greenlet: the current one, or another."""

    def __init__(self, hub: Any, greenlet: Any = None) -> None:
        self._hub, self._greenlet = hub, greenlet or _current()

    def watch(self, until_lost: Callable[[], None]) -> None:
        import gevent

        gevent.spawn(until_lost)

    def send(self, is_armed: Callable[[], bool]) -> None:
        """Unless the block has ended by the time at which the hub comes to it."""

        def throw() -> None:
            if is_armed():
                self._greenlet.throw(KeyboardInterrupt)

        self._hub.loop.run_callback(throw)


def after_fork() -> None:
    """Waits of greenlets of the parent."""
    for of_hub in list(_of_hubs.values()):
        of_hub.after_fork()
    _of_hubs.clear()
