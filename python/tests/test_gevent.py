"""Greenlets of gevent: a wait stops none of the others. And eventlet, which is refused."""

from __future__ import annotations

import signal
from importlib.util import find_spec
from typing import Callable, Dict

import pytest
from conftest import SOON, Child, is_free, waiting

import fairlock

pytest.importorskip("gevent")
Start = Callable[..., Child]

ALL = "from gevent import monkey; monkey.patch_all()"
#: What a program may have done.
WORLDS: Dict[str, Dict[str, str]] = {
    "patched first": {"first": ALL},
    "patched after the import": {"before": ALL + "\n"},
    "threads left alone": {"first": "from gevent import monkey; monkey.patch_all(thread=False)"},
    "nothing patched": {},
}
in_each_world = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())


@in_each_world
def test_greenlets_are_served_in_order_while_the_hub_goes_on(child: Start, world: Dict[str, str]) -> None:
    process = child(
        """
        import gevent
        lock, order, ticks = client.lock("lock"), [], 0
        def tick():
            global ticks
            while True:
                ticks += 1
                gevent.sleep(0)
        def job(number):
            with lock.acquire(timeout=30):
                gevent.sleep(0)
                order.append(number)
        gevent.spawn(tick)
        with lock.acquire():
            jobs = []
            for number in range(20):
                jobs.append(gevent.spawn(job, number))
                while lock.inspect().wait().waiting != number + 1: pass
            before, place = ticks, lock.enqueue().wait()
            while ticks < before + 100: gevent.sleep(0)
            place.leave()
        gevent.joinall(jobs, raise_error=True)
        print(order == list(range(20)))
        """,
        **world,
    )
    assert process.line() == "True" and process.end() == ""


@in_each_world
def test_a_greenlet_that_is_killed_or_has_a_timeout_leaves_the_queue(child: Start, world: Dict[str, str]) -> None:
    process = child(
        """
        import gevent
        lock = client.lock("lock")
        def waiting(count):
            while lock.inspect().wait().waiting != count: pass
        def job():
            try:
                with lock.acquire(): print("granted")
            finally:
                print("left")
        held = lock.acquire().wait()
        killed = gevent.spawn(job)
        waiting(1)
        killed.kill()
        waiting(0)
        try:
            with gevent.Timeout(0.05), lock.acquire(): print("granted")
        except gevent.Timeout: print("timeout")
        waiting(0)
        try: lock.acquire(timeout=0.05).wait()
        except fairlock.Timeout: print("its own timeout")
        print(held.lost.wait(timeout=0.05))
        # The grant and the kill come while the hub does not run.
        crossed = gevent.spawn(job)
        waiting(1)
        held.release()
        crossed.kill()
        while lock.inspect().wait().holders: pass
        """,
        **world,
    )
    said = [process.line() for _ in range(4)]
    assert said == ["left", "timeout", "its own timeout", "None"]
    process.end()


@in_each_world
def test_ctrl_c_interrupts_a_wait_of_the_main_greenlet(
    client: fairlock.Client, child: Start, world: Dict[str, str]
) -> None:
    lock = client.lock("lock")
    with lock.acquire():
        process = child(
            """
            import gevent
            gevent.spawn(gevent.sleep, 60)
            try:
                with client.lock("lock").acquire(): print("granted")
            except KeyboardInterrupt:
                print("interrupted")
            with client.lock("other").acquire(): print("goes on")
            """,
            **world,
        )
        waiting(lock, 1)
        process.process.send_signal(signal.SIGINT)
        assert process.line() == "interrupted" and process.line() == "goes on"
        waiting(lock, 0)
        process.end()


