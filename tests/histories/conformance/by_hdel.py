"""The client of `examples/python-client`, whose folder is in PYTHONPATH, and one thing more: it releases a lease by an
HDEL where docs/protocol.md allows it. For the judge."""

import redis

import fairlock
import fairlock_wire
from fairlock_wire import Broken, Refused, now_us


class Told(fairlock_wire.Told):
    def _reply(self, rest):
        flags = rest.text[:1]
        super()._reply(rest)
        self.by_hdel = ord(flags) & 2


class Lease(fairlock.Lease):
    def __init__(self, waiter, reply):
        super().__init__(waiter, reply)
        self._by_hdel = reply.by_hdel

    def _renew(self):
        self._by_hdel = False
        super()._renew()

    def _give_back(self, seat):
        if not self._by_hdel or not seat or now_us() >= self._deadline:
            return super()._give_back(seat)
        sent = now_us()
        try:
            removed = self._remove("@" + self._waiter.id)
        except Refused:
            removed = 0
        except Broken:
            word = super()._give_back(b"")
            return "released" if word == "unknown" else word
        if not removed:
            return super()._give_back(seat)
        self._lock._memory.heard = sent
        return "released"

    def _remove(self, field):
        wire = self._wire
        try:
            if wire._connection is None:
                wire._connect(wire._patience)
            return wire._call(wire._connection, wire._patience, "HDEL", self._lock._key, field)
        except redis.ResponseError as error:
            raise Refused(str(error)) from error
        except (redis.RedisError, OSError) as error:
            wire.disconnect()
            raise Broken(str(error)) from error


fairlock_wire.Told, fairlock.Lease = Told, Lease
import driver  # noqa: E402, F401  it reads its orders until their end
