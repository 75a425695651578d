//! The scripts, and a typed call for each. A contract test holds header, body and call together.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::Cmd;

use super::keys::LockKeys;

/// One script as it is sent to the server.
pub(crate) struct Source {
    #[cfg_attr(not(any(test, feature = "__test-hooks")), allow(dead_code))]
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
}

macro_rules! files {
    ($($name:literal)*) => { [$(($name, include_str!(concat!("../../lua/", $name, ".lua")))),*] };
}

/// The scripts in the order of [`Call::script`], then the parts that they include.
const FILES: [(&str, &str); 20] = files![
    "acquire" "heartbeat" "renew" "release" "leave" "inspect" "break"
    "lib/begin" "lib/keys" "lib/time" "lib/found" "lib/clock" "lib/plan"
    "lib/restore" "lib/cut_short" "lib/refresh" "lib/give_up" "lib/promote" "lib/commit" "lib/answer"
];

/// All scripts; [`Call::script`] is the index of the one that a call runs.
pub(crate) static SCRIPTS: LazyLock<[Source; 7]> = LazyLock::new(|| {
    std::array::from_fn(|index| {
        let name = FILES[index].0;
        Source { name, text: assemble(name, &|_, text| text.to_owned()).leak() }
    })
});

/// The text of a script, with its parts in the places of the lines `-- include NAME`, each as `read` makes it of the file.
///
/// Parts are text and no functions: a function would be made anew on every run, and so would a box for every variable
/// that it shares with others.
pub(crate) fn assemble(file: &str, read: &dyn Fn(&str, &str) -> String) -> String {
    // A test assembles all of them.
    let (_, text) = FILES.iter().find(|(name, _)| *name == file).unwrap_or_else(|| panic!("no part {file}"));
    let mut assembled = String::new();
    for line in read(file, text).lines() {
        match line.trim_start().strip_prefix("-- include ") {
            Some(part) => assembled += &assemble(&format!("lib/{part}"), read),
            None => assembled.extend([line, "\n"]),
        }
    }
    assembled
}

/// What the server keeps of a waiter or holder beside its options.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct About {
    /// The scripts repeat it in messages to this waiter or holder: nobody else can make one up.
    pub(crate) secret: Arc<str>,
    /// For people to see.
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

    /// The command that runs it: `command` is EVALSHA or EVAL, `script` the digest or the text.
    pub(crate) fn command(&self, command: &'static str, script: &str, channel: &str) -> Cmd {
        let mut cmd = redis::cmd(command);
        cmd.arg(script).arg(self.keys().keys.len());
        for key in &self.keys().keys {
            cmd.arg(key.as_str());
        }
        self.arguments(channel, |_, value| {
            cmd.arg(value);
        });
        cmd
    }
}

