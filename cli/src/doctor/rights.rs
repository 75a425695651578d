//! The rights of this user, one by one. Each is tried with a call that changes nothing, because a server checks rights
//! before anything else. So no right of an administrator is needed, and a rule that forbids a key or a channel is found
//! as well as one that forbids a command.

use fairlock::operator::Answer;

use super::finding::Finding;
use super::node::{Node, PATIENCE, Part};

/// When a right is needed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Need {
    Locks,
    /// Without it locks work, but something is worse.
    Comfort(&'static str),
    Cluster,
    /// From Redis 7 on.
    ShardedMessages,
}

struct Right {
    /// As in an ACL, without the plus.
    name: &'static str,
    call: &'static [&'static str],
    needed: Need,
}

const fn right(name: &'static str, call: &'static [&'static str]) -> Right {
    Right { name, call, needed: Need::Locks }
}

const HISTORY: &str = "a history of grants cannot be recorded or read";

/// For what a client has to know of its connection to end it.
const UNKNOWN_CONNECTION: Need =
    Need::Comfort("a first grant is a short claim until it is confirmed, and --replicas does not work");

/// KEY, QUEUE and CHANNEL stand for names that no lock has: a user may have the key of a lock, and not that of its queue.
/// No call succeeds in a change: keys are missing, or an argument is wrong.
const RIGHTS: [Right; 33] = [
    right("evalsha", &["EVALSHA", "0000000000000000000000000000000000000000", "1", "KEY"]),
    right("eval", &["EVAL", "return 1", "1", "KEY"]),
    right("script|load", &["SCRIPT", "LOAD", "return 1"]),
    right("script|exists", &["SCRIPT", "EXISTS", "0000000000000000000000000000000000000000"]),
    right("time", &["TIME"]),
    right("hget", &["HGET", "KEY", "field"]),
    right("hset", &["HSET", "KEY", "field", "value", "one too many"]),
    right("hdel", &["HDEL", "KEY", "field"]),
    right("zadd", &["ZADD", "QUEUE", "not a number", "member"]),
    right("zrem", &["ZREM", "QUEUE", "member"]),
    right("zcard", &["ZCARD", "QUEUE"]),
    right("zscore", &["ZSCORE", "QUEUE", "member"]),
    right("zrange", &["ZRANGE", "QUEUE", "0", "0"]),
    right("zrank", &["ZRANK", "QUEUE", "member"]),
    right("zrangebyscore", &["ZRANGEBYSCORE", "QUEUE", "0", "0"]),
    right("pexpire", &["PEXPIRE", "KEY", "1000"]),
    right("del", &["DEL", "KEY"]),
    right("exists", &["EXISTS", "KEY"]),
    right("publish", &["PUBLISH", "CHANNEL", "nobody listens"]),
    right("subscribe", &["SUBSCRIBE", "CHANNEL"]),
    Right { name: "info", call: &["INFO", "server"], needed: UNKNOWN_CONNECTION },
    Right { name: "client|id", call: &["CLIENT", "ID"], needed: UNKNOWN_CONNECTION },
    Right {
        name: "client|kill",
        call: &["CLIENT", "KILL", "ID", "9223372036854775807"],
        needed: Need::Comfort(
            "after a lost connection a request may still arrive late, so a first grant is a short claim",
        ),
    },
    Right {
        name: "client|setinfo",
        call: &["CLIENT", "SETINFO", "LIB-NAME", "fairlock"],
        needed: Need::Comfort("each connection leaves an entry in the ACL LOG"),
    },
    Right { name: "wait", call: &["WAIT", "0", "1"], needed: Need::Comfort("--replicas does not work") },
    Right { name: "cluster|slots", call: &["CLUSTER", "SLOTS"], needed: Need::Cluster },
    Right { name: "asking", call: &["ASKING"], needed: Need::Cluster },
    Right { name: "ssubscribe", call: &["SSUBSCRIBE", "CHANNEL"], needed: Need::ShardedMessages },
    Right { name: "spublish", call: &["SPUBLISH", "CHANNEL", "nobody listens"], needed: Need::ShardedMessages },
    Right {
        name: "xadd",
        call: &["XADD", "KEY", "MAXLEN", "no number", "*", "field", "value"],
        needed: Need::Comfort(HISTORY),
    },
    Right { name: "xdel", call: &["XDEL", "KEY", "0-1"], needed: Need::Comfort(HISTORY) },
    Right { name: "xrevrange", call: &["XREVRANGE", "KEY", "+", "-", "COUNT", "1"], needed: Need::Comfort(HISTORY) },
    Right {
        name: "scan",
        call: &["SCAN", "0", "COUNT", "1"],
        needed: Need::Comfort("`status`, `watch` and `exporter` see only locks that they are told by name"),
    },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Allowed,
    NoCommand,
    NoKey,
    NoChannel,
    /// A command that is renamed, or that this version of the server does not know.
    Unknown,
}

pub(crate) fn is_unknown(answer: &Answer) -> bool {
    tried(answer) == Verdict::Unknown
}

fn tried(answer: &Answer) -> Verdict {
    match answer.error() {
        Some(error) if error.starts_with("NOPERM") && error.contains("to run") => Verdict::NoCommand,
        Some(error) if error.starts_with("NOPERM") && error.contains("channel") => Verdict::NoChannel,
        Some(error) if error.starts_with("NOPERM") && error.contains("key") => Verdict::NoKey,
        Some(error) if error.starts_with("NOPERM") => Verdict::NoCommand,
        Some(error) if error.to_lowercase().starts_with("err unknown") => Verdict::Unknown,
        // Whatever else is wrong, such as READONLY or MOVED, the right is there.
        _ => Verdict::Allowed,
    }
}

/// Tries all rights. A replica may become a master, and its rights are its own.
pub(crate) fn check(node: &mut Node, prefix: &str, name: &str, is_cluster: bool) {
    if node.part == Part::Sentinel || node.line.is_none() {
        return;
    }
    let [key, queue] = ["lock", "waiters"].map(|what| format!("{prefix}:{{{name}}}:{what}"));
    let channel = format!("{prefix}:client:{name}");
    // A connection that has subscribed is not used any more.
    let Ok(mut line) = node.place.connect(PATIENCE) else { return };
    let shards = is_cluster && node.major().is_none_or(|major| major >= 7);
    let asked: Vec<&Right> = RIGHTS
        .iter()
        .filter(|right| match right.needed {
            Need::Locks | Need::Comfort(_) => true,
            Need::Cluster => is_cluster,
            Need::ShardedMessages => shards,
        })
        .collect();
    let fill = |word: &&'static str| match *word {
        "KEY" => key.clone(),
        "QUEUE" => queue.clone(),
        "CHANNEL" => channel.clone(),
        word => word.to_owned(),
    };
    let mut results = Vec::new();
    for right in &asked {
        let words: Vec<String> = right.call.iter().map(fill).collect();
        match line.ask(&[words.iter().map(String::as_str).collect()], PATIENCE) {
            Ok(answers) => results.push(answers.first().map_or(Verdict::Allowed, tried)),
            Err(error) => {
                return node
                    .findings
                    .push(Finding::fault("rights", format!("the trial of {} failed: {error}", right.name)));
            }
        }
    }
    let results: Vec<(&Right, Verdict)> = asked.into_iter().zip(results).collect();
    let missing =
        [forbidden(node, &results, prefix), spared(node, &results), unknown(&results), unknown_comfort(&results)];
    let missing: Vec<Finding> = missing.into_iter().flatten().collect();
    if missing.is_empty() {
        let there = results.iter().filter(|(_, tried)| *tried == Verdict::Allowed).count();
        node.findings.push(Finding::good(
            "rights",
            format!("all {there} that fairlock uses, for the keys and channels {prefix}:*"),
        ));
    }
    node.findings.extend(missing);
}

