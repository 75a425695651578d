"""What Python runs after the handlers of ``atexit``: ``__del__``, and the end of every block that is suspended. By then
fairlock has released everything. Whatever still uses a lock ends at once, has nothing to complain of, and leaves nothing
behind, on this Python and on those that ``FAIRLOCK_PYTHONS`` names, which find the package in ``FAIRLOCK_PACKAGES``."""

from __future__ import annotations

import os
import sys
import textwrap
from pathlib import Path
from typing import Callable, Dict, Tuple

import pytest
from conftest import Child, is_free

import fairlock

#: By their names: the program, and where it finds its packages.
PYTHONS: Dict[str, Tuple[str, str]] = {"this": (sys.executable, "")}
for _path in filter(None, os.environ.get("FAIRLOCK_PYTHONS", "").split(os.pathsep)):
    PYTHONS[Path(_path).parent.name] = (_path, os.environ["FAIRLOCK_PACKAGES"])

#: `say` needs nothing that may be gone. Nobody waits for a lease to end.
BEFORE = """
import atexit
def say(what, write=os.write):
    write(1, what.encode() + b"\\n")
class AtEnd:
    def __init__(self, end): self.end = end
    def __call__(self, *ignored): pass
    def __del__(self):
        try:
            say(str(self.end()))
        except fairlock.Error as error:
            say(type(error).__name__)
def suspend(coroutine):
    # A task that is not done when its loop is left. asyncio complains of it, by that handler.
    global loop, task
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    task = loop.create_task(coroutine)
    loop.run_until_complete(asyncio.sleep(0.1))
"""

#: Statements at the top of a program, and what it says.
CASES: Dict[str, Tuple[str, str]] = {
    "del releases": ("a = AtEnd(lock.acquire().wait().release)", "None"),
    "del releases all": ("a = AtEnd(client.lock_all([lock, 'other']).wait().release)", "None"),
    "del checks": ("a = AtEnd(lock.acquire().wait().check)", "LockLost"),
    "del waits for the loss": ("held = lock.acquire().wait(); a = AtEnd(lambda: held.lost.wait().reason)", "closed"),
    "del renews": ("a = AtEnd(lock.acquire().wait().renew)", "LockLost"),
    "del acquires": ("a = AtEnd(lambda: lock.acquire(timeout=1).wait())", "Closed"),
    "del tries": ("a = AtEnd(lambda: lock.try_acquire().wait())", "Closed"),
    "del enqueues": ("a = AtEnd(lambda: lock.enqueue().wait())", "Closed"),
    "del inspects": ("a = AtEnd(lambda: lock.inspect().wait())", "Closed"),
    "del asks first of all": ("del lock\na = AtEnd(lambda: client.lock('lock').is_locked().wait())", "Closed"),
    "del closes": ("lock.acquire().wait().release(); a = AtEnd(client.close)", "None"),
    "del connects": ("url = client._settings['url']; a = AtEnd(lambda: fairlock.connect(url))", "Closed"),
    "del makes a client": ("url = client._settings['url']; a = AtEnd(lambda: fairlock.Client(url))", "Closed"),
    "del leaves the queue": ("h = lock.acquire().wait(); a = AtEnd(lock.enqueue().wait().leave)", "None"),
    "del ends a service": ("import fairlock.testing; a = AtEnd(fairlock.testing.LockService().close)", "None"),
    "a cycle": ("a = AtEnd(lock.acquire().wait().release); a.me = a", "None"),
    "another module": (
        "sys.modules['other'] = o = type(sys)('other'); o.a = AtEnd(lock.acquire().wait().release); del o", "None",
    ),
    "events": (
        """
        import logging
        logging.getLogger("fairlock").addHandler(logging.StreamHandler(open(os.devnull, "w")))
        logging.getLogger("fairlock").setLevel(logging.DEBUG)
        a = AtEnd(lock.acquire().wait().release)
        """,
        "None",
    ),
    # From here on more and more of the interpreter is gone.
    "sys": ("sys.a = AtEnd(lock.acquire().wait().release)", "None"),
    "another package": ("import logging; logging.a = AtEnd(lock.acquire().wait().release)", "None"),
    "a handler of a signal": ("signal.signal(signal.SIGUSR2, AtEnd(lock.acquire().wait().release))", "None"),
    "a late acquire": ("signal.signal(signal.SIGUSR2, AtEnd(lambda lock=lock: lock.acquire().wait()))", "Closed"),
    "a handler of atexit": ("atexit.register(AtEnd(lock.acquire().wait().release))", "None"),
    "a handler of forks": ("os.register_at_fork(after_in_child=AtEnd(lambda: lock.acquire()))", ""),
    "a generator": ("def g():\n    with lock.acquire(): yield\nx = g(); next(x)", ""),
    "a generator with several": ("def g():\n    with client.lock_all([lock]): yield\nx = g(); next(x)", ""),
    "a generator that waits": (
        "h = lock.acquire().wait()\ndef g():\n    with lock.enqueue().wait(): yield\ndef f():\n"
        "    w = lock.enqueue().wait()\n    try: yield\n    finally: w.leave(); say('left')\nx = f(); next(x)",
        "left",
    ),
    "a generator that is interrupted": (
        "def g():\n    with lock.acquire(on_lost='interrupt'): yield\nx = g(); next(x)", "",
    ),
    "a context manager": (
        """
        import contextlib
        @contextlib.contextmanager
        def g():
            with lock.acquire() as held: yield held
        x = g(); x.__enter__()
        """,
        "",
    ),
    "an exit stack": (
        """
        import contextlib
        x = contextlib.ExitStack(); x.enter_context(lock.acquire())
        a = AtEnd(x.close)
        """,
        "None",
    ),
    "a key": ("mutex = client.keyed_mutex('k', lease=3600); mutex.acquire(1); a = AtEnd(lambda: mutex.release(1))", "True"),
    "a coroutine": ("async def main():\n    async with lock.acquire(): await asyncio.sleep(9)\nsuspend(main())", ""),
    "a coroutine that is cancelled": (
        "async def main():\n    async with lock.acquire(on_lost='cancel'): await asyncio.sleep(9)\nsuspend(main())", "",
    ),
    "a coroutine with several": (
        "async def main():\n    async with client.lock_all([lock]): await asyncio.sleep(9)\nsuspend(main())", "",
    ),
    "a coroutine that waits": (
        "h = lock.acquire().wait()\nasync def main():\n    async with lock.acquire(): pass\nsuspend(main())", "",
    ),
    "a coroutine of a loop that is closed": (
        "async def main():\n    async with lock.acquire(on_lost='cancel'): await asyncio.sleep(9)\n"
        "suspend(main()); loop.close()",
        "",
    ),
    "a decorated coroutine": (
        "@client.locked('lock', lease=3600)\nasync def main(): await asyncio.sleep(9)\nsuspend(main())", "",
    ),
    # asyncio has a warning of its own.
    "an asynchronous generator": (
        "import warnings; warnings.simplefilter('ignore')\nasync def g():\n    async with lock.acquire(): yield\n"
        "x = g()\nasync def main(): await x.__anext__()\nsuspend(main())",
        "",
    ),
    "redis-py's": (
        "from fairlock.compat import Lock\nlock = Lock(redis, 'lock', timeout=3600); lock.acquire(); a = AtEnd(lock.release)",
        "None",
    ),
    "redis-py's, in a task": (
        "from fairlock.compat import AsyncLock\nasync def main():\n"
        "    async with AsyncLock(redis, 'lock', timeout=3600): await asyncio.sleep(9)\nsuspend(main())",
        "",
    ),
    "python-redis-lock's": (
        "from fairlock.compat.redis_lock import Lock\ndef g():\n    with Lock(redis, 'lock', expire=3600): yield\n"
        "x = g(); next(x)",
        "",
    ),
    "redis-fifo-lock's": (
        "from fairlock.compat import RedisFairLock\nlock = RedisFairLock('lock', redis, expire=3600); lock.acquire()\n"
        "a = AtEnd(lock.release)",
        "None",
    ),
}  # fmt: skip

