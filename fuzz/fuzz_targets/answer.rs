//! Replies of scripts, from the packed bytes on.
#![no_main]

use fairlock::__hooks::{read_reply, verbs};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for (script, _) in verbs() {
        let read = read_reply(script, bytes).unwrap_or_default();
        assert!(read.iter().all(|number| *number <= 1 << 53));
    }
});
