//! Locks that another version of fairlock keeps, in a layout that clients of this version do not know.

use redis::{ConnectionLike, cmd};

use super::state;

/// Its first byte is the version of the layout.
pub const STATE: &[u8] = b"\x63 the state of a later version";
pub const FOUND: &str = "is kept in layout 99, this client knows layout ";

/// Writes a lock with this state, a lease and a waiter.
pub fn write(raw: &mut impl ConnectionLike, name: &str, state: &[u8]) {
    let [lock, waiters] = keys(name);
    let mut both = redis::pipe();
    both.hset_multiple(lock, &[(&b""[..], state), (b"theirs.1", b"a lease"), (b"theirs.2", b"a place")]).ignore();
    both.zadd(waiters, "theirs.2", 1).ignore();
    let () = both.query(raw).expect("a server that takes it");
}

/// Both keys of a lock, as the server dumps them. None: there is no such key.
pub fn dump(raw: &mut impl ConnectionLike, name: &str) -> [Option<Vec<u8>>; 2] {
    keys(name).map(|key| cmd("DUMP").arg(key).query(raw).expect("a dump"))
}

/// Deletes both keys of a lock.
pub fn delete(raw: &mut impl ConnectionLike, name: &str) {
    let () = cmd("DEL").arg(&keys(name)).query(raw).expect("the keys are deleted");
}

fn keys(name: &str) -> [String; 2] {
    [state::key(name), format!("fairlock:{{{name}}}:waiters")]
}