/// What locks need and this user may not do: all of it in one line that gives it.
fn forbidden(node: &Node, results: &[(&Right, Verdict)], prefix: &str) -> Option<Finding> {
    let commands = of(results, Verdict::NoCommand, |right| !matches!(right.needed, Need::Comfort(_)));
    let any = |wanted| results.iter().any(|(_, tried)| *tried == wanted);
    let (mut not, mut rules) = (Vec::new(), rules(&commands));
    if !commands.is_empty() {
        not.push(format!("call {}", names(&commands)));
    }
    for (tried, word, what, sign) in
        [(Verdict::NoKey, "KEY", "keys", '~'), (Verdict::NoChannel, "CHANNEL", "channels", '&')]
    {
        // A command that is forbidden hides whether its key is.
        let is_hidden =
            results.iter().all(|(right, tried)| !right.call.contains(&word) || *tried == Verdict::NoCommand);
        if any(tried) {
            not.push(format!("use the {what} {prefix}:*"));
        }
        if any(tried) || is_hidden && (sign != '&' || node.has_channel_rights()) {
            rules.push(format!("{sign}{prefix}:*"));
        }
    }
    let risk = match &commands[..] {
        [] if !any(Verdict::NoKey) => "no client hears that it is granted a lock",
        _ => "locks cannot be taken, renewed or released",
    };
    let found = format!("this user may not {}", not.join(", nor "));
    (!not.is_empty()).then(|| Finding::fault("rights", found).risk(risk).fix(node.allow(&rules)))
}

