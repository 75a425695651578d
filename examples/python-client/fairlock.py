"""Fair locks on Redis: a small client of the protocol in docs/protocol.md.

    lock = fairlock.Lock("redis://127.0.0.1/", "reports:nightly")
    with lock.acquire(timeout=30, label="job 7") as lease:
        print("granted with fencing token", lease.token)
        lease.check()  # before what matters: is the lease still ours?

A `Lock` has one waiter or one lease at a time: whoever wants a second one takes another `Lock`. Times of callers are seconds; times in this file are whole microseconds of a clock that counts suspended time.
"""

import hashlib
import itertools
import os
import pathlib
import random
import secrets
import socket
import string
import threading
import time

import msgpack
import redis
from redis.exceptions import AuthenticationError, NoPermissionError, NoScriptError, RedisError, ResponseError

# Of this repository, or a copy beside a copy of this file.
_HERE = pathlib.Path(__file__).resolve().parent
_RENDERED = [folder for folder in (_HERE / "rendered", _HERE / "../../lua/rendered") if folder.is_dir()]
if not _RENDERED:
    raise ImportError("there are no scripts: copy the folder lua/rendered of the repository beside fairlock.py")
_SCRIPTS = {path.stem: path.read_bytes() for path in _RENDERED[0].glob("*.lua")}
_DIGESTS = {verb: hashlib.sha1(text).hexdigest() for verb, text in _SCRIPTS.items()}
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_PASSING = ("OOM", "MISCONF", "NOREPLICAS", "BUSY", "LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN")
_SECOND = 1_000_000
_UNBOUNDED = 1 << 53


class Timeout(Exception):
    """The lock was not granted in time."""


class Busy(Exception):
    """A try found the lock held, or wanted by others."""


class Lost(Exception):
    """The lease is over, or about to be."""


class Failed(Exception):
    """The server refuses for a reason that no waiting mends."""


class _Broken(Exception):
    """The connection broke, so the outcome of a request is unknown."""


class _Refused(Exception):
    """The server refuses for now. `right`: a right is missing, which an operator may give."""

    def __init__(self, text, right=False):
        super().__init__(text)
        self.right = right


def now_us():
    return time.clock_gettime_ns(_CLOCK) // 1000


def _random_name():
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(22))


def _margin(span):
    return span // 200 + 1000


class _Reply:
    """A word, names and values, and when the request was sent."""

    def __init__(self, packed, sent):
        word, *rest = msgpack.unpackb(packed, raw=True)
        self.word, self.sent = word.decode(), sent
        self._values = {name.decode(): value for name, value in zip(rest[::2], rest[1::2])}
        for name in ("epoch", "stamp", "token", "pace_us", "longest_us", "lease_left_us", "recover_left_us"):
            self.number(name)

    def __contains__(self, name):
        return name in self._values

    def number(self, name):
        return int(self._values[name])

    def text(self, name):
        return self._values[name].decode(errors="replace")


