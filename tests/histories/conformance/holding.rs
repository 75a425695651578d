//! The scenes of a holder, and steps of all scenes.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    complaint::Verdict, judge::Judge, ledger::NO_WORD, message::Value, messages::hears_of_grant, referee::Asked,
};

const GRANTED: &str = "the fencing token is `own_token`";
const TAKEN: &str = "`own_id` is the ID, without `own_claim`: the lock is granted";
pub const RENEWS: &str =
    "**Renew** whenever a third of LEASE has passed since the last request that was answered with the lease";
const SLOT: &str = "two bytes each: the slot of the lease, and `most`";
pub const RELEASES: &str =
    "**Release**: `release CLIENT.N MEMORY SEAT` until it is answered or the deadline has passed.";
const RELEASED: &str = "`released` says that the lease lasted until then, and so does `unknown` to a request that was \
                        repeated.";
const LOST: &str = "`lost` or `broken`: the lease is lost.";
const COUNTED: &str = "**A deadline counts from before the request was sent.**";
const AT_MOST: &str = "the shorter of own_left_us and the lease_us that was asked for";
const AT_MOST_OF_SMALLEST: &str = "With LASTS, the shorter of `own_left_us` and LEASE";
const UNRENEWED: &str = "a lease that could not be renewed is lost a notice before its deadline";
const REPEATS: &str = "An error or no answer: send it again until the deadline.";
const LEFT: &str = "what is left of the lease by the client's clock";
const NOSCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

/// Its first renewal is due soon, and there is much time until it ends.
pub const SOON_RENEWED: Duration = Duration::from_millis(40_300);
/// So long that no machine is too busy for a renewal in time.
pub const WHOLE: Duration = Duration::from_secs(60);
/// For scenes that await the end of a whole lease, and that of a claim.
pub const SHORT: Duration = Duration::from_secs(4);

/// Grants the lock to a try, until its driver says so. The id.
pub fn granted(judge: &mut Judge<'_>, waiter: &str, left: Duration) -> Verdict<String> {
    judge.tell(&format!("try {waiter}"));
    let asked = judge.request("acquire", "It tries, renews and releases")?;
    judge.grants(&asked, "granted", &asked.text(0), left, false);
    took(judge, waiter, &asked.text(0))?;
    Ok(asked.text(0))
}

pub fn took(judge: &mut Judge<'_>, waiter: &str, id: &str) -> Verdict {
    let said = judge.says("granted", waiter, TAKEN)?;
    let token = judge.ledger.acquires[id].token;
    judge.must(said[2] == token.to_string(), GRANTED, || format!("the driver says {said:?}, and not {token}"))?;
    let place = judge.ledger.acquires[id].ticket.to_string();
    let right = said[3] == place || judge.ledger.acquires[id].room == "0";
    judge.must(right, "the `ticket` is its place", || format!("the driver says {said:?}, and not {place}"))?;
    let slot = judge.ledger.acquires[id].slot.to_string();
    let right = !judge.ledger.terms.can("slots") || said.get(4) == Some(&slot);
    judge.must(right, SLOT, || format!("the driver says {said:?}, and not slot {slot}"))
}

/// Others hold the lock too: the client is in slot 2 from the answer to a try, and in slot 1 from a claim, or from a
/// message without asking.
pub fn several_holders(judge: &mut Judge<'_>) -> Verdict {
    judge.tell("try a");
    let asked = judge.request("acquire", "It tries, renews and releases")?;
    let first = asked.text(0);
    judge.in_slot(&first, 2);
    judge.grants(&asked, "granted", &first, SOON_RENEWED, false);
    took(judge, "a", &first)?;
    let renewal = judge.request("renew", RENEWS)?;
    judge.grants(&renewal, "renewed", &first, WHOLE, false);
    judge.tell("held a");
    let said = judge.says("held", "a", SLOT)?;
    judge.must(said.get(2).is_some_and(|slot| slot == "2"), SLOT, || format!("the driver says {said:?}"))?;

    judge.tell("acquire b -");
    let asked = judge.request("acquire", "**Ask**: `acquire` with `room` 2^53.")?;
    let second = asked.text(0);
    judge.queued(&asked);
    let beat = judge.request("heartbeat", "**Heartbeat** when a third of the liveness has passed")?;
    judge.in_slot(&second, 1);
    if judge.ledger.terms.can("full") && judge.ledger.terms.can("pushes") {
        judge.alive(&beat);
        let (stamp, channel) = (judge.stamp(), judge.ledger.channel(&second));
        hears_of_grant(judge, stamp, &second, &channel)?;
    } else {
        judge.grants(&beat, "alive", &second, WHOLE, true);
    }
    if !judge.ledger.terms.can("full") {
        let renewal = judge.request("renew", "`own_id` is the ID, with `own_claim`: confirm the claim")?;
        judge.grants(&renewal, "renewed", &second, WHOLE, false);
    }
    took(judge, "b", &second)?;
    released(judge, "a")?;
    released(judge, "b")
}

