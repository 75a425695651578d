//! A lock with one holder and eight waiters, each of a client of its own, and one without waiters: what is sent
//! for them, verb by verb, as real clients send it.

use std::collections::VecDeque;

use crate::kit::{
    scripts::{Scripts, Values},
    wire::{Reply, Wire},
};

const WAITING: usize = 8;
/// No session ends while the benchmark runs.
const HOUR_US: u64 = 3_600_000_000;
/// No lease ends in a round, and a lock that is free and held in turn keeps its TTL.
const LEASE_US: u64 = 200_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Heartbeat,
    Enqueue,
    HandOff,
    Confirm,
    Renew,
    Acquire,
    Release,
}

/// One round of all verbs leaves everything as it was.
pub const VERBS: [Verb; 7] =
    [Verb::Heartbeat, Verb::Enqueue, Verb::HandOff, Verb::Confirm, Verb::Renew, Verb::Acquire, Verb::Release];

impl Verb {
    pub fn name(self) -> &'static str {
        match self {
            Verb::Heartbeat => "heartbeat of a waiter",
            Verb::Enqueue => "acquire that joins 8 waiters",
            Verb::HandOff => "release that hands off",
            Verb::Confirm => "renewal that confirms a claim",
            Verb::Renew => "renewal",
            Verb::Acquire => "acquire that is granted, uncontended",
            Verb::Release => "release, uncontended",
        }
    }

    pub fn of_contended_cycle(self) -> bool {
        !matches!(self, Verb::Acquire | Verb::Release)
    }
}

/// One client.
struct Member {
    client: String,
    /// How many acquires it has made; the number of the last one is a part of its id.
    acquires: u64,
}

impl Member {
    fn id(&self) -> String {
        format!("{}.{}", self.client, self.acquires)
    }
}

pub struct Lock<'a> {
    scripts: &'a Scripts,
    contended: String,
    free: String,
    /// The holder, and the waiters in their order.
    queue: VecDeque<Member>,
    idle: Vec<Member>,
    /// What clients know of the lock that is contended, and of the free one.
    known: [Values; 2],
    /// Whether an HDEL gives back the free one.
    calm: bool,
}

