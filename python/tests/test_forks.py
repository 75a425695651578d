"""Forks at any moment: what a child may find taken for ever, and threads that it does not have."""

from __future__ import annotations

import sys
from typing import Callable

import pytest
from conftest import Child, is_free, waiting

import fairlock

Start = Callable[..., Child]

#: Forks again and again while threads work, and ends each child by the function. A child that hangs is killed.
MANY = """
def fork_many(times, in_child):
    hung = 0
    for _ in range(times):
        pid = os.fork()
        if pid == 0:
            in_child()
            sys.exit(0)
        until = time.monotonic() + 20
        while os.waitpid(pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                hung += 1
                os.kill(pid, 9)
                os.waitpid(pid, 0)
                break
            time.sleep(0.001)
    return hung
"""


@pytest.mark.parametrize("use", ["pass", "client.lock('of the child').acquire(timeout=20).wait().release()"])
def test_a_fork_while_threads_log_leaves_a_child_that_ends(child: Start, use: str) -> None:
    process = child(
        f"""
        import logging
        logging.getLogger("fairlock").setLevel(5)
        logging.getLogger("fairlock").addHandler(logging.NullHandler())
        logging.getLogger("fairlock").propagate = False
        def cycle(name):
            while True:
                with client.lock(name).acquire(): pass
        for name in "abcd": threading.Thread(target=cycle, args=(name,), daemon=True).start()
        def in_child(): {use}
        print(fork_many(150, in_child))
        """,
        before=MANY,
    )
    assert process.line() == "0"
    process.end()


def test_a_fork_while_threads_use_keys_and_drop_ins_leaves_a_child_that_can(child: Start) -> None:
    process = child(
        """
        import redis
        from fairlock import compat
        theirs = redis.Redis(unix_socket_path=url[len("unix://"):])
        keys = client.keyed_mutex("keys")
        shared = compat.RedisFairLock("shared", client)
        def use(name):
            keys.acquire(name); keys.release(name)
            with theirs.lock(name, timeout=10, lock_class=compat.Lock): pass
            shared.acquire(); shared.release()
        def cycle(name):
            while True: use(name)
        for name in "abcd": threading.Thread(target=cycle, args=(name,), daemon=True).start()
        print(fork_many(60, lambda: use("of the child")))
        """,
        before=MANY,
    )
    assert process.line() == "0"
    process.end()


def test_a_child_tells_its_own_events_and_none_of_its_parent(child: Start) -> None:
    process = child(
        """
        import logging
        told = []
        class Records(logging.Handler):
            def emit(self, record): told.append((os.getpid(), record.fairlock["lock"]))
        logging.getLogger("fairlock").setLevel(logging.DEBUG)
        logging.getLogger("fairlock").addHandler(Records())
        gate = threading.Event()
        def cycle(name):
            with client.lock(name).acquire(): pass
        for _ in range(50): cycle("of the parent")
        pid = os.fork()
        if pid == 0:
            told.clear()
            cycle("of the child")
            while not any(lock == "of the child" for _, lock in told): time.sleep(0.01)
            os._exit({(os.getpid(), "of the child")} != set(told))
        print(os.waitpid(pid, 0)[1])
        """
    )
    assert process.line() == "0"
    process.end()


def test_a_program_that_only_makes_its_client_forks_without_a_warning(child: Start) -> None:
    process = child(
        """
        import multiprocessing, warnings
        warnings.simplefilter("error")
        made = fairlock.Client(url)
        lock, keys = made.lock("lock"), made.keyed_mutex("keys")
        @made.locked("lock")
        def hold(): return 7
        print(len(os.listdir("/proc/self/task")))
        with multiprocessing.get_context("fork").Pool(2) as pool: print(sum(pool.map(call, range(4))))
        """,
        before="def call(_): return hold()\n",
        first="import fairlock; fairlock.connect = lambda url: None",
    )
    assert process.line() == "1" and process.line() == "28"
    assert process.end() == ""


@pytest.mark.parametrize("daemon", [True, False])
def test_a_thread_that_forks_returns_in_the_child_and_the_child_ends(
    client: fairlock.Client, child: Start, daemon: bool
) -> None:
    process = child(
        f"""
        pids = []
        def fork():
            pids.append(os.fork())
            if pids[0] == 0:
                global held
                held = client.lock("lock").acquire(timeout=20).wait()
                # Another one outlives it for a while.
                threading.Thread(target=time.sleep, args=(0.2,), daemon={daemon}).start()
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
        print(os.waitpid(pids[0], 0)[1])
        """
    )
    assert process.line() == "0"
    process.end()
    is_free(client.lock("lock"))


def test_a_child_of_a_thread_of_a_child_ends_too(child: Start) -> None:
    process = child(
        """
        def use():
            with client.lock("lock").acquire(timeout=20): pass
        def fork():
            pid = os.fork()
            if pid == 0:
                use()
                pid = os.fork()
                if pid == 0: use()
                else: os.waitpid(pid, 0)
            else:
                print(os.waitpid(pid, 0)[1])
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join()
        """
    )
    assert process.line() == "0"
    process.end()


def test_what_a_child_inherits_says_so_and_waits_for_nothing(client: fairlock.Client, child: Start) -> None:
    lock = client.lock("lock")
    with lock.acquire():
        process = child(
            """
            lock = client.lock("lock")
            place, other = lock.enqueue().wait(), client.lock("other")
            held, both = other.acquire().wait(), client.lock_all(["a", "b"]).wait()
            read = client.rw_lock("index").read().wait()
            def leave(held):
                with held: pass
            def name(act):
                try: return act()
                except fairlock.Error as error: return getattr(error, "reason", type(error).__name__)
            pid = os.fork()
            if pid == 0:
                acts = [place.position, place.wait, held.check, held.renew, held.verify, lambda: held.lost.wait().reason]
                acts += [read.check, read.downgrade, read.verify, lambda: read.extend(1), lambda: leave(read), both.check]
                acts += [held.release, both.release, held.release, both.wait_lost, client.close]
                print(*(name(act) for act in acts))
                del held, both, place
                with client.lock("of the child").acquire(timeout=20): os._exit(0)
            print(os.waitpid(pid, 0)[1], held.verify(), place.position())
            """
        )
        # Of a lease there is one answer, also at the end of a block.
        assert process.line() == " ".join(["Forked"] * 2 + ["forked"] * 12 + ["None"] * 3)
        assert process.line() == "0 True 1"
        process.end()
    is_free(lock)
