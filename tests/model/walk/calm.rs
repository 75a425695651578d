//! A walk without faults: clients do what is to be done, and are served in time (I5).

use super::{CLIENTS, Checked, Client, Fate, Terms, Walk};

impl Walk<'_> {
    /// The client does what is to be done: it releases, renews, re-enters and sends heartbeats.
    pub(super) fn settle(&mut self, who: usize) -> Checked {
        for index in (0..self.clients[who].farewells.len()).rev() {
            if index < self.clients[who].farewells.len() {
                let request = self.clients[who].give_back(self.now, index);
                self.ask(who, request, Fate::Answered)?;
            }
        }
        for index in (0..self.clients[who].holds.len()).rev() {
            if index < self.clients[who].holds.len() {
                let request = self.clients[who].renew(self.now, index);
                self.ask(who, request, Fate::Answered)?;
            }
        }
        if !self.clients[who].waiters.is_empty() {
            let request = self.clients[who].heartbeat(self.now);
            self.ask(who, request, Fate::Answered)?;
        }
        if std::mem::take(&mut self.clients[who].uneasy) {
            for id in self.clients[who].waiting() {
                self.enter(who, &id, |ticket| ticket > 0)?;
            }
        }
        Ok(())
    }

    /// Sends the acquire of this waiter, if it still waits and its ticket satisfies the condition.
    fn enter(&mut self, who: usize, id: &str, such: impl Fn(u64) -> bool) -> Checked {
        let client = &mut self.clients[who];
        let Some(index) = client.waiters.iter().position(|waiter| waiter.id == id && such(waiter.seat.ticket)) else {
            return Ok(());
        };
        let request = client.enter(self.now, index);
        self.ask(who, request, Fate::Answered).map(|_| ())
    }

    /// There are no more faults. Every client that is up releases what it has, waits for the rest, and gets it in time
    /// (I5).
    pub(super) fn drain(&mut self) -> Checked {
        self.full = false;
        let longest = |of: fn(&Terms) -> u64| self.terms.iter().map(of).max().unwrap();
        let (lease, window) = (longest(|terms| terms.lease), longest(|terms| terms.liveness + terms.buffer));
        let heartbeat = self.terms.iter().map(|terms| terms.heartbeat).min().unwrap();
        let slack = longest(|terms| 4 * terms.heartbeat);
        let (start, mut recover) = (self.now, 0);
        let waiters: usize = self.clients.iter().map(|client| client.waiters.len()).sum();
        let turns = heartbeat * waiters as u64;
        let limit = |recover: u64| lease.max(recover) + window + slack + turns;
        let busy = |client: &Client| !client.waiters.is_empty() || !client.holds.is_empty();
        // A client that was told of a lease of hours opens a recovery as long, whose end is not awaited.
        let patience = 2 * limit(0);
        while self.clients.iter().any(busy) && self.now - start < patience {
            for who in 0..CLIENTS {
                for id in self.clients[who].waiting() {
                    // Acquires that were never answered are sent again.
                    self.enter(who, &id, |ticket| ticket == 0)?;
                }
                while !self.clients[who].holds.is_empty() {
                    self.clients[who].release(self.now, 0);
                }
                self.settle(who)?;
                let left = self.model.state.recover_until().saturating_sub(self.model.state.seen);
                if left > 0 {
                    recover = self.now - start + left;
                }
            }
            if self.now - start > limit(recover) {
                return Err(format!("somebody still waits after {} µs: {:?}", self.now - start, self.model));
            }
            self.now += heartbeat;
        }
        Ok(())
    }
}
