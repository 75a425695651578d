//! Of what `by_hdel.py` adds to it.

use super::Mistake;

pub const MISTAKES: [Mistake; 11] = [
    Mistake {
        what: "any lease is released by an HDEL",
        scene: "a lost lease",
        rule: "If the reply `granted` has the flag 2",
        changes: &[("ord(flags) & 2", "True")],
    },
    Mistake {
        what: "an HDEL names the entry of a waiter",
        scene: "a release by HDEL",
        rule: "but for [an `HDEL` of its own lease]",
        changes: &[("\"@\" + self", "self")],
    },
    Mistake {
        what: "a lease that was renewed is released by an HDEL",
        scene: "a release by HDEL",
        rule: "Once the client has sent a renewal",
        changes: &[("self._by_hdel = False", "pass")],
    },
    Mistake {
        what: "an HDEL that did nothing is the end of a release",
        scene: "a release by HDEL",
        rule: "`release` follows, with the SEAT that it would have had without the `HDEL`.",
        changes: &[("if not removed:", "if False:")],
    },
    Mistake {
        what: "after an HDEL that did nothing no lease is known to be over",
        scene: "a release by HDEL",
        rule: "`0`: nothing was done",
        changes: &[(
            "return super()._give_back(seat)\n        self._lock",
            "super()._give_back(seat)\n        self._lock",
        )],
    },
    Mistake {
        what: "the release behind an HDEL that did nothing has no seat",
        scene: "a release by HDEL",
        rule: "`release` follows, with the SEAT that it would have had without the `HDEL`.",
        changes: &[(
            "return super()._give_back(seat)\n        self._lock",
            "return super()._give_back(b\"\")\n        self._lock",
        )],
    },
    Mistake {
        what: "an HDEL that did nothing empties the memory",
        scene: "a release by HDEL",
        rule: "a client without a lease or a place empties its memory",
        changes: &[("if not removed:", "if not removed:\n            self._lock._memory.text = b\"\"")],
    },
    Mistake {
        what: "an HDEL that was refused is the end of a release",
        scene: "a release by HDEL",
        rule: "An error: nothing was executed. `release` follows",
        changes: &[("removed = 0", "removed = 1")],
    },
    Mistake {
        what: "an HDEL without an answer is the end of a release",
        scene: "a release by HDEL",
        rule: "No answer: the `HDEL` may have been executed",
        changes: &[("word = super()._give_back(b\"\")", "word = \"released\"")],
    },
    Mistake {
        what: "the release behind an HDEL without an answer has its seat",
        scene: "a release by HDEL",
        rule: "SEAT is empty when the request is repeated",
        changes: &[("super()._give_back(b\"\")", "super()._give_back(seat)")],
    },
    Mistake {
        what: "the memory of a grant is kept for ever after an HDEL",
        scene: "a release by HDEL",
        rule: "its `keep_us` counts from the `HDEL`",
        changes: &[("_memory.heard = sent", "_memory.keep = 1 << 53")],
    },
];