@in_each_world
def test_a_handler_of_a_signal_releases_and_exits_while_the_hub_runs(
    client: fairlock.Client, child: Start, world: Dict[str, str]
) -> None:
    process = child(
        """
        import gevent
        held = client.lock("lock").acquire().wait()
        def end(number, frame):
            held.release()
            print("released")
            sys.exit(0)
        signal.signal(signal.SIGTERM, end)
        print("held")
        gevent.sleep(60)
        """,
        **world,
    )
    assert process.line() == "held"
    process.process.send_signal(signal.SIGTERM)
    assert process.line() == "released"
    process.end()
    is_free(client.lock("lock"))


@in_each_world
def test_a_closed_client_tells_all_greenlets(child: Start, world: Dict[str, str]) -> None:
    process = child(
        """
        import gevent
        lock = client.lock("lock")
        held = lock.acquire().wait()
        def job():
            try: lock.acquire().wait()
            except fairlock.Closed: return "closed"
        jobs = [gevent.spawn(job) for _ in range(3)]
        while lock.inspect().wait().waiting != 3: pass
        client.close()
        gevent.joinall(jobs, raise_error=True)
        print([job.value for job in jobs], held.lost.error.reason)
        """,
        **world,
    )
    assert process.line() == "['closed', 'closed', 'closed'] closed"
    process.end()


@in_each_world
def test_a_loss_interrupts_the_greenlet_of_the_block(child: Start, world: Dict[str, str]) -> None:
    process = child(
        """
        import gevent
        lock = client.lock("lock")
        def job():
            try:
                with lock.acquire(on_lost="interrupt") as held:
                    breaking = gevent.spawn(lambda: lock.break_lease(held.token, force=True).wait())
                    gevent.sleep(60)
            except fairlock.LockLost as lost:
                breaking.get()
                return lost.reason
        print(job(), gevent.spawn(job).get())
        with lock.acquire(on_lost="interrupt"): gevent.sleep(0)
        gevent.sleep(0.05)
        """,
        **world,
    )
    assert process.line() == "broken broken"
    assert "Traceback" not in process.end()


@in_each_world
def test_a_loss_interrupts_no_greenlet_but_that_of_the_block(child: Start, world: Dict[str, str]) -> None:
    process = child(
        """
        import gevent, gevent.monkey
        sleep = gevent.monkey.get_original("time", "sleep")
        start = gevent.monkey.get_original("_thread", "start_new_thread")
        lock, done = client.lock("lock"), []
        def other():
            start(lambda: lock.break_lease(held.token, force=True).wait(), ())
            # The signal arrives while this greenlet runs.
            while held.lost is None: sleep(0.01)
            sleep(0.2)
            done.append(True)
        try:
            with lock.acquire(on_lost="interrupt") as held:
                breaking = gevent.spawn(other)
                gevent.sleep(60)
        except fairlock.LockLost as lost:
            breaking.join()
            print(lost.reason, done)
        """,
        **world,
    )
    assert process.line() == "broken [True]"
    assert process.end().count("Traceback") == 0


@in_each_world
def test_the_end_of_the_interpreter_leaves_nothing_behind(
    client: fairlock.Client, child: Start, world: Dict[str, str]
) -> None:
    process = child(
        """
        import gevent
        lock = client.lock("lock")
        held = lock.acquire().wait()
        gevent.spawn(lambda: lock.acquire().wait())
        while lock.inspect().wait().waiting != 1: pass
        """,
        **world,
    )
    process.end()
    is_free(client.lock("lock"))


@in_each_world
def test_events_are_told_though_greenlets_log_and_a_handler_switches(child: Start, world: Dict[str, str]) -> None:
    process = child(
        """
        import gevent, logging
        told = []
        class Slow(logging.Handler):
            def emit(self, record):
                gevent.sleep(0)
                told.append(record.getMessage())
        logging.getLogger().addHandler(Slow())
        def chat():
            for number in range(50): logging.getLogger("program").warning("%d", number)
        def lose():
            held = lock.acquire().wait()
            lock.break_lease(held.token, force=True).wait()
            held.lost.wait(30)
        lock = client.lock("lock")
        gevent.joinall([gevent.spawn(chat), gevent.spawn(lose), gevent.spawn(chat)], raise_error=True)
        while not any("lease lost" in text for text in told): gevent.sleep(0.01)
        print(len(told) >= 101)
        """,
        **world,
    )
    assert process.line() == "True"
    process.end()


