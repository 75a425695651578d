//! Of the small client: `fairlock.py` and `fairlock_wire.py` of `examples/python-client`.

use super::Mistake;

pub const MISTAKES: [Mistake; 38] = [
    Mistake {
        what: "a semaphore's renewal says that it is alone",
        scene: "several holders",
        rule: "how many may hold the lock together while this lease lasts, itself among them",
        changes: &[("0, 0, self.about, lock._slots)", "0, 0, self.about)")],
    },
    Mistake {
        what: "it remembers only the first memory",
        scene: "a free lock",
        rule: "`memory` of the last reply about that lock",
        changes: &[(
            "self.text, self.heard, self.keep = reply",
            "self.text, self.heard, self.keep = self.text or reply",
        )],
    },
    Mistake {
        what: "a waiter has no memory",
        scene: "a queue",
        rule: "a client without a lease or a place empties its memory",
        changes: &[("and not self.epoch else memory.text", "and not self.epoch else b\"\"")],
    },
    Mistake {
        what: "all acquires have one secret",
        scene: "no free lock",
        rule: "at least 120 random bits as text, new for each acquire",
        changes: &[("[random_name(), label", "[wire.client, label")],
    },
    Mistake {
        what: "a late acquire costs a whole lease",
        scene: "a queue",
        rule: "All its requests carry `as_claim` 1",
        changes: &[("lock._lease, room, 1, self", "lock._lease, room, 0, self")],
    },
    Mistake {
        what: "it does not empty the memory when it has had nothing at the lock for long",
        scene: "a free lock",
        rule: "a client without a lease or a place empties its memory",
        changes: &[("if now_us() >= self.heard + self.keep:", "if now_us() >= self.heard + _DAY:")],
    },
    Mistake {
        what: "a renewal does not replace the seat",
        scene: "a free lock",
        rule: "where `own_id` is the ID, replaces the seat",
        changes: &[(
            "self._seat = reply.bytes(\"own_seat\")",
            "self._seat = getattr(self, \"_seat\", reply.bytes(\"own_seat\"))",
        )],
    },
    Mistake {
        what: "a repeated release has its seat",
        scene: "a free lock",
        rule: "SEAT is empty when the request is repeated",
        changes: &[("seat, repeated = b\"\", True", "repeated = True")],
    },
    Mistake {
        what: "a release does not have the seat of the renewal that is under way",
        scene: "a free lock",
        rule: "It comes after the answer to a renewal that is under way, with the seat",
        changes: &[
            (
                "        with self._condition:\n            if",
                "        seat = self._seat\n        with self._condition:\n            if",
            ),
            ("b\"\" if lost else self._seat)", "b\"\" if lost else seat)"),
        ],
    },
    Mistake {
        what: "a lock lets in one more",
        scene: "no free lock",
        rule: "how many may hold the lock together while this lease lasts, itself among them",
        changes: &[("room, 1, self.about, lock._slots)", "room, 1, self.about, lock._slots + 1)")],
    },
    Mistake {
        what: "a lock is asked for with `most` 0",
        scene: "no free lock",
        rule: "how many may hold the lock together while this lease lasts, itself among them",
        changes: &[("room, 1, self.about, lock._slots)", "room, 1, self.about, 0)")],
    },
    Mistake {
        what: "the request after NOSCRIPT is built anew",
        scene: "a free lock",
        rule: "Only the `EVAL` after `NOSCRIPT` repeats it unchanged",
        changes: &[("\"EVAL\", _SCRIPTS[verb], *words)", "\"EVAL\", _SCRIPTS[verb], 1, key, *arguments())")],
    },
    Mistake {
        what: "all acquires of a client have one id",
        scene: "no free lock",
        rule: "that this CLIENT never uses again",
        changes: &[("itertools.count(1)", "itertools.repeat(1)")],
    },
    Mistake {
        what: "a deadline counts from the answer",
        scene: "a deadline",
        rule: "A deadline counts from before the request was sent.",
        changes: &[("self._end = reply.sent + left", "self._end = now_us() + left")],
    },
    Mistake {
        what: "it believes in a lease until its end at the server",
        scene: "a deadline",
        rule: "A deadline counts from before the request was sent.",
        changes: &[("self._deadline - self._lock._notice * min(left, lease) // lease", "now_us() + left")],
    },
    Mistake {
        what: "a late answer revives a lease that was lost",
        scene: "a deadline",
        rule: "a no is not taken back by a reply that is read later",
        changes: &[
            ("elif now_us() < self._notice_at:  # otherwise", "else:  # even if"),
            (
                "], until=self._notice_at)\n        except (Broken, Refused, Failed):\n            self._",
                "])\n        except (Broken, Refused, Failed):\n            self._",
            ),
        ],
    },
    Mistake {
        what: "it goes on renewing a lease that the server has ended",
        scene: "a lost lease",
        rule: "The client tells its caller and sends no more renewals",
        changes: &[(
            "if reply.word != \"renewed\":",
            "if reply.word == \"lost\":\n            return\n        if reply.word != \"renewed\":",
        )],
    },
    Mistake {
        what: "the release of a lost lease has its seat",
        scene: "a broken lease",
        rule: "It releases when the caller is done or at the deadline, with an empty seat",
        changes: &[("self._give_back(b\"\" if lost else self._seat)", "self._give_back(self._seat)")],
    },
    Mistake {
        what: "a claim is handed out as a lease",
        scene: "a queue",
        rule: "`own_id` is the ID, with `own_claim`: confirm the claim",
        changes: &[("if \"own_claim\" not in reply and (lease", "if (lease")],
    },
    Mistake {
        what: "a waiter does not come back when the epoch has changed",
        scene: "losses of data",
        rule: "another `epoch`, no answer): ask again, with the seat",
        changes: &[(
            "reply.number(\"position\") > 0 and reply.number(\"epoch\") == self.epoch",
            "reply.number(\"position\") > 0",
        )],
    },
    Mistake {
        what: "its place is given back only once",
        scene: "giving up",
        rule: "`release` with the ID and an empty seat, until it is answered",
        changes: &[(
            "time.sleep(self.wire.pause(until - now_us()) / SECOND)\n        self.wire.close()",
            "break\n        self.wire.close()",
        )],
    },
    Mistake {
        what: "it believes a message without the secret",
        scene: "messages",
        rule: "A client believes a push only if the ID is its own",
        changes: &[("\"lock\": self.lock._key, \"secret\": self.about[0]}", "\"lock\": self.lock._key}")],
    },
    Mistake {
        what: "the grant of a message is handed out as a lease",
        scene: "messages",
        rule: "the waiter takes the `seat` with its `epoch`, and [confirms](#waiting).",
        changes: &[(
            "return self._confirm\n",
            "push.word, push.sent = \"granted\", reply.sent\n                push._values |= {\"own_\" + name: push._values[name] for name in (\"id\", \"seat\", \"ticket\", \"token\")}\n                push._values |= {\"own_slot\": 0, \"own_left_us\": lock._liveness}\n                return lambda: push\n",
        )],
    },
    Mistake {
        what: "a waiter empties its memory as a client does that has nothing at the lock",
        scene: "a queue",
        rule: "a client without a lease or a place empties its memory",
        changes: &[(">= memory.heard + self.lock._liveness + _DAY:", ">= memory.heard + memory.keep:")],
    },
    Mistake {
        what: "the memory goes through UTF-8",
        scene: "a free lock",
        rule: "`memory` of the last reply about that lock",
        changes: &[("= reply.bytes(\"memory\"), reply.sent", "= reply.text(\"memory\").encode(), reply.sent")],
    },
    Mistake {
        what: "the library repeats a request over another connection",
        scene: "answers that are none",
        rule: "The client library must not repeat a request by itself",
        changes: &[(
            "\"EVALSHA\", _DIGESTS[verb], *words)\n            except NoScriptError:",
            "\"EVALSHA\", _DIGESTS[verb], *words)\n            except redis.ConnectionError:\n                self._connect(patience)\n                packed = self._call(self._connection, patience, \"EVALSHA\", _DIGESTS[verb], *words)\n            except NoScriptError:",
        )],
    },
    Mistake {
        what: "an unknown word ends the lease",
        scene: "answers that are none",
        rule: "An unknown word, or a reply that lacks what its word promises, is a temporary refusal",
        changes: &[("_PROMISED[reply.word]", "_PROMISED.get(reply.word)")],
    },
    Mistake {
        what: "a renewal is not repeated",
        scene: "answers that are none",
        rule: "An error or no answer: send it again until the deadline.",
        changes: &[(
            "self._condition.wait(self._wire.pause(self._notice_at - now_us()) / SECOND)",
            "self._lost = \"there was no answer\"",
        )],
    },
    Mistake {
        what: "it says that its whole lease is left",
        scene: "a free lock",
        rule: "A deadline counts from before the request was sent.",
        changes: &[("packed(max(self._end - now_us(), 0))", "packed(lock._lease)")],
    },
    Mistake {
        what: "it says that nothing of its lease is left",
        scene: "answers that are none",
        rule: "what is left of the lease by the client's clock",
        changes: &[("packed(max(self._end - now_us(), 0))", "packed(0)")],
    },
    Mistake {
        what: "it waits for an answer for ever",
        scene: "a free lock",
        rule: "The client waits for an answer for a third of the liveness or of the lease",
        changes: &[("can_read(patience / SECOND)", "can_read(3600)")],
    },
    Mistake {
        what: "a lease is as long as the server says",
        scene: "a lease longer than asked for",
        rule: "the shorter of own_left_us and the lease_us that was asked for",
        changes: &[("left = min(reply.number(\"own_left_us\"), lease)", "left = reply.number(\"own_left_us\")")],
    },
    Mistake {
        what: "a renewal is sent however long connecting took",
        scene: "a late connection",
        rule: "sends no more renewals",
        changes: &[("if until is not None and now >= until:", "if False:")],
    },
    Mistake {
        what: "a release that stopped at a hundred dead waiters is not sent again",
        scene: "a queue",
        rule: "While a reply to `release` or `leave` has `again`, the client sends it again",
        changes: &[(
            "if \"again\" not in reply:\n                    break\n            seat",
            "break\n            seat",
        )],
    },
    Mistake {
        what: "nor is such a release of a place",
        scene: "giving up",
        rule: "While a reply to `release` or `leave` has `again`, the client sends it again",
        changes: &[(
            "if \"again\" not in reply:\n                    break\n            except",
            "break\n            except",
        )],
    },
    Mistake {
        what: "a lock that a late request has taken is not given back",
        scene: "giving up",
        rule: "it sends `release`",
        changes: &[("if \"own_id\" in reply and reply.text(\"own_id\") != self.id:", "if False:")],
    },
    Mistake {
        what: "a seat that the server disbelieves is kept",
        scene: "losses of data",
        rule: "`seat`, or `own_seat` where `own_id` is the ID, replaces the seat.",
        changes: &[("self.seat, step = b\"\", self._acquire", "step = self._acquire")],
    },
    Mistake {
        what: "a waiter asks again without its seat",
        scene: "losses of data",
        rule: "`seat`, or `own_seat` where `own_id` is the ID, replaces the seat.",
        changes: &[("self.seat if self.joins else b\"\",", "b\"\",")],
    },
];
