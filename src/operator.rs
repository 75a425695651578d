//! For the command line: what an operator asks servers beyond one lock. No part of the public interface.
//!
//! Everything here blocks its caller, on connections of its own, and knows nothing of keepers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::Waiting;
use crate::client::ClientBuilder;
pub use crate::clock::Time;
use crate::credentials::{Credentials, Login};
use crate::error::{ConnectError, Fault};
use crate::guard::Guard;
use crate::inspect::LockState;
pub use crate::inspect::differs;
use crate::lock_all::AllGuard;
use crate::protocol::{
    Epoch, InspectRequest, LeaveRequest, LockKeys, Memory, Reply, Request, Token, Verb, Verdict, WireId,
};
use crate::server::refusal;
pub use crate::server::{Answer, Line, Place, Places};

/// How many readers may hold a read-write lock together.
pub const READERS: u32 = crate::inspect::READERS as u32;

impl ClientBuilder {
    /// The servers of this client's URL, not connected.
    ///
    /// # Errors
    /// [`ConnectError`] if the URL is not understood.
    #[doc(hidden)]
    pub fn places(&self) -> Result<Places, ConnectError> {
        self.target().map(Places::from)
    }

    /// The user whom the URL of this client names, if it is understood and names one.
    #[doc(hidden)]
    pub fn user(&self) -> Option<String> {
        match self.target().ok()?.login()? {
            Login::Known(Credentials { user, .. }) => Some(user.clone()),
            Login::Asked(_) => None,
        }
    }
}

/// The id of a waiter, as everybody else sees it: [`QueuedWaiter::id`](crate::state::QueuedWaiter::id).
pub fn id_of(waiting: &Waiting) -> String {
    waiting.wire_id()
}

/// These guards as one: of locks that were waited for one by one, to show each place in a queue.
pub fn together(guards: Vec<Guard>) -> AllGuard {
    AllGuard { guards }
}

/// One of many locks, as an observer sees it.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Holders and waiters, as many of these as were asked for.
    pub state: LockState,
    /// The last token that was granted.
    pub token: u64,
    /// How often it was granted since the server knows it.
    pub grants: u64,
    /// The epoch of the lock, which changes when the server lost data.
    pub epoch: u64,
}

