"""Signals, forks, and what cannot leave its process."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import sys
from typing import Callable

import pytest
from conftest import SOON, Child, Server, eventually, is_free, waiting

import fairlock

Start = Callable[..., Child]


def test_ctrl_c_interrupts_a_wait_and_leaves_the_queue(client: fairlock.Client, child: Start) -> None:
    lock = client.lock("lock")
    with lock.acquire():
        process = child("""
            try:
                with client.lock("lock").acquire(): pass
            except KeyboardInterrupt:
                print("interrupted")
            held = client.lock("other").acquire().wait()
            print(held.token > 0)
        """)
        waiting(lock, 1)
        process.process.send_signal(signal.SIGINT)
        assert process.line() == "interrupted"
        waiting(lock, 0)
        assert process.line() == "True" and process.end() == ""
        assert lock.inspect().wait().holders
    is_free(lock)


def test_ctrl_c_interrupts_a_waiting_event_loop(client: fairlock.Client, child: Start) -> None:
    lock = client.lock("lock")
    with lock.acquire():
        process = child("""
            async def main():
                async with client.lock("lock").acquire(): pass
            try:
                asyncio.run(main())
            except KeyboardInterrupt:
                print("interrupted")
        """)
        waiting(lock, 1)
        process.process.send_signal(signal.SIGINT)
        assert process.line() == "interrupted"
        process.end()
        waiting(lock, 0)


def test_a_signal_handler_runs_during_a_wait_and_the_wait_goes_on(client: fairlock.Client, child: Start) -> None:
    lock = client.lock("lock")
    with lock.acquire():
        process = child("""
            def handle(number, frame):
                with client.lock("other").acquire(): print("handled")
            signal.signal(signal.SIGUSR1, handle)
            with client.lock("lock").acquire(): print("granted")
        """)
        waiting(lock, 1)
        process.process.send_signal(signal.SIGUSR1)
        assert process.line() == "handled"
        assert lock.inspect().wait().waiting == 1
    assert process.line() == "granted"
    process.end()


def test_a_loss_interrupts_the_main_thread(client: fairlock.Client, child: Start) -> None:
    process = child("""
        try:
            with client.lock("lock").acquire(on_lost="interrupt") as held:
                print(held.token)
                time.sleep(60)
        except fairlock.LockLost as lost:
            print(lost.reason)
        time.sleep(0.1)
        with client.lock("lock").acquire(on_lost="interrupt") as held: pass
        print("end")
    """)
    token = int(process.line())
    client.lock("lock").break_lease(token, force=True).wait()
    assert process.line() == "broken" and process.line() == "end"
    assert "Traceback" not in process.end()


@pytest.mark.parametrize(
    "before",
    [
        # A shell script does so for each job that it starts in the background.
        "signal.signal(signal.SIGINT, signal.SIG_IGN)",
        # So that Ctrl-C ends a program without a word.
        "signal.signal(signal.SIGINT, signal.SIG_DFL)",
        # The signal that is used then, if the program ignores that too.
        "signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGURG, signal.SIG_IGN)",
    ],
)
def test_a_loss_interrupts_a_main_thread_that_ctrl_c_does_not(
    client: fairlock.Client, child: Start, before: str
) -> None:
    process = child(
        """
        try:
            with client.lock("outer").acquire(on_lost="interrupt"):
                try:
                    with client.lock("lock").acquire(on_lost="interrupt") as held:
                        print(held.token)
                        os.kill(os.getpid(), signal.SIGURG)
                        time.sleep(60)
                except fairlock.LockLost as lost:
                    print(lost.reason, lost.name)
                print("goes on")
                time.sleep(60)
        except fairlock.LockLost as lost:
            print(lost.reason, lost.name)
        """,
        before + "\n",
    )
    token = int(process.line())
    client.lock("lock").break_lease(token, force=True).wait()
    assert process.line() == "broken lock" and process.line() == "goes on"
    [holder] = client.lock("outer").inspect().wait().holders
    client.lock("outer").break_lease(holder.token, force=True).wait()
    assert process.line() == "broken outer" and "Traceback" not in process.end()


def test_programs_that_expect_no_interrupt_are_told(child: Start) -> None:
    process = child("""
        for number in (signal.SIGINT, signal.SIGURG):
            before = signal.signal(number, lambda number, frame: None)
            try:
                client.lock("lock").acquire(on_lost="interrupt").wait()
            except fairlock.InvalidOption as error:
                print(number.name in str(error), "its own handler" in str(error))
            signal.signal(number, before)
    """)
    assert process.line() == "True True" and process.line() == "True True" and process.end() == ""


def test_a_client_that_was_made_before_a_fork(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    held = lock.acquire().wait()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = "nothing"
        try:
            try:
                held.check()
                said = "held"
            except fairlock.LockLost as lost:
                said = f"{lost.reason}, {held.remaining} s left"
            del held
            with client.lock("of the child").acquire(timeout=SOON) as mine, lock.acquire(timeout=SOON):
                said += " then held" if mine.remaining > 0 else ""
        except BaseException as error:
            said += f" {error!r}"
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    waiting(lock, 1)
    held.check()
    held.release()
    with os.fdopen(reader) as told:
        assert told.read() == "forked, 0.0 s left then held"
    os.waitpid(pid, 0)
    is_free(lock)


def test_a_pool_of_forked_workers(child: Start, client: fairlock.Client) -> None:
    process = child("""
        import multiprocessing
        def work(number):
            with client.lock("lock").acquire(timeout=30) as held: return held.token
        client.lock("lock").acquire().wait().release()
        with multiprocessing.get_context("fork").Pool(3) as pool:
            tokens = pool.map(work, range(12), chunksize=1)
        print(len(set(tokens)))
    """)
    assert process.line() == "12"
    process.end()
    is_free(client.lock("lock"))


def test_ctrl_c_is_heard_while_the_server_hangs(server: Server, child: Start) -> None:
    process = child("""
        client.lock("lock").acquire().wait().release()
        print("ready")
        sys.stdin.readline()
        try:
            print("asks")
            with client.lock("lock").acquire(): pass
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert process.line() == "ready"
    server.stop()
    try:
        process.process.stdin.write("go\n")  # type: ignore[union-attr]
        process.process.stdin.flush()  # type: ignore[union-attr]
        assert process.line() == "asks"
        eventually("it waits", process.is_asleep)
        process.process.send_signal(signal.SIGINT)
        assert process.line() == "interrupted"
    finally:
        server.cont()


