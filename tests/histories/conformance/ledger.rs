//! What a client was told, and the rules that hold for every request, whatever the scene.

pub mod by_hdel;
mod terms;
mod told;

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use self::told::Told;
pub use self::{
    terms::Terms,
    told::{BELIEVED, FORGETS, NEWEST, SEAT},
};
use super::{
    complaint::{Verdict, must},
    referee::{Asked, Request},
};

pub const REPEATED: &str = "SEAT is empty when the request is repeated";
pub const OVER: &str = "After `release` or `leave` no other request of that ID follows";
pub const ENDS: &str = "a client ends the old connection at the server before it asks anything again";
const ONCE: &str = "N a decimal number (below 2^64) that this CLIENT never uses again";
const MOST: &str = "how many may hold the lock together while this lease lasts, itself among them";
const NUMBER: &str = "A number is whole, from 0 to 2^53";
const SECRET: &str = "at least 120 random bits as text, new for each acquire; empty without a subscription";

/// The most characters of a secret or a client id that 120 bits need.
const RANDOM: usize = 20;

/// A word that no version knows.
pub const NO_WORD: &str = "a_word_of_later";

pub const UNBOUNDED: &str = "9007199254740992";

/// One acquire.
#[derive(Default)]
pub struct Acquire {
    pub room: String,
    pub secret: Vec<u8>,
    seats: Vec<Told>,
    pub ticket: u64,
    pub token: u64,
    pub slot: u16,
    pub holds: bool,
    /// A reply ended it, or a request of its client.
    over: bool,
    released: bool,
    lost: bool,
    /// Of a lease that was lost because it could not be renewed: what was left of it then.
    overdue: Option<Duration>,
    /// When the lease ends at the latest, and when its client was told.
    end: Option<(Instant, Instant)>,
    /// The memory of the grant, if an HDEL may give the lease back.
    calm: Option<Vec<u8>>,
    /// An HDEL would find nothing: its client has sent a renewal, or an HDEL that did nothing.
    touched: bool,
}

pub struct Ledger {
    pub terms: Terms,
    pub acquires: HashMap<String, Acquire>,
    memories: Vec<Told>,
    secrets: HashSet<Vec<u8>>,
    /// Seats in messages that no client may believe.
    pub forged: HashSet<Vec<u8>>,
    /// The last request of a connection that was answered NOSCRIPT.
    unknown: HashMap<usize, Request>,
    /// Connections whose last request was not answered and may be executed late, with the client ids.
    unanswered: HashMap<usize, String>,
}

impl Ledger {
    pub fn new(terms: Terms) -> Ledger {
        let (acquires, memories, secrets, forged, unknown, unanswered) = Default::default();
        Ledger { terms, acquires, memories, secrets, forged, unknown, unanswered }
    }

    /// Where the client of this id hears messages.
    pub fn channel(&self, id: &str) -> String {
        format!("{}:client:{}", self.terms.prefix, id.split('.').next().unwrap_or_default())
    }

    /// What the answer to this request tells its client to remember.
    pub fn remember(&mut self, asked: &Asked, word: &str, memory: Vec<u8>) {
        // A client need not read what such an answer brings.
        let connection = (word != NO_WORD).then_some(asked.connection);
        self.memories.push(Told::new(memory, connection, &client_of(asked)));
    }

    /// A seat was told. `connection`: none by a message.
    pub fn seat(&mut self, id: &str, connection: Option<usize>, seat: Vec<u8>) {
        self.acquires.entry(id.to_owned()).or_default().seats.push(Told::new(seat, connection, ""));
    }

    /// A message granted the lock to this acquire. A small client leaves its memory alone.
    pub fn published(&mut self, id: &str, token: u64, memory: Vec<u8>) {
        self.acquires.entry(id.to_owned()).or_default().token = token;
        self.memories.push(Told::new(memory, None, id.split('.').next().unwrap_or_default()));
    }

