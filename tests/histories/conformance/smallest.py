"""The smallest client of docs/protocol.md with its driver, for the judge: it tries, renews and releases. Requests and
replies are those of `examples/python-client`, whose folder is in PYTHONPATH."""

import itertools
import sys
import threading
import time

from fairlock_wire import SECOND, Broken, Failed, Refused, Wire, now_us, packed, packed_terms

EMPTY = b""


class Client:
    def __init__(self, url, prefix, name, lease, *_):
        self.lease, self.key = int(lease), f"{prefix}:{{{name}}}:lock"
        patience = min(max(self.lease // 3, SECOND // 10), 5 * SECOND)
        self.wire, self.numbers = Wire(url, prefix, patience, push=False), itertools.count(1)
        self.memory, self.heard, self.keep = EMPTY, 0, 0
        self.leases, self.one_request = {}, threading.RLock()

    def ask(self, verb, arguments, until=None):
        """The reply; None after an error, or if there is none."""
        with self.one_request:
            try:
                reply = self.wire.ask(verb, self.key, arguments, until=until)
            except (Broken, Refused, Failed):
                return time.sleep(0.05)
            self.memory, self.heard, self.keep = reply.bytes("memory"), reply.sent, reply.number("keep_us")
            return reply

    def acquire(self, waiter):
        if now_us() >= self.heard + self.keep:
            self.memory = EMPTY
        terms = packed_terms(self.lease, 0, self.lease, 0, 1, [EMPTY, "smallest", EMPTY])
        while True:
            held = {"id": f"{self.wire.client}.{next(self.numbers)}", "terms": terms, "over": None}
            reply = self.ask("acquire", lambda: [held["id"], self.memory, EMPTY, terms])
            if reply is None:
                until = now_us() + self.lease
                while now_us() < until and not self.ask("release", lambda: [held["id"], self.memory, EMPTY], until):
                    pass
            elif reply.word == "granted":
                break
            elif reply.word == "busy" and "again" not in reply:
                return print("busy", waiter, flush=True)
        self.counts(held, reply)
        self.leases[waiter] = held
        threading.Thread(target=self.renew, args=[held]).start()
        print("granted", waiter, reply.number("own_token"), reply.number("own_token"), flush=True)

    def counts(self, held, reply):
        left = min(reply.number("own_left_us"), self.lease)
        held["seat"], held["end"] = reply.bytes("own_seat"), reply.sent + left
        held["deadline"], held["due"] = held["end"] - left // 200 - 1000, held["end"] - self.lease * 2 // 3

    def renew(self, held):
        while not held["over"] and now_us() < held["deadline"]:
            time.sleep(0.02)
            with self.one_request:
                if held["over"] or now_us() < held["due"]:
                    continue
                reply = self.ask("renew", lambda: [
                    held["id"], self.memory, held["seat"], held["terms"], packed(max(held["end"] - now_us(), 0)),
                ], held["deadline"])
                if reply and reply.word != "renewed":
                    held["over"] = "lost"
                elif reply and now_us() < held["deadline"]:
                    self.counts(held, reply)
        held["over"] = held["over"] or "lost"

    def release(self, waiter):
        with self.one_request:
            held = self.leases[waiter]
            lasts, held["over"] = not held["over"] and now_us() < held["deadline"], "released"
            seats, word = itertools.chain([held["seat"] if lasts else EMPTY], itertools.repeat(EMPTY)), None
            for repeated in itertools.count():
                seat, until = next(seats), held["deadline"]
                if word or now_us() >= until:
                    break
                reply = self.ask("release", lambda: [held["id"], self.memory, seat], until)
                word = reply and ("released" if repeated and reply.word == "unknown" else reply.word)
        print("released" if lasts and word == "released" else "lost", waiter, flush=True)


for line in sys.stdin:
    verb, *words = line.split()
    if verb == "open":
        client = Client(*words)
        print("ready", flush=True)
    elif verb == "held":
        held = client.leases.get(words[0])
        believes = held and not held["over"] and now_us() < held["deadline"]
        print("held" if believes else "lost", words[0], flush=True)
    else:
        threading.Thread(target=client.acquire if verb == "try" else client.release, args=words).start()
