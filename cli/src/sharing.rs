//! How many may hold a lock together: the options that say so, and how people are told.

use std::cmp::Reverse;

use fairlock::operator::READERS;
use fairlock::state::Holder;

use crate::exit::Failure;

/// The options of a semaphore and of a read-write lock.
#[derive(Debug, clap::Args)]
pub(crate) struct Sharing {
    /// A semaphore: up to N hold it together
    ///
    /// From 1 to 1000. Each holder has a slot of its own, from 0 on, the lowest that is free. All jobs of a lock should
    /// say the same: if not, the smallest number of those who hold it counts, and a job that says more just waits.
    #[arg(long, value_name = "N", value_parser = slots)]
    slots: Option<u32>,
    /// A reader: with other readers, up to 1000
    ///
    /// Readers hold the lock together, and a writer, who says nothing or --exclusive, holds it alone. They are served in
    /// the order in which they came: a reader behind a waiting writer waits, too.
    #[arg(short = 's', long, overrides_with = "shared")]
    shared: bool,
    /// Alone, as without any of these options
    #[arg(short = 'x', short_alias = 'e', long, overrides_with = "exclusive", hide_short_help = true)]
    exclusive: bool,
}

impl Sharing {
    /// How many may hold the lock together with this one, itself among them.
    pub(crate) fn most(&self) -> Result<u32, Failure> {
        match (self.slots, self.shared, self.exclusive) {
            (Some(_), true, _) => Err(Failure::own(
                "--slots is for a semaphore, and --shared for a reader: write --slots N if up to N may hold the lock, or \
                 --shared if up to 1000 readers may, or one writer",
            )),
            (Some(slots @ 2..), _, true) => Err(Failure::own(format!(
                "--exclusive means that nobody else holds the lock: write --slots {slots} alone if up to {slots} may"
            ))),
            (_, true, true) => {
                Err(Failure::own("--shared is for a reader, and --exclusive for a writer: write one of the two"))
            }
            (Some(slots), ..) => Ok(slots),
            (None, true, _) => Ok(READERS),
            (None, false, _) => Ok(1),
        }
    }
}

/// A value of the option.
fn slots(text: &str) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=READERS).contains(number));
    number.ok_or_else(|| format!("give a whole number from 1 to {READERS}"))
}

/// How many may hold the lock now: the smallest number of those who do.
pub(crate) fn limit(numbers: impl Iterator<Item = u32>) -> u32 {
    numbers.min().unwrap_or(1)
}

/// How many hold the lock, and how many may: `2 of 4`, `3 readers`. None if only one may, and does, or nobody holds it.
/// The numbers are those of the holders.
pub(crate) fn count(numbers: impl ExactSizeIterator<Item = u32>) -> Option<String> {
    match (numbers.len(), limit(numbers)) {
        (0, _) | (1, 1) => None,
        (1, READERS) => Some("1 reader".to_owned()),
        (held, READERS) => Some(format!("{held} readers")),
        (held, most) => Some(format!("{held} of {most}")),
    }
}

/// The others who hold the lock, behind what is told of one: `, and another (2 of 4)`.
pub(crate) fn others(numbers: impl ExactSizeIterator<Item = u32>) -> String {
    let others = and_others(numbers.len().saturating_sub(1) as u64);
    count(numbers).map_or(String::new(), |count| format!("{others} ({count})"))
}

/// What tells a job that a holder allows fewer than it does: `3 of 3; this job says 5`. None if none does.
pub(crate) fn stricter(held: u64, limit: u32, own: u32) -> Option<String> {
    // A writer keeps readers out as it should.
    if held == 0 || limit >= own || (limit == 1 && own == READERS) {
        return None;
    }
    let own = if own == READERS { "--shared".to_owned() } else { own.to_string() };
    Some(format!("{held} of {limit}; this job says {own}"))
}

/// The same as [`others`] for a job that waits for them.
pub(crate) fn others_before(own: u32, numbers: impl ExactSizeIterator<Item = u32> + Clone) -> String {
    let held = numbers.len() as u64;
    match stricter(held, limit(numbers.clone()), own) {
        Some(stricter) => format!("{} ({stricter})", and_others(held.saturating_sub(1))),
        None => others(numbers),
    }
}

/// How many hold the lock in addition to the one that is named.
pub(crate) fn and_others(count: u64) -> String {
    match count {
        0 => String::new(),
        1 => ", and another".to_owned(),
        more => format!(", and {more} others"),
    }
}

/// How a holder or waiter asked for the lock, in the words of the options, if not as those who hold it.
pub(crate) fn otherwise(most: u32, limit: u32) -> Option<String> {
    match most {
        same if same == limit => None,
        1 => Some("exclusive".to_owned()),
        READERS => Some("shared".to_owned()),
        slots => Some(format!("slots {slots}")),
    }
}

/// The one who has held the lock longest.
pub(crate) fn oldest(holders: &[Holder]) -> Option<&Holder> {
    holders.iter().min_by_key(|holder| (Reverse(holder.held_for), holder.slot))
}

#[cfg(test)]
mod tests {
    use super::{count, limit, others, others_before, otherwise};

    #[test]
    fn the_smallest_number_of_the_holders_counts() {
        for (numbers, counted, more) in [
            (&[][..], None, ""),
            (&[1], None, ""),
            (&[4], Some("1 of 4"), " (1 of 4)"),
            (&[5, 3, 5], Some("3 of 3"), ", and 2 others (3 of 3)"),
            (&[1000], Some("1 reader"), " (1 reader)"),
            (&[1000, 1000], Some("2 readers"), ", and another (2 readers)"),
            // After a loss of data a lease may be back beside one that it does not fit with.
            (&[1, 1000], Some("2 of 1"), ", and another (2 of 1)"),
        ] {
            let numbers = || numbers.iter().copied();
            assert_eq!(count(numbers()).as_deref(), counted);
            assert_eq!(others(numbers()), more);
        }
        assert_eq!(limit([].into_iter()), 1);
        for (own, numbers, more) in [
            (5, &[5, 3, 5][..], ", and 2 others (3 of 3; this job says 5)"),
            (5, &[1], " (1 of 1; this job says 5)"),
            (1000, &[4, 4], ", and another (2 of 4; this job says --shared)"),
            (1000, &[1], ""),
            (3, &[5, 3, 5], ", and 2 others (3 of 3)"),
            (1, &[5], " (1 of 5)"),
            (5, &[], ""),
        ] {
            assert_eq!(others_before(own, numbers.iter().copied()), more);
        }
        let said = [1, 4, 5, 1000].map(|most| otherwise(most, 4).unwrap_or_default());
        assert_eq!(said, ["exclusive", "", "slots 5", "shared"]);
    }
}
