//! Replies of scripts, from the bytes on the wire on.
#![no_main]

use fairlock::testing::read_answer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(value) = redis::parse_redis_value(bytes) else { return };
    if let Some(answer) = read_answer(&value) {
        assert!(answer.numbers.iter().all(|number| *number <= 1 << 53));
        assert!(answer.spans.iter().all(|span| *span <= 1 << 53));
    }
});
