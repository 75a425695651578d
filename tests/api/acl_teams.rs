//! Users that share a server but no locks: a user without the rights to a lock cannot get around them with messages.

use std::time::Duration;

use fairlock::__hooks::model::{Entry, Memory, Request, Seat, Terms};
use fairlock::__hooks::packing;
use fairlock::{Client, LockOptions, error::ConnectError};
use redis::Commands as _;
use testkit::{RedisServer, keys_left, run::least_rights, soon};

/// The rights that docs/guide.md names, for another prefix, and no other keys or channels.
fn rights_of_team(team: &str) -> String {
    let rights = least_rights("pw", false).replace("~fairlock:*", &format!("~{team}:*"));
    rights.replace("&fairlock:*", &format!("&{team}:*"))
}

async fn client(server: &RedisServer, team: &str, prefix: &str) -> Client {
    Client::builder().url(&server.url_as(team, "pw")).prefix(prefix).connect().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_has_its_locks_and_no_others() {
    if testkit::run::lacks("a right to a channel", (6, 2)) {
        return;
    }
    let server = ["red", "blue"]
        .iter()
        .fold(RedisServer::builder().plain(), |builder, team| builder.user(team, &rights_of_team(team)))
        .start();
    let (red, blue) = (client(&server, "red", "red").await, client(&server, "blue", "blue").await);
    // The same name is another lock for each team.
    let guards = (red.lock("x").unwrap().acquire().await.unwrap(), blue.lock("x").unwrap().acquire().await.unwrap());
    let waiting = red.lock("x").unwrap().enqueue().await.unwrap();
    let intruder = Client::builder().url(&server.url_as("blue", "pw")).prefix("red").connect().await;
    assert!(matches!(intruder, Err(ConnectError::MissingRight { .. })), "{intruder:?}");
    drop(guards);
    soon(waiting).await.unwrap().release().await.unwrap();
    keys_left(&server);
}

/// A user that may publish to every channel, and reach the keys of other locks, but not those of this one.
struct Hostile {
    raw: redis::Connection,
    channel: String,
    id: String,
}

impl Hostile {
    /// It knows more than an attacker could: the channel and the id of its victim.
    fn new(server: &RedisServer, id: String) -> Self {
        let channels: Vec<String> = redis::cmd("PUBSUB").arg("CHANNELS").query(&mut server.raw()).unwrap();
        let client = id.split('.').next().unwrap();
        let channel = channels.into_iter().find(|channel| channel.ends_with(client)).expect("its victim listens");
        let raw = redis::Client::open(server.url_as("hostile", "pw")).unwrap().get_connection().unwrap();
        Self { raw, channel, id }
    }

    fn publish(&mut self, message: &[u8]) {
        let heard: u32 = self.raw.publish(&self.channel, message).unwrap();
        assert_eq!(heard, 1, "its victim hears {message:?}");
    }

    /// Messages as the scripts make them, with a token that is an hour ahead, for this lock and for another.
    fn forge(&mut self, kind: &str, token: u64) {
        for lock in ["fairlock:{victim}:lock", "fairlock:{other}:lock"] {
            for secret in ["", "0", &"0".repeat(32)] {
                self.publish(&testkit::forgery::push(kind, &self.id, lock, secret, token, 1));
            }
        }
    }
}

fn hostile_server() -> RedisServer {
    let rights = least_rights("pw", false).replace("~fairlock:*", "~fairlock:{other}:*").replace("&fairlock:*", "&*");
    RedisServer::builder().plain().user("hostile", &rights).start()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_grant_makes_nobody_a_holder() {
    let server = hostile_server();
    let (here, there) = (Client::connect(&server.url()).await.unwrap(), Client::connect(&server.url()).await.unwrap());
    let options = || LockOptions::new().lease(Duration::from_secs(600));
    let guard = here.lock_with("victim", options()).unwrap().acquire().await.unwrap();
    let lock = there.lock_with("victim", options()).unwrap();
    let waiting = lock.enqueue().await.unwrap();
    let id = lock.inspect().await.unwrap().queue[0].id.clone();
    let mut hostile = Hostile::new(&server, id.clone());
    hostile.forge("grant", guard.token() + 3_600_000_000);
    // It can also make the scripts publish: at a lock of its own it queues under the id of its victim, behind itself,
    // and then releases.
    let keys = ["lock", "waiters"].map(|key| format!("fairlock:{{other}}:{key}"));
    let call = |request: &Request| {
        let (name, arguments) = packing::call(request, &Entry::default());
        let mut call = redis::cmd("EVALSHA");
        call.arg(fairlock::__hooks::digest(name)).arg(1).arg(&keys[0]).arg(arguments);
        call
    };
    let (terms, memory, seat) = (
        Terms { lease: 9_000_000, liveness: 9_000_000, buffer: 0, heartbeat: 3_000_000, most: 1 },
        Memory::default(),
        Seat::default(),
    );
    for id in ["hostile.1", &id] {
        let acquire = Request::Acquire { id: id.to_owned(), room: 1, claim: false, terms, memory, seat };
        let _: redis::Value = call(&acquire).query(&mut hostile.raw).unwrap();
    }
    let release = Request::Release { id: "hostile.1".into(), seat, memory };
    let _: redis::Value = call(&release).query(&mut hostile.raw).unwrap();

    // Answers come after the messages before them.
    assert_eq!(waiting.position().await.unwrap(), 1, "it still waits");
    guard.check().unwrap();
    guard.renew().await.unwrap();
    drop(guard);
    soon(waiting).await.unwrap().release().await.unwrap();
    let _: () = server.raw().del(&keys).unwrap();
    keys_left(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_message_ends_no_lease() {
    let server = hostile_server();
    let client = Client::connect(&server.url()).await.unwrap();
    let lock = client.lock("victim").unwrap();
    let guard = lock.acquire().await.unwrap();
    // A client listens from its first connection on.
    let id = lock.inspect().await.unwrap().holders.remove(0).id;
    Hostile::new(&server, id).forge("break", guard.token());
    lock.inspect().await.unwrap();
    guard.check().unwrap();
    guard.release().await.unwrap();
    keys_left(&server);
}
