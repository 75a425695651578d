"""What the README of the Python client shows, with a copy of the client elsewhere. Its argument is the URL of a server."""

import os
import sys

import fairlock

url = sys.argv[1]
lock, other = fairlock.Lock(url, "reports:nightly"), fairlock.Lock(url, "reports:nightly", push=False)
with lock.acquire(timeout=30, label="job 7") as lease:
    assert lease.token > 0 and 20 < lease.remaining() <= 30
    lease.check()
    for refused in (lock.acquire, lock.try_acquire):
        try:
            refused(timeout=0.1)
            raise AssertionError("a second waiter shares the connection of the first")
        except RuntimeError as error:
            assert "another Lock" in str(error), error
    lease.check()
    try:
        other.try_acquire()
        raise AssertionError("two hold it")
    except fairlock.Busy as error:
        assert "job 7" in str(error), error
    try:
        other.acquire(timeout=0.1)
        raise AssertionError("two hold it")
    except fairlock.Timeout:
        pass
    # A child has a connection and a client id of its own, and no lease.
    child = os.fork()
    if child == 0:
        try:
            lease.check()
        except fairlock.Lost:
            try:
                lock.try_acquire()
            except fairlock.Busy:
                os._exit(0)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0, "the child believes in the lease of its parent"
    lease.check()
for again in (lock, other, lock):
    with again.acquire(timeout=30) as next_lease:
        assert next_lease.token > lease.token
try:
    lease.check()
    raise AssertionError("a lease that was released is held")
except fairlock.Lost:
    pass
