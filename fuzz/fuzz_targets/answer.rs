//! Replies of scripts, from the packed bytes on.
#![no_main]

use fairlock::testing::read_reply;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for script in ["acquire", "heartbeat", "renew", "release", "leave", "inspect", "break"] {
        if let Some(reply) = read_reply(script, bytes) {
            assert!(reply.numbers.iter().chain(&reply.told).all(|number| *number <= 1 << 53));
            assert!(reply.spans.iter().all(|span| *span <= 1 << 53));
        }
    }
});