impl Line {
    /// The names of the locks that match a pattern of Redis (`*`, `?`, `[…]`) and have been used lately: on this server
    /// only. One round trip for each thousand keys of the server, whatever they are.
    ///
    /// # Errors
    /// [`LookError`]
    pub fn lock_names(&mut self, prefix: &str, pattern: &str, within: Duration) -> Result<BTreeSet<String>, LookError> {
        let keys = LockKeys::new(&escape(prefix), pattern);
        let mut names = BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let scan = vec!["SCAN", &cursor, "MATCH", &keys.lock, "COUNT", "1000"];
            let answers = self.ask(&[scan], within)?;
            let [next, found] = answers[0].items() else { return Err(LookError::of(&answers[0])) };
            let found = found.items().iter().filter_map(|key| match key {
                Answer::Text(key) => std::str::from_utf8(key).ok(),
                _ => None,
            });
            names.extend(found.filter_map(|key| Some(LockKeys::of_lock(prefix, key)?.name.to_string())));
            match next.text() {
                Some(next) if next != "0" => cursor = next.into_owned(),
                _ => return Ok(names),
            }
        }
    }

    /// Holders and first waiters of these locks, in their order. One round trip, another one for each further 500 holders
    /// of a lock, and a few more if the server does not know the script. It needs rights to read only; from Redis 7 on
    /// also with rights to read keys only (`%R~`).
    ///
    /// # Errors
    /// [`LookError`] for all of them if the connection broke, and for each that cannot be read.
    pub fn look(
        &mut self,
        prefix: &str,
        names: &[String],
        waiters: u32,
        within: Duration,
    ) -> Result<Vec<Result<Seen, LookError>>, LookError> {
        let first = |name: &String| InspectRequest::first(&Arc::new(LockKeys::new(prefix, name)), waiters);
        self.read_pages(names.iter().map(first).collect(), within)
    }

    /// These pages, and of the holders those that follow.
    fn read_pages(
        &mut self,
        requests: Vec<InspectRequest>,
        within: Duration,
    ) -> Result<Vec<Result<Seen, LookError>>, LookError> {
        let mut seen = self.pages(&requests, within)?;
        let next = |(request, page): (InspectRequest, &Result<Seen, LookError>)| {
            InspectRequest { count: 0, ..request }.next(&page.as_ref().ok()?.state)
        };
        let next = requests.into_iter().zip(&seen).map(next).enumerate();
        let (at, next): (Vec<usize>, Vec<InspectRequest>) = next.filter_map(|(at, next)| Some((at, next?))).unzip();
        if !next.is_empty() {
            for (at, rest) in at.into_iter().zip(self.read_pages(next, within)?) {
                seen[at] = seen[at].clone().and_then(|first| Ok(first.then(rest?)));
            }
        }
        Ok(seen)
    }

    fn pages(
        &mut self,
        requests: &[InspectRequest],
        within: Duration,
    ) -> Result<Vec<Result<Seen, LookError>>, LookError> {
        let script = Verb::Inspect.script();
        let digest = crate::server::digest(script);
        let arguments: Vec<_> = requests.iter().map(|request| texts(&Request::Inspect(request.clone()))).collect();
        let calls = requests.iter().zip(&arguments).map(|(request, arguments)| {
            ["1", &request.keys.lock].into_iter().chain(arguments.iter().map(String::as_str))
        });
        let any = |answers: &[Answer], codes: &[&str]| {
            answers.iter().filter_map(Answer::error).any(|error| codes.iter().any(|code| error.starts_with(code)))
        };
        let mut answers = Vec::new();
        // Read-only scripts are known from Redis 7 on.
        for (by_digest, by_text) in [("EVALSHA_RO", "EVAL_RO"), ("EVALSHA", "EVAL")] {
            let mut commands: Vec<Vec<&str>> =
                calls.clone().map(|call| [by_digest, &digest].into_iter().chain(call).collect()).collect();
            answers = self.ask(&commands, within)?;
            if any(&answers, &["NOSCRIPT"]) {
                // The first of them loads it for the others.
                (commands[0][0], commands[0][1]) = (by_text, script.text);
                answers = self.ask(&commands, within)?;
            }
            if !any(&answers, &["NOPERM", "ERR unknown command"]) {
                break;
            }
        }
        Ok(answers.iter().zip(requests).map(|(answer, request)| Seen::read(answer, &request.keys)).collect())
    }

    /// Gives up the places of these waiters, whose processes are dead, and whatever was granted to them: only the dead
    /// do not come back to a place that they lost. One round trip, or two if the server does not know the script.
    ///
    /// # Errors
    /// [`LookError`]: [`LookError::Moved`] if the lock is at another server.
    pub fn leave(&mut self, prefix: &str, name: &str, ids: &[String], within: Duration) -> Result<(), LookError> {
        let script = Verb::Leave.script();
        let keys = Arc::new(LockKeys::new(prefix, name));
        let request = Request::Leave(LeaveRequest {
            keys: keys.clone(),
            // What is known of the lock is told by those who live.
            memory: Memory::NONE,
            ids: ids.iter().filter_map(|id| WireId::parse(id)).collect(),
        });
        // A stranger's memory is empty, and ids are text.
        let arguments = texts(&request);
        let digest = crate::server::digest(script);
        for call in [["EVALSHA", &digest], ["EVAL", script.text]] {
            let arguments = arguments.iter().map(String::as_str);
            let command = call.into_iter().chain(["1", &keys.lock]).chain(arguments).collect();
            let answers = self.ask(&[command], within)?;
            match answers[0].error() {
                Some(error) if error.starts_with("NOSCRIPT") => {}
                Some(_) => return Err(LookError::of(&answers[0])),
                None => return Ok(()),
            }
        }
        Err(LookError::Refused("it does not keep the script".to_owned()))
    }
}

/// The arguments of a request that has nothing but texts.
fn texts(request: &Request) -> Vec<String> {
    let mut texts = Vec::new();
    request.arguments("", |_, value| texts.push(String::from_utf8_lossy(&value.concat()).into_owned()));
    texts
}

impl Seen {
    /// This page, and the one after it.
    fn then(self, next: Self) -> Self {
        Self { state: self.state.then(next.state), ..next }
    }

    fn read(answer: &Answer, keys: &LockKeys) -> Result<Self, LookError> {
        if let Some(fault) = answer.error().and_then(|said| refusal(&said).about_keys(keys)) {
            return Err(LookError::Unreadable(fault));
        }
        let Answer::Text(packed) = answer else { return Err(LookError::of(answer)) };
        let Some(Reply { common, verdict: Verdict::Inspect(seen) }) = Reply::unpack(Verb::Inspect, packed) else {
            return Err(LookError::of(answer));
        };
        let (token, grants, epoch) = (Token::on_wire(seen.token), seen.grants, Epoch::on_wire(seen.epoch));
        Ok(Self { state: seen.state(&common), token, grants, epoch })
    }
}

/// Why locks cannot be seen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookError {
    /// The connection broke.
    #[error(transparent)]
    Connection(#[from] ConnectError),
    /// The slot of the lock is at another node of the cluster by now.
    #[error("the lock is at another server by now ({0})")]
    Moved(String),
    /// The server refuses, for instance because the user lacks a right.
    #[error("the server refuses to show the lock ({0})")]
    Refused(String),
    /// What the keys of the lock have is not of this version of fairlock.
    #[error(transparent)]
    Unreadable(#[from] Fault),
}

impl LookError {
    fn of(answer: &Answer) -> Self {
        match answer.error() {
            Some(error) if error.starts_with("MOVED ") || error.starts_with("ASK ") => Self::Moved(error.into_owned()),
            Some(error) => Self::Refused(error.into_owned()),
            None => Self::Refused("its answer is not understood".to_owned()),
        }
    }
}

/// The same text as a pattern.
fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if matches!(c, '*' | '?' | '[' | ']' | '\\' | '^') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
