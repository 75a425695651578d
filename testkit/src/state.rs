//! What a server keeps of one lock, read past the library. `lua/README.md` has the layout.

use redis::{ConnectionLike, cmd};

/// Where the numbers begin, behind the version and two marks, and how many there are. Four counters follow.
const NUMBERS: usize = 3;
const COUNT: usize = 23;
const WAITING: usize = 18;
const FIRST_END: usize = 21;
const COUNTERS: usize = NUMBERS + 8 * COUNT;
/// What stands before the id in a lease.
const BEFORE_ID: usize = 28;
/// In the state of a calm lock: where its numbers begin, of which the second is the stamp, and where the field of the
/// last holder is named.
const CALM_NUMBERS: usize = 2;
const TAKEN: usize = CALM_NUMBERS + 8 * 9;

/// The packed state of a lock, and who holds slot 0. A calm lock names the last holder, who may be gone.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    packed: Vec<u8>,
    holder: Option<String>,
}

impl State {
    /// None: nobody used this lock, or its state has expired.
    pub fn read(raw: &mut impl ConnectionLike, name: &str) -> Option<State> {
        let packed: Option<Vec<u8>> = Self::command(name).query(raw).expect("the state of a lock");
        let mut state = State::unpack(packed?);
        if state.is_calm() {
            let mut is_there = |id: &String| {
                cmd("HEXISTS").arg(key(name)).arg(format!("@{id}")).query(raw).expect("the entry of a holder")
            };
            state.holder = state.holder.filter(|id| is_there(id));
        }
        Some(state)
    }

    /// The command that reads it.
    pub fn command(name: &str) -> redis::Cmd {
        cmd("HGET").arg(key(name)).arg("").clone()
    }

    pub fn unpack(packed: Vec<u8>) -> State {
        let mut state = State { packed, holder: None };
        let (packed, is_calm) = (&state.packed, state.is_calm());
        assert!(
            packed.len() >= if is_calm { TAKEN + 2 } else { COUNTERS + 12 },
            "the state has {} bytes",
            packed.len()
        );
        let id = if is_calm {
            sized(&packed[TAKEN..]).0.get(1..)
        } else {
            let (_tags, rest) = sized(&packed[COUNTERS + 8..]);
            sized(rest).0.get(BEFORE_ID..).map(|lease| sized(lease).0)
        };
        state.holder = id.map(|id| String::from_utf8_lossy(id).into_owned());
        state
    }

    fn is_calm(&self) -> bool {
        self.packed[1] == 1
    }

    /// The id that holds slot 0.
    pub fn holder(&self) -> Option<String> {
        self.holder.clone()
    }

    /// The last ticket, token or epoch that was given.
    pub fn stamp(&self) -> u64 {
        self.number(if self.is_calm() { CALM_NUMBERS + 8 } else { NUMBERS })
    }

    pub fn waiting(&self) -> u64 {
        if self.is_calm() { 0 } else { self.number(NUMBERS + 8 * WAITING) }
    }

    fn number(&self, at: usize) -> u64 {
        f64::from_le_bytes(self.packed[at..at + 8].try_into().expect("eight bytes")) as u64
    }
}

/// A text with its length before it, and what follows.
fn sized(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (size, rest) = bytes.split_at(2);
    rest.split_at(u16::from_le_bytes([size[0], size[1]]).into())
}

/// The key of the state.
pub fn key(name: &str) -> String {
    format!("fairlock:{{{name}}}:lock")
}

/// The server forgets who holds this lock, as none does by itself.
pub fn forget_holder(raw: &mut impl ConnectionLike, name: &str) {
    let Some(State { mut packed, holder }) = State::read(raw, name) else { return };
    if packed[1] == 1 {
        let field = format!("@{}", holder.unwrap_or_default());
        let _: u64 = cmd("HDEL").arg(key(name)).arg(field).query(raw).expect("the entry is removed");
        return;
    }
    packed.truncate(NUMBERS + 8 * FIRST_END);
    packed.resize(COUNTERS + 12, 0);
    let _: u64 = cmd("HSET").arg(key(name)).arg("").arg(packed).query(raw).expect("the state is written");
}