class _Wire:
    """One client id: its connection for requests, and another one for pushes if it does not only poll."""

    def __init__(self, url, prefix, patience, push):
        self.client = _random_name()
        self.channel = f"{prefix}:client:{self.client}"
        self.process = os.getpid()
        self.late = False  # whether a request of a lost connection might be executed late
        seconds = patience / _SECOND
        limits = {"socket_timeout": seconds, "socket_connect_timeout": seconds, "protocol": 2}
        self._pool = redis.ConnectionPool.from_url(url, **limits)
        self._push = push
        self._patience = patience
        self._connection = self._listener = self._old = None
        self._backoff = 10_000

    def ask(self, verb, keys, *arguments, within=None):
        words = [2, *keys, *arguments]
        patience = self._patience if within is None else max(1, min(within, self._patience))
        try:
            if self._connection is None:
                self._connect(patience)
            sent = now_us()
            try:
                packed = self._call(self._connection, patience, "EVALSHA", _DIGESTS[verb], *words)
            except NoScriptError:
                sent = now_us()
                packed = self._call(self._connection, patience, "EVAL", _SCRIPTS[verb], *words)
        except (AuthenticationError, NoPermissionError) as error:
            raise _Refused(str(error), right=True) from error
        except ResponseError as error:
            # redis-py has classes of its own for some of these words, and takes the word out of the text.
            text = f"{type(error).__name__} {error}"
            if type(error) is not ResponseError or any(word in text for word in _PASSING):
                raise _Refused(text) from error
            raise Failed(str(error)) from error
        except (RedisError, OSError) as error:
            self.disconnect()
            raise _Broken(str(error)) from error
        self._backoff = 10_000
        try:
            return _Reply(packed, sent)
        except (ValueError, KeyError, TypeError) as error:
            raise _Refused("an unreadable reply") from error

    def pause(self, longest):
        """How long to wait before the next attempt."""
        pause, self._backoff = self._backoff, min(self._backoff * 2, 640_000)
        return min(pause // 2 + random.randrange(pause // 2), max(longest, 0), self._patience // 4)

    def listen(self, span):
        """The next push within `span`, as its seven words."""
        if self._listener is None:
            return time.sleep(max(span, 0) / _SECOND)
        try:
            if not self._listener.can_read(max(span, 0) / _SECOND):
                return None
            kind, _, payload = self._listener.read_response()
            words = payload.decode().split(" ", 6) if kind == b"message" else []
            return words if len(words) == 7 else None
        except (RedisError, OSError, ValueError):
            self._listener = None  # the next connection subscribes again; until then heartbeats tell
            return None

    def _connect(self, patience):
        connection = self._pool.make_connection()
        connection.connect()
        # The old connection ends before anything is asked again: none of its requests may be executed late.
        try:
            number = self._call(connection, patience, "CLIENT", "ID")
            info = self._call(connection, patience, "INFO", "server").decode()
            run = next(line for line in info.splitlines() if line.startswith("run_id:"))
            if self._old and self._old[0] == run:
                try:
                    self._call(connection, patience, "CLIENT", "KILL", "ID", self._old[1])
                except NoPermissionError:
                    raise
                except ResponseError:
                    pass  # it has ended already
            self._old = (run, number)
        except (NoPermissionError, StopIteration):
            self.late = True
        if self._push:
            if self._listener is not None:
                self._listener.disconnect()
            self._listener = self._pool.make_connection()
            self._listener.connect()
            self._call(self._listener, patience, "SUBSCRIBE", self.channel)
        self._connection = connection

    @staticmethod
    def _call(connection, patience, *words):
        connection.send_command(*words)
        if not connection.can_read(patience / _SECOND):
            raise redis.TimeoutError("the server does not answer")
        return connection.read_response()

    def disconnect(self):
        if self._connection is not None:
            self._connection.disconnect()
        self._connection = None

    def close(self):
        self.disconnect()
        if self._listener is not None:
            self._listener.disconnect()


class Lock:
    """A lock by its name. It connects when it is first used."""

    def __init__(self, url, name, *, prefix="fairlock", lease=30, liveness=10, buffer=2, notice=None, push=True):
        if not 1 <= len(name.encode()) <= 512 or name.startswith("}"):
            raise ValueError("a lock's name has 1 to 512 bytes, and does not begin with a closing brace")
        if "{" in prefix or "}" in prefix:
            raise ValueError("a prefix has no braces")
        if not 0.05 <= min(lease, liveness) <= max(lease, liveness, buffer) <= 30 * 86400 or buffer < 0:
            raise ValueError("lease and liveness are from 50 ms to 30 days, the buffer is at most 30 days")
        self._url, self._prefix, self._push = url, prefix, push
        self._keys = [f"{prefix}:{{{name}}}:lock", f"{prefix}:{{{name}}}:waiters"]
        self._lease, self._liveness, self._buffer = (int(span * _SECOND) for span in (lease, liveness, buffer))
        self._notice = self._lease // 10 if notice is None else int(notice * _SECOND)
        self._wire, self._numbers = None, itertools.count(1)
        self._process, self._taken = os.getpid(), threading.Lock()
        self._forget()

    def acquire(self, timeout=None, label=None, owner="", on_ticket=lambda ticket: None):
        """Waits for the lock in the order of arrival. Returns a `Lease`; raises `Timeout` or `Failed`. `on_ticket` is
        called with the place in the queue when the server has given it."""
        return self._wait(True, timeout, label, owner, on_ticket)

    def try_acquire(self, timeout=5, label=None, owner=""):
        """Takes the lock now or raises `Busy`. `timeout` is for the server's answer."""
        return self._wait(False, timeout, label, owner, None)

    def _wait(self, *request):
        if self._process != os.getpid():
            # After a fork the parent goes on with the connection and the client id.
            self._wire, self._process, self._taken = None, os.getpid(), threading.Lock()
        if not self._taken.acquire(blocking=False):
            raise RuntimeError("this Lock has a waiter or a lease already: release the lease, or use another Lock")
        try:
            return self._wait_alone(*request)
        except BaseException:
            self._taken.release()
            raise

    def _wait_alone(self, joins, timeout, label, owner, on_ticket):
        if self._wire is None:
            patience = min(max(min(self._lease, self._liveness) // 3, _SECOND // 10), 5 * _SECOND)
            self._wire = _Wire(self._url, self._prefix, patience, self._push)
        self._forget()
        label = f"{socket.gethostname()}:{os.getpid()}" if label is None else label
        until = None if timeout is None else now_us() + int(timeout * _SECOND)
        waiter = _Waiter(self, self._wire, next(self._numbers), joins, until, label, owner, on_ticket)
        try:
            return waiter.wait()
        except Busy:
            raise  # a try leaves nothing behind
        except BaseException:
            # The connection goes with what has to be given back; the next acquire takes a new client id.
            self._wire = None
            if waiter.asked:
                threading.Thread(target=waiter.leave, args=(self.known(self.epoch),)).start()
            raise

    def _forget(self):
        """Nothing is left at the server: it must not be judged by what was there."""
        self.epoch = self.floor = self.last_token = 0
        self.longest, self.pace = self._lease, self._liveness // 3

    def known(self, epoch):
        """By this a server with old data notices that it has lost something."""
        return [epoch, self.floor, self.longest, self.last_token, self.pace]

    def learn(self, reply):
        self.epoch = reply.number("epoch")
        self.floor = max(self.floor, reply.number("stamp"))
        self.last_token = max(self.last_token, reply.number("token"))
        self.longest = max(self.longest, reply.number("longest_us"))
        self.pace = max(self.pace, reply.number("pace_us"))


class _Waiter:
    """One acquire, from its call to its grant or to giving up."""

    def __init__(self, lock, wire, number, joins, until, label, owner, on_ticket):
        self.lock, self.wire, self.id = lock, wire, f"{wire.client}.{number}"
        self.joins, self.until, self.on_ticket = joins, until, on_ticket
        self.about = [wire.channel, _random_name(), label, owner]
        self.ticket = self.epoch = 0
        self.asked = False  # whether the server may know of it

    def left(self):
        return 3600 * _SECOND if self.until is None else self.until - now_us()

    def wait(self):
        lock, asks, pushed = self.lock, True, None
        while self.left() > 0:
            try:
                if pushed is not None and (lease := self._confirm(pushed, lock.epoch)):
                    return lease
                # After an error nobody knows whether the server still has the place.
                reply = self._acquire() if asks else self._heartbeat()
                if lease := self._granted(reply):
                    return lease
            except (_Broken, _Refused) as error:
                if self.ticket == 0 and isinstance(error, _Refused) and error.right:
                    raise Failed(str(error)) from error
                asks, pushed = True, None
                time.sleep(self.wire.pause(self.left()) / _SECOND)
                continue
            if reply.word == "disbelieved":
                self.ticket = self.epoch = lock.floor = lock.last_token = 0
                continue
            if reply.word == "busy":
                if "again" in reply:
                    continue
                raise Busy(f"held by {reply.text('held_label')}" if "held_id" in reply else "nobody is granted it now")
            # Waiting: a grant that was lost meanwhile, a place that is unknown and another epoch are brought back.
            asks = "rank" not in reply or reply.number("epoch") != self.epoch
            pushed = None if asks or "again" in reply else self._sleep(reply)
            asks = asks or pushed is not None
        raise Timeout("the lock was not granted in time")

    def _acquire(self):
        lock, self.asked = self.lock, True
        reply = self.wire.ask(
            "acquire", lock._keys, self.id, _UNBOUNDED if self.joins else 0, int(self.wire.late), lock._lease, lock._liveness,
            lock._buffer, lock._liveness // 3, *self.about, self.ticket,
            *lock.known(self.epoch if self.ticket else lock.epoch), within=self.left(),
        )
        lock.learn(reply)
        if reply.word in ("queued", "granted"):
            self.epoch = reply.number("epoch")
        if reply.word == "queued":
            self._has_ticket(reply.number("ticket"))
        return reply

    def _heartbeat(self):
        lock = self.lock
        reply = self.wire.ask(
            "heartbeat", lock._keys, self.wire.client, lock._liveness, lock._buffer, lock._liveness // 3,
            *lock.known(lock.epoch), self.id, within=self.left(),
        )
        lock.learn(reply)
        return reply

    def _granted(self, reply):
        """The lease, if this reply names it."""
        if reply.word == "granted":
            token, left = reply.number("granted_token"), reply.number("left_us")
        elif "holder" in reply and reply.text("holder") == self.id:
            token, left = reply.number("holder_token"), reply.number("lease_left_us")
        else:
            return None
        if self.joins:
            self._has_ticket(reply.number("holder_ticket"))
        if "holder_claim" in reply:
            return self._confirm(token, self.lock.epoch)
        return self._hold(token, reply.sent, left, self.epoch)

    def _has_ticket(self, ticket):
        """A try has no place. If the reply that told the ticket was lost, the grant tells it."""
        if self.ticket == 0:
            self.ticket = ticket
            self.on_ticket(ticket)

    def _confirm(self, token, epoch):
        """Asks for a whole lease. None: there is no lease under this token any more."""
        lock = self.lock
        reply = self.wire.ask(
            "renew", lock._keys, self.id, token, lock._lease, lock._liveness, *self.about, epoch, lock.floor, 0, lock.pace,
            within=self.left(),
        )
        lock.learn(reply)
        if reply.word == "broken":
            raise Failed("an operator broke the lease")
        if reply.word == "lost":
            return None
        return self._hold(token, reply.sent, reply.number("left_us"), reply.number("epoch"))

    def _hold(self, token, sent, left, epoch):
        lease = Lease(self, token, sent, left, epoch)
        # If the answer took most of the lease, the waiter asks once more.
        return lease._start() if lease.remaining() > 0 else None

    def _sleep(self, reply):
        """Waits until the next heartbeat is due. The token, if a push told of the grant before."""
        lock, now, rank = self.lock, now_us(), reply.number("rank")
        due = reply.sent + lock._liveness // 3
        if rank < 4:
            free = max(reply.number("lease_left_us"), reply.number("recover_left_us"))
            due = min(due, max(now + free + 1000 + rank * 50_000, reply.sent + 20_000))
        while (span := min(due - now_us(), self.left())) > 0:
            push = self.wire.listen(span)
            if push and push[:2] == ["grant", self.id] and push[5:] == [self.about[1], lock._keys[0]]:
                token = int(push[2])
                lock.floor, lock.last_token = max(lock.floor, token), max(lock.last_token, token)
                return token
        return None

    def leave(self, known):
        """Gives up the place, or what was granted meanwhile. The server forgets it by itself in the end. The next acquire
        of the lock may have begun, so what is known of it comes from before."""
        lock, until = self.lock, now_us() + self.lock._liveness + self.lock._buffer
        while now_us() < until:
            try:
                if "again" not in self.wire.ask("leave", lock._keys, lock._liveness, *known, self.id):
                    break
            except (_Broken, _Refused):
                time.sleep(self.wire.pause(until - now_us()) / _SECOND)
            except Failed:
                break
        self.wire.close()


class Lease:
    """The right to the lock, renewed by a thread of its own until it is released or lost."""

    def __init__(self, waiter, token, sent, left, epoch):
        self.token, self.ticket = token, waiter.ticket or token
        self._waiter, self._lock, self._wire = waiter, waiter.lock, waiter.wire
        self._epoch, self._lost, self._released = epoch, None, False
        self._condition = threading.Condition()
        self._counts(sent, left)

    def _counts(self, sent, left):
        self._deadline = sent + left - _margin(left)
        self._notice_at = self._deadline - self._lock._notice * min(left, self._lock._lease) // self._lock._lease
        self._renew_at = sent + left - self._lock._lease * 2 // 3

    def _start(self):
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()
        return self

    def remaining(self):
        """Seconds until this lease is declared lost unless it is renewed, by this machine's clock."""
        if self._lost or self._released or self._wire.process != os.getpid():
            return 0.0
        return max(self._notice_at - now_us(), 0) / _SECOND

    def check(self):
        """Raises `Lost` if the lease is over, or about to be. It asks nobody."""
        if self.remaining() <= 0:
            raise Lost(self._lost or "the lease was released, or could not be renewed")

    def _keep(self):
        with self._condition:
            while not self._lost and not self._released:
                now = now_us()
                if now >= self._notice_at:
                    self._lost = "it could not be renewed"
                elif now < self._renew_at:
                    # A look at the clock each second: a sleep does not count suspended time.
                    self._condition.wait(min(self._renew_at, self._notice_at, now + _SECOND) / _SECOND - now / _SECOND)
                else:
                    self._renew()

    def _renew(self):
        lock, waiter = self._lock, self._waiter
        left = max(self._deadline - now_us(), 0)
        try:
            reply = self._wire.ask(
                "renew", lock._keys, waiter.id, self.token, lock._lease, lock._liveness, *waiter.about, self._epoch,
                lock.floor, left, lock.pace, within=self._notice_at - now_us(),
            )
        except (_Broken, _Refused, Failed):
            self._condition.wait(self._wire.pause(self._notice_at - now_us()) / _SECOND)
            return
        lock.learn(reply)
        if reply.word != "renewed":
            self._lost = "an operator broke it" if reply.word == "broken" else "it has ended at the server"
        elif now_us() < self._notice_at:  # otherwise it was lost meanwhile, which is final
            self._epoch = reply.number("epoch")
            self._counts(reply.sent, reply.number("left_us"))

    def release(self):
        """Gives the lock back. Raises `Lost` if the lease was over before."""
        with self._condition:
            if self._released or self._wire.process != os.getpid():
                return
            self._released, lost = True, self._lost
            self._condition.notify()
            try:
                word = self._give_back()
            finally:
                self._lock._taken.release()
        self._thread.join()
        if lost or word != "released":
            raise Lost(lost or "the lease had ended before the server was told of its release")

    def _give_back(self):
        lock, repeated = self._lock, False
        while True:
            try:
                reply = self._wire.ask(
                    "release", lock._keys, self._waiter.id, self.token, lock._liveness, *lock.known(self._epoch),
                )
                lock.learn(reply)
                if "again" not in reply:
                    return "released" if reply.word == "unknown" and repeated else reply.word
                repeated = True
            except (_Broken, _Refused):
                repeated = True
                if now_us() >= self._deadline:
                    return None  # the server forgets it by itself
                time.sleep(self._wire.pause(self._deadline - now_us()) / _SECOND)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.release()
        except Lost:
            if kind is None:
                raise
