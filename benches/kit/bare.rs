//! A client that is nothing but a blocking socket and the scripts: what every client of these scripts must cost.

use super::scripts::{Scripts, Template, Values};
use super::wire::{Reply, Wire};

pub const LEASE_US: u64 = 30_000_000;
pub const LIVENESS_US: u64 = 10_000_000;

/// One client at one lock.
pub struct Bare {
    wire: Wire,
    client: String,
    acquires: u64,
    acquire: Template,
    release: Template,
    /// The HDEL of a lock that nobody else wants.
    give_back: Template,
    request: Vec<u8>,
    id: String,
    known: Known,
}

/// What a client was told to send back.
#[derive(Default)]
pub struct Known {
    memory: Vec<u8>,
    /// Of its lease, if it has one.
    seat: Vec<u8>,
    /// Whether an HDEL gives it back.
    calm: bool,
}

impl Known {
    /// Takes in a reply, which must be this word.
    pub fn learn(&mut self, reply: &Reply, expected: &str) {
        let reply = &reply.unpacked();
        assert!(matches!(reply, Reply::List(_)) && reply.word() == expected, "{expected}: {reply:?}");
        self.memory = reply.field("memory").expect("every reply has one").bytes();
        self.seat = reply.field("holder_seat").map(Reply::bytes).unwrap_or_default();
        self.calm = reply.is_calm();
    }

    /// The values of [`CHANGING`] in an acquire, which has no place yet.
    pub fn of_newcomer<'a>(&'a self, id: &'a str) -> [&'a [u8]; 3] {
        [id.as_bytes(), b"", &self.memory]
    }

    /// The same in a release.
    pub fn of_holder<'a>(&'a self, id: &'a str) -> [&'a [u8]; 3] {
        [id.as_bytes(), &self.seat, &self.memory]
    }
}

/// The arguments that differ from call to call.
pub const CHANGING: [&str; 3] = ["id", "seat", "memory"];

/// What a client of default options brings.
pub fn values(client: &str) -> Values {
    Values::default()
        .set("room", 1_u64 << 53)
        .set("lease_us", LEASE_US)
        .set("liveness_us", LIVENESS_US)
        .set("buffer_us", 2_000_000)
        .set("heartbeat_us", LIVENESS_US / 3)
        .set("left_us", LEASE_US)
        .set("secret", "0123456789abcdef")
        .set("label", "worker-17:4242")
        .set("owner", "")
        .set("client", client)
}

impl Bare {
    pub fn connect(port: u16, lock: &str) -> Bare {
        let mut wire = Wire::connect(port);
        let scripts = Scripts::of_this_build("bare", &mut wire);
        let client = format!("{:032x}", fastrand::u128(..));
        wire.command(&["HELLO", "3"]);
        wire.command(&["SUBSCRIBE", &scripts.channel(&client)]);
        let values = values(&client);
        let template = |script| scripts.template(script, lock, &values, &CHANGING);
        let (acquire, release) = (template("acquire"), template("release"));
        let give_back = scripts.give_back(lock);
        let (request, id, known) = (Vec::new(), String::new(), Known::default());
        Bare { wire, client, acquires: 0, acquire, release, give_back, request, id, known }
    }

    /// An acquire that is answered at once: by a grant, or by a place in the queue.
    pub fn acquire(&mut self, expected: &str) {
        self.acquires += 1;
        self.id = format!("{}.{}", self.client, self.acquires);
        self.request.clear();
        self.acquire.fill(&self.known.of_newcomer(&self.id), &mut self.request);
        self.known.learn(&self.wire.call(&self.request), expected);
    }

    /// Waits for the message of a grant.
    pub fn granted(&mut self) {
        let message = self.wire.receive();
        // The kind of message, the channel, and the message.
        let grant = message.list()[2].unpacked();
        assert_eq!((grant.word(), grant.field("id").map(Reply::text)), ("grant", Some(self.id.as_str())), "{grant:?}");
        let told = |name| grant.field(name).expect("every message has it").bytes();
        self.known = Known { memory: told("memory"), seat: told("seat"), calm: false };
    }

    pub fn release(&mut self) {
        self.request.clear();
        if self.known.calm {
            self.give_back.fill(&[format!("@{}", self.id).as_bytes()], &mut self.request);
            if self.wire.call(&self.request) == Reply::Number(1) {
                self.known.seat.clear();
                return;
            }
            // Somebody waits by now.
            self.request.clear();
        }
        self.release.fill(&self.known.of_holder(&self.id), &mut self.request);
        self.known.learn(&self.wire.call(&self.request), "released");
    }

    pub fn cycle(&mut self) {
        self.acquire("granted");
        self.release();
    }
}
