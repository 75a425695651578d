"""Fair locks on Redis: a small client of the protocol in docs/protocol.md.

    lock = fairlock.Lock("redis://127.0.0.1/", "reports:nightly")
    with lock.acquire(timeout=30, label="job 7") as lease:
        print("granted with fencing token", lease.token)
        lease.check()  # before what matters: is the lease still ours?

A `Lock` has one waiter or one lease at a time: whoever wants a second one takes another `Lock`. Times of callers are
seconds; times in this file are whole microseconds of a clock that counts suspended time. With `slots=3` it is a
semaphore: three may hold it together, and `lease.slot` says which of them this is.
"""

import itertools
import os
import socket
import threading
import time

from fairlock_wire import SECOND, Broken, Failed, Refused, Wire, now_us, packed, packed_terms, random_name

_DAY = 86400 * SECOND
_UNBOUNDED = 1 << 53


class Timeout(Exception):
    """The lock was not granted in time."""


class Busy(Exception):
    """A try found the lock held, or wanted by others."""


class Lost(Exception):
    """The lease is over, or about to be."""


class _Memory:
    """What the server told this client to remember of a lock. One request is under way at a time: the last reply counts."""

    def __init__(self):
        self.text, self.heard, self.keep = b"", 0, 0

    def take(self, reply):
        self.text, self.heard, self.keep = reply.bytes("memory"), reply.sent, reply.number("keep_us")

    def returns(self):
        """The client has had nothing at the lock, and comes back."""
        if now_us() >= self.heard + self.keep:
            self.text = b""


