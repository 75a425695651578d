//! Messages in the form in which the scripts publish them, by somebody who knows that form.

/// A message of a grant, or of a broken lease. It tells the client to remember that this token was the last stamp.
pub fn push(kind: &str, id: &str, lock: &str, secret: &str, token: u64, ticket: u64) -> Vec<u8> {
    const EPOCH: u64 = 1;
    const LONGEST: u64 = 9_000_000;
    const SLOT_AND_MOST: [u8; 4] = [0, 0, 1, 0];
    let mut packed = short(kind.as_bytes());
    packed.extend((LONGEST as f64).to_le_bytes());
    packed.extend(short(&told(&[EPOCH, token, token, LONGEST, LONGEST])));
    packed.extend(short(&[told(&[EPOCH, ticket, token]).as_slice(), &SLOT_AND_MOST].concat()));
    packed.extend([long(id), short(secret.as_bytes()), long(lock)].concat());
    packed
}

/// A text of up to 255 bytes.
fn short(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).expect("a short text")], bytes].concat()
}

/// A text of up to 64 KiB.
fn long(text: &str) -> Vec<u8> {
    [&u16::try_from(text.len()).expect("a text").to_le_bytes(), text.as_bytes()].concat()
}

/// A memory, or the beginning of a seat: the version of the layout, then numbers.
fn told(numbers: &[u64]) -> Vec<u8> {
    const VERSION: u8 = 5;
    let numbers = numbers.iter().flat_map(|&number| (number as f64).to_le_bytes());
    [VERSION].into_iter().chain(numbers).collect()
}