    /// A lease was told, for this long since before the request was sent.
    pub fn lease(&mut self, id: &str, asked: &Asked, left: Duration) {
        let acquire = self.acquires.entry(id.to_owned()).or_default();
        let end = asked.at + left;
        acquire.end = Some((acquire.end.map_or(end, |(before, _)| before.max(end)), Instant::now()));
    }

    /// Its client has said so, or is told now.
    pub fn lost(&mut self, id: &str) {
        self.acquires.entry(id.to_owned()).or_default().lost = true;
    }

    /// It could not be renewed, so its client has declared it lost when so much was left. A renewal that was built before
    /// may come later.
    pub fn overdue(&mut self, id: &str, left: Duration) {
        self.lost(id);
        self.acquires.entry(id.to_owned()).or_default().overdue = Some(left);
    }

    /// Its client has shown that it has read the messages until now.
    pub fn messages_are_read(&mut self) {
        let by_message = |told: &&mut Told| told.connection.is_none();
        self.memories.iter_mut().filter(by_message).for_each(|told| told.since = usize::MAX);
    }

    /// The word of an answer to a request of this acquire.
    pub fn answered(&mut self, asked: &Asked, word: &str, again: bool) {
        self.unanswered.remove(&asked.connection);
        let Some(acquire) = self.acquires.get_mut(&asked.text(0)) else { return };
        match word {
            "disbelieved" => acquire.seats.clear(),
            "busy" => acquire.over |= !again,
            _ => {}
        }
    }

    /// The answer to this request was an error.
    pub fn refused(&mut self, asked: &Asked, error: &str) {
        self.unanswered.remove(&asked.connection);
        if asked.verb == "hdel" {
            self.removed(asked, 0);
        } else if error.starts_with("NOSCRIPT") {
            self.unknown.insert(asked.connection, asked.request.clone());
        }
    }

    /// A client has ended this connection at the server.
    pub fn killed(&mut self, connection: usize) {
        self.unanswered.remove(&connection);
    }

    pub fn check(&mut self, asked: &Asked) -> Verdict {
        const SCRIPTS: &str = "The scripts are the files `lua/rendered/*.lua` of this repository, byte for byte.";
        let seats = self.acquires.values_mut().flat_map(|acquire| &mut acquire.seats);
        let on_it = |told: &&mut Told| told.connection == Some(asked.connection);
        self.memories.iter_mut().chain(seats).filter(on_it).for_each(|told| told.since += 1);
        self.unanswered.insert(asked.connection, client_of(asked));
        if let Some(request) = self.unknown.remove(&asked.connection) {
            let same = request == asked.request;
            let rule = "Only the `EVAL` after `NOSCRIPT` repeats it unchanged";
            must(same || !asked.by_text, rule, || "the `EVAL` differs from the `EVALSHA` before it".into())?;
            if same {
                // One of the full size may have sent its release before it read NOSCRIPT.
                let goes_on = asked.verb != "acquire" || self.terms.can("full");
                return if goes_on { Ok(()) } else { self.goes_on(&asked.text(0)) };
            }
        }
        if asked.verb == "hdel" {
            return self.hdel(asked);
        }
        let counts = match &*asked.verb {
            "acquire" => 14..=14,
            "renew" => 15..=15,
            "release" => 3..=3,
            "heartbeat" => 6..=21,
            "leave" => 2..=101,
            _ => return must(false, SCRIPTS, || format!("it sends another script, by {}", asked.verb)),
        };
        let key = "`PREFIX:{NAME}:lock`, alone, for every script";
        must(asked.key == self.terms.key(), key, || format!("the key is {:?}", asked.key))?;
        let count = asked.args.len();
        must(counts.contains(&count), "`EVALSHA SHA1 1 LOCK-KEY ARGUMENT…`", || {
            format!("{} has {count} arguments", asked.verb)
        })?;
        match &*asked.verb {
            "acquire" => self.acquire(asked),
            "heartbeat" => self.heartbeat(asked),
            "renew" => self.renew(asked),
            "release" => self.release(asked),
            _ => self.leave(asked),
        }
    }

