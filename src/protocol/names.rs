//! Random names: the secrets of acquires.

use std::sync::Mutex;

use crate::mutex::try_lock;

/// How many secrets are drawn from the system at once.
const DRAWN: usize = 64;

/// A unique name that cannot be guessed: 128 random bits. The server keeps it many times over, so it is short.
fn random_name() -> String {
    let [bits] = random();
    name(bits)
}

/// Random names of one client, drawn from the system many at once. A forked process must not use its parent's, or the
/// two would have the same names.
#[derive(Default)]
pub(crate) struct Names(Mutex<Vec<u128>>);

impl Names {
    pub(crate) fn next(&self) -> String {
        // A caller that loses its processor here must not hold up others.
        let Some(mut drawn) = try_lock(&self.0) else { return random_name() };
        if drawn.is_empty() {
            drawn.extend(random::<DRAWN>());
        }
        drawn.pop().map_or_else(random_name, name)
    }
}

#[allow(clippy::expect_used)] // No system on which fairlock runs refuses; without secrets there is no way on.
fn random<const COUNT: usize>() -> [u128; COUNT] {
    let mut bytes = [[0; 16]; COUNT];
    getrandom::fill(bytes.as_flattened_mut()).expect("the system has random bytes");
    bytes.map(u128::from_ne_bytes)
}

fn name(bits: u128) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const LENGTH: usize = 11; // 62 to the power of 11 is more than 2 to the power of 64
    let mut name = String::with_capacity(2 * LENGTH);
    for mut half in [bits as u64, (bits >> 64) as u64] {
        for _ in 0..LENGTH {
            name.push(char::from(DIGITS[(half % 62) as usize]));
            half /= 62;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn random_names_differ_and_can_be_part_of_an_id() {
        let names = Names::default();
        let drawn = (0..1000).flat_map(|_| [random_name(), names.next()]);
        let drawn: HashSet<String> = drawn.collect();
        assert_eq!(drawn.len(), 2000);
        assert!(drawn.iter().all(|name| name.len() == 22 && name.bytes().all(|byte| byte.is_ascii_alphanumeric())));
    }

    #[test]
    fn caller_that_draws_a_name_holds_up_no_other() {
        let names = Names::default();
        let _held = names.0.lock();
        assert_eq!(names.next().len(), 22);
    }
}
