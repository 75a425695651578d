//! The locks of a run, once they are granted: usually one, with `--and` several that are held together.

use std::time::Duration;

use fairlock::{AllGuard, Client, Guard};
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

pub(crate) struct HeldLocks {
    pub(crate) client: Client,
    pub(crate) guards: AllGuard,
}

impl HeldLocks {
    pub(crate) fn token(&self, name: &str) -> u64 {
        self.guards.tokens().find(|(locked, _)| *locked == name).map_or(0, |(_, token)| token)
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
        assert_eq!(in_order("b", &others), ["a", "b", "c"]);
        assert_eq!(in_order("b", &others), in_order("c", &["b".to_owned(), "a".to_owned()]));
    }
}