    fn acquire(&mut self, asked: &Asked) -> Verdict {
        let id = asked.text(0);
        let (client, number) = id.split_once('.').unwrap_or_default();
        let random = "at least 120 random bits as text of `0-9A-Za-z`, so 22 characters or more";
        let long = client.len() >= 22 && client.bytes().all(|byte| byte.is_ascii_alphanumeric());
        must(long, random, || format!("the client id is {client:?}"))?;
        must(number.parse::<u64>().is_ok(), ONCE, || format!("the id is {id:?}"))?;
        let (can_wait, full) = (self.terms.can("waits"), self.terms.can("full"));
        let rule = if can_wait { "All its requests carry `as_claim` 1" } else { "`room` 0, `most` 1, `as_claim` 1" };
        must(asked.text(8) == "1" || (full && asked.text(8) == "0"), rule, || "`as_claim` is not 1".into())?;
        let may_be_late = |&(&connection, of): &(&usize, &String)| connection != asked.connection && of == client;
        let late = self.unanswered.iter().find(may_be_late).filter(|_| asked.text(8) == "0");
        must(late.is_none(), ENDS, || {
            format!("`as_claim` is 0, and it did not send CLIENT KILL ID {}", late.unwrap().0)
        })?;
        self.spans(asked, true)?;
        self.most(asked, 13)?;
        self.tag(asked)?;
        let secret = &asked.args[9];
        let hidden = secret.len() >= RANDOM || (secret.is_empty() && !self.terms.can("pushes"));
        must(hidden, SECRET, || format!("the secret is {:?}", asked.text(9)))?;
        let seat = &asked.args[2];
        if let Some(before) = self.acquires.get(&id) {
            must(!before.over, ONCE, || format!("{id} is used again"))?;
            let same = before.room == asked.text(7);
            must(same, "The same in every `acquire` of this ID", || "`room` has changed".into())?;
            must(before.secret == *secret, SECRET, || "the secret of an acquire has changed".into())?;
            self.seat_of(asked, &id, seat)?;
        } else {
            let newcomer = "the seat of this acquire, as last told; empty for a newcomer and for a try";
            must(seat.is_empty(), newcomer, || format!("the first acquire of {id} has a seat"))?;
            let room = ["0", UNBOUNDED].contains(&&*asked.text(7));
            must(room, "`0` only to try", || format!("`room` is {}", asked.text(7)))?;
            must(secret.is_empty() || self.secrets.insert(secret.clone()), SECRET, || "a secret is used again".into())?;
            let acquire = Acquire { room: asked.text(7), secret: secret.clone(), ..Acquire::default() };
            self.acquires.insert(id.clone(), acquire);
        }
        self.memory(asked, 1, &[id])
    }

    fn heartbeat(&self, asked: &Asked) -> Verdict {
        self.spans(asked, false)?;
        let ids: Vec<String> = (5..asked.args.len()).map(|nth| asked.text(nth)).collect();
        let rule = "the IDs of waiters with a ticket, in the order of their tickets: at least one";
        let tickets: Vec<Option<u64>> = ids.iter().map(|id| self.acquires.get(id).map(|its| its.ticket)).collect();
        let queued = tickets.iter().all(|ticket| ticket.is_some_and(|ticket| ticket > 0)) && tickets.is_sorted();
        must(queued, rule, || format!("the tickets of {ids:?} are {tickets:?}"))?;
        ids.iter().try_for_each(|id| self.goes_on(id))?;
        self.memory(asked, 1, &ids)
    }

    fn renew(&mut self, asked: &Asked) -> Verdict {
        let id = asked.text(0);
        self.goes_on(&id)?;
        self.acquires.entry(id.clone()).or_default().touched = true;
        let acquire = &self.acquires[&id];
        let left = asked.text(13).parse::<u64>().ok();
        must(left.is_some(), NUMBER, || format!("`left` is {:?}", asked.text(13)))?;
        let built_before = acquire.overdue.zip(left).is_some_and(|(most, left)| u128::from(left) > most.as_micros());
        must(!acquire.lost || built_before, "The client tells its caller and sends no more renewals", || {
            "it renews a lost lease".into()
        })?;
        self.seat_of(asked, &id, &asked.args[2])?;
        number(asked, 6, self.terms.lease, "how long the lease is to last from now on")?;
        self.most(asked, 14)?;
        self.tag(asked)?;
        must(acquire.secret == asked.args[9], "as in its acquire", || "the secret is another".into())?;
        let most = acquire.end.map_or(0, |(end, told)| end.saturating_duration_since(told).as_micros());
        let rule = "**A deadline counts from before the request was sent.**";
        let most = if acquire.holds { most } else { u128::from(self.terms.lease) };
        must(u128::from(left.unwrap_or(0)) <= most, rule, || format!("`left` is {left:?}, and {most} were left"))?;
        self.memory(asked, 1, &[id])
    }