class Lock:
    """A lock by its name. It connects when it is first used."""

    def __init__(self, url, name, *, prefix="fairlock", lease=30, liveness=10, buffer=2, notice=None, push=True, slots=1):
        if not 1 <= len(name.encode()) <= 512 or name.startswith("}"):
            raise ValueError("a lock's name has 1 to 512 bytes, and does not begin with a closing brace")
        if "{" in prefix or "}" in prefix:
            raise ValueError("a prefix has no braces")
        if not 0.05 <= min(lease, liveness) <= max(lease, liveness, buffer) <= 30 * 86400 or buffer < 0:
            raise ValueError("lease and liveness are from 50 ms to 30 days, the buffer is at most 30 days")
        if not 1 <= slots <= 1000:
            raise ValueError("a lock has from 1 to 1000 slots, and with 1 only one may hold it")
        self._url, self._prefix, self._push, self._slots = url, prefix, push, slots
        self._key = f"{prefix}:{{{name}}}:lock"
        self._lease, self._liveness, self._buffer = (int(span * SECOND) for span in (lease, liveness, buffer))
        self._notice = self._lease // 10 if notice is None else int(notice * SECOND)
        self._wire, self._numbers, self._memory = None, itertools.count(1), _Memory()
        self._process, self._taken = os.getpid(), threading.Lock()

    def acquire(self, timeout=None, label=None, owner="", on_ticket=lambda ticket: None, cancelled=None):
        """Waits for the lock in the order of arrival. Returns a `Lease`; raises `Timeout` or `Failed`. `on_ticket` is
        called with the place in the queue when the server has given it. When the event `cancelled` is set, it raises
        `Timeout` within a heartbeat."""
        return self._wait(True, timeout, label, owner, on_ticket, cancelled or threading.Event())

    def try_acquire(self, timeout=5, label=None, owner=""):
        """Takes the lock now or raises `Busy`. `timeout` is for the server's answer."""
        return self._wait(False, timeout, label, owner, None, threading.Event())

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

    def _wait_alone(self, joins, timeout, label, owner, on_ticket, cancelled):
        if self._wire is None:
            patience = min(max(min(self._lease, self._liveness) // 3, SECOND // 10), 5 * SECOND)
            self._wire = Wire(self._url, self._prefix, patience, self._push)
        self._memory.returns()
        label = f"{socket.gethostname()}:{os.getpid()}" if label is None else label
        until = None if timeout is None else now_us() + int(timeout * SECOND)
        waiter = _Waiter(self, self._wire, next(self._numbers), joins, until, label, owner, on_ticket, cancelled)
        try:
            return waiter.wait()
        except Busy:
            raise  # a try leaves nothing behind
        except BaseException:
            # The connection goes with what has to be given back; the next acquire takes a new client id.
            self._wire = None
            if waiter.asked:
                threading.Thread(target=waiter.leave, args=(waiter.memory(),)).start()
            raise

    def _ask(self, wire, verb, arguments, within=None, until=None):
        reply = wire.ask(verb, self._key, arguments, within, until)
        self._memory.take(reply)
        return reply


class _Waiter:
    """One acquire, from its call to its grant or to giving up."""

    def __init__(self, lock, wire, number, joins, until, label, owner, on_ticket, cancelled):
        self.lock, self.wire, self.id = lock, wire, f"{wire.client}.{number}"
        self.joins, self.until, self.on_ticket, self.cancelled = joins, until, on_ticket, cancelled
        self.about = [random_name(), label, owner]
        self.seat, self.epoch = b"", 0  # its place or its lease, and under which epoch the server told of it
        self.ticket = None
        self.asked = False  # whether the server may know of it

    def left(self):
        if self.cancelled.is_set():
            return 0
        return 3600 * SECOND if self.until is None else self.until - now_us()

    def wait(self):
        step = self._acquire
        while self.left() > 0:
            try:
                reply = step()
                self._give_back_others(reply)
            except (Broken, Refused) as error:
                if not self.seat and isinstance(error, Refused) and error.right:
                    raise Failed(str(error)) from error
                # Nobody knows whether the server still has the place.
                step = self._acquire
                time.sleep(self.wire.pause(self.left()) / SECOND)
                continue
            if reply.word == "broken":
                raise Failed("an operator broke the lease")
            if "own_id" in reply and reply.text("own_id") == self.id:
                self._has_seat(reply, "own_seat", "own_ticket")
                if "own_claim" not in reply and (lease := Lease(self, reply)).remaining() > 0:
                    return lease._start()
                step = self._confirm  # a claim, or the answer took most of the lease
            elif reply.word == "busy" and "again" not in reply:
                holder = reply.holder()
                raise Busy("nobody is granted it now" if holder is None else f"held by {holder}")
            elif reply.word == "disbelieved":
                self.seat, step = b"", self._acquire
            else:
                if reply.word == "queued":
                    self._has_seat(reply, "seat", "ticket")
                waits = reply.number("position") > 0 and reply.number("epoch") == self.epoch
                # A grant that was lost meanwhile, a place that is unknown and another epoch are brought back.
                step = self._sleep(reply) if waits else self._acquire
        raise Timeout("the lock was not granted in time")

    def _acquire(self):
        lock, self.asked = self.lock, True
        room = _UNBOUNDED if self.joins else 0
        return self._ask("acquire", lambda: [
            self.id, self.memory(acquires=True), self.seat if self.joins else b"",
            packed_terms(lock._liveness, lock._buffer, lock._lease, room, 1, self.about, lock._slots),
        ])

    def _heartbeat(self):
        lock = self.lock
        times = packed(lock._liveness, lock._buffer, lock._liveness // 3)
        return self._ask("heartbeat", lambda: [self.wire.client, self.memory(), times, self.id])

    def _confirm(self):
        """Asks for a whole lease."""
        return self._ask("renew", lambda: [
            self.id, self.memory(), self.seat, self.holding(), packed(0),
        ])

    def memory(self, acquires=False):
        """After a day and its liveness the server may have forgotten the lock, and others may have made it anew, although
        nothing was lost. From then on the memory of a later reply and the seat of before do not go together."""
        memory = self.lock._memory
        if now_us() >= memory.heard + self.lock._liveness + _DAY:
            memory.text, self.epoch = b"", 0
        return b"" if acquires and self.seat and not self.epoch else memory.text

    def holding(self):
        """The terms of a renewal."""
        lock = self.lock
        return packed_terms(lock._liveness, lock._buffer, lock._lease, 0, 0, self.about, lock._slots)

    def _ask(self, verb, arguments):
        return self.lock._ask(self.wire, verb, arguments, within=self.left())

    def _has_seat(self, told, seat, ticket):
        self.seat, self.epoch = told.bytes(seat), told.number("epoch")
        # A try has no place. If the reply that told the ticket was lost, the grant tells it.
        if self.joins and self.ticket is None:
            self.ticket = told.number(ticket)
            self.on_ticket(self.ticket)

    def _give_back_others(self, reply):
        """A request of an earlier acquire was executed late."""
        if "own_id" in reply and reply.text("own_id") != self.id:
            self._ask("release", lambda: [reply.bytes("own_id"), self.memory(), b""])

    def _sleep(self, reply):
        """Waits until the next heartbeat is due, or a push tells of the grant. What to ask then."""
        lock, now, position = self.lock, now_us(), reply.number("position")
        due = now if "again" in reply else reply.sent + lock._liveness // 3
        if position <= 4:
            free = max(reply.number("first_left_us"), reply.number("recover_left_us"))
            due = min(due, max(now + free + 1000 + (position - 1) * 50_000, reply.sent + 20_000))
        while (span := min(due - now_us(), self.left())) > 0:
            push = self.wire.listen(span)
            if push and push.word == "grant" and self._is_about_this(push):
                self._has_seat(push, "seat", "ticket")
                return self._confirm
        return self._heartbeat

    def _is_about_this(self, push):
        meant = {"id": self.id, "lock": self.lock._key, "secret": self.about[0]}
        return all(name in push and push.bytes(name) == value.encode() for name, value in meant.items())

    def leave(self, memory):
        """Gives up the place, or what was granted meanwhile. The server forgets it by itself in the end. The next acquire
        of the lock may have begun: its replies are the newer ones, so what these tell to remember is only for the next of these."""
        lock, until = self.lock, now_us() + self.lock._liveness + self.lock._buffer
        while now_us() < until:
            try:
                reply = self.wire.ask("release", lock._key, lambda: [self.id, memory, b""])
                memory = reply.bytes("memory")
                if "again" not in reply:
                    break
            except (Broken, Refused, Failed):
                time.sleep(self.wire.pause(until - now_us()) / SECOND)
        self.wire.close()


class Lease:
    """The right to the lock, renewed by a thread of its own until it is released or lost."""

    def __init__(self, waiter, reply):
        self.token = reply.number("own_token")
        self.ticket = waiter.ticket or self.token
        self.slot = reply.number("own_slot")
        self._waiter, self._lock, self._wire = waiter, waiter.lock, waiter.wire
        self._lost, self._released = None, False
        self._condition = threading.Condition()
        self._counts(reply)

    def _counts(self, reply):
        lease = self._lock._lease
        left = min(reply.number("own_left_us"), lease)
        self._seat = reply.bytes("own_seat")
        self._end = reply.sent + left
        self._deadline = self._end - left // 200 - 1000
        self._notice_at = self._deadline - self._lock._notice * min(left, lease) // lease
        self._renew_at = reply.sent + left - lease * 2 // 3

    def _start(self):
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()
        return self

    def remaining(self):
        """Seconds until this lease is declared lost unless it is renewed, by this machine's clock."""
        if self._lost or self._released or self._wire.process != os.getpid():
            return 0.0
        return max(self._notice_at - now_us(), 0) / SECOND

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
                    self._condition.wait(min(self._renew_at, self._notice_at, now + SECOND) / SECOND - now / SECOND)
                else:
                    self._renew()

    def _renew(self):
        lock, waiter = self._lock, self._waiter
        try:
            reply = lock._ask(self._wire, "renew", lambda: [
                waiter.id, lock._memory.text, self._seat, waiter.holding(), packed(max(self._end - now_us(), 0)),
            ], until=self._notice_at)
        except (Broken, Refused, Failed):
            self._condition.wait(self._wire.pause(self._notice_at - now_us()) / SECOND)
            return
        if reply.word != "renewed":
            self._lost = "an operator broke it" if reply.word == "broken" else "it has ended at the server"
        elif now_us() < self._notice_at:  # otherwise it was lost meanwhile, which is final
            self._counts(reply)
            if "again" in reply:
                self._renew_at = 0  # the server has more to grant: another renewal goes at once

    def release(self):
        """Gives the lock back. Raises `Lost` if the lease was over before."""
        with self._condition:
            if self._released or self._wire.process != os.getpid():
                return
            lost = self._lost or (None if self.remaining() > 0 else "it could not be renewed")
            self._released = True
            self._condition.notify()
            try:
                word = self._give_back(b"" if lost else self._seat)
            finally:
                self._lock._taken.release()
        self._thread.join()
        if lost or word != "released":
            raise Lost(lost or "the lease had ended before the server was told of its release")

    def _give_back(self, seat):
        first, repeated = None, False
        lock, brings = self._lock, lambda: [
            self._waiter.id, self._lock._memory.text, seat if now_us() < self._deadline else b"",
        ]
        while first is None or now_us() < self._deadline:
            try:
                reply = lock._ask(self._wire, "release", brings)
            except (Broken, Refused, Failed):
                if now_us() >= self._deadline:
                    break  # the server forgets it by itself
                time.sleep(self._wire.pause(self._deadline - now_us()) / SECOND)
            else:
                # After an earlier request that was executed and not answered, nothing is left to release.
                first = first or ("released" if reply.word == "unknown" and repeated else reply.word)
                if "again" not in reply:
                    break
            seat, repeated = b"", True  # the lock may have been granted since
        return first

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.release()
        except Lost:
            if kind is None:
                raise
