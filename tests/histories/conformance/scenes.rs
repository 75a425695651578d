//! The scenes of a replay. Each is a life of one lock, in a server that does what is hard to wait for at a real one.

use std::time::Duration;

use super::{
    by_hdel::a_release_by_hdel,
    complaint::Verdict,
    holding::{
        SHORT, WHOLE, a_broken_lease, a_deadline, a_free_lock, a_late_connection, a_longer_lease, a_lost_lease,
        answers_that_are_none, no_free_lock, several_holders,
    },
    judge::Judge,
    messages::{an_old_message, doubtful_messages, messages},
    waiting::{a_queue, giving_up, losses_of_data},
};

pub type Scene = fn(&mut Judge<'_>) -> Verdict;

/// Their names, what a client must be able to do for them, the lease that it asks for, and what they do.
pub const SCENES: [(&str, &[&str], Duration, Scene); 16] = [
    ("a free lock", &[], WHOLE, a_free_lock),
    ("no free lock", &[], WHOLE, no_free_lock),
    ("answers that are none", &[], WHOLE, answers_that_are_none),
    ("a deadline", &[], WHOLE, a_deadline),
    ("a lease longer than asked for", &[], SHORT, a_longer_lease),
    ("a late connection", &[], SHORT, a_late_connection),
    ("a lost lease", &[], WHOLE, a_lost_lease),
    ("a broken lease", &[], WHOLE, a_broken_lease),
    ("a release by HDEL", &[], WHOLE, a_release_by_hdel),
    ("a queue", &["waits"], WHOLE, a_queue),
    ("several holders", &["waits", "slots"], WHOLE, several_holders),
    ("losses of data", &["waits"], WHOLE, losses_of_data),
    ("giving up", &["waits"], WHOLE, giving_up),
    ("messages", &["waits", "pushes"], WHOLE, messages),
    ("doubtful messages", &["waits", "pushes", "full"], WHOLE, doubtful_messages),
    ("an old message", &["waits", "pushes", "full"], SHORT, an_old_message),
];
