//! What the ledger says of clients of the full size: the deliberate mistakes are those of a small one.

use std::time::Duration;

use super::{
    complaint::{Complaint, Verdict},
    ledger::{
        ENDS, FORGETS, Ledger, NEWEST, OVER, REPEATED, SEAT, Terms, UNBOUNDED,
        by_hdel::{FLAG, NEWS, NO_SEAT, OWN},
    },
    referee::Asked,
};

const CLIENT: &str = "0123456789abcdefghijkl";
const LEASE: u64 = 12_000_000;

/// A client of the full size, and what it was told last.
struct Full {
    ledger: Ledger,
    seats: u8,
    memories: u8,
}

impl Full {
    fn new() -> Full {
        let can = ["waits", "full"].map(str::to_owned).into();
        let (liveness, buffer, notice) = (9_000_000, 1_000_000, 600_000);
        let terms = Terms { prefix: "rep", lock: "lock", lease: LEASE, liveness, buffer, notice, most: 1, can };
        Full { ledger: Ledger::new(terms), seats: 0, memories: 0 }
    }

    fn asks(&mut self, connection: usize, verb: &str, args: &[&[u8]]) -> Verdict<Asked> {
        let args = args.iter().map(|arg| arg.to_vec()).collect();
        let asked = Asked::of(connection, verb, self.ledger.terms.key(), args);
        self.ledger.check(&asked).map(|()| asked)
    }

    fn acquires(&mut self, connection: usize, as_claim: &str, seat: &[u8]) -> Verdict<Asked> {
        let memory = self.memory();
        let id = format!("{CLIENT}.1");
        let terms = ["9000000", "1000000", "3000000", "12000000", UNBOUNDED, as_claim, "", "", "", "", "1"];
        self.asks(connection, "acquire", &[&[id.as_bytes(), &memory, seat], &terms.map(str::as_bytes)[..]].concat())
    }

    fn renews(&mut self, seat: &[u8], memory: &[u8]) -> Verdict<Asked> {
        let id = format!("{CLIENT}.1");
        let terms = ["9000000", "0", "0", "12000000", "0", "0", "", "", "", "", "5000000", "1"];
        self.asks(1, "renew", &[&[id.as_bytes(), memory, seat], &terms.map(str::as_bytes)[..]].concat())
    }

    fn beats(&mut self, memory: &[u8]) -> Verdict<Asked> {
        let id = format!("{CLIENT}.1");
        self.asks(1, "heartbeat", &[CLIENT.as_bytes(), memory, b"9000000", b"1000000", b"3000000", id.as_bytes()])
    }

    fn releases(&mut self, seat: &[u8]) -> Verdict<Asked> {
        let (id, memory) = (format!("{CLIENT}.1"), self.memory());
        self.asks(1, "release", &[id.as_bytes(), &memory, seat])
    }

    fn removes(&mut self, fields: &[&str]) -> Verdict<Asked> {
        self.asks(1, "hdel", &fields.iter().map(|field| field.as_bytes()).collect::<Vec<_>>())
    }

    fn removes_its_lease(&mut self) -> Verdict<Asked> {
        self.removes(&[&format!("@{CLIENT}.1")])
    }

    /// The answer: another seat and another memory.
    fn is_told(&mut self, asked: &Asked) {
        let id = asked.text(0);
        (self.seats, self.memories) = (self.seats + 1, self.memories + 1);
        self.ledger.seat(&id, Some(asked.connection), vec![b's', self.seats]);
        self.ledger.lease(&id, asked, Duration::from_micros(LEASE));
        self.ledger.acquires.get_mut(&id).unwrap().holds = true;
        self.ledger.remember(asked, "", self.memory());
        self.ledger.answered(asked, "", false);
    }

    fn memory(&self) -> Vec<u8> {
        if self.memories == 0 { Vec::new() } else { vec![b'm', self.memories] }
    }

    /// It holds the lock, with the seat `s1`.
    fn holding() -> Full {
        let mut full = Full::new();
        let asked = full.acquires(1, "1", b"").unwrap();
        full.is_told(&asked);
        full
    }

    /// So it does, and an HDEL may give the lease back.
    fn calm() -> Full {
        let mut full = Full::holding();
        full.ledger.has_flag(&format!("{CLIENT}.1"));
        full
    }
}

fn rule(verdict: Verdict<Asked>) -> &'static str {
    verdict.map_or_else(|Complaint { rule, .. }| rule, |_| "")
}

#[test]
fn full_client_may_have_written_a_release_before_it_reads_the_answer_to_a_renewal() {
    let mut full = Full::holding();
    let renewal = full.renews(&[b's', 1], &[b'm', 1]).unwrap();
    full.is_told(&renewal);
    full.releases(&[b's', 1]).unwrap();
}

#[test]
fn full_client_that_never_takes_another_seat_is_found() {
    let mut full = Full::holding();
    for _ in 0..3 {
        let renewal = full.renews(&[b's', 1], &full.memory()).unwrap();
        full.is_told(&renewal);
    }
    assert_eq!(rule(full.renews(&[b's', 1], &full.memory())), SEAT);
}

#[test]
fn full_client_that_never_takes_another_memory_is_found() {
    let mut full = Full::holding();
    for seat in 1..4 {
        let renewal = full.renews(&[b's', seat], &[b'm', 1]).unwrap();
        full.is_told(&renewal);
    }
    assert_eq!(rule(full.renews(&[b's', 4], &[b'm', 1])), NEWEST);
}

