//! Forks at each moment of the library's threads: one of them is in the middle of something, or has a mutex. The forked
//! process has no such thread, and waits for none.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::channel,
    },
    thread::{self, park},
    time::Duration,
};

use fairlock::{__hooks::at_spots, Client, ClientBuilder, Credentials, Guard, Lock, Waiting, compat::KeyedMutex};
use pollster::block_on;
use testkit::{Child, SOON, child, poll_once};

use crate::panic_and_fork::ends_well;

/// The helper processes of this file.
#[test]
fn child() {
    child::main(|role, args| match (role, args) {
        ("spots", [moment, server @ ..]) => say_spots(moment.parse().unwrap(), server),
        ("fork at", [moment, spot, server @ ..]) => fork_at(moment.parse().unwrap(), spot, server),
        ("fork among look-ups", server) => fork_among_look_ups(server),
        other => panic!("no role {other:?}"),
    });
}

/// The last line of the list of spots.
const THAT_IS_ALL: &str = "that is all";

/// Code of the program that the library calls: at these, too, its thread may be.
const OF_THE_PROGRAM: [&str; 2] = ["the program's login", "the program's subscriber"];

type Act = Box<dyn Fn(&str) + Send + Sync>;

/// What each thread does at a spot.
static AT_SPOT: OnceLock<Act> = OnceLock::new();

fn reach(spot: &str) {
    if let Some(act) = AT_SPOT.get() {
        act(spot);
    }
}

/// A subscriber of everything.
struct Subscriber;

impl tracing::Subscriber for Subscriber {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        reach(OF_THE_PROGRAM[1]);
        tracing::span::Id::from_u64(1)
    }

    fn event(&self, _: &tracing::Event<'_>) {
        reach(OF_THE_PROGRAM[1]);
    }

    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
}

/// Encrypted, with a host that is looked up and a login of the program.
fn builder(server: &[String]) -> ClientBuilder {
    let builder = Client::builder().url(&server[0]).login_with(|| {
        reach(OF_THE_PROGRAM[0]);
        Ok::<_, String>(Credentials::new("", "any").expires_in(Duration::from_secs(1)))
    });
    #[cfg(feature = "tls")]
    let builder =
        builder.tls(fairlock::Tls::new().ca_certificate(&*server[1]).client_certificate(&*server[2], &*server[3]));
    builder
}

#[cfg(feature = "tls")]
fn start() -> (testkit::certificates::Encrypted, Vec<String>) {
    let server = testkit::certificates::Encrypted::start("localhost");
    let own = server.certificates.authority.issues("client");
    let url = server.url().replace("127.0.0.1", "localhost");
    let arguments = vec![url, server.certificates.authority.pem(), own.certificate, own.key];
    (server, arguments)
}

#[cfg(not(feature = "tls"))]
fn start() -> (testkit::RedisServer, Vec<String>) {
    let server = testkit::RedisServer::builder().plain().tcp().start();
    let url = format!("redis://localhost:{}/", server.port());
    (server, vec![url])
}

/// No other process has a lock of this name.
fn own(name: &str) -> String {
    format!("{name} of {}", std::process::id())
}

fn lock_of(client: &Client, name: &str) -> Lock {
    client.lock(&own(name)).unwrap()
}

/// What the parent has, and drops in the end.
struct Had {
    client: Client,
    _guard: Guard,
    _waiting: Waiting,
    keys: KeyedMutex,
}

impl Had {
    fn new(builder: &ClientBuilder) -> Self {
        let client = block_on(builder.clone().connect()).unwrap();
        let (held, keys) = (lock_of(&client, "held"), KeyedMutex::new(&client, &own("keys")).unwrap());
        let (guard, waiting) = (block_on(held.acquire()).unwrap(), block_on(held.enqueue()).unwrap());
        Self { client, _guard: guard, _waiting: waiting, keys }
    }
}

/// Everything that a client does, so that its threads come to each spot.
fn use_all(client: &Client, keys: &KeyedMutex) {
    let guard = block_on(lock_of(client, "used").acquire()).unwrap();
    let mut ended = guard.held().ended();
    assert!(poll_once(&mut ended).is_pending());
    block_on(block_on(keys.guard("k")).unwrap().release()).unwrap();
    block_on(guard.renew()).unwrap();
    block_on(guard.release()).unwrap();
}

/// `warm`: the parent has connected before, and has leases.
fn begin(warm: bool, server: &[String]) -> (ClientBuilder, Option<Had>) {
    tracing::subscriber::set_global_default(Subscriber).unwrap();
    at_spots(reach);
    let builder = builder(server);
    let had = warm.then(|| Had::new(&builder));
    (builder, had)
}

