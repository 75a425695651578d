//! Replies of scripts, from the packed bytes on.
#![no_main]

use fairlock::__hooks::read_reply;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for script in ["acquire", "heartbeat", "renew", "release", "leave", "inspect", "break", "history"] {
        let read = read_reply(script, bytes).unwrap_or_default();
        assert!(read.iter().all(|number| *number <= 1 << 53));
    }
});
