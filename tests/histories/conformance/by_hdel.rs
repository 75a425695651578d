//! The scene of leases that an HDEL may give back. At each step a client may send `release` instead.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    complaint::Verdict,
    holding::{RELEASES, RENEWS, SOON_RENEWED, WHOLE, granted, is_released, released, took},
    judge::{Judge, OTHERS},
    referee::Asked,
};

const DONE: &str = "`1`: the lease is released, and nobody was granted the lock before.";
const KEPT: &str = "the one of the grant stays, and its `keep_us` counts from the `HDEL`";
const NOTHING: &str = "`0`: nothing was done, because another request has reached the lock, or data was lost. \
                       `release` follows, with the SEAT that it would have had without the `HDEL`.";
const REFUSED: &str = "An error: nothing was executed. `release` follows, as after `0`.";
const NO_ANSWER: &str = "No answer: the `HDEL` may have been executed, so `release` follows as one that is \
                         [repeated](#the-smallest-client): with an empty SEAT, and `unknown` means that the lease \
                         lasted until then.";
const TRIED_AGAIN: &str = "A try or an acquire that is sent between the `HDEL` and the `release` may find the lock held \
                           by the lease that is being given back. If it is answered `busy` then, it is sent again.";

/// What becomes of an HDEL, how the `release` behind it is answered, and what that means.
type Fate = (&'static str, fn(&mut Judge<'_>, &Asked), &'static str, &'static str);

const FATES: [Fate; 4] = [
    (NOTHING, |judge, hdel| judge.removed(hdel, 0), "released", "released"),
    (NOTHING, |judge, hdel| judge.removed(hdel, 0), "unknown", "lost"),
    (REFUSED, |judge, hdel| judge.refuse(hdel, "NOPERM no permissions to run the 'hdel' command"), "unknown", "lost"),
    (NO_ANSWER, |judge, hdel| judge.cut(hdel), "unknown", "released"),
];

pub fn a_release_by_hdel(judge: &mut Judge<'_>) -> Verdict {
    judge.by_hdel = true;
    removed(judge)?;
    for (nth, fate) in FATES.into_iter().enumerate() {
        not_removed(judge, &format!("b{nth}"), fate)?;
    }
    let id = granted(judge, "c", SOON_RENEWED)?;
    let renewal = judge.request("renew", RENEWS)?;
    judge.grants(&renewal, "renewed", &id, WHOLE, false);
    released(judge, "c")?;
    if judge.ledger.terms.can("full") { a_try_before_the_release(judge) } else { Ok(()) }
}

/// The HDEL with which a release begins. None if it is a `release`, which is then answered.
fn begins(judge: &mut Judge<'_>, waiter: &str) -> Verdict<Option<Asked>> {
    judge.tell(&format!("release {waiter}"));
    let asked = judge.request("hdel or release", RELEASES)?;
    if asked.verb == "hdel" { Ok(Some(asked)) } else { is_released(judge, waiter, &asked).map(|()| None) }
}

fn removed(judge: &mut Judge<'_>) -> Verdict {
    let keep = std::mem::replace(&mut judge.keep, Duration::from_millis(100));
    granted(judge, "a", WHOLE)?;
    if let Some(hdel) = begins(judge, "a")? {
        let removed = Instant::now();
        judge.removed(&hdel, 1);
        judge.says("released", "a", DONE)?;
        sleep(judge.keep.saturating_sub(removed.elapsed()));
        judge.tell("try later");
        let asked = judge.request("acquire", KEPT)?;
        judge.must(asked.args[1].is_empty(), KEPT, || "it sends a memory after that".into())?;
        judge.plain(&asked, "busy");
        judge.says("busy", "later", KEPT)?;
    }
    judge.keep = keep;
    Ok(())
}

fn not_removed(judge: &mut Judge<'_>, waiter: &str, (rule, answers, word, said): Fate) -> Verdict {
    granted(judge, waiter, WHOLE)?;
    let Some(hdel) = begins(judge, waiter)? else { return Ok(()) };
    answers(judge, &hdel);
    let early = judge.is_said_first(waiter, "release")?;
    judge.must(!early, rule, || "no `release` follows".into())?;
    let release = judge.request("release", rule)?;
    // The ledger knows which may have one.
    let seat = !release.args[2].is_empty() || rule == NO_ANSWER;
    judge.must(seat, rule, || "that `release` has no seat".into())?;
    judge.plain(&release, word);
    judge.says(said, waiter, rule).map(drop)
}

/// Of a client that has several requests under way under one client id.
fn a_try_before_the_release(judge: &mut Judge<'_>) -> Verdict {
    granted(judge, "d", WHOLE)?;
    let Some(hdel) = begins(judge, "d")? else { return Ok(()) };
    judge.tell("try e");
    // It has most likely been sent by then. Otherwise the server hears of the release first.
    sleep(Duration::from_millis(100));
    judge.removed(&hdel, 0);
    for _ in 0..OTHERS {
        let asked = judge.request("acquire or release", NOTHING)?;
        if asked.verb == "release" {
            judge.plain(&asked, "released");
            break;
        }
        judge.plain(&asked, "busy");
        judge.ledger.asks_again(&asked.text(0));
    }
    judge.by_hdel = false;
    let again = judge.request("acquire", TRIED_AGAIN)?;
    judge.grants(&again, "granted", &again.text(0), WHOLE, false);
    judge.says("released", "d", NOTHING)?;
    took(judge, "e", &again.text(0))?;
    released(judge, "e")
}