@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("case", CASES)
def test_what_uses_a_lock_after_the_handlers_of_atexit_ends(
    client: fairlock.Client, child: Callable[..., Child], case: str, python: str
) -> None:
    code, says = CASES[case]
    made = "lock = client.lock('lock', lease=3600)\n"
    if "redis" in code:
        made += "import redis; redis = redis.Redis(unix_socket_path=url[len('unix://'):])\n"
    process = child(made + textwrap.dedent(code), before=BEFORE, python=PYTHONS[python])
    assert process.ended() == (f"{says}\n" if says else "", "")
    is_free(client.lock("lock"))


HANDLERS = """
def use():
    try:
        with fairlock.connect(url).lock("lock", lease=3600).acquire():
            say("held")
    except fairlock.Error as error:
        say(type(error).__name__)
"""


@pytest.mark.parametrize("python", PYTHONS)
def test_a_handler_of_atexit_uses_locks_if_it_was_registered_after_the_import(
    client: fairlock.Client, child: Callable[..., Child], python: str
) -> None:
    """Nothing was used before. The handler that was registered first is called last, when all is over."""
    process = child(
        "atexit.register(use); unused = fairlock.Client(url)",
        first="import atexit; atexit.register(lambda: use())",
        before=BEFORE + HANDLERS,
        python=PYTHONS[python],
    )
    assert process.ended() == ("held\nClosed\n", "")
    is_free(client.lock("lock"))


@pytest.mark.parametrize("first", ["from gevent import monkey; monkey.patch_all()", "import gevent; gevent.sleep(0)"])
@pytest.mark.parametrize("case", ["del releases", "del acquires", "del closes", "a generator", "a late acquire"])
def test_so_it_does_in_a_program_of_gevent(
    client: fairlock.Client, child: Callable[..., Child], case: str, first: str
) -> None:
    code, says = CASES[case]
    process = child("lock = client.lock('lock', lease=3600)\n" + code, before=BEFORE, first=first)
    assert process.ended() == (f"{says}\n" if says else "", "")
    is_free(client.lock("lock"))

