//! Each request in each state of a lock whose slot is migrating, wherever its keys are: it is served, or refused for the
//! moment with nothing written, and who holds keeps the lease.

use std::collections::BTreeMap;

use fairlock::__hooks::model::{Answer, Entry, Memory, Request, Seat, Terms, UNBOUNDED};
use fairlock::__hooks::packing;
use redis::{ErrorKind, ServerErrorKind, cmd};
use testkit::{Cluster, RedisServer, SOON, cluster::Migration};

/// All locks are in one slot: their prefixes differ.
const NAME: &str = "x";

const HOLDER: &str = "holder.1";
const WAITER: &str = "waiter.1";
const NEWCOMER: &str = "newcomer.1";

/// Nothing ends while a test runs.
const DAY: u64 = 86_400_000_000;
const TERMS: Terms = Terms { lease: DAY, liveness: DAY, buffer: 0, heartbeat: DAY, most: 1 };

/// What the lock is like when its keys begin to move.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Is {
    New,
    Idle,
    /// Idle, and its clients know of a later grant than the server does.
    RolledBack,
    Held,
    Queued,
    /// It was handed over while the slot was migrating. The queue is empty, and its key is gone.
    HandedOver,
    Recovering,
    RecoveringQueued,
    /// The server lost both keys while the slot was migrating.
    Lost,
}

/// Which keys have moved.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moved {
    None,
    Lock,
    Waiters,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Asks {
    Acquire,
    Try,
    Renew,
    Heartbeat,
    Release,
    Leave,
    Break,
    Inspect,
    History,
}

/// A lock and what its clients were told of it.
struct Told<'a> {
    prefix: String,
    digests: &'a BTreeMap<&'static str, String>,
    owner: &'a RedisServer,
    next: &'a RedisServer,
    memory: Memory,
    holder: Seat,
    waiter: Seat,
}

impl Told<'_> {
    fn key(&self, kind: &str) -> String {
        format!("{}:{{{NAME}}}:{kind}", self.prefix)
    }

    /// The answer of the node that serves the lock: the owner of the slot, or the one that it names.
    fn ask(&mut self, request: &Request) -> Result<Answer, String> {
        let (script, arguments) = packing::call(request, &Entry::default());
        let mut call = cmd("EVALSHA");
        call.arg(&self.digests[script]).arg(1).arg(self.key("lock")).arg(arguments);
        let asked = call.query::<Vec<u8>>(&mut self.owner.raw());
        let asked = asked.or_else(|refused| match refused.kind() {
            ErrorKind::Server(ServerErrorKind::Ask) => {
                let mut raw = self.next.raw();
                let () = cmd("ASKING").query(&mut raw).unwrap();
                call.query(&mut raw)
            }
            _ => Err(refused),
        });
        let answer = packing::reply(&asked.map_err(|refused| refused.to_string())?).unwrap();
        if answer.fields.contains_key("memory") {
            self.memory = answer.memory();
        }
        Ok(answer)
    }

    fn request(&self, asks: Asks) -> Request {
        let (terms, memory, seat) = (TERMS, self.memory, Seat::default());
        let acquire = |room| Request::Acquire { id: NEWCOMER.into(), room, claim: false, terms, memory, seat };
        match asks {
            Asks::Acquire => acquire(UNBOUNDED),
            Asks::Try => acquire(0),
            Asks::Renew => Request::Renew { id: HOLDER.into(), seat: self.holder, left: DAY / 2, terms, memory },
            Asks::Heartbeat => Request::Heartbeat { client: "waiter".into(), terms, ids: vec![WAITER.into()], memory },
            Asks::Release => Request::Release { id: HOLDER.into(), seat: self.holder, memory },
            Asks::Leave => Request::Leave { ids: vec![WAITER.into()], memory },
            Asks::Break => Request::Break { token: self.holder.token, force: false },
            Asks::Inspect => Request::Inspect { after: 0, count: 10, tell_from: 0, tell_most: 10 },
            Asks::History => Request::History { switch: None, count: 10 },
        }
    }

    fn acquire(&mut self, id: &str) -> Seat {
        let (memory, seat) = (self.memory, Seat::default());
        let id = id.to_owned();
        self.ask(&Request::Acquire { id, room: UNBOUNDED, claim: false, terms: TERMS, memory, seat }).unwrap().seat()
    }

    fn lose(&self) {
        let () = cmd("DEL").arg(self.key("lock")).arg(self.key("waiters")).query(&mut self.owner.raw()).unwrap();
    }

    /// Before the slot migrates.
    fn begin(&mut self, is: Is) {
        if is != Is::New {
            self.holder = self.acquire(HOLDER);
        }
        if [Is::Queued, Is::HandedOver, Is::RecoveringQueued, Is::Lost].contains(&is) {
            self.waiter = self.acquire(WAITER);
        }
        if [Is::Idle, Is::RolledBack].contains(&is) {
            self.ask(&self.request(Asks::Release)).unwrap();
        }
        if [Is::Recovering, Is::RecoveringQueued].contains(&is) {
            self.lose();
            self.holder = self.ask(&self.request(Asks::Renew)).unwrap().seat();
        }
        if is == Is::RecoveringQueued {
            let (id, memory, seat) = (WAITER.into(), self.memory, self.waiter);
            let back = Request::Acquire { id, room: UNBOUNDED, claim: false, terms: TERMS, memory, seat };
            assert_eq!(self.ask(&back).unwrap().word, "queued");
        }
    }

    /// While it does.
    fn go_on(&mut self, is: Is, moved: Moved, migration: &mut Migration<'_>) {
        match is {
            Is::HandedOver => drop(self.ask(&self.request(Asks::Release)).unwrap()),
            Is::Lost => self.lose(),
            Is::RolledBack => self.memory.token += 1,
            _ => {}
        }
        for (kind, with) in [("lock", Moved::Lock), ("waiters", Moved::Waiters)] {
            if [with, Moved::Both].contains(&moved) {
                migration.take(&self.key(kind));
            }
        }
    }

    /// What both nodes have of the lock.
    fn stored(&self) -> Vec<Option<Vec<u8>>> {
        let keys = ["lock", "waiters", "history"].map(|kind| self.key(kind));
        let dump = |(node, key): (&RedisServer, &String)| {
            let mut raw = node.raw();
            let () = cmd("ASKING").query(&mut raw).unwrap();
            // The owner names the other node for a key that is not there.
            cmd("DUMP").arg(key).query(&mut raw).unwrap_or_default()
        };
        [self.owner, self.next].into_iter().flat_map(|node| keys.iter().map(move |key| (node, key))).map(dump).collect()
    }
}

