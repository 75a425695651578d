//! Locks as the scripts of layout 2 kept them. This version of fairlock finds such locks after an upgrade.
//!
//! `layout_2.txt` has them field by field: a state, the key, the field, and the value in hexadecimal digits (for a
//! waiter its ticket). The command line of commit 1186bd02, the last one with that layout, made them on Redis 7.0:
//! `idle`, and the history `past`, by `fairlock history x on; fairlock run x --label 'a job' -- true`; `held` while
//! `fairlock run x --label 'a job' -- sleep 4` ran, and `waiting` while `fairlock run x --label 'a waiter' -- true`
//! waited for that one.

use redis::{ConnectionLike, cmd};

const WRITTEN: &str = include_str!("layout_2.txt");

/// What a lock may be found as.
pub const STATES: [&str; 3] = ["idle", "held", "waiting"];

/// Writes the lock as it was in this state.
pub fn write(raw: &mut impl ConnectionLike, prefix: &str, name: &str, state: &str) {
    let mut lines = 0;
    for line in WRITTEN.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [of, key, field, value] = words[..] else { panic!("{line}") };
        if of != state {
            continue;
        }
        let (full, field) = (format!("{prefix}:{{{name}}}:{key}"), field.trim_matches('-'));
        let command = match key {
            "lock" => cmd("HSET").arg(full).arg(field).arg(bytes(value)).clone(),
            "waiters" => cmd("ZADD").arg(full).arg(value).arg(field).clone(),
            _ => cmd("XADD").arg(full).arg("*").arg(field).arg(bytes(value)).clone(),
        };
        let () = command.query(raw).expect("a server that takes it");
        lines += 1;
    }
    assert!(lines > 0, "{state} is none of {STATES:?}");
}

/// Both keys of the lock, as the server dumps them. None: there is no such key.
pub fn dump(raw: &mut impl ConnectionLike, prefix: &str, name: &str) -> [Option<Vec<u8>>; 2] {
    ["lock", "waiters"].map(|key| cmd("DUMP").arg(format!("{prefix}:{{{name}}}:{key}")).query(raw).expect("a dump"))
}

fn bytes(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).expect("two digits"));
    pairs.map(|pair| u8::from_str_radix(pair, 16).expect("two digits")).collect()
}
