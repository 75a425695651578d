//! Eight processes compete for one lock. No waiter is overtaken, no two processes hold the lock at once, tokens rise,
//! and every waiter is served (I1, I2, I3), also while holders and waiters are killed and replaced.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use fairlock::{Client, LockOptions};
use testkit::{
    Child, RedisServer, SOON, child,
    history::{Event, History, Recorder, Wait, now_ns},
    keys_left,
};

const PROCESSES: usize = 8;
const ACQUIRES: usize = 50;
const DEATHS: usize = 10;

/// The helper processes of this file.
#[test]
fn child() {
    child::main(|role, args| match (role, args) {
        ("compete", [url, history, name, hold_us, lease_s]) => {
            compete(url, Path::new(history), name, hold_us.parse().unwrap(), lease_s.parse().unwrap());
        }
        other => panic!("no role {other:?}"),
    });
}

/// Durations after which dead processes cost nothing any more: short where processes die, and yet long compared to what
/// a process needs on a busy machine.
fn options(lease_s: u64) -> LockOptions {
    let lease = Duration::from_secs(lease_s);
    LockOptions::new().lease(lease).liveness(lease).buffer(Duration::from_secs(4))
}

#[tokio::main(flavor = "current_thread")]
async fn compete(url: &str, history: &Path, name: &str, longest_hold_us: u64, lease_s: u64) {
    let record = Recorder::open(history, name).unwrap();
    // A grant lasts as long as a lease for a client that does not answer.
    let watched = Recorder::open(history, name).unwrap();
    std::thread::spawn(move || {
        let mut looked = now_ns();
        loop {
            std::thread::sleep(Duration::from_millis(10));
            looked = watched.note_pause(looked, Duration::from_secs(lease_s) / 6);
        }
    });
    let client = Client::connect(url).await.unwrap();
    let lock = client.lock_with("contended", options(lease_s)).unwrap();
    for number in 0..ACQUIRES {
        let waiter = format!("{name}.{number}");
        record.note(&waiter, Event::Called);
        let waiting = lock.enqueue().await.unwrap();
        record.note(&waiter, Event::Queued(waiting.ticket()));
        child::say("waiting");
        let guard = waiting.await.unwrap();
        record.note(&waiter, Event::Granted(guard.token(), guard.slot()));
        child::say("holding");
        tokio::time::sleep(Duration::from_micros(fastrand::u64(0..longest_hold_us))).await;
        record.note(&waiter, Event::Released);
        if guard.release().await.is_err() {
            record.note(&waiter, Event::Lost);
        }
    }
    client.close().await;
}

struct Competition {
    server: RedisServer,
    dir: tempfile::TempDir,
    longest_hold: Duration,
    lease_s: u64,
    started: usize,
}

impl Competition {
    fn new(longest_hold: Duration, lease_s: u64) -> Competition {
        let dir = tempfile::tempdir().unwrap();
        Competition { server: RedisServer::start(), dir, longest_hold, lease_s, started: 0 }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("history")
    }

    /// It is empty before the first write.
    fn history(&self) -> History {
        if self.path().exists() { History::read(&self.path()).unwrap() } else { History::default() }
    }

    fn start(&mut self) -> Competitor {
        let name = format!("p{}", self.started);
        self.started += 1;
        let (url, path) = (self.server.url(), self.path());
        let (hold, lease) = (self.longest_hold.as_micros().to_string(), self.lease_s.to_string());
        let child = Child::spawn("compete", &[&url, path.to_str().unwrap(), &name, &hold, &lease]);
        Competitor { name, child }
    }

    /// Every live waiter gets all that it wants, and the judges find no violation.
    fn finish(self, competitors: Vec<Competitor>) -> History {
        for mut competitor in competitors {
            assert!(competitor.child.wait(4 * SOON).success(), "{} failed", competitor.name);
            let waits = self.history().waits().iter().filter(|wait| wait.process == competitor.name).count();
            assert_eq!(waits, ACQUIRES, "{} did not finish", competitor.name);
        }
        let history = self.history();
        assert_eq!(history.check(), Ok(()));
        // Entries of the last killed process may still be there. The next waiter finds out.
        let client = connect(&self.server);
        drop(client.lock_with("contended", options(self.lease_s)).unwrap().acquire().blocking().unwrap());
        keys_left(&self.server);
        history
    }
}

struct Competitor {
    name: String,
    child: Child,
}

impl Competitor {
    /// Kills it and records its death.
    fn kill(mut self, history: &Path) {
        Recorder::open(history, &self.name).unwrap().note_process(Event::Died);
        self.child.kill();
    }
}

fn connect(server: &RedisServer) -> Client {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Client::connect(&server.url())).unwrap()
}

fn died_holding(wait: &&Wait) -> bool {
    wait.died_ns.is_some() && wait.token.is_some() && wait.released_ns.is_none()
}

fn died_waiting(wait: &&Wait) -> bool {
    wait.died_ns.is_some() && wait.ticket.is_some() && wait.token.is_none()
}

#[test]
fn eight_processes_are_served_in_order() {
    let mut competition = Competition::new(Duration::from_millis(10), 30);
    let competitors = (0..PROCESSES).map(|_| competition.start()).collect();
    let history = competition.finish(competitors);
    assert_eq!(history.waits().len(), PROCESSES * ACQUIRES);
    assert!(history.waits().iter().all(|wait| wait.token.is_some() && wait.lost_ns.is_none()));
}

#[test]
fn order_stands_while_holders_and_waiters_are_killed() {
    let mut competition = Competition::new(Duration::from_millis(30), 3);
    let mut competitors: Vec<Competitor> = (0..PROCESSES).map(|_| competition.start()).collect();
    // Some are killed a moment too late, so the history says what each was doing when it died.
    loop {
        let history = competition.history();
        let holders = history.waits().iter().filter(died_holding).count();
        let waiters = history.waits().iter().filter(died_waiting).count();
        if holders >= DEATHS && waiters >= DEATHS {
            break;
        }
        let mut victim = competitors.swap_remove(fastrand::usize(..competitors.len()));
        let waits = victim.child.lines().last().is_some_and(|line| line == "waiting");
        if holders <= waiters {
            victim.child.wait_line("holding", 4 * SOON);
        } else if !waits {
            victim.child.wait_line("waiting", 4 * SOON);
        }
        victim.kill(&competition.path());
        competitors.push(competition.start());
    }
    let history = competition.finish(competitors);
    assert!(history.waits().iter().filter(died_holding).count() >= DEATHS);
    assert!(history.waits().iter().filter(died_waiting).count() >= DEATHS);
}
