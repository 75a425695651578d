//! What must not be, whoever looks: the promises about who holds a lock and who waits for it, each said once, of one
//! moment of one lock (`docs/guarantees.md`, I1 to I3, I7, I9).
//!
//! Three kinds of tests look at moments. Worlds of keepers see what callers may believe and what the server has, walks
//! of the scripts the data before and after a request, histories of processes what each of them noticed, and when. They
//! know by themselves who counts as a holder or as a waiter, and what a fault excuses; so a promise is asked with those
//! that count. It is not judged over a whole record of events: an explored state has no past.

// The tests of this crate have it from the hidden hooks.
#![allow(dead_code, missing_docs, unreachable_pub)]

use std::fmt::Display;
use std::ptr;

use super::model::Lease;

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

impl<'a> From<&'a Lease> for Holder<&'a str> {
    fn from(lease: &'a Lease) -> Self {
        Holder { who: &lease.id, slot: lease.slot.into(), most: lease.most.into() }
    }
}

/// I1: the newer one has a slot of its own beside those who hold, and with it there are no more than any one lets in.
/// Whoever may believe to hold and gives way to another holder, by an exception of the promise, does not count.
pub fn exclusion<W: Display>(
    standing: &[Holder<W>],
    newer: &Holder<W>,
    gives_way: impl Fn(&W, &W) -> bool,
) -> Result<(), String> {
    let either = |one: &W, other: &W| gives_way(one, other) || gives_way(other, one);
    if let Some(older) = standing.iter().find(|older| older.excludes(newer) && !either(&older.who, &newer.who)) {
        return Err(both(older, newer));
    }
    let all = || standing.iter().chain([newer]);
    let crowded = |count: usize, holder: &Holder<W>| count > holder.most as usize;
    if !all().any(|holder| crowded(standing.len() + 1, holder)) {
        return Ok(());
    }
    let counts = |one: &&Holder<W>| !all().any(|other| !ptr::eq(*one, other) && gives_way(&one.who, &other.who));
    let holders: Vec<_> = all().filter(counts).collect();
    match holders.iter().find(|holder| crowded(holders.len(), holder)) {
        Some(Holder { who, most, .. }) => Err(format!("{} hold at once, and {who} allows {most} (I1)", holders.len())),
        None => Ok(()),
    }
}

/// The same of all who hold, where nothing excuses anybody.
pub fn exclusion_of_all<W: Display>(holders: &[Holder<W>]) -> Result<(), String> {
    (0..holders.len()).try_for_each(|nth| exclusion(&holders[..nth], &holders[nth], |_, _| false))
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
