//! The locks of a run: usually one, with `--and` several that are held together.

use std::time::Duration;

use fairlock::{Guard, Held, Lock, Lost, ReleaseError};
use futures_util::future::{join_all, select_all};

use super::request;

/// The order in which locks are taken, so that jobs which take several of them never wait for each other in a circle.
/// A name that was given twice is taken once.
pub(crate) fn in_order<'a>(first: &'a str, others: &'a [String]) -> Vec<&'a str> {
    let mut names: Vec<&str> = std::iter::once(first).chain(others.iter().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The leases of a run.
#[derive(Default)]
pub(crate) struct Holding(Vec<(Lock, Guard)>);

impl Holding {
    pub(crate) fn add(&mut self, lock: Lock, guard: Guard) {
        self.0.push((lock, guard));
    }

    pub(crate) fn token(&self, name: &str) -> u64 {
        self.0.iter().find(|(_, guard)| guard.name() == name).map_or(0, |(_, guard)| guard.token())
    }

    /// Names and tokens, in the order in which the locks were taken.
    pub(crate) fn tokens(&self) -> Vec<(String, u64)> {
        self.0.iter().map(|(_, guard)| (guard.name().to_owned(), guard.token())).collect()
    }

    pub(crate) fn leases(&self) -> Leases {
        Leases(self.0.iter().map(|(lock, guard)| (lock.clone(), guard.held())).collect())
    }

    /// Renews all leases now. An error shows in the time that is left.
    pub(crate) async fn renew(&self) {
        join_all(self.0.iter().map(|(_, guard)| guard.renew())).await;
    }

    /// Releases all locks at once, and returns the first failure.
    pub(crate) async fn release(self) -> Result<(), ReleaseError> {
        let released = join_all(self.0.into_iter().map(|(_, guard)| guard.release())).await;
        released.into_iter().collect()
    }
}

/// Views of the leases. If one is lost, all count as lost.
#[derive(Clone)]
pub(crate) struct Leases(Vec<(Lock, Held)>);

impl Leases {
    /// What is left of the lease that ends first.
    pub(crate) fn remaining(&self) -> Duration {
        self.0.iter().map(|(_, held)| held.remaining()).min().unwrap_or_default()
    }

    /// What is left of the lease that ends last.
    pub(crate) fn longest_remaining(&self) -> Duration {
        self.0.iter().map(|(_, held)| held.remaining()).max().unwrap_or_default()
    }

    /// Why the server of the lease that ends first does not answer.
    pub(crate) async fn trouble(&self) -> String {
        let known = match self.first_to_end() {
            Some((lock, _)) => request::trouble(lock).await,
            None => None,
        };
        known.unwrap_or_else(|| "Redis does not answer".to_owned())
    }

    /// The lease that ends first.
    pub(crate) fn first_to_end(&self) -> Option<(&Lock, &Held)> {
        self.0.iter().min_by_key(|(_, held)| held.remaining()).map(|(lock, held)| (lock, held))
    }

    /// Resolves at the next renewal of any lease, with its name, its token and what is left of it.
    pub(crate) async fn renewed(&self) -> Option<(String, u64, Duration)> {
        let renewals = self.0.iter().map(|(_, held)| {
            let renewed = held.renewed();
            Box::pin(async move { (held, renewed.await) })
        });
        let ((held, left), ..) = select_all(renewals).await;
        left.ok().map(|left| (held.name().to_owned(), held.token(), left))
    }

    /// Resolves when the first lease is lost. None: it was released.
    pub(crate) async fn lost(&self) -> Option<Lost> {
        select_all(self.0.iter().map(|(_, held)| Box::pin(held.lost()))).await.0
    }

    /// The loss, if there is one already.
    pub(crate) fn check(&self) -> Option<Lost> {
        self.0.iter().find_map(|(_, held)| held.check().err())
    }
}

#[cfg(test)]
mod tests {
    use super::in_order;

    #[test]
    fn locks_are_taken_in_the_order_of_their_names_and_once() {
        let others = ["b".to_owned(), "a".to_owned(), "c".to_owned()];
        assert_eq!(in_order("b", &others), ["a", "b", "c"]);
        assert_eq!(in_order("b", &others), in_order("c", &["b".to_owned(), "a".to_owned()]));
    }
}
