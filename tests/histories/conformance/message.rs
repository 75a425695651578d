//! Replies and messages, in MessagePack as the scripts pack them, and how a complaint shows them.

use super::referee::Asked;

/// A value of a reply.
pub enum Value {
    Number(u64),
    Text(Vec<u8>),
}

pub fn opaque() -> Vec<u8> {
    [0xff, 0x00].into_iter().chain(std::iter::repeat_with(|| fastrand::u8(..)).take(22)).collect()
}

/// A message of the scripts: MessagePack. Numbers come in both forms.
pub fn pack(word: &str, values: &[(&str, Value)]) -> Vec<u8> {
    let mut packed = vec![0xdc, 0, u8::try_from(1 + 2 * values.len()).unwrap()];
    let text = |bytes: &[u8], packed: &mut Vec<u8>| {
        packed.extend([0xd9, u8::try_from(bytes.len()).unwrap()]);
        packed.extend(bytes);
    };
    text(word.as_bytes(), &mut packed);
    for (name, value) in values {
        text(name.as_bytes(), &mut packed);
        match value {
            Value::Text(bytes) => text(bytes, &mut packed),
            Value::Number(number) if number % 2 == 0 => text(number.to_string().as_bytes(), &mut packed),
            Value::Number(number) => {
                packed.push(0xcf);
                packed.extend(number.to_be_bytes());
            }
        }
    }
    packed
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

/// A text, or the beginning of bytes.
fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok("") => "\"\"".into(),
        Ok(text) => text.into(),
        Err(_) => bytes.iter().skip(2).take(4).fold("<".into(), |text, byte| format!("{text}{byte:02x}")) + "…>",
    }
}