/// Whether the server can serve it.
fn is_served(is: Is, moved: Moved, asks: Asks) -> bool {
    let queued = [Is::Queued, Is::RecoveringQueued].contains(&is);
    let at_owner = moved == Moved::None || moved == Moved::Waiters;
    if queued && moved == Moved::Lock {
        // These write nothing, so they are told what is there.
        return [Asks::Inspect, Asks::History].contains(&asks);
    }
    if queued && moved == Moved::Waiters {
        return false;
    }
    // The owner does not begin a key.
    let begins = match asks {
        Asks::Acquire => !queued && ![Is::New, Is::Idle, Is::Lost].contains(&is),
        Asks::History => ![Is::New, Is::Lost].contains(&is),
        _ => false,
    };
    !(at_owner && begins)
}

#[test]
fn a_request_is_served_or_refused_with_nothing_written_and_the_holder_keeps_its_lease() {
    use Asks::{Acquire, Break, Heartbeat, History, Inspect, Leave, Release, Renew, Try};
    use Is::{HandedOver, Held, Idle, Lost, New, Queued, Recovering, RecoveringQueued, RolledBack};
    let cluster = Cluster::builder().node_timeout(100 * SOON).start();
    let owner = cluster.owner(cluster.slot(NAME));
    let next = cluster.another_master(owner);
    let mut digests = BTreeMap::new();
    for node in [owner, next] {
        for (name, script) in fairlock::__hooks::scripts_of(|_, text| text.to_owned()) {
            digests.insert(name, cmd("SCRIPT").arg("LOAD").arg(script).query(&mut node.raw()).unwrap());
        }
    }
    let mut cases = Vec::new();
    for is in [New, Idle, RolledBack, Held, Queued, HandedOver, Recovering, RecoveringQueued, Lost] {
        for moved in [Moved::None, Moved::Lock, Moved::Waiters, Moved::Both] {
            for asks in [Acquire, Try, Renew, Heartbeat, Release, Leave, Break, Inspect, History] {
                let (memory, holder, waiter) = Default::default();
                let prefix = format!("{is:?} {moved:?} {asks:?}");
                let mut told = Told { prefix, digests: &digests, owner, next, memory, holder, waiter };
                told.begin(is);
                cases.push((is, moved, asks, told));
            }
        }
    }
    let mut migration = cluster.migrate(cluster.slot(NAME), next);
    for (is, moved, asks, mut told) in cases {
        told.go_on(is, moved, &mut migration);
        let before = told.stored();
        let answer = told.ask(&told.request(asks));
        let what = format!("{is:?}, moved: {moved:?}, {asks:?}: {answer:?}");
        assert_eq!(answer.is_ok(), is_served(is, moved, asks), "{what}");
        if let Err(refused) = answer {
            let is_moving = ["non local key", "rehashing of the slot"].iter().any(|words| refused.contains(words));
            assert!(is_moving, "{what}");
            assert_eq!(told.stored(), before, "{what}");
        }
        // The rest of the keys follow.
        ["lock", "waiters", "history"].iter().for_each(|kind| migration.take(&told.key(kind)));
        if [Held, Queued, Recovering, RecoveringQueued, Lost].contains(&is) && asks != Release {
            let renewed = told.ask(&told.request(Renew)).unwrap();
            let kept = renewed.lease_of(HOLDER).map(|own| own.seat.token);
            assert_eq!(kept, Some(told.holder.token), "{what}, {renewed:?}");
        }
    }
}
