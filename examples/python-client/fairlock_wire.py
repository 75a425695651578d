"""What `fairlock.py` says to a server, and hears: requests, replies and messages, over connections that break."""

import hashlib
import os
import pathlib
import random
import secrets
import string
import struct
import time

import msgpack
import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoPermissionError, NoScriptError, RedisError, ResponseError
from redis.retry import Retry

# Of this repository, or a copy next to a copy of this file.
_HERE = pathlib.Path(__file__).resolve().parent
_RENDERED = [folder for folder in (_HERE / "rendered", _HERE / "../../lua/rendered") if folder.is_dir()]
if not _RENDERED:
    raise ImportError("there are no scripts: copy the folder lua/rendered of the repository next to fairlock_wire.py")
_SCRIPTS = {path.stem: path.read_bytes() for path in _RENDERED[0].glob("*.lua")}
_DIGESTS = {verb: hashlib.sha1(text).hexdigest() for verb, text in _SCRIPTS.items()}
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_PASSING = ("OOM", "MISCONF", "NOREPLICAS", "BUSY", "LOADING", "MASTERDOWN", "READONLY", "CLUSTERDOWN", "TRYAGAIN",
            "non local key", "rehashing of the slot")
SECOND = 1_000_000
_PROMISED = {  # by the words of the replies; one that lacks something of this is no reply
    "granted": "own_id", "renewed": "own_id", "queued": "seat", "busy": None, "disbelieved": None, "alive": None,
    "unknown": None, "broken": None, "lost": None, "released": None, "expired": None, "left": None,
}
_AGAIN, _CLAIM = 1, 1  # flags of a reply, and of a lease in it


class Failed(Exception):
    """The server refuses for a reason that waiting will not fix."""


class Broken(Exception):
    """The connection broke, so the outcome of a request is unknown."""


class Refused(Exception):
    """The server refuses for now. `right`: a right is missing, which an operator may give."""

    def __init__(self, text, right=False):
        super().__init__(text)
        self.right = right


def now_us():
    return time.clock_gettime_ns(_CLOCK) // 1000


def random_name():
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(22))


def packed(*numbers):
    return struct.pack(f"<{len(numbers)}d", *numbers)


