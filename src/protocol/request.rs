//! A typed request for each script.

use std::sync::Arc;
use std::time::Duration;

use super::keys::LockKeys;

/// What the server keeps for a waiter or holder besides its options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct About {
    /// The scripts repeat it in messages to this waiter or holder, so nobody else can make one up.
    pub(crate) secret: Arc<str>,
    /// For people.
    pub(crate) label: Arc<str>,
    pub(crate) owner: Arc<str>,
}

/// One request to one lock.
#[derive(Debug, Clone, Hash)]
pub(crate) enum Call {
    Acquire {
        keys: Arc<LockKeys>,
        id: String,
        wait: bool,
        claim: bool,
        lease: Duration,
        liveness: Duration,
        buffer: Duration,
        heartbeat: Duration,
        about: About,
        ticket: u64,
        epoch: u64,
        floor: u64,
        longest: Duration,
        last_token: u64,
        pace: Duration,
    },
    Heartbeat {
        keys: Arc<LockKeys>,
        client: Arc<str>,
        liveness: Duration,
        buffer: Duration,
        heartbeat: Duration,
        ids: Vec<String>,
    },
    Renew {
        keys: Arc<LockKeys>,
        id: String,
        token: u64,
        lease: Duration,
        liveness: Duration,
        about: About,
        epoch: u64,
        floor: u64,
        left: Duration,
        pace: Duration,
    },
    Release {
        keys: Arc<LockKeys>,
        id: String,
        token: u64,
        liveness: Duration,
        epoch: u64,
        floor: u64,
        longest: Duration,
        last_token: u64,
        pace: Duration,
    },
    Leave {
        keys: Arc<LockKeys>,
        ids: Vec<String>,
    },
    Inspect {
        keys: Arc<LockKeys>,
        after: u64,
        count: u32,
    },
    Break {
        keys: Arc<LockKeys>,
        token: u64,
        force: bool,
    },
}

impl Call {
    /// Which script this runs.
    pub(crate) fn script(&self) -> usize {
        match self {
            Call::Acquire { .. } => 0,
            Call::Heartbeat { .. } => 1,
            Call::Renew { .. } => 2,
            Call::Release { .. } => 3,
            Call::Leave { .. } => 4,
            Call::Inspect { .. } => 5,
            Call::Break { .. } => 6,
        }
    }

    pub(crate) fn keys(&self) -> &Arc<LockKeys> {
        match self {
            Call::Acquire { keys, .. }
            | Call::Heartbeat { keys, .. }
            | Call::Renew { keys, .. }
            | Call::Release { keys, .. }
            | Call::Leave { keys, .. }
            | Call::Inspect { keys, .. }
            | Call::Break { keys, .. } => keys,
        }
    }

