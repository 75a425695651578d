//! Whatever comes over a connection: the same in any pieces, no reply to a request that was not made, and read as the redis
//! crate reads it.
#![no_main]

use fairlock::__hooks::{converse, read_by_the_library, read_frames};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, [u8; 6], &[u8])| {
    let (size, questions, bytes) = input;
    let (frames, end) = read_frames(bytes, usize::MAX);
    assert_eq!((&frames, &end), (&read_frames(bytes, size.into()).0, &read_frames(bytes, size.into()).1));
    let (said, ended) = converse(&questions, bytes, usize::MAX);
    assert_eq!((&said, &ended), (&converse(&questions, bytes, size.into()).0, &converse(&questions, bytes, size.into()).1));
    // Each reply belongs to a request that was made, and comes in its turn.
    let tags: Vec<u64> = said.iter().filter_map(|said| said.split(' ').next()?.parse().ok()).collect();
    assert!(tags.iter().all(|tag| (1..=6).contains(tag)) && tags.len() <= questions.len());

    // The library reads more than servers say, and some of it otherwise: fractions become numbers, any text may stand before
    // the colon of a verbatim one, and a push may be empty.
    let otherwise = [&b","[..], b"=", b">0", b">-"];
    if otherwise.iter().any(|sign| bytes.windows(sign.len()).any(|window| window == *sign)) {
        return;
    }
    if let (Some(ours), Some(theirs)) = (frames.first(), read_by_the_library(bytes).first()) {
        assert_eq!(ours, theirs);
    }
});