def test_no_thread_is_left_when_clients_are_closed(child: Start) -> None:
    process = child("""
        def name(thread):
            try:
                return open(f"/proc/self/task/{thread}/comm").read().strip()
            except OSError:
                return "it has just ended"
        def threads():
            return sorted(name(thread) for thread in os.listdir("/proc/self/task"))
        client.close()
        del client
        while [name for name in threads() if name.startswith("fairlock-k")]: time.sleep(0.01)
        print("ended")
    """)
    assert process.line() == "ended"
    process.end()


def test_nothing_of_a_process_can_be_pickled(client: fairlock.Client) -> None:
    lock = client.lock("lock")
    with lock.acquire() as held:
        for thing in (client, lock, held, held.lost, lock.inspect):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                pickle.dumps(thing)
        with pytest.raises(TypeError, match="pass the lock's name along"):
            copy.copy(held)
        state = lock.inspect().wait()
        assert pickle.loads(pickle.dumps(state)) == state
    error = fairlock.Timeout("message", waited=1.0, position=None, cause=None)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.waited) == ("message", 1.0)


def test_sub_interpreters_are_refused_with_a_reason(child: Start) -> None:
    interpreters = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    process = child(f"""
        import {interpreters} as interpreters
        one = interpreters.create()
        path = os.path.dirname(os.path.dirname(fairlock.__file__))
        failed = None
        try:
            failed = interpreters.run_string(one, f"import sys; sys.path.insert(0, {{path!r}}); import fairlock")
        except Exception as error:
            failed = error
        print("does not support sub" in str(failed) or "support subinterpreters" in str(failed))
    """)
    assert process.line() == "True"


def test_the_server_stops_a_waiter_that_was_killed(server: Server, client: fairlock.Client, child: Start) -> None:
    lock = client.lock("lock", liveness=1, buffer=0.5)
    held = lock.acquire().wait()
    process = child("client.lock('lock', liveness=1, buffer=0.5).acquire().wait()")
    waiting(lock, 1)
    process.process.kill()
    place = lock.enqueue().wait()
    held.release()
    place.wait().release()
    eventually("nobody waits", lambda: lock.inspect().wait().waiting == 0)