    /// The arguments in the order in which the script names them, each under that name. A grant on behalf of this client
    /// is published to `channel`.
    pub(crate) fn arguments(&self, channel: &str, mut put: impl FnMut(&'static str, &[u8])) {
        let mut digits = itoa::Buffer::new();
        let mut number =
            |put: &mut dyn FnMut(&'static str, &[u8]), name, value: u64| put(name, digits.format(value).as_bytes());
        let flag = |value: bool| u64::from(value);
        match self {
            Call::Acquire {
                id,
                wait,
                claim,
                lease,
                liveness,
                buffer,
                heartbeat,
                about,
                ticket,
                epoch,
                floor,
                longest,
                last_token,
                pace,
                ..
            } => {
                put("id", id.as_bytes());
                number(&mut put, "wait", flag(*wait));
                number(&mut put, "claim", flag(*claim));
                number(&mut put, "lease_us", us(*lease));
                number(&mut put, "liveness_us", us(*liveness));
                number(&mut put, "buffer_us", us(*buffer));
                number(&mut put, "heartbeat_us", us(*heartbeat));
                put("channel", channel.as_bytes());
                put("secret", about.secret.as_bytes());
                put("label", about.label.as_bytes());
                put("owner", about.owner.as_bytes());
                number(&mut put, "ticket", *ticket);
                number(&mut put, "epoch", *epoch);
                number(&mut put, "floor", *floor);
                number(&mut put, "longest_us", us(*longest));
                number(&mut put, "last_token", *last_token);
                number(&mut put, "pace_us", us(*pace));
            }
            Call::Heartbeat { client, liveness, buffer, heartbeat, ids, .. } => {
                put("client", client.as_bytes());
                number(&mut put, "liveness_us", us(*liveness));
                number(&mut put, "buffer_us", us(*buffer));
                number(&mut put, "heartbeat_us", us(*heartbeat));
                ids.iter().for_each(|id| put("ids...", id.as_bytes()));
            }
            Call::Renew { id, token, lease, liveness, about, epoch, floor, left, pace, .. } => {
                put("id", id.as_bytes());
                number(&mut put, "token", *token);
                number(&mut put, "lease_us", us(*lease));
                number(&mut put, "liveness_us", us(*liveness));
                put("channel", channel.as_bytes());
                put("secret", about.secret.as_bytes());
                put("label", about.label.as_bytes());
                put("owner", about.owner.as_bytes());
                number(&mut put, "epoch", *epoch);
                number(&mut put, "floor", *floor);
                number(&mut put, "left_us", us(*left));
                number(&mut put, "pace_us", us(*pace));
            }
            Call::Release { id, token, liveness, epoch, floor, longest, last_token, pace, .. } => {
                put("id", id.as_bytes());
                number(&mut put, "token", *token);
                number(&mut put, "liveness_us", us(*liveness));
                number(&mut put, "epoch", *epoch);
                number(&mut put, "floor", *floor);
                number(&mut put, "longest_us", us(*longest));
                number(&mut put, "last_token", *last_token);
                number(&mut put, "pace_us", us(*pace));
            }
            Call::Leave { ids, .. } => ids.iter().for_each(|id| put("ids...", id.as_bytes())),
            Call::Inspect { after, count, .. } => {
                number(&mut put, "after", *after);
                number(&mut put, "count", u64::from(*count));
            }
            Call::Break { token, force, .. } => {
                number(&mut put, "token", *token);
                number(&mut put, "force", flag(*force));
            }
        }
    }
}

fn us(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

/// One of each, in the order of [`Call::script`].
#[cfg(test)]
pub(super) fn every_call() -> Vec<Call> {
    let keys = Arc::new(LockKeys::new("fairlock", "n"));
    let about = About { secret: "s".into(), label: "l".into(), owner: "o".into() };
    let (id, second) = (String::from("c.1"), Duration::from_secs(1));
    vec![
        Call::Acquire {
            keys: keys.clone(),
            id: id.clone(),
            wait: true,
            claim: false,
            lease: second,
            liveness: second,
            buffer: second,
            heartbeat: second,
            about: about.clone(),
            ticket: 1,
            epoch: 1,
            floor: 1,
            longest: second,
            last_token: 1,
            pace: second,
        },
        Call::Heartbeat {
            keys: keys.clone(),
            client: "c".into(),
            liveness: second,
            buffer: second,
            heartbeat: second,
            ids: vec![id.clone()],
        },
        Call::Renew {
            keys: keys.clone(),
            id: id.clone(),
            token: 1,
            lease: second,
            liveness: second,
            about,
            epoch: 1,
            floor: 1,
            left: second,
            pace: second,
        },
        Call::Release {
            keys: keys.clone(),
            id: id.clone(),
            token: 1,
            liveness: second,
            epoch: 1,
            floor: 1,
            longest: second,
            last_token: 1,
            pace: second,
        },
        Call::Leave { keys: keys.clone(), ids: vec![id] },
        Call::Inspect { keys: keys.clone(), after: 0, count: 1 },
        Call::Break { keys, token: 1, force: false },
    ]
}
