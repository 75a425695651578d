//! The requests, as they are written.

use std::time::Duration;

use serde::Deserialize;

use crate::faults::{Act, Target};

/// The number of what was started.
pub(super) type Id = u64;

#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Request {
    Server(Setup),
    Replica(Of),
    Kill(Of),
    Shutdown(Of),
    Restart(Of),
    Stop(Of),
    Cont(Of),
    Flush(Of),
    AwaitCopies {
        of: Id,
        replicas: u64,
        #[serde(default)]
        key: String,
    },
    NothingLeft(Of),
    Clock {},
    Step {
        of: Id,
        seconds: f64,
        #[serde(default)]
        seen_by: Vec<Id>,
    },
    Certificates {
        host: String,
    },
    Proxy {
        of: Id,
        #[serde(default)]
        tcp: bool,
    },
    Fault(Strike),
    AwaitStruck(Of),
    Struck(Of),
    Lift(Of),
    Heal(Of),
    Refuse(Of),
    Cut(Of),
    Abandon(Of),
    LeadTo {
        of: Id,
        to: Id,
    },
    Counts(Of),
    Sentinels(SentinelsSetup),
    Cluster(ClusterSetup),
    Master {
        of: Id,
        key: Option<String>,
    },
    FailOver(Of),
    AwaitPromotion {
        of: Id,
        key: Option<String>,
        old: Id,
    },
    AwaitReplica {
        of: Id,
        server: Id,
    },
    Migrate {
        of: Id,
        key: String,
        to: Option<Id>,
        keys: Option<usize>,
    },
    End(Of),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Of {
    pub(super) of: Id,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Setup {
    pub(super) tcp: bool,
    pub(super) password: Option<String>,
    pub(super) appendonly: bool,
    pub(super) config: Vec<String>,
    pub(super) arguments: Vec<String>,
    pub(super) clock: Option<Id>,
    pub(super) certificates: Option<Id>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SentinelsSetup {
    pub(super) replicas: Option<usize>,
    pub(super) down_after_ms: Option<u64>,
    pub(super) password: Option<String>,
    pub(super) config: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ClusterSetup {
    pub(super) replicas: bool,
    pub(super) node_timeout_ms: Option<u64>,
    pub(super) node: Setup,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Strike {
    pub(super) of: Id,
    side: Side,
    #[serde(default)]
    word: String,
    #[serde(default)]
    command: bool,
    act: What,
    pub(super) times: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Side {
    Request,
    Reply,
    Push,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    Hold,
    Swallow,
    DelayMs(u64),
    Cut(usize),
    CutAfter(usize),
    Answer(String),
    Repeat(usize),
}

impl Strike {
    pub(super) fn target(&self) -> Target {
        let target = match self.side {
            Side::Request => Target::request(&self.word),
            Side::Reply => Target::reply(&self.word),
            Side::Push => Target::push(&self.word),
        };
        if self.command { target.command() } else { target }
    }

    pub(super) fn act(&self) -> Act {
        match &self.act {
            What::Hold => Act::Hold,
            What::Swallow => Act::Swallow,
            What::DelayMs(time) => Act::Delay(Duration::from_millis(*time)),
            What::Cut(bytes) => Act::Cut(*bytes),
            What::CutAfter(bytes) => Act::CutAfter(*bytes),
            // The tests write it once, and this process ends with them.
            What::Answer(error) => Act::Answer(error.clone().leak()),
            What::Repeat(times) => Act::Repeat(*times),
        }
    }
}
