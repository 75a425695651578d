//! Messages in the form in which the scripts publish them, by somebody who knows that form.

/// A message of a grant, or of a broken lease. It tells the client to remember that this token was the last stamp.
pub fn push(kind: &str, id: &str, lock: &str, secret: &str, token: u64, ticket: u64) -> Vec<u8> {
    const EPOCH: u64 = 1;
    const LONGEST: u64 = 9_000_000;
    let mut packed = vec![0xdc, 0, 21]; // an array
    text(kind.as_bytes(), &mut packed);
    let mut named = |name: &str, put: &dyn Fn(&mut Vec<u8>)| {
        text(name.as_bytes(), &mut packed);
        put(&mut packed);
    };
    for (name, value) in
        [("epoch", EPOCH), ("stamp", token), ("token", token), ("ticket", ticket), ("left_us", LONGEST)]
    {
        named(name, &|packed| {
            packed.push(0xcf); // a number of eight bytes
            packed.extend(value.to_be_bytes());
        });
    }
    for (name, value) in [("id", id), ("lock", lock), ("secret", secret)] {
        named(name, &|packed| text(value.as_bytes(), packed));
    }
    named("seat", &|packed| text(&told(&[EPOCH, ticket, token]), packed));
    named("memory", &|packed| text(&told(&[EPOCH, token, token, LONGEST, LONGEST]), packed));
    packed
}

/// A text of up to 255 bytes.
fn text(bytes: &[u8], packed: &mut Vec<u8>) {
    packed.extend([0xd9, u8::try_from(bytes.len()).expect("a short text")]);
    packed.extend(bytes);
}

/// A memory or a seat: the version of the layout, then numbers.
fn told(numbers: &[u64]) -> Vec<u8> {
    const VERSION: u8 = 2;
    let numbers = numbers.iter().flat_map(|&number| (number as f64).to_le_bytes());
    [VERSION].into_iter().chain(numbers).collect()
}