def packed_terms(liveness, buffer, lease, room, as_claim, about, most=1):
    texts = [text if isinstance(text, bytes) else text.encode() for text in about]
    sizes = struct.pack("<HBBHHH", most, as_claim, *map(len, texts), 0)
    return packed(liveness, buffer, liveness // 3, lease, room) + sizes + b"".join(texts)


class _Packed:
    """What is left to be read. Behind what is asked for may stand what a later version has added."""

    def __init__(self, text):
        self.text = text

    def bytes(self, size):
        if len(self.text) < size:
            raise ValueError("it is too short")
        piece, self.text = self.text[:size], self.text[size:]
        return piece

    def unpack(self, form):
        return struct.unpack(form, self.bytes(struct.calcsize(form)))

    def number(self):
        (number,) = self.unpack("<d")
        if number < 0 or number > 1 << 53 or number != int(number):
            raise ValueError(f"{number} is no number of the scripts")
        return int(number)

    def sized(self, form):
        return self.bytes(*self.unpack(form))


def _numbers(text, count):
    """The first numbers of a memory or seat, behind its version."""
    rest = _Packed(text[1:])
    return [rest.number() for _ in range(count)]


class Told:
    """A reply or a push: a word and values by name. `sent`: when the request of a reply was sent."""

    def __init__(self, text, sent=0):
        rest = _Packed(text)
        self.word, self.sent = rest.sized("<B").decode(), sent
        (self._reply if sent else self._push)(rest)

    def _reply(self, rest):
        flags = ord(rest.bytes(1))
        names = ("position", "waiting", "held", "first_left_us", "recover_left_us", "keep_us")
        values = self._values = {name: rest.number() for name in names}
        memory = rest.sized("<B")
        values["epoch"] = _numbers(memory, 1)[0]
        values["memory"] = memory if values["epoch"] else b""
        if flags & _AGAIN:
            values["again"] = 1
        for _ in range(*rest.unpack("<H")):
            flags, id, seat, left = ord(rest.bytes(1)), rest.sized("<H"), rest.sized("<B"), rest.number()
            _, ticket, token = _numbers(seat, 3)
            slot, _most = struct.unpack_from("<HH", seat, 25)
            if token:
                values |= {"own_id": id, "own_seat": seat, "own_ticket": ticket, "own_token": token, "own_slot": slot}
                values["own_left_us"] = left
                if flags & _CLAIM:
                    values["own_claim"] = 1
            else:
                values |= {"seat": seat, "ticket": ticket}
        told = rest.sized("<I")
        if told:
            # Labels of others may be any bytes.
            unpacker = msgpack.Unpacker(raw=True)
            unpacker.feed(told)
            names = iter(unpacker.unpack())
            values |= {name.decode(): value for name, value in zip(names, names)}

    def _push(self, rest):
        values = self._values = {"left_us": rest.number(), "memory": rest.sized("<B"), "seat": rest.sized("<B")}
        values["epoch"], values["ticket"], values["token"] = _numbers(values["seat"], 3)
        values |= {"id": rest.sized("<H"), "secret": rest.sized("<B"), "lock": rest.sized("<H")}

    def holder(self):
        """The label of the first of those who hold the lock."""
        for _id, _slot, _token, _most, label, *_ in self._values.get("holders", []):
            return label.decode(errors="replace")
        return None

    def __contains__(self, name):
        return name in self._values

    def bytes(self, name):
        return self._values[name]

    def number(self, name):
        return int(self._values[name])

    def text(self, name):
        return self._values[name].decode(errors="replace")


def _reply(text, sent):
    reply = Told(text, sent)
    promised = _PROMISED[reply.word]
    if promised and promised not in reply:
        raise ValueError(f"{reply.word} without {promised}")
    return reply


class Wire:
    """One client id: its connection for requests, and another one for pushes if it does not only poll."""

    def __init__(self, url, prefix, patience, push):
        self.client = random_name()
        self.channel = f"{prefix}:client:{self.client}"
        self.process = os.getpid()
        # No request may be repeated without being built anew.
        self._pool = redis.ConnectionPool.from_url(url, protocol=2, retry=Retry(NoBackoff(), 0))
        self._push = push
        # How long to wait for an answer; longer after each connection that was closed without one.
        self._usual_patience = self._patience = patience
        self._connection = self._listener = None
        self._backoff = 10_000

    def ask(self, verb, key, arguments, within=None, until=None):
        """The reply to a request, whose `arguments` are built when there is a connection. It is awaited for `within`, or
        until the moment `until`, from which on nothing is sent, however long connecting took: a renewal is of no use once
        its lease is lost."""
        if until is not None:
            within = until - now_us()
        patience = self._patience if within is None else max(1, min(within, self._patience))
        try:
            if self._connection is None:
                self._connect(patience)
            words = [1, key, *arguments()]
            sent = self._now_before(until)
            try:
                text = self._call(self._connection, patience, "EVALSHA", _DIGESTS[verb], *words)
            except NoScriptError:
                sent = self._now_before(until)
                text = self._call(self._connection, patience, "EVAL", _SCRIPTS[verb], *words)
        except (AuthenticationError, NoPermissionError) as error:
            raise Refused(str(error), right=True) from error
        except ResponseError as error:
            # redis-py has classes of its own for some of these words, and takes the word out of the text.
            text = f"{type(error).__name__} {error}"
            if type(error) is not ResponseError or any(word in text for word in _PASSING):
                raise Refused(text) from error
            raise Failed(str(error)) from error
        except (RedisError, OSError) as error:
            self.disconnect()
            if isinstance(error, redis.TimeoutError):
                self._patience = max(self._patience, min(self._patience * 2, 5 * SECOND))
            raise Broken(str(error)) from error
        self._backoff, self._patience = 10_000, self._usual_patience
        try:
            return _reply(text, sent)
        except (ValueError, KeyError, TypeError, AttributeError, msgpack.UnpackException) as error:
            raise Refused("an unreadable reply") from error

    @staticmethod
    def _now_before(until):
        now = now_us()
        if until is not None and now >= until:
            raise Broken("it is too late to send this")
        return now

    def pause(self, longest):
        """How long to wait before the next attempt."""
        pause, self._backoff = self._backoff, min(self._backoff * 2, 640_000)
        return min(pause // 2 + random.randrange(pause // 2), max(longest, 0), self._patience // 4)

    def listen(self, span):
        """The next push within `span`."""
        if self._listener is None:
            return time.sleep(max(span, 0) / SECOND)
        try:
            if not self._listener.can_read(max(span, 0) / SECOND):
                return None
            kind, _, payload = self._listener.read_response()
            return Told(payload) if kind == b"message" else None
        except (RedisError, OSError):
            self._listener = None  # the next connection subscribes again; until then heartbeats tell
            return None
        except (ValueError, TypeError, AttributeError):
            return None  # no message of the scripts

    def _connect(self, patience):
        for limit in ("socket_timeout", "socket_connect_timeout"):
            self._pool.connection_kwargs[limit] = self._patience / SECOND
        connection = self._pool.make_connection()
        connection.connect()
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
        if not connection.can_read(patience / SECOND):
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
