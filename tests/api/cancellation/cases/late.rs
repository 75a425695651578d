//! Requests that reach the server long after their client has given them up.

use std::future::IntoFuture as _;
use std::pin::pin;
use std::time::Duration;

use fairlock::Client;

use super::{Case, Driver, Report, Subject, complete, digest, insist, left_behind};
use testkit::{Act, Proxy, RedisServer, SOON, Target, calm, eventually, proxy::Fault};

impl Case {
    /// The request is held back, the future dropped and the connection given up; when the client has given everything
    /// back on a new one, the request goes on. Nothing of it is executed: that connection has been killed.
    pub fn run_late(&self, server: &RedisServer, others: &Client) -> Report {
        let proxy = Proxy::start(server);
        let (name, mut raw) = (self.name(), server.raw());
        let mut subject = Subject::prepare(self.what, &proxy.url(), &name, 1);
        let faults = self.faults(&proxy);
        let struck = || faults.iter().map(Fault::struck).sum::<u64>();
        let completed = Driver::new(subject.future.as_mut()).when(|| struck() > 0);
        subject.cancel(true, false);
        proxy.abandon();
        eventually("the client is gone", SOON, || proxy.abandoned() == 1);
        // The client connects again, and first of all ends the old connection.
        proxy.wait("it connects again", |counts| counts.connections > 1);
        eventually("nothing is left behind", SOON, || left_behind(&mut raw, &name).is_empty());
        if let Some(client) = subject.client.as_ref().filter(|_| !subject.closed) {
            let lock = client.lock_with(&name, calm()).unwrap();
            complete(complete(lock.acquire()).unwrap().release()).unwrap();
        }
        proxy.heal();
        proxy.wait("the request goes on", |counts| counts.late + counts.late_refused > 0);
        assert_eq!(proxy.counts().late, 0, "the server has taken it");
        let lock = others.lock_with(&name, calm()).unwrap();
        complete(complete(lock.acquire()).unwrap().release()).unwrap();
        drop(subject);
        proxy.wait("its client has ended its connections", |counts| counts.open == 0);
        assert_eq!(left_behind(&mut raw, &name), [""; 0], "after its client has ended");
        Report { completed, struck: struck(), runs: 1 }
    }
}

/// Where the client cannot kill its connections, an acquire that nobody awaits any more is executed late. At a free
/// lock it then costs others a liveness window, not a lease. Behind others it costs nothing: the client hears of its
/// turn, and gives the lock back.
pub fn a_late_acquire_costs_a_window(contended: bool) {
    let server = RedisServer::builder().alone().config("rename-command CLIENT \"\"").start();
    let proxy = Proxy::start(&server);
    let direct = server.url();
    let others = insist(|| Client::connect(&direct));
    let (name, mut raw) = ("late", server.raw());
    let theirs = others.lock_with(name, calm()).unwrap();
    let holder = contended.then(|| complete(theirs.acquire()).unwrap());

    let url = proxy.url();
    let client = insist(|| Client::connect(&url));
    let window = if contended { 100 * SOON } else { Duration::from_secs(1) };
    let lock = client.lock_with(name, calm().liveness(window).buffer(Duration::ZERO)).unwrap();
    let fault = proxy.fault_times(1, Target::request(digest("acquire")), Act::Hold);
    {
        let acquire = pin!(lock.acquire().into_future());
        Driver::new(acquire).when(|| fault.struck() > 0);
        // Before it is dropped: later events must not be reported on the same connection.
        proxy.abandon();
    }
    proxy.wait("it connects again", |counts| counts.connections > 1);
    // It is settled: everything that it gave up is released, as far as it knows.
    let other = client.lock_with("another", calm()).unwrap();
    complete(complete(other.acquire()).unwrap().release()).unwrap();
    proxy.heal();
    proxy.wait("the request goes on", |counts| counts.late > 0);
    eventually("it was executed", SOON, || !left_behind(&mut raw, name).is_empty());

    let behind = insist(|| theirs.enqueue());
    drop(holder);
    complete(complete(behind).unwrap().release()).unwrap();
    drop((client, lock, other));
    proxy.wait("its client has ended its connections", |counts| counts.open == 0);
    assert_eq!(left_behind(&mut raw, name), [""; 0]);
}
