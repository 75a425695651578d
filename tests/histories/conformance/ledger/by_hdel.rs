//! What an HDEL must be, and what it means for the requests that follow.

use super::{Ledger, client_of};
use crate::conformance::{
    complaint::{Verdict, must},
    referee::Asked,
};

pub const OWN: &str = "A client never writes or deletes any of them, nor sets their TTL, but for [an `HDEL` of its own \
                       lease](#a-release-by-hdel)";
pub const FLAG: &str = "If the reply `granted` has the flag 2";
pub const NEWS: &str = "Once the client has sent a renewal, or has heard by a reply or a push that another request was \
                        executed, the `HDEL` would find nothing: `release` is sent at once.";
pub const NO_SEAT: &str = "So it is where its SEAT would be empty.";

impl Ledger {
    /// The latest grant, that of this acquire, has the flag 2.
    pub fn has_flag(&mut self, id: &str) {
        let memory = self.memories.last().map(|told| told.text.clone());
        self.acquires.entry(id.to_owned()).or_default().calm = memory;
    }

    pub(super) fn hdel(&mut self, asked: &Asked) -> Verdict {
        let field = asked.text(0);
        let id = field.strip_prefix('@').filter(|_| asked.args.len() == 1 && asked.key == self.terms.key());
        let own = id.and_then(|id| self.acquires.get(id));
        let found = || {
            let fields: Vec<_> = (0..asked.args.len()).map(|nth| asked.text(nth)).collect();
            format!("it sends HDEL {} {}", asked.key, fields.join(" "))
        };
        must(own.is_some(), OWN, found)?;
        let (id, acquire) = id.zip(own).expect("it is there");
        let calm = acquire.calm.as_deref();
        must(calm.is_some(), FLAG, || format!("the grant of {id} does not have it"))?;
        must(!acquire.touched, NEWS, || "it has sent a renewal, or an HDEL that did nothing".into())?;
        let latest = calm.is_some_and(|memory| self.is_latest(&self.memories, memory, &client_of(asked)));
        must(latest, NEWS, || "it has heard of another request since".into())?;
        let lasts = !acquire.lost && !acquire.over;
        must(lasts, NO_SEAT, || "the lease is lost, or may have been given back before".into())?;
        let acquire = self.acquires.entry(id.to_owned()).or_default();
        (acquire.released, acquire.over) = (true, true);
        Ok(())
    }

    /// An HDEL removed so many fields. With none, the lease is as before.
    pub fn removed(&mut self, asked: &Asked, fields: u8) {
        self.unanswered.remove(&asked.connection);
        let acquire = self.acquires.get_mut(asked.text(0).trim_start_matches('@'));
        if let Some(acquire) = acquire.filter(|_| fields == 0) {
            (acquire.released, acquire.over, acquire.touched) = (false, false, true);
        }
    }

    /// A try that was `busy` because of a lease that its own client gives back.
    pub fn asks_again(&mut self, id: &str) {
        self.acquires.entry(id.to_owned()).or_default().over = false;
    }
}
