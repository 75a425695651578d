"""Processes that may open few files."""

from __future__ import annotations

from typing import Callable

from conftest import Child, waiting

import fairlock


def test_threads_that_wait_need_no_descriptors(client: fairlock.Client, child: Callable[..., Child]) -> None:
    lock = client.lock("lock")
    with lock.acquire():
        process = child("""
            import resource
            lock = client.lock("lock")
            with client.lock("other").acquire(): pass
            open_ones = max(int(name) for name in os.listdir("/proc/self/fd"))
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_ones + 1, open_ones + 1))
            failed = []
            def wait():
                try:
                    with lock.acquire(): pass
                except BaseException as error: failed.append(error)
            threads = [threading.Thread(target=wait) for _ in range(50)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            print(failed)
        """)
        waiting(lock, 50)
    assert process.line() == "[]"
    process.end()


def test_a_wait_without_a_descriptor_is_an_error_of_this_package(child: Callable[..., Child]) -> None:
    process = child(
        """
        import resource
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, most))
        for wait in (lambda: client.lock("lock").acquire().wait(), lambda: asyncio_run(client.lock("lock").acquire())):
            try: wait()
            except fairlock.Error as error: print("ulimit -n" in str(error))
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        client.lock("lock").acquire().wait().release()
        """,
        before="""
loop = asyncio.new_event_loop()
async def a(operation): await operation
def asyncio_run(operation): loop.run_until_complete(a(operation))
fairlock.connect = fairlock.Client
""",
    )
    assert process.line() == "True" and process.line() == "True"
    process.end()