#[test]
fn full_client_with_a_place_or_a_lease_keeps_its_memory() {
    let waiting = || {
        let mut full = Full::new();
        let asked = full.acquires(1, "1", b"").unwrap();
        full.is_told(&asked);
        full.ledger.acquires.get_mut(&format!("{CLIENT}.1")).unwrap().ticket = 1;
        full
    };
    assert_eq!(rule(waiting().beats(&[b'm', 1])), "");
    assert_eq!(rule(waiting().beats(b"")), FORGETS);
    assert_eq!(rule(waiting().renews(&[b's', 1], b"")), FORGETS);
    // It may have written this one before it read the answer.
    assert_eq!(rule(Full { memories: 0, ..waiting() }.acquires(1, "1", b"")), "");
}

#[test]
fn full_client_without_claims_ends_a_connection_that_broke() {
    for (answered, kills, as_claim, found) in
        [(false, false, "0", ENDS), (false, true, "0", ""), (false, false, "1", ""), (true, false, "0", "")]
    {
        let mut full = Full::new();
        let asked = full.acquires(1, "0", b"").unwrap();
        if answered {
            full.is_told(&asked);
        }
        if kills {
            full.ledger.killed(1);
        }
        let seat: &[u8] = if answered { &[b's', 1] } else { b"" };
        assert_eq!(rule(full.acquires(2, as_claim, seat)), found, "{answered} {kills} {as_claim}");
    }
}

/// A client of the full size may have written the release before it read NOSCRIPT.
#[test]
fn small_client_sends_no_acquire_after_its_release_not_even_by_its_text() {
    for (full, found) in [(true, ""), (false, OVER)] {
        let mut client = Full::new();
        if !full {
            client.ledger.terms.can.remove("full");
        }
        let mut asked = client.acquires(1, "1", b"").unwrap();
        client.ledger.refused(&asked, "NOSCRIPT No matching script.");
        client.asks(2, "release", &[&asked.args[0], b"", b""]).unwrap();
        asked.by_text = true;
        assert_eq!(rule(client.ledger.check(&asked).map(|()| asked)), found);
    }
}

#[test]
fn full_client_releases_a_lease_by_an_hdel_or_by_the_script() {
    Full::calm().removes_its_lease().unwrap();
    Full::calm().releases(&[b's', 1]).unwrap();
    assert_eq!(rule(Full::holding().removes_its_lease()), FLAG);
}

#[test]
fn full_client_removes_nothing_but_the_entry_of_its_lease() {
    let own = format!("@{CLIENT}.1");
    for fields in [&[&own[1..]][..], &[&own, "x"], &["@0123456789abcdefghijkm.1"], &[]] {
        assert_eq!(rule(Full::calm().removes(fields)), OWN, "{fields:?}");
    }
    let mut full = Full::calm();
    let asked = Asked::of(1, "hdel", "rep:{lock}:waiters".into(), vec![own.into_bytes()]);
    assert_eq!(rule(full.ledger.check(&asked).map(|()| asked)), OWN);
}

#[test]
fn full_client_that_knows_of_another_request_sends_no_hdel() {
    let mut full = Full::calm();
    full.renews(&[b's', 1], &[b'm', 1]).unwrap();
    assert_eq!(rule(full.removes_its_lease()), NEWS, "its own renewal");

    // It may have written the HDEL before it read the last answers, but not before it read all of them.
    for (others, found) in [(1, ""), (3, NEWS)] {
        let mut full = Full::calm();
        for _ in 0..others {
            let other = format!("{CLIENT}.7");
            let asked = full.asks(1, "release", &[other.as_bytes(), &full.memory(), b""]).unwrap();
            full.memories += 1;
            full.ledger.remember(&asked, "", full.memory());
        }
        assert_eq!(rule(full.removes_its_lease()), found, "{others}");
    }

    let mut full = Full::calm();
    full.ledger.lost(&format!("{CLIENT}.1"));
    assert_eq!(rule(full.removes_its_lease()), NO_SEAT, "the lease is lost");
}

#[test]
fn full_client_sends_no_request_between_an_hdel_and_its_answer_but_a_release_without_a_seat() {
    let hdel = || {
        let mut full = Full::calm();
        full.removes_its_lease().unwrap();
        full
    };
    assert_eq!(rule(hdel().releases(b"")), "");
    assert_eq!(rule(hdel().releases(&[b's', 1])), REPEATED);
    assert_eq!(rule(hdel().removes_its_lease()), NO_SEAT);
    assert_eq!(rule(hdel().renews(&[b's', 1], &[b'm', 1])), OVER);
}

#[test]
fn full_client_whose_hdel_did_nothing_sends_the_release_that_it_would_have_sent() {
    for refused in [false, true] {
        let after = || {
            let mut full = Full::calm();
            let asked = full.removes_its_lease().unwrap();
            if refused {
                full.ledger.refused(&asked, "NOPERM");
            } else {
                full.ledger.removed(&asked, 0);
            }
            full
        };
        assert_eq!(rule(after().releases(&[b's', 1])), "");
        assert_eq!(rule(after().removes_its_lease()), NEWS);
    }
    let mut full = Full::calm();
    let asked = full.removes_its_lease().unwrap();
    full.ledger.removed(&asked, 1);
    assert_eq!(rule(full.releases(&[b's', 1])), REPEATED);
}
