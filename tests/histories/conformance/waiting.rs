//! The scenes of a client that waits.

use std::time::Duration;

use super::{
    complaint::Verdict,
    holding::{RELEASES, WHOLE, released, took},
    judge::Judge,
    ledger::UNBOUNDED,
    message::Value,
};

const CONFIRMED: &str = "`own_id` is the ID, with `own_claim`: confirm the claim (below).";

pub const CONFIRMS: &str = "`left` 0 makes a whole lease of a claim";
pub const ASKS_AGAIN: &str = "Anything else (`unknown`, `lost`, `alive` without a position, another `epoch`, no answer): ask \
                          again, with the seat.";

const AGAIN: &str = "While a reply to `release` or `leave` has `again`, the client sends it again";
pub const BEATS: &str = "**Heartbeat** when a third of the liveness has passed since it *sent* the last request that was \
                     answered `queued`";

/// A waiter that is granted the lock by a heartbeat, at the second attempt.
pub fn a_queue(judge: &mut Judge<'_>) -> Verdict {
    // Shorter than the time until its next request, and of no concern to a client with a place.
    judge.keep = Duration::from_millis(100);
    judge.tell("acquire a -");
    let asked = judge.request("acquire", "**Ask**: `acquire` with `room` 2^53.")?;
    let id = asked.text(0);
    let room = asked.text(7);
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
        judge.must(confirmation.text(13) == "0", CONFIRMS, || format!("`left` is {}", confirmation.text(13)))?;
        if attempt == 0 {
            judge.plain(&confirmation, "lost");
            let asked = judge.request("acquire", ASKS_AGAIN)?;
            judge.must(!asked.args[2].is_empty(), ASKS_AGAIN, || "it has no seat".into())?;
            judge.queued(&asked);
        } else {
            judge.grants(&confirmation, "renewed", &id, WHOLE, false);
        }
    }
    took(judge, "a", &id)?;
    judge.tell("release a");
    let release = judge.request("release", RELEASES)?;
    judge.answer(&release, "released", Duration::ZERO, vec![("again", Value::Number(1))]);
    let release = judge.request("release", AGAIN)?;
    judge.plain(&release, "unknown");
    judge.says("released", "a", "only the first answer counts").map(drop)
}

/// Two waiters see another epoch, an unknown place, and a server that disbelieves them.
pub fn losses_of_data(judge: &mut Judge<'_>) -> Verdict {
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
                    judge.must(!asked.args[2].is_empty(), rule, || "it has no seat".into())?;
                    missing.retain(|id| *id != asked.text(0));
                    judge.queued(&asked);
                }
                // The ledger expects no seat after `disbelieved`.
                "acquire" if asked.args[2].is_empty() => {
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
pub fn giving_up(judge: &mut Judge<'_>) -> Verdict {
    const GIVES_UP: &str = "`release` with the ID and an empty seat, until it is answered or liveness + buffer have \
                            passed since the last request.";
    let leaves = judge.ledger.terms.can("leaves");
    judge.tell(if leaves { "acquire a -" } else { "acquire a 6000000" });
    let asked = judge.request("acquire", "**Ask**: `acquire` with `room` 2^53.")?;
    let id = asked.text(0);
    judge.cut(&asked);
    let again = judge.request("acquire", ASKS_AGAIN)?;
    judge.must(again.text(0) == id, ASKS_AGAIN, || format!("it asks for {} instead of {id}", again.text(0)))?;
    judge.queued(&again);
    // A late request of this client has taken the lock.
    let beat = judge.request("heartbeat", BEATS)?;
    let unwanted = format!("{}.4294967296", beat.text(0));
    judge.grants(&beat, "alive", &unwanted, WHOLE, false);
    let returned = "If `own_id` names an ID of this client that it does not have or want any more, it sends `release`";
    let release = judge.request("release", returned)?;
    judge.must(release.text(0) == unwanted, returned, || format!("it releases {}", release.text(0)))?;
    judge.must(release.args[2].is_empty(), returned, || "that release has a seat".into())?;
    judge.plain(&release, "released");
    if leaves {
        judge.tell("leave a");
    }
    // By a `leave`, too, which names several IDs.
    let gives_up = |judge: &mut Judge<'_>, rule| {
        let asked = judge.request("leave or release", rule)?;
        let named = asked.text(usize::from(asked.verb == "leave"));
        judge.must(named == id, GIVES_UP, || format!("it gives up {named}"))?;
        let seat = asked.verb == "release" && !asked.args[2].is_empty();
        judge.must(!seat, GIVES_UP, || "that release has a seat".into())?;
        Ok(asked)
    };
    let asked = gives_up(judge, GIVES_UP)?;
    judge.cut(&asked);
    let asked = gives_up(judge, GIVES_UP)?;
    judge.answer(&asked, "left", Duration::ZERO, vec![("again", Value::Number(1))]);
    let asked = gives_up(judge, AGAIN)?;
    judge.plain(&asked, if asked.verb == "leave" { "left" } else { "unknown" });
    let word = if leaves { "left" } else { "timeout" };
    judge.says(word, "a", "**Giving up**, at any moment").map(drop)
}
