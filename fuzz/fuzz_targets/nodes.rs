//! What nodes of a cluster say of their slots, and sentinels of their master.
#![no_main]

use fairlock::__hooks::read_nodes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: ([u16; 4], &[u8])| {
    let (slots, bytes) = input;
    let Some(nodes) = read_nodes(bytes, &slots) else { return };
    // A slot has one node, whichever others are asked for.
    for (slot, node) in slots.iter().zip(&nodes).filter(|_| nodes.len() == slots.len()) {
        assert_eq!(read_nodes(bytes, &[*slot]).as_deref(), Some(&[node.clone()][..]));
    }
});
