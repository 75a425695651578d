//! What must not be, whoever looks: the promises about who holds a lock and who waits for it, each said once, of one
//! moment of one lock (`docs/guarantees.md`, I1 to I3, I7, I9).
//!
//! Three kinds of tests look at moments. Worlds of keepers see what callers may believe and what the server has, walks
//! of the scripts the data before and after a request, histories of processes what each of them noticed, and when. They
//! know by themselves who counts as a holder or as a waiter, and what a fault excuses; so a promise is asked with those
//! that count. It is not judged over a whole record of events: an explored state has no past.

use std::fmt::Display;

/// A lease that counts at that moment.
#[derive(Clone, Copy, Debug)]
pub struct Holder<W> {
    pub who: W,
    pub slot: u32,
    /// How many it lets hold together, itself among them.
    pub most: u32,
}

impl<W> Holder<W> {
    /// Whether these two cannot hold together, whoever else does.
    pub fn excludes<V>(&self, other: &Holder<V>) -> bool {
        self.slot == other.slot || self.most.min(other.most) < 2
    }
}

/// I1: each holder has a slot of its own, and there are no more of them than any one lets in.
pub fn exclusion<W: Display>(holders: &[Holder<W>]) -> Result<(), String> {
    for (nth, newer) in holders.iter().enumerate() {
        if let Some(older) = holders[..nth].iter().find(|older| older.excludes(newer)) {
            return Err(both(older, newer));
        }
    }
    no_crowd(holders)
}

/// I1: no holder lets in fewer than there are.
pub fn no_crowd<W: Display>(holders: &[Holder<W>]) -> Result<(), String> {
    let count = holders.len();
    match holders.iter().find(|holder| count > holder.most as usize) {
        Some(Holder { who, most, .. }) => Err(format!("{count} hold at once, and {who} allows {most} (I1)")),
        None => Ok(()),
    }
}

/// Says of two that exclude each other that both hold.
pub fn both<W: Display, V: Display>(older: &Holder<W>, newer: &Holder<V>) -> String {
    let what = if older.most.min(newer.most) < 2 { "" } else { " in one slot" };
    format!("two hold at once{what}: {} and {} (I1)", older.who, newer.who)
}

/// I2 and I7: who is granted the lock with this ticket had the lowest of all that waited. Of those with a lower one it
/// is asked whether they count.
pub fn order<W: Display>(
    granted: impl Display,
    ticket: u64,
    queue: impl IntoIterator<Item = (u64, W)>,
    counts: impl Fn(&W) -> bool,
) -> Result<(), String> {
    let mut lower = queue.into_iter().filter(|(its, _)| *its < ticket);
    match lower.find(|(_, who)| counts(who)) {
        Some((its, who)) => {
            Err(format!("{who} (ticket {its}) waited when {granted} was granted with ticket {ticket} (I2, I7)"))
        }
        None => Ok(()),
    }
}

/// I3: of two that hold one after the other, the later one has the higher token.
pub fn token_rises(before: (u64, impl Display), after: (u64, impl Display)) -> Result<(), String> {
    if before.0 < after.0 {
        return Ok(());
    }
    Err(format!("the token did not rise from {} to {} (I3)", before.1, after.1))
}

/// I7: a waiter that is told its ticket once more is told the same.
pub fn keeps_its_ticket(who: impl Display, before: Option<u64>, after: u64) -> Result<(), String> {
    match before.filter(|&before| before != after) {
        Some(before) => Err(format!("{who} had ticket {before} and was queued {after} (I7)")),
        None => Ok(()),
    }
}

/// A key, its TTL in ms, and how many fields it has if it is a hash, without those of slots.
pub type Left<K> = (K, i64, usize);

/// I9: which of these keys should not exist when nobody wants a lock any more. All but the `:lock` of locks whose only
/// field is the packed state, and those too if they would never expire.
pub fn nothing_left<K: AsRef<str>>(keys: &[Left<K>]) -> Result<(), Vec<String>> {
    // -1 means that the key never expires; one that has expired since it was listed (-2) is as good as any that will.
    let stays = |(key, ttl, fields): &&Left<K>| !key.as_ref().ends_with(":lock") || *ttl == -1 || *fields > 1;
    let mut left: Vec<String> = keys.iter().filter(stays).map(|(key, ..)| key.as_ref().to_owned()).collect();
    left.sort();
    if left.is_empty() { Ok(()) } else { Err(left) }
}
