//! For this crate's own tests and for fuzzing: what is inside, as far as they must see it.

use crate::inspect::BreakOutcome;
use crate::protocol::{
    AcquireVerdict, Epoch, HeartbeatVerdict, Push, PushKind, Reply, SCRIPTS, Stamp, Verb, Verdict, assemble,
};
use crate::server::Target;
pub use crate::server::{converse, read_by_the_library, read_frames, read_nodes};

/// The reference model of the scripts.
pub mod model {
    pub use crate::testing::model::*;
}

/// What must not be, whoever looks.
pub mod promises {
    pub use crate::testing::promises::*;
}

/// How the calls of the scripts travel.
pub mod packing {
    pub use crate::testing::packing::*;
}

/// From now on each thread of this process does this at each spot where a test may hold it (`spots.rs`), named by what
/// the thread is making there, or by the type of what its mutex guards.
pub fn at_spots(act: impl Fn(&str) + Send + Sync + 'static) {
    crate::spots::at_spots(act);
}

/// Polls a future as [`Operation::blocking`](crate::Operation::blocking) does.
pub fn block_on<F: Future>(future: F) -> F::Output {
    crate::blocking::block_on(future)
}

/// The clock by which local deadlines are kept, in nanoseconds.
pub fn local_clock_ns() -> u64 {
    crate::clock::Time::now().0
}

/// The digest by which a script of this name is called.
pub fn digest(name: &str) -> String {
    let script = SCRIPTS.iter().find(|script| script.name == name);
    script.map(crate::server::digest).unwrap_or_default()
}

/// The name of every script, and the words with which its replies begin.
pub fn verbs() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    Verb::ALL.into_iter().map(|verb| (verb.script().name, verb.words()))
}

/// Name and text of every script, with another reading of the clock, `local raw = …`, in the place of the server's.
pub fn scripts(clock: &str) -> Vec<(&'static str, String)> {
    scripts_of(|file, text| if file == "lua/lib/time.lua" { clock.to_owned() } else { text.to_owned() })
}

/// Name and text of every script, put together from files that were changed on purpose.
pub fn scripts_of(read: impl Fn(&str, &str) -> String) -> Vec<(&'static str, String)> {
    assemble(&|file, text| read(&format!("lua/{file}.lua"), text)).into()
}

/// A message as the client reads it: whether it is of a grant, the id, token and ticket, the secret and the key of
/// the lock, memory and seat.
pub type ReadPush = (bool, String, [u64; 2], [String; 2], [Vec<u8>; 2]);

/// Reads a message.
pub fn read_push(payload: &[u8]) -> Option<ReadPush> {
    let Push { kind, id, token, ticket, seat, known, secret, lock, .. } = Push::parse(payload)?;
    let (id, secret) = (id.as_str().to_owned(), secret.as_str().to_owned());
    let texts = [known.memory().as_bytes(), seat.as_bytes()].map(<[u8]>::to_vec);
    Some((kind == PushKind::Grant, id, [token.get(), ticket.get()], [secret, lock], texts))
}

/// The numbers in the reply of the script of this name, as the client reads them. Spans are in microseconds.
pub fn read_reply(script: &str, packed: &[u8]) -> Option<Vec<u128>> {
    let verb = Verb::ALL.into_iter().find(|verb| verb.script().name == script)?;
    let Reply { common, verdict } = Reply::unpack(verb, packed)?;
    let told = match verdict {
        Verdict::Acquire(AcquireVerdict::Queued { ticket, rank, .. }) => vec![ticket.get().into(), rank.into()],
        Verdict::Heartbeat(HeartbeatVerdict::Alive { rank }) => rank.into_iter().map(u128::from).collect(),
        Verdict::Break(BreakOutcome::Told { remaining }) => vec![remaining.as_micros()],
        _ => vec![],
    };
    let known = common.known;
    let numbers = [Epoch::on_wire(known.epoch), Stamp::on_wire(known.stamp), common.waiting, common.held];
    let spans = [common.first_left, common.recover_left, common.keep].map(|span| span.as_micros());
    Some(numbers.into_iter().map(u128::from).chain(spans).chain(told).collect())
}

/// A URL as it is shown to people, or why it is refused.
pub fn read_url(url: &str) -> Result<String, String> {
    Target::parse(url).map(|target| format!("{target:?}")).map_err(|error| format!("{error} {error:?}"))
}
