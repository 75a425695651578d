//! What a server keeps of one lock, read past the library. `lua/README.md` has the layout.

use redis::{ConnectionLike, cmd};

/// Where the numbers begin, behind the version and three marks, and how many there are. Three counters follow.
const NUMBERS: usize = 4;
const COUNT: usize = 21;
const WAITING: usize = 16;
const FIRST_END: usize = 19;
const COUNTERS: usize = NUMBERS + 8 * COUNT;
/// What stands before the id in a lease.
const BEFORE_ID: usize = 28;

/// The packed state of a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    packed: Vec<u8>,
}

impl State {
    /// None: nobody used this lock, or its state has expired.
    pub fn read(raw: &mut impl ConnectionLike, name: &str) -> Option<State> {
        let packed: Option<Vec<u8>> = Self::command(name).query(raw).expect("the state of a lock");
        packed.map(State::unpack)
    }

    /// The command that reads it.
    pub fn command(name: &str) -> redis::Cmd {
        cmd("HGET").arg(key(name)).arg("").clone()
    }

    pub fn unpack(packed: Vec<u8>) -> State {
        assert!(packed.len() >= COUNTERS + 10, "the state of a lock is {} bytes long", packed.len());
        State { packed }
    }

    /// The id that holds slot 0.
    pub fn holder(&self) -> Option<String> {
        let (_tags, rest) = sized(&self.packed[COUNTERS + 6..]);
        let (lease, _) = sized(rest);
        let (id, _) = sized(lease.get(BEFORE_ID..)?);
        Some(String::from_utf8_lossy(id).into_owned())
    }

    /// The last ticket, token or epoch that was given.
    pub fn stamp(&self) -> u64 {
        self.number(0)
    }

    pub fn waiting(&self) -> u64 {
        self.number(WAITING)
    }

    fn number(&self, nth: usize) -> u64 {
        let at = NUMBERS + 8 * nth;
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
    let Some(State { mut packed }) = State::read(raw, name) else { return };
    packed.truncate(NUMBERS + 8 * FIRST_END);
    packed.resize(COUNTERS + 10, 0);
    let _: u64 = cmd("HSET").arg(key(name)).arg("").arg(packed).query(raw).expect("the state is written");
}
