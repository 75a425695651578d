//! The scenes of messages: forged, late, and true ones.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use super::{
    complaint::Verdict,
    holding::{WHOLE, loses, released, took},
    judge::{Judge, OTHERS, answers::ANOTHERS},
    ledger::BELIEVED,
    message::Value,
    waiting::{ASKS_AGAIN, BEATS, CONFIRMS},
};

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
    let stamp = judge.stamp();
    hears_of_grant(judge, stamp, &id, &channel)?;
    let takes = "`grant`: the waiter takes the `seat` with its `epoch`, and [confirms](#waiting).";
    let renewal = judge.request("renew", takes)?;
    let asks = renewal.text(13) == "0" && !judge.has_said("granted");
    judge.must(asks, takes, || "it is handed out before it is confirmed".into())?;
    judge.grants(&renewal, "renewed", &id, WHOLE, false);
    took(judge, "a", &id)?;
    released(judge, "a")
}

/// A grant that overtakes the answer to a heartbeat, and the end of its lease.
fn messages_without_asking(judge: &mut Judge<'_>, id: &str, channel: &str) -> Verdict {
    const BROKEN: &str = "`break` with the `token` of the lease: the lease is lost.";
    let beat = judge.request("heartbeat", BEATS)?;
    let overtaken = judge.packed(&beat, "alive", ANOTHERS, vec![("position", Value::Number(1))]);
    let stamp = judge.stamp();
    hears_of_grant(judge, stamp, id, channel)?;
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

/// A message grants the lock, as if it had been published when this stamp was given. The client may just have connected
/// again, and not have subscribed yet.
pub fn hears_of_grant(judge: &mut Judge<'_>, stamp: u64, id: &str, channel: &str) -> Verdict {
    let mut tries = 0;
    while judge.publish_under(stamp, "grant", id, channel, None) == 0 {
        tries += 1;
        judge.must(tries < 1000, "Subscribe before the first acquire.", || format!("nobody hears {channel}"))?;
        sleep(Duration::from_millis(10));
    }
    Ok(())
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
    let stamp = judge.stamp();
    hears_of_grant(judge, stamp, &id, &channel)?;
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

/// Grants by messages that may be over: from after a loss of data of which no reply has told, and from before a reply.
pub fn doubtful_messages(judge: &mut Judge<'_>) -> Verdict {
    judge.tell("acquire a -");
    let asked = judge.request("acquire", "**Ask**: `acquire` with `room` 2^53.")?;
    let (id, channel) = (asked.text(0), judge.ledger.channel(&asked.text(0)));
    judge.queued(&asked);
    is_alive(judge)?;
    judge.epoch += 1_000_000;
    let stamp = judge.stamp();
    hears_of_grant(judge, stamp, &id, &channel)?;
    is_confirmed_first(judge, &id)?;

    let before = judge.stamp();
    is_alive(judge)?;
    // The next request shows that it has read the answer.
    let beat = judge.request("heartbeat", BEATS)?;
    hears_of_grant(judge, before, &id, &channel)?;
    judge.alive(&beat);
    is_confirmed_first(judge, &id)?;

    is_alive(judge)?;
    let stamp = judge.stamp();
    hears_of_grant(judge, stamp, &id, &channel)?;
    took(judge, "a", &id)?;
    released(judge, "a")
}

fn is_alive(judge: &mut Judge<'_>) -> Verdict {
    let beat = judge.request("heartbeat", BEATS)?;
    judge.alive(&beat);
    Ok(())
}

/// The grant of the last message is not handed out before it is confirmed; it was over, so the waiter asks again.
fn is_confirmed_first(judge: &mut Judge<'_>, id: &str) -> Verdict {
    const UNASKED: &str = "a grant may be handed out at once if its memory has the `epoch` of the memory that the client \
                           has, and its `token` is above the `stamp` of that.";
    let mut others = 0;
    let renewal = loop {
        let asked = judge.any_request(UNASKED)?;
        match &*asked.verb {
            "renew" => break asked,
            // Of a waiter that had not read the message.
            "acquire" => judge.queued(&asked),
            _ => judge.as_before(&asked),
        }
        others += 1;
        judge.must(others < OTHERS, UNASKED, || "it sends other requests instead of `renew`".into())?;
    };
    let asks = renewal.text(13) == "0" && !judge.has_said("granted");
    judge.must(asks, UNASKED, || "it is handed out before it is confirmed".into())?;
    judge.plain(&renewal, "lost");
    judge.ledger.acquires.entry(id.to_owned()).or_default().token = 0;
    let asked = judge.request("acquire", ASKS_AGAIN)?;
    judge.queued(&asked);
    Ok(())
}
