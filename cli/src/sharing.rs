//! How many may hold a lock together: the options that say so, and how people are told.

use std::cmp::Reverse;

use fairlock::operator::{READERS, differs};
use fairlock::state::Holder;

use crate::exit::Failure;
use crate::text::{held_by, hold, name_of, printable};

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
    pub(crate) fn slots(&self) -> Result<u32, Failure> {
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

/// How many hold a lock, and how many may: the smallest number of those who do.
#[derive(Clone, Copy)]
pub(crate) struct Count {
    held: u64,
    pub(crate) limit: u32,
}

impl Count {
    /// Of holders who say these numbers.
    pub(crate) fn of(numbers: impl ExactSizeIterator<Item = u32>) -> Self {
        Self { held: numbers.len() as u64, limit: numbers.min().unwrap_or(1) }
    }

    /// The same where so many hold it, of whom only some are known.
    pub(crate) fn at_least(self, held: u64) -> Self {
        Self { held: held.max(self.held), ..self }
    }

    /// `2 of 4`, `3 readers`; for a job that waits, and whose own number is another one, `3 of 5; this job says 2`. None
    /// if nobody holds it, or one who is alone.
    pub(crate) fn told(self, own: Option<u32>) -> Option<String> {
        let count = match (self.held, self.limit) {
            (0, _) => return None,
            (1, READERS) => "1 reader".to_owned(),
            (held, READERS) => format!("{held} readers"),
            (held, limit) => format!("{held} of {limit}"),
        };
        match own.filter(|own| differs(*own, self.limit)) {
            Some(READERS) => Some(format!("{count}; this job says --shared")),
            Some(own) => Some(format!("{count}; this job says {own}")),
            None => Some(count).filter(|_| (self.held, self.limit) != (1, 1)),
        }
    }

    /// The others who hold it, behind what is told of one: `, and another (2 of 4)`.
    pub(crate) fn others(self, own: Option<u32>) -> String {
        let others = match self.held {
            0 | 1 => String::new(),
            2 => ", and another".to_owned(),
            held => format!(", and {} others", held - 1),
        };
        self.told(own).map_or(String::new(), |told| format!("{others} ({told})"))
    }
}

/// How a lock is held, by the one who has held it longest and by others: `held 12m by ops@db1:14380 deploy.sh, and another
/// (2 of 4)`. For a job that waits, with its own number where that differs.
pub(crate) fn held(holders: &[Holder], count: Count, own: Option<u32>) -> Option<String> {
    Some(oldest_hold(holders)? + &count.others(own))
}

/// The same of that one alone.
pub(crate) fn oldest_hold(holders: &[Holder]) -> Option<String> {
    let oldest = oldest(holders)?;
    Some(match oldest.broken {
        true => format!("being broken, {}", held_by(&who(oldest), oldest.held_for)),
        false => hold(oldest.confirmed, &who(oldest), oldest.held_for),
    })
}

/// What a holder is called, and for whom it acts.
pub(crate) fn who(holder: &Holder) -> String {
    described(&holder.label, &holder.owner, &holder.id)
}

/// The same of a holder or a waiter.
pub(crate) fn described(label: &str, owner: &str, id: &str) -> String {
    let label = name_of(label, id);
    if owner.is_empty() { label } else { format!("{label} ({})", printable(owner)) }
}

/// How a holder or waiter asked for the lock, in the words of the options, if not as those who hold it.
pub(crate) fn otherwise(slots: u32, limit: u32) -> Option<String> {
    match slots {
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
    use super::{Count, otherwise};

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
            let count = Count::of(numbers.iter().copied());
            assert_eq!((count.told(None).as_deref(), count.others(None).as_str()), (counted, more));
        }
        let many = Count::of([1000; 16].into_iter()).at_least(1000);
        assert_eq!(many.others(None), ", and 999 others (1000 readers)");
        let said = [1, 4, 5, 1000].map(|slots| otherwise(slots, 4).unwrap_or_default());
        assert_eq!(said, ["exclusive", "", "slots 5", "shared"]);
    }

    #[test]
    fn a_job_that_says_another_number_is_told_so() {
        for (own, numbers, more) in [
            (5, &[5, 3, 5][..], ", and 2 others (3 of 3; this job says 5)"),
            (2, &[5, 5, 5], ", and 2 others (3 of 5; this job says 2)"),
            (3, &[1000], " (1 reader; this job says 3)"),
            (5, &[1], " (1 of 1; this job says 5)"),
            (1000, &[4, 4], ", and another (2 of 4; this job says --shared)"),
            (1000, &[1], ""),
            (1000, &[1000], " (1 reader)"),
            (1, &[5], " (1 of 5)"),
            (1, &[1000, 1000], ", and another (2 readers)"),
            (5, &[], ""),
        ] {
            assert_eq!(Count::of(numbers.iter().copied()).others(Some(own)), more);
        }
    }
}