@in_each_world
def test_both_sides_of_a_fork_go_on(client: fairlock.Client, child: Start, world: Dict[str, str]) -> None:
    lock = client.lock("lock")
    held = lock.acquire().wait()
    process = child(
        """
        import gevent, gevent.os
        lock, parent = client.lock("lock"), os.getpid()
        def wait():
            try:
                with lock.acquire() as held: return "granted"
            except fairlock.Error as error: return type(error).__name__
        job = gevent.spawn(wait)
        while lock.inspect().wait().waiting != 1: pass
        children = []
        for _ in range(5):
            pid = gevent.os.fork()
            if pid == 0:
                with client.lock("other").acquire(timeout=30): pass
                # Greenlets are copied, too.
                sys.exit(0 if job.get() == "Forked" else 1)
            children.append(pid)
        print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children))
        print(job.get())
        """,
        **world,
    )
    assert process.line() == "0 0 0 0 0"
    waiting(lock, 1)
    held.release()
    assert process.line() == "granted"
    process.end()


@pytest.mark.parametrize("world", [world for world in WORLDS.values() if world])
def test_a_login_is_asked_for_in_a_greenlet(child: Start, world: Dict[str, str]) -> None:
    process = child(
        """
        import gevent, redis
        redis.Redis(unix_socket_path=url[len("unix://"):]).config_set("requirepass", "secret")
        here, asked = gevent.get_hub(), []
        def login():
            # As a request for a token does.
            gevent.sleep(0)
            asked.append(gevent.get_hub() is here)
            return None, "secret"
        with fairlock.connect(url, credentials=login) as other, other.lock("lock").acquire() as held:
            print(held.token > 0, asked)
        """,
        **world,
    )
    assert process.line() == "True [True]"
    process.end()


def test_threads_of_a_pool_wait_as_threads(child: Start) -> None:
    process = child(
        """
        import gevent
        lock, ticks = client.lock("lock"), 0
        held = lock.acquire().wait()
        def wait():
            with lock.acquire(timeout=30) as held: return held.token
        results = [gevent.get_hub().threadpool.spawn(wait) for _ in range(3)]
        while lock.inspect().wait().waiting != 3: gevent.sleep(0)
        held.release()
        print(len({result.get() for result in results}))
        """,
        first=ALL,
    )
    assert process.line() == "3"
    process.end()


def test_a_program_that_waits_for_nothing_more_is_told_so(child: Start) -> None:
    process = child(
        """
        import gevent
        with client.lock("lock").acquire(): pass
        gevent.wait()
        try: gevent.get_hub().switch()
        except gevent.exceptions.LoopExit: print("nothing more")
        """,
        first=ALL,
    )
    assert process.line() == "nothing more"
    process.end()


def test_a_service_in_the_process(child: Start) -> None:
    process = child(
        """
        import gevent, fairlock.testing
        with fairlock.testing.LockService() as service:
            lock = service.client().lock("lock")
            held = lock.acquire().wait()
            job = gevent.spawn(lambda: lock.acquire().wait().token)
            while lock.inspect().wait().waiting != 1: pass
            service.advance(held.lease)
            print(job.get() > held.token)
        """,
        first=ALL,
    )
    assert process.line() == "True"
    process.end()


# Not imported here: it warns at each fork from then on.
@pytest.mark.skipif(find_spec("eventlet") is None, reason="it is not installed")
def test_eventlet_is_refused(child: Start) -> None:
    process = child("", first="import eventlet; eventlet.monkey_patch()")
    _, errors = process.process.communicate(timeout=SOON)
    assert process.process.returncode == 1 and "RuntimeError: fairlock does not work under eventlet" in errors
