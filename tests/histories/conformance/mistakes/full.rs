//! Of what `full.py` adds to it, and of the small client, where the judge must allow more to a client of the full size.

use super::Mistake;

pub const MISTAKES: [Mistake; 4] = [
    Mistake {
        what: "a message from before a loss of data, or after one, is handed out without asking",
        scene: "doubtful messages",
        rule: "a grant may be handed out at once if its memory has the `epoch` of the memory that the client has",
        changes: &[("its_epoch == epoch and", "")],
    },
    Mistake {
        what: "a message that is older than a reply is handed out without asking",
        scene: "doubtful messages",
        rule: "a grant may be handed out at once if its memory has the `epoch` of the memory that the client has",
        changes: &[(" and push.number(\"token\") > stamp", "")],
    },
    Mistake {
        what: "whoever is granted the lock by a message takes slot 0",
        scene: "several holders",
        rule: "two bytes each: the slot of the lease, and `most`",
        changes: &[("\"own_slot\": slot,", "\"own_slot\": 0,")],
    },
    Mistake {
        what: "a waiter empties its memory as a client does that has nothing at the lock",
        scene: "a queue",
        rule: "a client without a lease or a place empties its memory",
        changes: &[(">= memory.heard + self.lock._liveness + _DAY:", ">= memory.heard + memory.keep:")],
    },
];