pub fn released(judge: &mut Judge<'_>, waiter: &str) -> Verdict {
    judge.tell(&format!("release {waiter}"));
    let asked = judge.request("release", RELEASES)?;
    is_released(judge, waiter, &asked)
}

/// By its first `release`.
pub fn is_released(judge: &mut Judge<'_>, waiter: &str, asked: &Asked) -> Verdict {
    judge.must(!asked.args[2].is_empty(), RELEASES, || "its first release has no seat".into())?;
    judge.plain(asked, "released");
    judge.says("released", waiter, RELEASED).map(drop)
}

pub fn a_free_lock(judge: &mut Judge<'_>) -> Verdict {
    const BY_TEXT: &str = "After an error that begins with `NOSCRIPT`, send `EVAL TEXT 1 …`";
    judge.tell("try a");
    let asked = judge.request("acquire", "It tries, renews and releases")?;
    judge.must(asked.text(7) == "0", "`0` only to try", || format!("the `room` of a try is {}", asked.text(7)))?;
    judge.refuse(&asked, NOSCRIPT);
    let asked = judge.request("acquire", BY_TEXT)?;
    judge.grants(&asked, "granted", &asked.text(0), SOON_RENEWED, false);
    took(judge, "a", &asked.text(0))?;
    let renewal = judge.request("renew", RENEWS)?;
    judge.refuse(&renewal, NOSCRIPT);
    let renewal = judge.request("renew", BY_TEXT)?;
    judge.grants(&renewal, "renewed", &asked.text(0), SOON_RENEWED, false);
    // The second one shows what it has taken from the answer to the first.
    let renewal = judge.request("renew", RENEWS)?;
    judge.refuse(&renewal, "LOADING Redis is loading the dataset in memory");
    let renewal = judge.request("renew", REPEATS)?;
    judge.tell("release a");
    // A client that does not wait for the answer to a renewal has most likely sent its release by then.
    sleep(Duration::from_millis(100));
    judge.grants(&renewal, "renewed", &asked.text(0), WHOLE, false);
    let release = judge.request("release", RELEASES)?;
    judge.must(!release.args[2].is_empty(), RELEASES, || "its first release has no seat".into())?;
    judge.ignore(release);
    let release = judge.request("release", RELEASES)?;
    judge.keep = Duration::from_millis(100);
    let asked = Instant::now();
    judge.plain(&release, "unknown");
    judge.says("released", "a", RELEASED)?;
    sleep(judge.keep.saturating_sub(asked.elapsed()));
    judge.tell("try b");
    let forgets = "`keep_us` after the last answered request was sent, a client without a lease or a \
                   place empties its memory.";
    let asked = judge.request("acquire", "with a new N each time")?;
    judge.must(asked.args[1].is_empty(), forgets, || "it sends a memory after that".into())?;
    judge.plain(&asked, "busy");
    judge.says("busy", "b", "`busy`: somebody else has the lock or waits for it.").map(drop)
}

