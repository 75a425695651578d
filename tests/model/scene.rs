//! A few clients of one lock, the real scripts, and a clock that the test sets: single cases, step by step.
//!
//! No message arrives here: a client hears of its grant by its next heartbeat, as after a message that was lost.

use super::model::clients::Client;
use super::model::driver::{Driver, Outcome, Saved};
use super::model::{Answer, Lock, Request, Terms, UNBOUNDED};

pub(super) const SECOND: u64 = 1_000_000;

pub(super) struct Scene {
    driver: Driver,
    pub(super) now: u64,
}

/// A client with the default liveness and buffer.
pub(super) fn client(name: &str, lease: u64) -> Client {
    client_with(name, lease, 10)
}

/// All spans in seconds.
pub(super) fn client_with(name: &str, lease: u64, liveness: u64) -> Client {
    let liveness = liveness * SECOND;
    let terms = Terms { lease: lease * SECOND, liveness, buffer: 2 * SECOND, heartbeat: liveness / 3, most: 1 };
    Client::new(name.to_owned(), terms, true)
}

impl Scene {
    pub(super) fn start() -> Self {
        Self { driver: Driver::start(), now: 1_795_000_000 * SECOND }
    }

    /// Nobody is heard of for so many milliseconds.
    pub(super) fn pass(&mut self, ms: u64) {
        self.now += ms * 1000;
    }

    /// The request is executed, and its answer is lost.
    pub(super) fn execute(&mut self, request: &Request) -> Outcome {
        self.driver.run(self.now, 100, request).expect("a script that does not fail")
    }

    /// The request is executed, and the client that sent it hears the answer.
    pub(super) fn ask(&mut self, client: &mut Client, request: &Request) -> Answer {
        let answer = self.execute(request).answer;
        client.learn(self.now, request, &answer);
        answer
    }

    /// A new waiter of this client.
    pub(super) fn acquire(&mut self, client: &mut Client) -> Answer {
        self.acquire_in(client, UNBOUNDED)
    }

    /// The same if fewer than so many wait; 0 for a try.
    pub(super) fn acquire_in(&mut self, client: &mut Client, room: u64) -> Answer {
        let request = client.acquire(self.now, room, false);
        self.ask(client, &request)
    }

    /// The client's heartbeat, and what follows from its answer: all its waiters return to their places.
    pub(super) fn heartbeat(&mut self, client: &mut Client) -> Answer {
        let request = client.heartbeat(self.now);
        let mut answer = self.ask(client, &request);
        for index in 0..if std::mem::take(&mut client.uneasy) { client.waiters.len() } else { 0 } {
            let request = client.enter(self.now, index);
            answer = self.ask(client, &request);
        }
        answer
    }

    /// The client renews its lease, or confirms its claim.
    pub(super) fn renew(&mut self, client: &mut Client) -> Answer {
        let request = client.renew(self.now, 0);
        self.ask(client, &request)
    }

    pub(super) fn release(&mut self, client: &mut Client) -> Answer {
        let request = client.release(self.now, 0);
        self.ask(client, &request)
    }

    /// The keys expire, if their time has come.
    pub(super) fn expire(&mut self) {
        let until = self.found().state.ttl_until;
        assert!(until <= self.now, "the keys live for {} s more", (until - self.now) / SECOND);
        self.flush();
    }

    pub(super) fn flush(&mut self) {
        self.driver.flush_all();
    }

    pub(super) fn save(&mut self) -> Saved {
        self.driver.save()
    }

    pub(super) fn restore(&mut self, saved: &Saved) {
        self.driver.restore(saved);
    }

    pub(super) fn found(&mut self) -> Lock {
        self.driver.found().lock
    }
}

/// What an answer says of a span, in ms.
pub(super) fn ms(answer: &Answer, field: &str) -> u64 {
    answer.number(field).unwrap_or_default() / 1000
}
