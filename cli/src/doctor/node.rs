//! One server that the doctor visits, and what it says of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use fairlock::operator::{Answer, Line, Place};

use super::finding::Finding;
use crate::text::quoted;

/// How long one server may take for one answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The one server of a URL.
    Server,
    Master,
    Replica,
    Sentinel,
}

impl Part {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Part::Server => "server",
            Part::Master => "master",
            Part::Replica => "replica",
            Part::Sentinel => "sentinel",
        }
    }
}

pub(crate) struct Node {
    pub(crate) place: Place,
    pub(crate) part: Part,
    /// Whom this login stands for.
    pub(crate) user: String,
    /// None if it cannot be reached.
    pub(crate) line: Option<Line>,
    pub(crate) info: Fields,
    pub(crate) config: Fields,
    /// The difference of its clock from that of this machine, and how exactly it is known, both in seconds.
    pub(crate) clock: Option<(f64, f64)>,
    /// Round trips, shortest first.
    pub(crate) round_trips: Vec<Duration>,
    pub(crate) findings: Vec<Finding>,
}

/// Settings that matter for locks. Redis 6 takes one in a request.
const SETTINGS: [&str; 7] = [
    "save",
    "appendfsync",
    "stop-writes-on-bgsave-error",
    "min-replicas-to-write",
    "cluster-node-timeout",
    "maxclients",
    "dir",
];

impl Node {
    /// Connects, and asks the server about itself.
    pub(crate) fn visit(place: Place, part: Part, user: &str) -> Self {
        let (info, config) = <(Fields, Fields)>::default();
        let (clock, round_trips) = (None, Vec::new());
        let user = user.to_owned();
        let mut node = Self { place, part, user, line: None, info, config, clock, round_trips, findings: Vec::new() };
        match node.place.connect(PATIENCE) {
            Ok(line) => {
                node.line = Some(line);
                let mut questions = vec![vec!["ACL", "WHOAMI"], vec!["INFO"]];
                questions.extend(SETTINGS.map(|setting| vec!["CONFIG", "GET", setting]));
                let answers = node.ask(&questions);
                // Sentinels have users of their own. A user without rights may not even ask for its name.
                node.user = answers.first().and_then(Answer::text).map_or(node.user, Into::into);
                node.info = Fields::of_info(answers.get(1));
                node.config = Fields::of_config(answers.get(2..).unwrap_or_default());
            }
            Err(error) => node.findings.push(node.out_of_reach(error.to_string())),
        }
        node
    }

    fn out_of_reach(&self, found: String) -> Finding {
        let fault = Finding::fault("reach", found);
        match self.part {
            Part::Sentinel => fault.risk("one sentinel fewer finds the master, and decides who becomes it"),
            Part::Replica => fault.risk("after a failover to it, this machine does not reach the locks"),
            Part::Server | Part::Master => fault.risk("this machine can neither take its locks nor renew them"),
        }
    }

    /// One answer for each command. After a break of the connection there are none, and it is a finding.
    pub(crate) fn ask(&mut self, commands: &[Vec<&str>]) -> Vec<Answer> {
        let Some(line) = &mut self.line else { return Vec::new() };
        match line.ask(commands, PATIENCE) {
            Ok(answers) => answers,
            Err(error) => {
                self.line = None;
                let finding = self.out_of_reach(error.to_string());
                self.findings.push(finding);
                Vec::new()
            }
        }
    }

    /// The answer to a single command; nil after a break.
    pub(crate) fn ask_one(&mut self, command: &[&str]) -> Answer {
        self.ask(&[command.to_vec()]).pop().unwrap_or(Answer::Nil)
    }

    /// A line for a shell that sends this command to this server.
    pub(crate) fn shell(&self, command: &str) -> String {
        let tls = if self.place.is_encrypted() { "--tls " } else { "" };
        match self.host_and_port() {
            Some((host, port)) => format!("redis-cli {tls}-h {host} -p {port} {command}"),
            None => format!("redis-cli -s {} {command}", quoted(&self.place.to_string())),
        }
    }

    /// None if it has a socket.
    pub(crate) fn host_and_port(&self) -> Option<(String, String)> {
        let address = self.place.to_string();
        let (host, port) = address.rsplit_once(':').filter(|_| !address.starts_with('/'))?;
        Some((host.trim_matches(['[', ']']).to_owned(), port.to_owned()))
    }

    /// A line for a shell that gives these rights to this user.
    pub(crate) fn allow(&self, rules: &[String]) -> String {
        // A shell takes some of them for a pipe, a pattern or a job.
        let rules: Vec<String> = rules.iter().map(|rule| quoted(rule)).collect();
        self.shell(&format!("ACL SETUSER {} {}", quoted(&self.user), rules.join(" ")))
    }

    /// Such as "Redis 7.0.15"; None if the server may not be asked.
    pub(crate) fn version(&self) -> Option<String> {
        let valkey = self.info.get("valkey_version").map(|version| format!("Valkey {version}"));
        valkey.or_else(|| Some(format!("Redis {}", self.info.get("redis_version")?)))
    }

    /// Whether channels have rights there: not on Redis 6.0, which refuses a rule for them.
    pub(crate) fn has_channel_rights(&self) -> bool {
        !self.info.get("redis_version").is_some_and(|version| version.starts_with("6.0."))
    }

    /// The major version, as commands know it: Valkey is a Redis 7.
    pub(crate) fn major(&self) -> Option<u32> {
        let own = self.info.get("valkey_version").or(self.info.get("redis_version"))?;
        own.split('.').next()?.parse().ok()
    }
}

/// Names and values.
#[derive(Default)]
pub(crate) struct Fields(BTreeMap<String, String>);

impl Fields {
    fn of_info(answer: Option<&Answer>) -> Self {
        let text = answer.and_then(Answer::text).unwrap_or_default();
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Self(fields.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect())
    }

    fn of_config(answers: &[Answer]) -> Self {
        let pairs = answers.iter().filter_map(|answer| match answer.items() {
            [name, value, ..] => Some((name.text()?.into_owned(), value.text()?.into_owned())),
            _ => None,
        });
        Self(pairs.collect())
    }

    /// Names and values in turn, as sentinels describe a server.
    pub(crate) fn of_pairs(answer: &Answer) -> Self {
        let pairs = answer
            .items()
            .chunks_exact(2)
            .filter_map(|pair| Some((pair[0].text()?.into_owned(), pair[1].text()?.into_owned())));
        Self(pairs.collect())
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