pub fn no_free_lock(judge: &mut Judge<'_>) -> Verdict {
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

/// A connection that breaks, an unknown word, and a word without what it promises, instead of an answer to a renewal.
pub fn answers_that_are_none(judge: &mut Judge<'_>) -> Verdict {
    const ITSELF: &str = "The client library must not repeat a request by itself.";
    const REFUSED: &str =
        "An unknown word, or a reply that lacks what its word promises, is a temporary refusal (see [Errors](#errors))";
    let id = granted(judge, "a", SOON_RENEWED)?;
    let renewal = judge.request("renew", RENEWS)?;
    // Longer than a step of a coarse clock.
    sleep(Duration::from_millis(50));
    judge.cut(&renewal);
    let again = judge.request("renew", REPEATS)?;
    let [before, left] = [&renewal, &again].map(|renewal| renewal.text(13).parse().unwrap_or(u64::MAX));
    // It is nearly all: half of it is for machines that are busy.
    let of_lease = u128::from(before) >= SOON_RENEWED.as_micros() / 2;
    judge.must(of_lease, LEFT, || format!("`left` is {before}"))?;
    judge.must(left < before, ITSELF, || format!("`left_us` was {before} in the request that broke, and is {left}"))?;
    judge.answer(&again, NO_WORD, WHOLE, Vec::new());
    let renewal = judge.request("renew", REFUSED)?;
    judge.answer_lacks_all(&renewal, "renewed");
    let renewal = judge.request("renew", REFUSED)?;
    let believes = judge.believes("a")?;
    judge.must(believes, REFUSED, || "the client no longer believes in its lease".into())?;
    judge.grants(&renewal, "renewed", &id, WHOLE, false);
    released(judge, "a")
}

pub fn a_deadline(judge: &mut Judge<'_>) -> Verdict {
    lasts(judge, Duration::from_millis(3500), Duration::from_secs(1), COUNTED)
}

pub fn a_longer_lease(judge: &mut Judge<'_>) -> Verdict {
    let rule = if judge.ledger.terms.can("waits") { AT_MOST } else { AT_MOST_OF_SMALLEST };
    lasts(judge, Duration::from_secs(60), Duration::ZERO, rule)
}

/// The answer to a request comes late, so the deadline is sooner than it seems. Nothing is answered after that but the
/// last renewal, when it is too late. (On a busy machine there may be none.)
fn lasts(judge: &mut Judge<'_>, told: Duration, late: Duration, rule: &'static str) -> Verdict {
    judge.tell("try a");
    let (asked, id) = loop {
        let asked = judge.request("acquire", "It tries, renews and releases")?;
        sleep(late);
        let id = asked.text(0);
        judge.grants(&asked, "granted", &id, told, false);
        // A busy machine may have taken the rest of its patience. Then it asks again.
        if judge.is_said_first("a", "acquire")? {
            break (asked, id);
        }
    };
    took(judge, "a", &id)?;
    let mut renewal = None;
    judge.silent = true;
    let lease = Duration::from_micros(judge.ledger.terms.lease);
    let left = told.min(lease);
    let notice = notice_of(judge, left);
    // A thread that declares it lost may come late, and half of the notice is left for that.
    let end = asked.at + left.mul_f64(0.995) - notice / 2;
    while Instant::now() < end {
        // It is repeated over another connection.
        sleep(Duration::from_millis(10).min(end.saturating_duration_since(Instant::now())));
        judge.believes("a")?;
        renewal = judge.latest().or(renewal);
    }
    let believes = judge.believes("a")?;
    judge.must(!believes, rule, || "the client still believes in a lease that is over".into())?;
    renewal.into_iter().for_each(|renewal| judge.grants(&renewal, "renewed", &id, lease, false));
    let read = Instant::now();
    while read.elapsed() < Duration::from_millis(100) {
        let final_ = "a no is not taken back by a reply that is read later";
        let believes = judge.believes("a")?;
        judge.must(!believes, final_, || "the client believes in its lease again".into())?;
    }
    judge.silent = false;
    judge.ledger.overdue(&id, notice);
    judge.tell("release a");
    judge.says("lost", "a", UNRENEWED).map(drop)
}

/// Of a lease that lasts for so long. The smallest client has none.
fn notice_of(judge: &Judge<'_>, left: Duration) -> Duration {
    let terms = &judge.ledger.terms;
    let whole = Duration::from_micros(if terms.can("waits") { terms.notice } else { 0 });
    whole.mul_f64(left.as_secs_f64() / Duration::from_micros(terms.lease).as_secs_f64())
}

/// The connection breaks, and the client has no other one until the lease is lost. The renewal that it wanted to repeat is
/// not sent over it then. (On a busy machine there may be none.)
pub fn a_late_connection(judge: &mut Judge<'_>) -> Verdict {
    let id = granted(judge, "a", SHORT)?;
    let (gate, start) = (judge.gate.clone(), Instant::now());
    let closed = gate.lock();
    judge.silent = true;
    loop {
        let asked = start.elapsed();
        if !judge.believes("a")? {
            break;
        }
        judge.must(asked < SHORT, COUNTED, || "the client still believes in its lease".into())?;
        judge.latest().into_iter().for_each(|renewal| judge.cut(&renewal));
        sleep(Duration::from_millis(10));
    }
    judge.ledger.overdue(&id, notice_of(judge, SHORT));
    judge.silent = false;
    // A deadline is half a percent before the end: what is built from now on tells that less than the notice is left.
    sleep(SHORT / 50);
    judge.tell("release a");
    drop(closed);
    judge.says("lost", "a", UNRENEWED).map(drop)
}

pub fn a_lost_lease(judge: &mut Judge<'_>) -> Verdict {
    ended(judge, "lost")
}

pub fn a_broken_lease(judge: &mut Judge<'_>) -> Verdict {
    ended(judge, "broken")
}

fn ended(judge: &mut Judge<'_>, word: &str) -> Verdict {
    let id = granted(judge, "a", SOON_RENEWED)?;
    let renewal = judge.request("renew", RENEWS)?;
    judge.ledger.lost(&id);
    judge.answer(&renewal, word, SOON_RENEWED, Vec::new());
    // Another renewal would be a complaint.
    loses(judge, &id, LOST)?;
    // The lock can be had again.
    let id = granted(judge, "b", WHOLE)?;
    judge.must(judge.ledger.acquires[&id].room == "0", "`0` only to try", || "its `room` is not 0".into())?;
    released(judge, "b")
}

/// The client hears that it has lost the lease of `a`, and says so.
pub fn loses(judge: &mut Judge<'_>, id: &str, rule: &'static str) -> Verdict {
    let mut answers = 0;
    while judge.believes("a")? {
        answers += 1;
        judge.must(answers < 100, rule, || "the client still believes in its lease".into())?;
        sleep(Duration::from_millis(10));
    }
    judge.ledger.lost(id);
    judge.tell("release a");
    judge.says("lost", "a", rule).map(drop)
}
