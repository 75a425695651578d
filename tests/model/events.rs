//! What may happen to one lock and its clients, and how often a random case has each of it.

use proptest::prelude::*;
use serde::{Deserialize, Serialize};

use super::Terms;
use super::walk::{What, what};

pub(super) const SECOND: u64 = 1_000_000;
pub(super) const HOUR: u64 = 3600 * SECOND;
/// Clients that are up at the same time.
pub(super) const CLIENTS: usize = 5;

/// How many may hold together, as the clients of a lock ask one after the other: exclusive locks, semaphores, readers and
/// writers, and clients that disagree.
const KINDS: [&[u16]; 7] = [&[1], &[1], &[1], &[2, 2, 2], &[1, 1000, 1000], &[2, 3, 3], &[1000, 1, 1]];

/// The terms of a client, as they are written down.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct Wanted {
    lease: u64,
    liveness: u64,
    buffer: u64,
    heartbeat: u64,
    #[serde(default = "alone")]
    most: u16,
}

fn alone() -> u16 {
    1
}

impl From<Wanted> for Terms {
    fn from(Wanted { lease, liveness, buffer, heartbeat, most }: Wanted) -> Self {
        Terms { lease, liveness, buffer, heartbeat, most }
    }
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Case {
    pub terms: Vec<Wanted>,
    /// How many dead heads one script looks at. A small limit is reached often.
    pub batch: usize,
    pub ops: Vec<Op>,
    /// Whether all who are left then get what they wait for.
    pub drain: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Op {
    Ask {
        who: usize,
        what: What,
        fate: Fate,
    },
    /// An earlier request arrives (again). Requests are counted back from the latest.
    Late(usize),
    Pass(Pass),
    /// The server's clock is set.
    Step(i64),
    /// A client takes over the terms of another, but for the heartbeat.
    Reconsider {
        who: usize,
        like: usize,
    },
    /// The server's memory is full, or is so no longer.
    Full(bool),
    /// A process dies, and another takes its place.
    Die(usize),
    /// A process stops to be heard of, and one that had stopped goes on in its place.
    Pause(usize),
    /// Every client that is up does what is to be done.
    Settle,
    Delete(usize),
    FlushScripts,
    FlushAll,
    Save,
    Restore(usize),
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub enum Fate {
    Answered,
    Twice,
    ReplyLost,
    /// The reply and the pushes are lost.
    AllLost,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Pass {
    Micros(u64),
    Heartbeats(u64),
    /// Time passes until a moment that matters, or a little before or after it.
    To(Moment, i64),
    Outage(u64),
}

/// What ends at a moment that matters.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[allow(clippy::enum_variant_names)] // Each is an end of something else.
pub enum Moment {
    Lease,
    Session(usize),
    Recovery,
}

fn pass() -> impl Strategy<Value = Pass> {
    let moment = prop_oneof![
        3 => Just(Moment::Lease),
        3 => (0..6usize).prop_map(Moment::Session),
        2 => Just(Moment::Recovery),
    ];
    prop_oneof![
        6 => (0..3_000u64).prop_map(Pass::Micros),
        6 => (1..3u64).prop_map(Pass::Heartbeats),
        6 => (moment, prop_oneof![-1..=1i64, -2_000_000..2_000_000i64]).prop_map(|(moment, by)| Pass::To(moment, by)),
        1 => (SECOND..2 * HOUR).prop_map(Pass::Outage),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let fate = prop_oneof![
        12 => Just(Fate::Answered),
        2 => Just(Fate::Twice),
        2 => Just(Fate::ReplyLost),
        1 => Just(Fate::AllLost),
    ];
    let hours = |count: i64| -count * HOUR as i64..count * HOUR as i64;
    let step = prop_oneof![1 => hours(50), 3 => hours(2), 2 => -5_000_000..5_000_000i64, 1 => -20..20i64];
    prop_oneof![
        600 => (0..CLIENTS, what(), fate).prop_map(|(who, what, fate)| Op::Ask { who, what, fate }),
        60 => prop_oneof![0..4usize, 0..200usize].prop_map(Op::Late),
        220 => pass().prop_map(Op::Pass),
        12 => step.prop_map(Op::Step),
        8 => (0..CLIENTS, 0..CLIENTS).prop_map(|(who, like)| Op::Reconsider { who, like }),
        8 => prop::bool::weighted(0.1).prop_map(Op::Full),
        12 => (0..CLIENTS).prop_map(Op::Die),
        12 => (0..CLIENTS).prop_map(Op::Pause),
        20 => Just(Op::Settle),
        10 => (0..2usize).prop_map(Op::Delete),
        3 => Just(Op::FlushScripts),
        3 => Just(Op::FlushAll),
        8 => Just(Op::Save),
        4 => (0..3usize).prop_map(Op::Restore),
    ]
}

/// One turn of a client at a lock for which hardly anybody waits. At times something else happens before it or meanwhile.
fn quiet_turn() -> impl Strategy<Value = Vec<Op>> {
    let fate = || prop_oneof![12 => Just(Fate::Answered), 1 => Just(Fate::Twice), 1 => Just(Fate::ReplyLost)];
    let acquire = (any::<bool>(), prop::bool::weighted(0.2));
    let acquire = acquire.prop_map(|(wait, claim)| What::Acquire { wait, claim, most: 0 });
    let loss = prop_oneof![3 => Just(Op::Save), 3 => (0..2usize).prop_map(Op::Restore), 1 => Just(Op::FlushAll)];
    let event = prop_oneof![4 => op(), 2 => loss, 1 => (-9_000..9_000i64).prop_map(Op::Step)];
    let meanwhile = (prop::option::weighted(0.12, event), any::<bool>(), 1..3_000u64);
    (0..3usize, (acquire, fate()), meanwhile, fate()).prop_map(|(who, (acquire, taken), (event, before, by), given)| {
        let take = Op::Ask { who, what: acquire, fate: taken };
        let give = Op::Ask { who, what: What::Release(0), fate: given };
        let pass = || Op::Pass(Pass::Micros(by));
        let (first, then) = if before { (event, None) } else { (None, event) };
        [first, Some(take), Some(pass()), then, Some(give), Some(pass()), Some(Op::Settle)]
            .into_iter()
            .flatten()
            .collect()
    })
}

/// A case of such turns.
pub fn quiet_case() -> impl Strategy<Value = Case> {
    let turns = prop::collection::vec(quiet_turn(), 15..25);
    (case(100), turns).prop_map(|(case, turns)| Case { ops: turns.concat(), drain: false, ..case })
}

/// Everything that may happen to one lock, of which one script looks at `batch` dead heads.
pub fn case(batch: usize) -> impl Strategy<Value = Case> {
    let terms = (prop::sample::select(vec![3, 10, 30, 60]), prop::sample::select(vec![2, 4, 10]), 1..3u64).prop_map(
        |(lease, liveness, buffer)| Wanted {
            lease: lease * SECOND,
            liveness: liveness * SECOND,
            buffer: buffer * SECOND,
            heartbeat: liveness * SECOND / 3,
            most: alone(),
        },
    );
    let terms = prop::collection::vec(terms, CLIENTS);
    let ops = prop::collection::vec(op(), 1..400);
    (terms, prop::sample::select(&KINDS[..]), ops, any::<bool>()).prop_map(move |(mut terms, kind, ops, drain)| {
        terms.iter_mut().zip(kind.iter().cycle()).for_each(|(terms, most)| terms.most = *most);
        Case { terms, batch, ops, drain }
    })
}
