//! The scenes of a client that waits.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    complaint::Verdict,
    holding::{RELEASES, WHOLE, loses, released, took},
    judge::{Judge, OTHERS, answers::ANOTHERS},
    ledger::{BELIEVED, UNBOUNDED},
    message::Value,
};

const CONFIRMED: &str = "`own_id` is the ID, with `own_claim`: confirm the claim (below).";

const CONFIRMS: &str = "`left` 0 makes a whole lease of a claim";
const ASKS_AGAIN: &str = "Anything else (`unknown`, `lost`, `alive` without a position, another `epoch`, no answer): ask \
                          again, with the seat.";

const AGAIN: &str = "While a reply to `release` or `leave` has `again`, the client sends it again";
const BEATS: &str = "**Heartbeat** when a third of the liveness has passed since it *sent* the last request that was \
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
    const GIVES_UP: &str = "`leave` with the ID, until it is answered or liveness + buffer have passed since the last \
                            request.";
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
    let leave = judge.request("leave", GIVES_UP)?;
    judge.cut(&leave);
    let leave = judge.request("leave", GIVES_UP)?;
    judge.must(leave.text(1) == id, GIVES_UP, || format!("it leaves with {}", leave.text(1)))?;
    judge.answer(&leave, "left", Duration::ZERO, vec![("again", Value::Number(1))]);
    let leave = judge.request("leave", AGAIN)?;
    judge.plain(&leave, "left");
    let word = if leaves { "left" } else { "timeout" };
    judge.says(word, "a", "**Giving up**, at any moment").map(drop)
}

/// Forged messages, and then a true one.
pub fn messages(judge: &mut Judge<'_>) -> Verdict {
    judge.tell("acquire a -");
    let asked = judge.request("acquire", "**Ask**: `acquire` with `room` 2^53.")?;
    let (id, channel) = (asked.text(0), judge.ledger.channel(&asked.text(0)));
    judge.queued(&asked);
    for forged in
        [("secret", ""), ("secret", "0123456789abcdefghijklmnop"), ("lock", "rep:{other}:lock"), ("id", "x.1")]
    {
        let heard = judge.publish("grant", &id, &channel, Some(forged));
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
    if judge.ledger.terms.can("full") {
        return messages_without_asking(judge, &id, &channel);
    }
    judge.publish("grant", &id, &channel, None);
    let takes = "`grant`: the waiter takes the `seat` with its `epoch`, and [confirms](#waiting).";
    let renewal = judge.request("renew", takes)?;
    judge.grants(&renewal, "renewed", &id, WHOLE, false);
    took(judge, "a", &id)?;
    released(judge, "a")
}

/// A grant that overtakes the answer to a heartbeat, and the end of its lease.
fn messages_without_asking(judge: &mut Judge<'_>, id: &str, channel: &str) -> Verdict {
    const BROKEN: &str = "`break` with the `token` of the lease: the lease is lost.";
    let beat = judge.request("heartbeat", BEATS)?;
    let overtaken = judge.packed(&beat, "alive", ANOTHERS, vec![("position", Value::Number(1))]);
    judge.publish("grant", id, channel, None);
    took(judge, "a", id)?;
    // The ledger expects the memory of the message, which has the higher stamp, from now on.
    judge.ledger.messages_are_read();
    beat.frame(overtaken);
    let renewal = judge.request("renew", "the renewal then goes 100 ms after the grant")?;
    judge.grants(&renewal, "renewed", id, WHOLE, false);
    judge.publish("break", id, channel, Some(("secret", "0123456789abcdefghijklmnop")));
    let believes = judge.believes("a")?;
    judge.must(believes, BELIEVED, || "it believes a forged message".into())?;
    judge.publish("break", id, channel, None);
    loses(judge, id, BROKEN)
}

/// A grant by a message, when a claim would be over that counts from the last answer.
pub fn an_old_message(judge: &mut Judge<'_>) -> Verdict {
    const FIRST: &str = "If its `deadline − notice` has passed, it is confirmed first.";
    judge.tell("acquire a -");
    let asked = judge.request("acquire", "**Ask**: `acquire` with `room` 2^53.")?;
    let (id, channel) = (asked.text(0), judge.ledger.channel(&asked.text(0)));
    judge.queued(&asked);
    judge.silent = true;
    let end = asked.at + Duration::from_micros(judge.ledger.terms.lease);
    while Instant::now() < end {
        sleep(Duration::from_millis(10));
        judge.believes("-")?;
        judge.latest();
    }
    let mut tries = 0;
    while judge.publish("grant", &id, &channel, None) == 0 {
        // It has connected again, and may not have subscribed yet.
        tries += 1;
        judge.must(tries < 1000, "Subscribe before the first acquire.", || format!("nobody hears {channel}"))?;
        sleep(Duration::from_millis(10));
    }
    judge.silent = false;
    let mut others = 0;
    let renewal = loop {
        let asked = judge.any_request(FIRST)?;
        judge.must(!judge.has_said("granted"), FIRST, || "it was handed out before".into())?;
        if asked.verb == "renew" {
            break asked;
        }
        others += 1;
        judge.must(others < OTHERS, FIRST, || "it sends other requests instead of `renew`".into())?;
        // An answer would say that the waiter was alive just now.
        judge.refuse(&asked, "LOADING Redis is loading the dataset in memory");
    };
    judge.must(renewal.text(13) == "0", CONFIRMS, || format!("`left` is {}", renewal.text(13)))?;
    judge.grants(&renewal, "renewed", &id, WHOLE, false);
    took(judge, "a", &id)?;
    released(judge, "a")
}
