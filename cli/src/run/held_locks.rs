//! The locks of a run, once they are granted: usually one, with `--and` several that are held together.

use std::time::Duration;

use fairlock::{AllGuard, Client, Guard};
use futures_util::future::{join_all, select_all};

use super::request;

/// Names in the order in which the locks are taken, so that jobs which take several of them never wait for each other
/// in a circle; and how many may hold each. A name that was given twice is taken once, with the smaller number.
pub(crate) fn in_order<'a>(first: &'a str, slots: u32, others: &'a [String]) -> Vec<(&'a str, u32)> {
    let mut wanted = vec![(first, slots)];
    wanted.extend(others.iter().map(|name| (name.as_str(), 1)));
    wanted.sort_unstable();
    wanted.dedup_by_key(|(name, _)| *name);
    wanted
}

pub(crate) struct HeldLocks {
    pub(crate) client: Client,
    pub(crate) guards: AllGuard,
}

impl HeldLocks {
    /// The token and the slot of this lock's lease.
    pub(crate) fn lease(&self, name: &str) -> (u64, u32) {
        let guard = self.guards.guards().iter().find(|guard| guard.name() == name);
        guard.map_or((0, 0), |guard| (guard.token(), guard.slot()))
    }

    /// Names, tokens and slots, in the order in which the locks were taken.
    pub(crate) fn leases(&self) -> impl Iterator<Item = (&str, u64, u32)> {
        self.guards.guards().iter().map(|guard| (guard.name(), guard.token(), guard.slot()))
    }

    /// Names and tokens, in the order in which the locks were taken.
    pub(crate) fn tokens(&self) -> Vec<(String, u64)> {
        self.guards.tokens().map(|(name, token)| (name.to_owned(), token)).collect()
    }

    /// What is left of the lease that ends last.
    pub(crate) fn longest_remaining(&self) -> Duration {
        self.guards.guards().iter().map(|guard| guard.remaining()).max().unwrap_or_default()
    }

    /// The lease that ends first.
    pub(crate) fn first_to_end(&self) -> Option<&Guard> {
        self.guards.guards().iter().min_by_key(|guard| guard.remaining())
    }

    /// Why the server of the lease that ends first does not answer.
    pub(crate) async fn trouble(&self) -> String {
        let name = self.first_to_end().map(|guard| guard.name()).unwrap_or_default();
        request::why_silent(&self.client, name).await
    }

    /// Renews all leases now. An error shows in the time that is left.
    pub(crate) async fn renew(&self) {
        join_all(self.guards.guards().iter().map(|guard| guard.renew())).await;
    }

    /// Resolves at the next renewal of any lease after this call, with its name, its token and what is left of it.
    pub(crate) fn renewed(&self) -> impl Future<Output = Option<(String, u64, Duration)>> {
        let renewals = self.guards.guards().iter().map(|guard| {
            let renewed = guard.renewed();
            Box::pin(async move { (guard, renewed.await) })
        });
        let first = select_all(renewals);
        async {
            let ((guard, left), ..) = first.await;
            left.ok().map(|left| (guard.name().to_owned(), guard.token(), left))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::in_order;

    #[test]
    fn locks_are_taken_in_the_order_of_their_names_and_once() {
        let others = ["b".to_owned(), "a".to_owned(), "c".to_owned()];
        assert_eq!(in_order("b", 1, &others), [("a", 1), ("b", 1), ("c", 1)]);
        assert_eq!(in_order("b", 1, &others), in_order("c", 1, &["b".to_owned(), "a".to_owned()]));
    }

    #[test]
    fn the_first_name_alone_may_be_shared_and_of_two_numbers_the_smaller_counts() {
        let others = ["b".to_owned(), "a".to_owned()];
        assert_eq!(in_order("c", 4, &others), [("a", 1), ("b", 1), ("c", 4)]);
        assert_eq!(in_order("b", 4, &others), [("a", 1), ("b", 1)]);
    }
}
