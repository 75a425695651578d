//! For this crate's own tests and for fuzzing: what is inside, as far as they must see it.

use crate::inspect::{Holder, QueuedWaiter};
use crate::protocol::{Answer, Push, PushKind, SCRIPTS, assemble};
use crate::server::Target;

/// The clock by which local deadlines are kept, in nanoseconds.
pub fn local_clock_ns() -> u64 {
    crate::clock::Time::now().0
}

/// The digest by which a script of this name is called.
pub fn digest(name: &str) -> String {
    let script = SCRIPTS.iter().find(|script| script.name == name);
    script.map(|script| redis::Script::new(script.text).get_hash().to_owned()).unwrap_or_default()
}

/// Name and text of every script, with another reading of the clock, `local raw = …`, in the place of the server's.
pub fn scripts(clock: &str) -> Vec<(&'static str, String)> {
    scripts_of(|file, text| if file == "lua/lib/time.lua" { clock.to_owned() } else { text.to_owned() })
}

/// Name and text of every script, put together from files that were changed on purpose.
pub fn scripts_of(read: impl Fn(&str, &str) -> String) -> Vec<(&'static str, String)> {
    let read = |file: &str, text: &str| read(&format!("lua/{file}.lua"), text);
    SCRIPTS.iter().map(|script| (script.name, assemble(script.name, &read))).collect()
}

/// A message as the client reads it: whether it is of a grant, the id, token and ticket, the secret, the first key of
/// the lock.
pub fn read_push(payload: &[u8]) -> Option<(bool, String, [u64; 2], [String; 2])> {
    let Push { kind, id, token, ticket, secret, lock } = Push::parse(payload)?;
    Some((kind == PushKind::Grant, id, [token, ticket], [secret, lock]))
}

/// A script's reply as the client reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadAnswer {
    /// The word, as the code calls it.
    pub word: String,
    /// epoch stamp token waiting granted_token ticket
    pub numbers: [u64; 6],
    /// lease_left recover_left left, in microseconds
    pub spans: [u128; 3],
    /// The rank, and whether to ask again.
    pub rank: (Option<u64>, bool),
    /// Whom it names as the client's own holder, with token and ticket.
    pub holder: Option<(String, [u64; 2])>,
    /// Whom it names as the holder to people.
    pub held: Option<Holder>,
    /// Who waits.
    pub page: Vec<QueuedWaiter>,
}

/// Reads a script's reply.
pub fn read_answer(packed: &[u8]) -> Option<ReadAnswer> {
    let answer = Answer::unpack(packed)?;
    Some(ReadAnswer {
        word: format!("{:?}", answer.word).to_lowercase(),
        numbers: [answer.epoch, answer.stamp, answer.token, answer.waiting, answer.granted_token, answer.ticket],
        spans: [answer.lease_left, answer.recover_left, answer.left].map(|span| span.as_micros()),
        rank: (answer.rank, answer.again),
        holder: answer.holder.map(|holder| (holder.id, [holder.token, holder.ticket])),
        held: answer.held.map(|held| *held),
        page: answer.page,
    })
}

/// The frames in these bytes, which arrive in pieces of this size, and whether they end the connection.
pub fn read_frames(bytes: &[u8], size: usize) -> (Vec<String>, Option<String>) {
    crate::server::read_frames(bytes, size)
}

/// A value that the library has read, as [`read_frames`] would show it.
pub fn shown_frame(value: &redis::Value) -> String {
    crate::server::shown_frame(value)
}

/// What a connection says when it has asked these questions (each byte means one), and is answered with these bytes in
/// pieces of this size; and whether that ends it.
pub fn converse(questions: &[u8], bytes: &[u8], size: usize) -> (Vec<String>, Option<String>) {
    crate::server::converse(questions, bytes, size)
}

/// A URL as it is shown to people, or why it is refused.
pub fn read_url(url: &str) -> Result<String, String> {
    Target::parse(url).map(|target| format!("{target:?}")).map_err(|error| format!("{error} {error:?}"))
}
