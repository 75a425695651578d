//! Messages of grants and of broken leases.
#![no_main]

use fairlock::__hooks::read_push;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| {
    let Some((_, id, numbers, [secret, lock], [memory, seat])) = read_push(payload) else { return };
    // Nothing is read that is not in the message, and every number is one with which the keeper can calculate.
    for text in [id.as_bytes(), secret.as_bytes(), lock.as_bytes(), &memory, &seat] {
        assert!(text.is_empty() || payload.windows(text.len()).any(|part| part == text));
    }
    assert!(numbers.iter().all(|number| (1..=1 << 53).contains(number)));
    // What stands behind it was added by a later version.
    assert_eq!(read_push(&[payload, &[0]].concat()), read_push(payload));
});