impl<'a> Lock<'a> {
    pub fn new(scripts: &'a Scripts, number: usize, wire: &mut Wire, ears: &mut Wire) -> Lock<'a> {
        let member = |_| Member { client: format!("{:032x}", fastrand::u128(..)), acquires: 0 };
        // A holder, eight waiters, and the next to join them.
        let idle: Vec<Member> = (0..WAITING + 2).map(member).collect();
        for member in &idle {
            ears.command(&["SUBSCRIBE", &scripts.channel(&member.client)]);
        }
        let known = Values::default()
            .set("room", 1_u64 << 53)
            .set("lease_us", LEASE_US)
            .set("liveness_us", HOUR_US)
            .set("buffer_us", 2_000_000)
            .set("heartbeat_us", HOUR_US / 3)
            .set("left_us", LEASE_US)
            .set("secret", "0123456789abcdef")
            .set("label", "worker-17:4242")
            .set("owner", "");
        let (contended, free) = (format!("contended {number}"), format!("free {number}"));
        let mut lock =
            Lock { scripts, contended, free, queue: VecDeque::new(), idle, known: [known.clone(), known], calm: false };
        for _ in 0..=WAITING {
            let call = lock.call(Verb::Enqueue);
            let reply = wire.call(&call);
            lock.done(Verb::Enqueue, &reply);
        }
        lock
    }

    /// Whether this is the HDEL of a calm lock, and no script.
    pub fn is_given_back(&self, verb: Verb) -> bool {
        verb == Verb::Release && self.calm
    }

    /// The request of a verb.
    pub fn call(&mut self, verb: Verb) -> Vec<u8> {
        let given_back = self.is_given_back(verb);
        let member = match verb {
            Verb::Enqueue => self.idle.last_mut().expect("somebody who does not want the lock yet"),
            Verb::Heartbeat => self.queue.back_mut().expect("a waiter"),
            Verb::HandOff | Verb::Confirm | Verb::Renew => self.queue.front_mut().expect("a holder"),
            Verb::Acquire | Verb::Release => self.idle.last_mut().expect("somebody without a lock"),
        };
        if matches!(verb, Verb::Enqueue | Verb::Acquire) {
            member.acquires += 1;
        }
        if given_back {
            let mut request = Vec::new();
            self.scripts.give_back(&self.free).fill(&[format!("@{}", member.id()).as_bytes()], &mut request);
            return request;
        }
        let (script, lock) = match verb {
            Verb::Heartbeat => ("heartbeat", &self.contended),
            Verb::Enqueue => ("acquire", &self.contended),
            Verb::HandOff => ("release", &self.contended),
            Verb::Confirm | Verb::Renew => ("renew", &self.contended),
            Verb::Acquire => ("acquire", &self.free),
            Verb::Release => ("release", &self.free),
        };
        let known = self.known[usize::from(!verb.of_contended_cycle())].clone();
        let values = known
            .set("client", &member.client)
            .set("id", member.id())
            .set("channel", self.scripts.channel(&member.client));
        // A new acquire has no place yet.
        let values = if script == "acquire" { values.set("ticket", 0).set("seat", "") } else { values };
        self.scripts.call(script, lock, &values, &[member.id()])
    }

    /// What the reply changes. Panics if it is not the one that belongs to the verb.
    pub fn done(&mut self, verb: Verb, reply: &Reply) {
        if self.is_given_back(verb) {
            assert_eq!(*reply, Reply::Number(1), "{}", verb.name());
            return;
        }
        let reply = &reply.unpacked();
        let expected = match verb {
            Verb::Heartbeat => "alive",
            Verb::Enqueue if self.queue.is_empty() => "granted",
            Verb::Enqueue => "queued",
            Verb::Acquire => "granted",
            Verb::Confirm | Verb::Renew => "renewed",
            Verb::HandOff | Verb::Release => "released",
        };
        assert!(matches!(reply, Reply::List(_)) && reply.word() == expected, "{}: {reply:?}", verb.name());
        if verb == Verb::Acquire {
            self.calm = reply.is_calm();
        }
        let known = &mut self.known[usize::from(!verb.of_contended_cycle())];
        // Clients bring back what replies tell them, mostly under the same names. The seat here is that of the holder.
        for pair in reply.list()[1..].chunks_exact(2).filter(|pair| pair[0].text() != "seat") {
            if let Reply::Text(_) | Reply::Number(_) = pair[1] {
                known.put_bytes(pair[0].text(), &pair[1].bytes());
            }
        }
        let mut also = |name, argument| {
            if let Some(value) = reply.field(name) {
                known.put_bytes(argument, &value.bytes());
            }
        };
        also("stamp", "floor");
        also("token", "last_token");
        also("holder_seat", "seat");
        if verb == Verb::HandOff {
            // The message has it; the last stamp is the token of the grant.
            let number = |name| reply.field(name).expect("every reply names it").number() as f64;
            let numbers = ["epoch", "stamp", "stamp"].map(|name| number(name).to_le_bytes()).concat();
            let memory = reply.field("memory").expect("every reply has one").bytes();
            // Since layout 3 a seat ends with the slot, and with how many may hold together.
            let slot_and_most: &[u8] = if memory[0] < 3 { &[] } else { &[0, 0, 1, 0] };
            known.put_bytes("seat", &[&memory[..1], &numbers, slot_and_most].concat());
        }
        match verb {
            Verb::Enqueue => self.queue.extend(self.idle.pop()),
            Verb::HandOff => self.idle.extend(self.queue.pop_front()),
            _ => {}
        }
    }
}
