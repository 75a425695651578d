//! What a server keeps of one lock, read past the library. `lua/README.md` has the layout.

use redis::{ConnectionLike, cmd};

/// Where the numbers begin, behind the version and four marks, and how many there are.
const NUMBERS: usize = 5;
const COUNT: usize = 22;
const WAITING: usize = 16;
const HOLDER_END: usize = 19;

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
        assert!(packed.len() >= NUMBERS + 8 * COUNT + 2, "the state of a lock is {} bytes long", packed.len());
        State { packed }
    }

    pub fn holder(&self) -> Option<String> {
        let (size, id) = self.packed[NUMBERS + 8 * COUNT..].split_at(2);
        let size = u16::from_le_bytes([size[0], size[1]]);
        let id = String::from_utf8_lossy(&id[..size.into()]).into_owned();
        (!id.is_empty()).then_some(id)
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

/// The key of the state.
pub fn key(name: &str) -> String {
    format!("fairlock:{{{name}}}:lock")
}

/// The server forgets who holds this lock, as none does by itself.
pub fn forget_holder(raw: &mut impl ConnectionLike, name: &str) {
    let Some(State { mut packed }) = State::read(raw, name) else { return };
    packed.truncate(NUMBERS + 8 * HOLDER_END);
    packed.resize(NUMBERS + 8 * COUNT + 2, 0);
    let _: u64 = cmd("HSET").arg(key(name)).arg("").arg(packed).query(raw).expect("the state is written");
}