fn us(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn every_call() -> Vec<Call> {
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

    fn after<'a>(text: &'a str, marker: &str) -> &'a str {
        let start = text.find(marker).unwrap_or_else(|| panic!("no {marker:?}")) + marker.len();
        text[start..].lines().next().unwrap().trim()
    }

    /// The names that the body binds: from `unpack(ARGV)` or from `ARGV[n]`, in order.
    fn bound(body: &str) -> Vec<String> {
        let code = body.replace("=\n  unpack(ARGV)", "= unpack(ARGV)");
        let Some(line) = code.lines().find(|line| line.starts_with("local ") && line.contains("ARGV")) else {
            return vec![];
        };
        let names = line.trim_start_matches("local ").split('=').next().unwrap();
        names.split(',').map(|name| name.trim().to_owned()).collect()
    }

    #[test]
    fn a_call_is_sent_with_its_keys_and_arguments_in_order() {
        let keys = Arc::new(LockKeys::new("fairlock", "n"));
        let (liveness, buffer) = (Duration::from_micros(3), Duration::from_micros(4));
        let (client, ids) = ("c".into(), vec!["c.1".into(), "c.2".into()]);
        let heartbeat = Duration::from_secs(5);
        let call = Call::Heartbeat { keys: keys.clone(), client, liveness, buffer, heartbeat, ids };
        let mut expected = redis::cmd("EVALSHA");
        expected.arg("digest").arg(5);
        expected.arg("fairlock:{n}:queue").arg("fairlock:{n}:sessions").arg("fairlock:{n}:leases");
        expected.arg("fairlock:{n}:entries").arg("fairlock:{n}:state");
        expected.arg("c").arg(3).arg(4).arg(5_000_000).arg("c.1").arg("c.2");
        assert_eq!(call.command("EVALSHA", "digest", "channel").get_packed_command(), expected.get_packed_command());
        assert_eq!(call.keys(), &keys);
    }

    // The whole contract in one place: header, body, and what is sent.
    #[test]
    fn header_body_and_call_agree() {
        let calls = every_call();
        assert_eq!(calls.len(), SCRIPTS.len());
        for (index, call) in calls.iter().enumerate() {
            assert_eq!(call.script(), index);
            let Source { name, text } = &SCRIPTS[index];
            let body = FILES[index].1;
            assert_eq!(*name, FILES[index].0);
            assert!(body.starts_with(&format!("-- {name}: ")), "{name}: the header comes first");

            assert_eq!(after(body, "-- KEYS:"), "queue sessions leases entries state", "{name}");
            assert!(text.contains(
                "local queue, sessions, leases, entries, state = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]"
            ));
            for (key, what) in call.keys().keys.iter().zip(after(body, "-- KEYS:").split(' ')) {
                assert_eq!(key, &format!("fairlock:{{n}}:{what}"));
            }

            let header: Vec<&str> = after(body, "-- ARGV:").split(' ').collect();
            let mut sent = Vec::new();
            call.arguments("c", |argument, _| sent.push(argument));
            assert_eq!(sent, header, "{name}: the call against the header");
            let named: Vec<&str> =
                header.iter().filter(|n| !n.ends_with("...")).map(|n| n.strip_prefix("their_").unwrap_or(n)).collect();
            let bound = bound(body);
            let bound: Vec<&str> = bound.iter().map(|n| n.strip_prefix("their_").unwrap_or(n)).collect();
            assert_eq!(bound, named, "{name}: the body against the header");

            // Every word that the body answers is in the header, and the client knows it.
            let replies: Vec<&str> =
                after(body, "-- REPLY:").split('|').map(|r| r.split_whitespace().next().unwrap()).collect();
            for word in &replies {
                assert!(super::super::reply::Word::NAMES.contains(word), "{name}: the client does not know {word:?}");
                assert!(text.contains(&format!("'{word}'")), "{name} never answers {word:?}");
            }
            // The right side of what sets the word, up to the values that go with it.
            let sets = text.lines().filter(|line| line.contains("word") && line.contains(" = "));
            for line in sets.filter_map(|line| line.split(" = ").nth(1)) {
                for word in
                    line.split('{').next().unwrap().split('\'').skip(1).step_by(2).filter(|word| !word.is_empty())
                {
                    let passing = *name == "leave"; // it gives up many, and says so of all of them at once
                    assert!(passing || replies.contains(&word), "{name} answers {word:?}, its header does not say so");
                }
            }
        }
    }

    #[test]
    fn scripts_follow_the_rules() {
        for (Source { name, text }, (_, body)) in SCRIPTS.iter().zip(FILES) {
            assert!(!text.starts_with("#!"), "{name}: a shebang defeats the order of writes on Redis 7");
            assert_eq!(text.matches("'TIME'").count(), 1, "{name}: the clock is read in one place");
            assert!(!text.contains("EXPIREAT"), "{name}: TTLs are relative");
            assert!(!text.contains("tostring"), "{name}: Lua would print 1.7e+15");
            match *name {
                "acquire" => assert!(body.contains("lenient = false"), "acquire must be refused when memory is out"),
                "inspect" => assert!(!body.contains("-- include commit"), "inspect writes nothing"),
                _ => assert!(body.contains("lenient = true"), "{name} must go on when memory is out"),
            }
            let others = text.replace(&assemble("lib/commit", &|_, text| text.to_owned()), "");
            for write in ["HSET", "HDEL", "ZADD", "ZREM", "DEL", "PEXPIRE", "PUBLISH"] {
                assert!(!others.contains(&format!("call('{write}'")), "{name}: {write} belongs to commit.lua");
            }
        }
    }
}
