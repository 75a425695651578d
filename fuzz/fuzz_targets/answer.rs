//! Replies of scripts, from the packed bytes on.
#![no_main]

use fairlock::testing::read_answer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(answer) = read_answer(bytes) {
        assert!(answer.numbers.iter().all(|number| *number <= 1 << 53));
        assert!(answer.spans.iter().all(|span| *span <= 1 << 53));
    }
});
