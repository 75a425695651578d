//! The scenes of a replay. Each is a life of one lock, in a server that does what is hard to wait for at a real one.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    complaint::Verdict,
    judge::Judge,
    ledger::{BELIEVED, UNBOUNDED},
    message::Value,
};

pub type Scene = fn(&mut Judge<'_>) -> Verdict;

/// Their names, what a client must be able to do for them, and what they do.
pub const SCENES: [(&str, &[&str], Scene); 9] = [
    ("a free lock", &[], a_free_lock),
    ("no free lock", &[], no_free_lock),
    ("a deadline", &[], a_deadline),
    ("a lost lease", &[], a_lost_lease),
    ("a broken lease", &[], a_broken_lease),
    ("a queue", &["waits"], a_queue),
    ("losses of data", &["waits"], losses_of_data),
    ("giving up", &["waits"], giving_up),
    ("messages", &["waits", "pushes"], messages),
];

const GRANTED: &str = "the fencing token is `holder_token`";
const TAKEN: &str = "`holder` is the ID, without `holder_claim`: the lock is granted";
const CONFIRMED: &str = "`holder` is the ID, with `holder_claim`: confirm the claim (below).";
const RENEWS: &str =
    "**Renew** whenever a third of LEASE has passed since the last request that was answered with the lease";
const RELEASES: &str = "**Release**: `release CLIENT.N SEAT MEMORY` until it is answered or the deadline has passed.";
const RELEASED: &str = "`released` says that the lease lasted until then, and so does `unknown` to a request that was \
                        repeated.";
const ASKS_AGAIN: &str = "Anything else (`unknown`, `lost`, `alive` without a rank, another `epoch`, no answer): ask \
                          again, with the seat.";
const BEATS: &str = "**Heartbeat** when a third of the liveness has passed since it *sent* the last request that was \
                     answered `queued`";
const LOST: &str = "Any other word: the lease is lost.";
const NOSCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// Its first renewal is due at once, and there is much time until it ends.
const SOON_RENEWED: Duration = Duration::from_millis(8100);
const WHOLE: Duration = Duration::from_secs(12);

/// Grants the lock to a try, until its driver says so. The id.
fn granted(judge: &mut Judge<'_>, waiter: &str, left: Duration) -> Verdict<String> {
    judge.tell(&format!("try {waiter}"));
    let asked = judge.request("acquire", "It tries, renews and releases")?;
    judge.grants(&asked, "granted", &asked.text(0), left, false);
    took(judge, waiter, &asked.text(0))?;
    Ok(asked.text(0))
}

fn took(judge: &mut Judge<'_>, waiter: &str, id: &str) -> Verdict {
    let said = judge.says("granted", waiter, TAKEN)?;
    let token = judge.ledger.acquires[id].token;
    judge.must(said[2] == token.to_string(), GRANTED, || format!("the driver says {said:?}, and not {token}"))?;
    let place = judge.ledger.acquires[id].ticket.to_string();
    let right = said[3] == place || judge.ledger.acquires[id].room == "0";
    judge.must(right, "the `ticket` is its place", || format!("the driver says {said:?}, and not {place}"))
}

fn released(judge: &mut Judge<'_>, waiter: &str) -> Verdict {
    judge.tell(&format!("release {waiter}"));
    let asked = judge.request("release", RELEASES)?;
    judge.must(!asked.args[1].is_empty(), RELEASES, || "its first release has no seat".into())?;
    judge.plain(&asked, "released");
    judge.says("released", waiter, RELEASED).map(drop)
}

fn a_free_lock(judge: &mut Judge<'_>) -> Verdict {
    const REPEATS: &str = "After an error that begins with `NOSCRIPT`, send `EVAL TEXT 2 …`";
    judge.tell("try a");
    let asked = judge.request("acquire", "It tries, renews and releases")?;
    judge.must(asked.text(1) == "0", "`0` only to try", || format!("the `room` of a try is {}", asked.text(1)))?;
    judge.refuse(&asked, NOSCRIPT);
    let asked = judge.request("acquire", REPEATS)?;
    judge.grants(&asked, "granted", &asked.text(0), SOON_RENEWED, false);
    took(judge, "a", &asked.text(0))?;
    let renewal = judge.request("renew", RENEWS)?;
    judge.refuse(&renewal, NOSCRIPT);
    let renewal = judge.request("renew", REPEATS)?;
    judge.grants(&renewal, "renewed", &asked.text(0), SOON_RENEWED, false);
    // The second one shows what it has taken from the answer to the first.
    let renewal = judge.request("renew", RENEWS)?;
    judge.refuse(&renewal, "LOADING Redis is loading the dataset in memory");
    let renewal = judge.request("renew", "An error or no answer: send it again until the deadline.")?;
    judge.grants(&renewal, "renewed", &asked.text(0), WHOLE, false);
    judge.tell("release a");
    let release = judge.request("release", RELEASES)?;
    judge.must(!release.args[1].is_empty(), RELEASES, || "its first release has no seat".into())?;
    drop(release);
    let release = judge.request("release", RELEASES)?;
    judge.keep = Duration::from_millis(100);
    let asked = Instant::now();
    judge.plain(&release, "unknown");
    judge.says("released", "a", RELEASED)?;
    sleep(judge.keep.saturating_sub(asked.elapsed()));
    judge.tell("try b");
    let forgets = "`keep_us` after the last answered request was sent, a client without a lease empties its memory.";
    let asked = judge.request("acquire", "with a new N each time")?;
    judge.must(asked.args[11].is_empty(), forgets, || "it sends a memory after that".into())?;
    judge.plain(&asked, "busy");
    judge.says("busy", "b", "`busy`: somebody else has the lock or waits for it.").map(drop)
}

fn no_free_lock(judge: &mut Judge<'_>) -> Verdict {
    const BUSY: &str = "`busy`: somebody else has the lock or waits for it.";
    for waiter in ["a", "b"] {
        judge.tell(&format!("try {waiter}"));
        let asked = judge.request("acquire", "with a new N each time")?;
        judge.plain(&asked, "busy");
        judge.says("busy", waiter, BUSY)?;
    }
    judge.tell("try c");
    let asked = judge.request("acquire", "with a new N each time")?;
    judge.answer(&asked, "busy", WHOLE, vec![("again", Value::Number(1))]);
    let asked = judge.request("acquire", "If the reply has `again`, try again.")?;
    judge.plain(&asked, "disbelieved");
    let asked = judge.request("acquire", "`disbelieved`: try again, with the memory of this reply.")?;
    judge.grants(&asked, "granted", &asked.text(0), WHOLE, false);
    took(judge, "c", &asked.text(0))?;
    released(judge, "c")
}

/// The answer to a request comes late, so the deadline is sooner than it seems. Nothing is answered after that but the
/// last renewal, when it is too late. (On a busy machine there may be none.)
fn a_deadline(judge: &mut Judge<'_>) -> Verdict {
    const LEFT: Duration = Duration::from_millis(3500);
    const LATE: Duration = Duration::from_secs(1);
    judge.tell("try a");
    let (asked, id) = loop {
        let asked = judge.request("acquire", "It tries, renews and releases")?;
        sleep(LATE);
        let id = asked.text(0);
        judge.grants(&asked, "granted", &id, LEFT, false);
        // A busy machine may have taken the rest of its patience. Then it asks again.
        if judge.is_said_first("a")? {
            break (asked, id);
        }
    };
    took(judge, "a", &id)?;
    let mut renewal = None;
    judge.silent = true;
    let whole = judge.ledger.terms.can("waits");
    let notice = if whole { judge.ledger.terms.notice } else { 0 } * LEFT.as_micros() as u64 / WHOLE.as_micros() as u64;
    let end = asked.at + LEFT.mul_f64(0.995) - Duration::from_micros(notice);
    while Instant::now() < end {
        // It is repeated over another connection.
        sleep(Duration::from_millis(10).min(end.saturating_duration_since(Instant::now())));
        judge.believes("a")?;
        renewal = judge.latest().or(renewal);
    }
    let counted = "**A deadline counts from before the request was sent.**";
    let believes = judge.believes("a")?;
    judge.must(!believes, counted, || "the client still believes in a lease that is over".into())?;
    renewal.into_iter().for_each(|renewal| judge.grants(&renewal, "renewed", &id, WHOLE, false));
    let read = Instant::now();
    while read.elapsed() < Duration::from_millis(100) {
        let final_ = "a no is not taken back by a reply that is read later";
        let believes = judge.believes("a")?;
        judge.must(!believes, final_, || "the client believes in its lease again".into())?;
    }
    judge.silent = false;
    judge.ledger.lost(&id);
    judge.tell("release a");
    judge.says("lost", "a", "a lease that could not be renewed is lost a notice before its deadline").map(drop)
}

fn a_lost_lease(judge: &mut Judge<'_>) -> Verdict {
    ended(judge, "lost")
}

fn a_broken_lease(judge: &mut Judge<'_>) -> Verdict {
    ended(judge, "broken")
}

fn ended(judge: &mut Judge<'_>, word: &str) -> Verdict {
    let id = granted(judge, "a", SOON_RENEWED)?;
    let renewal = judge.request("renew", RENEWS)?;
    judge.ledger.lost(&id);
    judge.answer(&renewal, word, SOON_RENEWED, Vec::new());
    // Another renewal would be a complaint.
    let mut answers = 0;
    while judge.believes("a")? {
        answers += 1;
        judge.must(answers < 100, LOST, || "the client still believes in its lease".into())?;
        sleep(Duration::from_millis(10));
    }
    judge.tell("release a");
    judge.says("lost", "a", LOST)?;
    // The lock can be had again.
    let id = granted(judge, "b", WHOLE)?;
    judge.must(judge.ledger.acquires[&id].room == "0", "`0` only to try", || "its `room` is not 0".into())?;
    released(judge, "b")
}

/// A waiter that is granted the lock by a heartbeat, at the second attempt.
fn a_queue(judge: &mut Judge<'_>) -> Verdict {
    judge.tell("acquire a -");
    let asked = judge.request("acquire", "**Ask**: `acquire` with `room` 2^53.")?;
    let id = asked.text(0);
    let room = asked.text(1);
    judge.must(room == UNBOUNDED, "**Ask**: `acquire` with `room` 2^53.", || format!("its `room` is {room}"))?;
    judge.queued(&asked);
    let beat = judge.request("heartbeat", BEATS)?;
    judge.alive(&beat);
    for attempt in 0..2 {
        let beat = judge.request("heartbeat", BEATS)?;
        judge.grants(&beat, "alive", &id, WHOLE, true);
        if judge.ledger.terms.can("full") {
            break;
        }
        let confirmation = judge.request("renew", CONFIRMED)?;
        let early = judge.has_said("granted");
        judge.must(!early, CONFIRMED, || "the claim was handed out before".into())?;
        let left = "`left_us` 0 makes a whole lease of a claim";
        judge.must(confirmation.text(3) == "0", left, || format!("`left_us` is {}", confirmation.text(3)))?;
        if attempt == 0 {
            judge.plain(&confirmation, "lost");
            let asked = judge.request("acquire", ASKS_AGAIN)?;
            judge.must(!asked.args[12].is_empty(), ASKS_AGAIN, || "it has no seat".into())?;
            judge.queued(&asked);
        } else {
            judge.grants(&confirmation, "renewed", &id, WHOLE, false);
        }
    }
    took(judge, "a", &id)?;
    released(judge, "a")
}

/// Two waiters see another epoch, an unknown place, and a server that disbelieves them.
fn losses_of_data(judge: &mut Judge<'_>) -> Verdict {
    let mut ids = Vec::new();
    for waiter in ["a", "b"] {
        judge.tell(&format!("acquire {waiter} -"));
        let asked = judge.request("acquire", "**Ask**: `acquire` with `room` 2^53.")?;
        ids.push(asked.text(0));
        judge.queued(&asked);
    }
    for (word, rule) in [
        ("alive", ASKS_AGAIN),
        ("unknown", ASKS_AGAIN),
        ("disbelieved", "`disbelieved`: drop the seat (not the memory that this reply gives) and ask again."),
    ] {
        if word == "alive" {
            judge.epoch += 1_000_000;
        }
        let (mut missing, mut requests) = (ids.clone(), 0);
        while !missing.is_empty() {
            requests += 1;
            judge.must(requests < 20, rule, || format!("{missing:?} does not ask again"))?;
            let asked = judge.any_request(rule)?;
            match &*asked.verb {
                "acquire" if word != "disbelieved" => {
                    judge.must(!asked.args[12].is_empty(), rule, || "it has no seat".into())?;
                    missing.retain(|id| *id != asked.text(0));
                    judge.queued(&asked);
                }
                // The ledger expects no seat after `disbelieved`.
                "acquire" if asked.args[12].is_empty() => {
                    missing.retain(|id| *id != asked.text(0));
                    judge.queued(&asked);
                }
                "acquire" => judge.plain(&asked, "disbelieved"),
                "heartbeat" if word == "alive" => judge.alive(&asked),
                "heartbeat" => judge.plain(&asked, "unknown"),
                _ => judge.as_before(&asked),
            }
        }
    }
    for (waiter, id) in ["a", "b"].into_iter().zip(ids) {
        // The other waiter may have another client id, which is not told of this grant.
        let beat = loop {
            let beat = judge.request("heartbeat", BEATS)?;
            if id.starts_with(&beat.text(0)) {
                break beat;
            }
            judge.as_before(&beat);
        };
        judge.grants(&beat, "alive", &id, WHOLE, false);
        took(judge, waiter, &id)?;
        released(judge, waiter)?;
    }
    Ok(())
}

/// A waiter whose requests are lost with its connections gives up.
fn giving_up(judge: &mut Judge<'_>) -> Verdict {
    const GIVES_UP: &str = "`leave` with the ID, until it is answered or liveness + buffer have passed since the last \
                            request.";
    let leaves = judge.ledger.terms.can("leaves");
    judge.tell(if leaves { "acquire a -" } else { "acquire a 6000000" });
    let asked = judge.request("acquire", "**Ask**: `acquire` with `room` 2^53.")?;
    let id = asked.text(0);
    asked.cut();
    let again = judge.request("acquire", ASKS_AGAIN)?;
    judge.must(again.text(0) == id, ASKS_AGAIN, || format!("it asks for {} instead of {id}", again.text(0)))?;
    judge.queued(&again);
    // A late request of this client has taken the lock.
    let beat = judge.request("heartbeat", BEATS)?;
    let unwanted = format!("{}.4294967296", beat.text(0));
    judge.grants(&beat, "alive", &unwanted, WHOLE, false);
    let returned = "If `holder` names an ID of this client that it does not have or want any more, it sends `release`";
    let release = judge.request("release", returned)?;
    judge.must(release.text(0) == unwanted, returned, || format!("it releases {}", release.text(0)))?;
    judge.must(release.args[1].is_empty(), returned, || "that release has a seat".into())?;
    judge.plain(&release, "released");
    if leaves {
        judge.tell("leave a");
    }
    let leave = judge.request("leave", GIVES_UP)?;
    leave.cut();
    let leave = judge.request("leave", GIVES_UP)?;
    judge.must(leave.text(1) == id, GIVES_UP, || format!("it leaves with {}", leave.text(1)))?;
    judge.plain(&leave, "left");
    let word = if leaves { "left" } else { "timeout" };
    judge.says(word, "a", "**Giving up**, at any moment").map(drop)
}

/// Forged messages, and then a true one.
fn messages(judge: &mut Judge<'_>) -> Verdict {
    judge.tell("acquire a -");
    let asked = judge.request("acquire", "**Ask**: `acquire` with `room` 2^53.")?;
    let (id, channel) = (asked.text(0), asked.text(7));
    judge.queued(&asked);
    for forged in
        [("secret", ""), ("secret", "0123456789abcdefghijklmnop"), ("lock", "rep:{other}:lock"), ("id", "x.1")]
    {
        let heard = judge.publish(&id, &channel, Some(forged));
        judge.must(heard == 1, "Subscribe before the first acquire.", || {
            format!("{heard} connections hear {channel}")
        })?;
    }
    for _ in 0..3 {
        // The ledger knows the forged seats.
        let beat = judge.request("heartbeat", BEATS)?;
        judge.must(!judge.has_said("granted"), BELIEVED, || "it hands out what a forged message grants".into())?;
        judge.alive(&beat);
    }
    judge.publish(&id, &channel, None);
    if !judge.ledger.terms.can("full") {
        let takes = "`grant`: the waiter takes the `seat` with its `epoch`, and [confirms](#waiting).";
        let renewal = judge.request("renew", takes)?;
        judge.grants(&renewal, "renewed", &id, WHOLE, false);
    }
    took(judge, "a", &id)?;
    released(judge, "a")
}