/// On a thread of its own, so that the main one can fork: with the client that is there, or with others.
fn keep_using(builder: &ClientBuilder, had: Option<&Had>, rounds: usize) -> thread::JoinHandle<()> {
    let (builder, had) = (builder.clone(), had.map(|had| (had.client.clone(), had.keys.clone())));
    thread::spawn(move || {
        (0..rounds).for_each(|_| match &had {
            Some((client, keys)) => use_all(client, keys),
            None => {
                let had = Had::new(&builder);
                use_all(&had.client, &had.keys);
                block_on(had.client.close());
            }
        });
    })
}

/// Says all spots to which threads come.
fn say_spots(warm: bool, server: &[String]) {
    let (builder, had) = begin(warm, server);
    let spots = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = spots.clone();
    let see = move |spot: &str| seen.lock().unwrap().extend([spot.to_owned()]);
    assert!(AT_SPOT.set(Box::new(see)).is_ok());
    keep_using(&builder, had.as_ref(), 3).join().unwrap();
    let spots = spots.lock().unwrap();
    spots.iter().for_each(child::say);
    child::say(THAT_IS_ALL);
}

/// Forks while a thread stands at this spot.
fn fork_at(warm: bool, spot: &str, server: &[String]) {
    let (builder, mut had) = begin(warm, server);
    let (main, parent, stands) = (thread::current().id(), std::process::id(), AtomicBool::new(false));
    let (arrive, arrived) = channel();
    let spot = spot.to_owned();
    let hold = move |here: &str| {
        let is_it = here == spot && thread::current().id() != main && std::process::id() == parent;
        if is_it && !stands.swap(true, Ordering::SeqCst) {
            arrive.send(()).unwrap();
            loop {
                park();
            }
        }
    };
    assert!(AT_SPOT.set(Box::new(hold)).is_ok());
    keep_using(&builder, had.as_ref(), usize::MAX);
    arrived.recv_timeout(SOON).expect("a thread comes to the spot");
    in_a_fork("ends", || drop(had.take()));
    in_a_fork("connects", || connect(self::builder(server)));
    in_a_fork("connects as its parent", || connect(builder.clone()));
    // Here, a drop may wait for the thread that stands.
    std::process::exit(0);
}

fn in_a_fork(what: &str, act: impl FnOnce()) {
    match fork::fork().unwrap() {
        fork::Fork::Child => {
            let outcome = catch_unwind(AssertUnwindSafe(act));
            std::process::exit(i32::from(outcome.is_err()));
        }
        fork::Fork::Parent(pid) => assert!(ends_well(pid), "a forked process that {what} fails or hangs"),
    }
}

fn connect(builder: ClientBuilder) {
    let client = block_on(builder.connect()).unwrap();
    block_on(block_on(lock_of(&client, "lock").acquire()).unwrap().release()).unwrap();
    block_on(client.close());
}

/// Forks while as many look-ups of names hang as there may be.
fn fork_among_look_ups(server: &[String]) {
    let (parent, (arrive, arrived)) = (std::process::id(), channel());
    at_spots(move |here| {
        if here == "a look-up" && std::process::id() == parent {
            arrive.send(()).unwrap();
            loop {
                park();
            }
        }
    });
    let builder = builder(server);
    let waiting: Vec<_> = (0..32)
        .map(|_| {
            let mut acquire = lock_of(&builder.clone().connect_lazy().unwrap(), "lock").acquire();
            assert!(poll_once(&mut acquire).is_pending());
            acquire
        })
        .collect();
    (0..waiting.len()).for_each(|_| arrived.recv_timeout(SOON).unwrap());
    in_a_fork("connects", || connect(builder.clone()));
}

fn forks_end_well(warm: bool) {
    let (_server, arguments) = start();
    let spawn = |role: &str, own: &[&str]| {
        let arguments: Vec<&str> = own.iter().copied().chain(arguments.iter().map(String::as_str)).collect();
        Child::spawn_under(&[], role, &arguments)
    };
    let warm = warm.to_string();
    let mut lists = spawn("spots", &[&warm]);
    lists.wait_line(THAT_IS_ALL, SOON);
    let mut spots: BTreeSet<String> = lists.lines().iter().filter(|spot| *spot != THAT_IS_ALL).cloned().collect();
    spots.extend(OF_THE_PROGRAM.map(str::to_owned));
    assert!(spots.len() > 5, "{spots:?}");
    // The first one only: a hang at each of them takes longer than a mutant may run.
    let fails = spots.iter().find(|spot| !spawn("fork at", &[&warm, spot]).wait(8 * SOON).success());
    assert!(fails.is_none(), "a forked process fails or hangs if a thread of its parent is at {fails:?}");
}

#[test]
fn a_forked_process_waits_for_no_thread_that_makes_the_first_client_of_its_parent() {
    forks_end_well(false);
}

#[test]
fn a_forked_process_waits_for_no_thread_of_a_client_of_its_parent() {
    forks_end_well(true);
}

#[test]
fn look_ups_that_hang_in_its_parent_keep_no_forked_process_from_connecting() {
    let (_server, arguments) = start();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    assert!(Child::spawn("fork among look-ups", &arguments).wait(4 * SOON).success());
}