    fn release(&mut self, asked: &Asked) -> Verdict {
        let (id, seat) = (asked.text(0), &asked.args[2]);
        self.memory(asked, 1, std::slice::from_ref(&id))?;
        let Some(acquire) = self.acquires.get(&id) else {
            let rule = "it sends `release` with that ID and an empty seat";
            return must(seat.is_empty(), rule, || "the release of an unknown lease has a seat".into());
        };
        must(!acquire.released || seat.is_empty(), REPEATED, || "a repeated release has a seat".into())?;
        let lost = "It releases when the caller is done or at the deadline, with an empty seat";
        must(!acquire.lost || seat.is_empty(), lost, || "the release of a lost lease has a seat".into())?;
        self.seat_of(asked, &id, seat)?;
        let acquire = self.acquires.entry(id).or_default();
        (acquire.released, acquire.over) = (true, true);
        Ok(())
    }

    fn leave(&mut self, asked: &Asked) -> Verdict {
        let ids: Vec<String> = (1..asked.args.len()).map(|nth| asked.text(nth)).collect();
        self.memory(asked, 0, &ids)?;
        ids.into_iter().for_each(|id| self.acquires.entry(id).or_default().over = true);
        Ok(())
    }

    fn goes_on(&self, id: &str) -> Verdict {
        let over = self.acquires.get(id).is_none_or(|acquire| acquire.over);
        must(!over, OVER, || format!("{id} is over, or was never asked for"))
    }

    /// From the liveness to the interval of heartbeats, and the lease of an acquire.
    fn spans(&self, asked: &Asked, of_acquire: bool) -> Verdict {
        let Terms { lease, liveness, buffer, .. } = self.terms;
        // The smallest client has only a lease.
        let (liveness, buffer) = if self.terms.can("waits") { (liveness, buffer) } else { (lease, 0) };
        let all = [
            (liveness, "how long the client counts as alive without a heartbeat"),
            (buffer, "what the server adds to that"),
            (liveness / 3, "the interval of the client's heartbeats: a third of the liveness, of a try too"),
            (lease, "the lease that the holder wants"),
        ];
        let (all, from) = if of_acquire { (&all[..], 3) } else { (&all[..3], 2) };
        all.iter().zip(from..).try_for_each(|(&(span, rule), nth)| number(asked, nth, span, rule))
    }

    fn most(&self, asked: &Asked, nth: usize) -> Verdict {
        let (text, most) = (asked.text(nth), self.terms.most.to_string());
        must(text == most, MOST, || format!("{text} is sent, and not {most}"))
    }

    fn tag(&self, asked: &Asked) -> Verdict {
        must(asked.args[12].is_empty(), "`tag`: empty outside of a cluster", || format!("it is {:?}", asked.text(12)))
    }
}

fn client_of(asked: &Asked) -> String {
    let id = asked.text(usize::from(asked.verb == "leave"));
    id.trim_start_matches('@').split('.').next().unwrap_or_default().to_owned()
}

fn number(asked: &Asked, nth: usize, wanted: u64, rule: &'static str) -> Verdict {
    let text = asked.text(nth);
    must(!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()), NUMBER, || format!("{text:?} is sent"))?;
    // A third may be rounded.
    let right = text.parse::<u64>().is_ok_and(|number| number.abs_diff(wanted) <= 1);
    must(right, rule, || format!("{text} is sent, and not {wanted}"))
}
