//! Requests, replies and messages, packed as the scripts do it, and how a complaint shows them.

use super::referee::Asked;

/// A value of a reply.
pub enum Value {
    Number(u64),
    Text(Vec<u8>),
}

/// What a client does not look into: the end of its memories and seats, and what a later version adds.
pub fn opaque() -> Vec<u8> {
    [0xff, 0x00].into_iter().chain(std::iter::repeat_with(|| fastrand::u8(..)).take(12)).collect()
}

/// A memory, which begins with its epoch and stamp.
pub fn sealed(numbers: &[u64]) -> Vec<u8> {
    const VERSION: u8 = 5;
    std::iter::once(VERSION).chain(numbers.iter().copied().flat_map(double)).chain(opaque()).collect()
}

/// A seat, which begins with epoch, ticket and token, slot and `most`.
pub fn sealed_seat(epoch: u64, ticket: u64, token: u64, (slot, most): (u16, u16)) -> Vec<u8> {
    let mut seat = sealed(&[epoch, ticket, token]);
    drop(seat.splice(25..25, [slot.to_le_bytes(), most.to_le_bytes()].concat()));
    seat
}

fn double(number: u64) -> [u8; 8] {
    (number as f64).to_le_bytes()
}

fn number(values: &[(&str, Value)], name: &str) -> u64 {
    let value = values.iter().find(|(its, _)| *its == name);
    value.map_or(0, |(_, value)| if let Value::Number(number) = value { *number } else { 0 })
}

fn text<'a>(values: &'a [(&str, Value)], name: &str) -> Option<&'a [u8]> {
    let value = values.iter().find(|(its, _)| *its == name);
    value.and_then(|(_, value)| if let Value::Text(text) = value { Some(&**text) } else { None })
}

/// A text with its size in so many bytes before it.
fn sized(bytes: usize, text: &[u8]) -> Vec<u8> {
    [&u32::try_from(text.len()).unwrap().to_le_bytes()[..bytes], text].concat()
}

/// A reply, with more behind it than this version knows.
pub fn reply(word: &str, values: &[(&str, Value)]) -> Vec<u8> {
    const LATER_FLAGS: u8 = 0b1111_0100;
    let mut packed = sized(1, word.as_bytes());
    packed.push(LATER_FLAGS | number(values, "again") as u8 | (2 * number(values, "by_hdel") as u8));
    for name in ["position", "waiting", "held", "first_left_us", "recover_left_us", "keep_us"] {
        packed.extend(double(number(values, name)));
    }
    packed.extend(sized(1, text(values, "memory").unwrap_or_default()));
    let own = text(values, "own_id").into_iter().map(|id| (id, "own_seat"));
    let own: Vec<_> = own.chain(text(values, "place_id").map(|id| (id, "seat"))).collect();
    packed.extend((own.len() as u16).to_le_bytes());
    for (id, seat) in own {
        packed.push(LATER_FLAGS | number(values, "own_claim") as u8);
        packed.extend([sized(2, id), sized(1, text(values, seat).unwrap_or_default())].concat());
        packed.extend(double(if seat == "own_seat" { number(values, "own_left_us") } else { 0 }));
    }
    packed.extend([sized(4, b""), opaque()].concat());
    packed
}

/// A message, with more behind it than this version knows.
pub fn message(kind: &str, values: &[(&str, Value)]) -> Vec<u8> {
    let mut packed = [&sized(1, kind.as_bytes())[..], &double(number(values, "left_us"))].concat();
    for (bytes, name) in [(1, "memory"), (1, "seat"), (2, "id"), (1, "secret"), (2, "lock")] {
        packed.extend(sized(bytes, text(values, name).unwrap_or_default()));
    }
    [packed, opaque()].concat()
}

/// The arguments of a script, with what is packed in them one by one; as they are, if they have another form.
pub fn unpacked(verb: &str, args: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let pieces = match verb {
        "acquire" => args.get(3).and_then(|text| terms(text)).map(|terms| [args[..3].to_vec(), terms].concat()),
        "renew" if args.len() == 5 => {
            let (terms, left) = (terms(&args[3]), numbers(1, &args[4]).filter(|_| args[4].len() == 8));
            terms.zip(left).map(|(mut terms, left)| {
                let most = terms.pop();
                [args[..3].to_vec(), terms, left, most.into_iter().collect()].concat()
            })
        }
        "heartbeat" if args.len() > 3 => {
            let times = numbers(3, &args[2]).filter(|_| args[2].len() == 24);
            times.map(|times| [args[..2].to_vec(), times, args[3..].to_vec()].concat())
        }
        _ => None,
    };
    pieces.unwrap_or_else(|| args.to_vec())
}

/// The first numbers in a text, in digits.
fn numbers(count: usize, text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (numbers, _) = text.get(..8 * count)?.as_chunks();
    Some(numbers.iter().map(|number| f64::from_le_bytes(*number).to_string().into_bytes()).collect())
}

/// liveness_us, buffer_us, heartbeat_us, lease_us, room, as_claim, secret, label, owner, tag, most.
fn terms(text: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut pieces = numbers(5, text)?;
    let (most, rest) = text.get(40..)?.split_at_checked(2)?;
    let most = u16::from_le_bytes([most[0], most[1]]);
    let (sizes, mut rest) = rest.split_at_checked(8)?;
    pieces.push(sizes[0].to_string().into_bytes());
    let two = |at: usize| u16::from_le_bytes([sizes[at], sizes[at + 1]]).into();
    for size in [sizes[1].into(), two(2), two(4), two(6)] {
        pieces.push(rest.split_off(..size)?.to_vec());
    }
    pieces.push(most.to_string().into_bytes());
    rest.is_empty().then_some(pieces)
}

pub fn listed(values: &[(&str, Value)]) -> String {
    let show = |(name, value): &(&str, Value)| match value {
        Value::Number(number) => format!("{name} {number}"),
        Value::Text(bytes) => format!("{name} {}", readable(bytes)),
    };
    values.iter().map(show).collect::<Vec<_>>().join(" ")
}

pub fn shown(asked: &Asked) -> String {
    let args: Vec<String> = asked.args.iter().map(|arg| readable(arg)).collect();
    let by = if asked.by_text { " (EVAL)" } else { "" };
    format!("client → {}{by} {}", asked.verb, args.join(" "))
}

/// A text, or the end of bytes.
fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok("") => "\"\"".into(),
        Ok(text) if !text.contains('\0') => text.into(),
        _ => bytes.iter().rev().take(4).fold("<…".into(), |text, byte| format!("{text}{byte:02x}")) + ">",
    }
}
