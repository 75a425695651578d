//! Messages of grants and of broken leases.
#![no_main]

use fairlock::testing::read_push;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|payload: &[u8]| {
    let Some((grant, id, [token, ticket], [secret, queue])) = read_push(payload) else { return };
    // Said again in its plainest form, it is read as the same.
    let kind = if grant { "grant" } else { "break" };
    let again = format!("{kind} {id} {token} {ticket} 0 {secret} {queue}");
    assert_eq!(read_push(again.as_bytes()), Some((grant, id, [token, ticket], [secret, queue])));
});
