"""The end of the interpreter, and of a child of multiprocessing: what it gives back, and for whom it does not wait."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
from pathlib import Path
from typing import Callable

import pytest
from conftest import SOON, Child, Server, is_free

import fairlock

Start = Callable[..., Child]


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.parametrize("imported", ["", "import multiprocessing\n"])
def test_the_end_of_a_child_of_multiprocessing_leaves_nothing_behind(
    server: Server, client: fairlock.Client, tmp_path: Path, method: str, imported: str
) -> None:
    """It ends without the handlers of atexit. Nobody waits for the lease to end: it is of an hour."""
    program = tmp_path / "program.py"
    program.write_text(f"""{imported}import threading
import fairlock
client = fairlock.Client({server.url!r})
def hold(name):
    global held
    held = client.lock(name, lease=3600).acquire().wait()
def hold_beside_a_thread(name):
    # Such a thread goes on after the function has ended, and after everything that is done at the end.
    import multiprocessing.util
    hold(name)
    over = threading.Event()
    multiprocessing.util.Finalize(None, over.set, exitpriority=-1000)
    threading.Thread(target=release, args=(over,)).start()
def release(over):
    over.wait()
    held.check()
    held.release()
def start(target, name):
    import multiprocessing
    process = multiprocessing.get_context({method!r}).Process(target=target, args=(name,))
    process.start()
    process.join()
    return process.exitcode
if __name__ == "__main__":
    print(start(hold, "lock"), start(hold_beside_a_thread, "kept"), flush=True)
""")
    run = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=2 * SOON)
    assert (run.stdout, run.stderr) == ("0 0\n", "")
    for name in ("lock", "kept"):
        is_free(client.lock(name))


@pytest.mark.parametrize(
    "code",
    [
        "held = client.lock('lock').acquire().wait()",
        "held = client.lock('lock').acquire().wait(); raise SystemExit(0)",
        # A daemon thread that waits, and one that holds.
        """
        held = client.lock('lock').acquire().wait()
        def wait():
            with client.lock('lock').acquire(): pass
        threading.Thread(target=wait, daemon=True).start()
        while client.lock('lock').inspect().wait().waiting != 1: time.sleep(0.01)
        """,
        """
        import atexit
        @atexit.register
        def fail():
            held.check()
            sys.stderr.write("")
        held = client.lock('lock').acquire().wait()
        """,
        """
        async def main():
            global held
            held = await client.lock('lock').acquire()
            asyncio.create_task(client.lock('lock').acquire()._run())
            await asyncio.sleep(0.1)
        asyncio.run(main())
        """,
        # Objects that are only collected when the interpreter ends.
        """
        class Cycle: pass
        cycle = Cycle(); cycle.me = cycle; cycle.held = client.lock('lock').acquire().wait(); cycle.client = client
        sys.modules["cycle"] = cycle
        """,
    ],
)
def test_the_end_of_the_interpreter_leaves_nothing_behind(client: fairlock.Client, child: Start, code: str) -> None:
    process = child(code)
    assert process.end() == ""
    is_free(client.lock("lock"))


def test_the_end_waits_for_no_thread_that_a_handler_of_the_program_joins(child: Start) -> None:
    # Registered before the import, so it is called after this package has closed its clients.
    process = child(
        """
        held = client.lock("lock").acquire().wait()
        def wait():
            try:
                with client.lock("lock").acquire(): pass
            except fairlock.Closed: print("closed")
        waiter.append(threading.Thread(target=wait, daemon=True))
        waiter[0].start()
        while client.lock("lock").inspect().wait().waiting != 1: time.sleep(0.01)
        """,
        first="import atexit; waiter = []; atexit.register(lambda: waiter[0].join())",
    )
    assert process.line() == "closed"
    assert process.end() == ""


def test_a_daemon_thread_that_waits_does_not_go_on_while_the_interpreter_ends(child: Start) -> None:
    for _ in range(3):
        process = child("""
            held = client.lock('lock').acquire().wait()
            def wait():
                try:
                    with client.lock('lock').acquire(): pass
                finally:
                    sys.stderr.write("it went on")
            threading.Thread(target=wait, daemon=True).start()
            while client.lock('lock').inspect().wait().waiting != 1: time.sleep(0.01)
        """)
        assert process.end() == ""


def test_an_exception_in_atexit_does_not_keep_the_lock(client: fairlock.Client, child: Start) -> None:
    process = child("""
        import atexit
        held = client.lock('lock').acquire().wait()
        atexit.register(lambda: 1 / 0)
    """)
    assert "ZeroDivisionError" in process.end()
    is_free(client.lock("lock"))


def test_a_hard_exit_leaves_the_rest_of_the_lease(client: fairlock.Client, child: Start) -> None:
    process = child("held = client.lock('lock', lease=1).acquire().wait(); print('held'); os._exit(0)")
    assert process.line() == "held" and process.end() == ""
    with client.lock("lock").acquire(timeout=SOON):
        pass


@pytest.mark.parametrize("handled", [False, True])
def test_sigterm_releases_only_with_a_handler(client: fairlock.Client, child: Start, handled: bool) -> None:
    handler = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))" if handled else ""
    holder = child(f"""
        {handler}
        with client.lock("lock", lease=3600).acquire():
            print("held")
            while True: time.sleep(1)
    """)
    assert holder.line() == "held"
    holder.process.terminate()
    assert holder.process.wait(SOON) == (143 if handled else -signal.SIGTERM)
    assert client.lock("lock").is_locked().wait() is not handled