/// What makes something better than it is, and this user may not do.
fn spared(node: &Node, results: &[(&Right, Verdict)]) -> Option<Finding> {
    let commands = of(results, Verdict::NoCommand, |right| matches!(right.needed, Need::Comfort(_)));
    let found = format!("this user may not call {}", names(&commands));
    (!commands.is_empty())
        .then(|| Finding::note("rights", found).risk(risks(&commands)).fix(node.allow(&rules(&commands))))
}

/// What a lock needs is switched off. An older server knows fewer commands, and none of those that a lock needs has
/// come since Redis 6.
fn unknown(results: &[(&Right, Verdict)]) -> Option<Finding> {
    let commands = of(results, Verdict::Unknown, |right| !matches!(right.needed, Need::Comfort(_)));
    let fault = Finding::fault("rights", format!("{}: renamed, or switched off", are_unknown(&commands)));
    (!commands.is_empty())
        .then(|| fault.risk("locks cannot be taken, renewed or released").fix(give_back_names(&commands)))
}

/// What makes something better than it is, and is switched off. Servers before 7.2 do not know `CLIENT SETINFO`.
fn unknown_comfort(results: &[(&Right, Verdict)]) -> Option<Finding> {
    let matters = |right: &Right| matches!(right.needed, Need::Comfort(_)) && right.name != "client|setinfo";
    let commands = of(results, Verdict::Unknown, matters);
    let note = Finding::note("rights", format!("{}: renamed, or switched off", are_unknown(&commands)));
    (!commands.is_empty()).then(|| note.risk(risks(&commands)).fix(give_back_names(&commands)))
}

fn are_unknown(rights: &[&Right]) -> String {
    format!("{} {} unknown here", names(rights), if rights.len() == 1 { "is" } else { "are" })
}

/// What is missing without these, each once.
fn risks(rights: &[&Right]) -> String {
    let mut risks = Vec::new();
    for right in rights {
        if let Need::Comfort(risk) = right.needed
            && !risks.contains(&risk)
        {
            risks.push(risk);
        }
    }
    risks.join("; ")
}

fn give_back_names(rights: &[&Right]) -> String {
    let mut commands: Vec<String> =
        rights.iter().map(|right| right.name.split('|').next().unwrap_or_default().to_uppercase()).collect();
    commands.dedup();
    format!("take `rename-command {}` out of redis.conf", commands.join("`, `rename-command "))
}

fn of<'a>(results: &[(&'a Right, Verdict)], wanted: Verdict, is: impl Fn(&Right) -> bool) -> Vec<&'a Right> {
    results.iter().filter(|(right, tried)| *tried == wanted && is(right)).map(|(right, _)| *right).collect()
}

fn names(rights: &[&Right]) -> String {
    rights.iter().map(|right| right.name.replace('|', " ").to_uppercase()).collect::<Vec<_>>().join(", ")
}

fn rules(rights: &[&Right]) -> Vec<String> {
    rights.iter().map(|right| format!("+{}", right.name)).collect()
}
