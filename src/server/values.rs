//! Between the protocol and the library that encodes and parses it: requests as commands, replies as values, errors.

#[cfg(test)]
use std::sync::Arc;

#[cfg(test)]
use redis::{Cmd, RedisError};

#[cfg(test)]
use super::refusals::{Meaning, meaning, said};
#[cfg(test)]
use crate::protocol::{Failure, HeartbeatRequest, Request};

/// As the library encodes it: the tests compare both.
#[cfg(test)]
impl Request {
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

/// The same, as fairlock reads it from the wire.
#[cfg(any(test, feature = "__test-hooks"))]
impl From<&redis::Value> for super::resp::Value<'static> {
    fn from(value: &redis::Value) -> Self {
        let text = |text: &[u8]| Self::Text(text.to_owned().into());
        let pairs = |pairs: &[(redis::Value, redis::Value)]| {
            Self::List(pairs.iter().flat_map(|(key, value)| [key.into(), value.into()]).collect())
        };
        match value {
            redis::Value::Nil => Self::Nil,
            redis::Value::Int(number) => Self::Int(*number),
            redis::Value::Boolean(truth) => Self::Int((*truth).into()),
            redis::Value::BulkString(bytes) => text(bytes),
            redis::Value::SimpleString(said) | redis::Value::VerbatimString { text: said, .. } => text(said.as_bytes()),
            redis::Value::Okay => text(b"OK"),
            redis::Value::Double(number) => text(number.to_string().as_bytes()),
            redis::Value::BigNumber(number) => text(number),
            redis::Value::Array(items) | redis::Value::Set(items) => Self::List(items.iter().map(Self::from).collect()),
            redis::Value::Map(items) => pairs(items),
            redis::Value::Attribute { data, .. } => (&**data).into(),
            redis::Value::Push { kind, data } => {
                Self::Push([text(kind.to_string().as_bytes())].into_iter().chain(data.iter().map(Self::from)).collect())
            }
            redis::Value::ServerError(error) => {
                let words = [Some(error.code()), error.details()];
                let words: Vec<&str> = words.into_iter().flatten().collect();
                Self::Error(words.join(" ").into_bytes().into())
            }
            other => unreachable!("a value of an unknown kind: {other:?}"),
        }
    }
}

#[cfg(test)]
impl Failure {
    /// None: it is the connection that broke.
    pub(crate) fn of(error: &RedisError) -> Option<Self> {
        let said: Arc<str> = said(error).into();
        Some(match meaning(error) {
            Meaning::Broken => return None,
            Meaning::Passing | Meaning::ReadOnly => Failure::Refused(said),
            Meaning::Login => Failure::Denied(said),
            Meaning::Denied => Failure::Denied(format!("{said}; the README lists the rights that are needed").into()),
            Meaning::WrongType => Failure::WrongType(said),
            Meaning::OtherLayout => Failure::OtherLayout(said),
            Meaning::Database | Meaning::NotCluster | Meaning::Hello | Meaning::Rejected => Failure::Rejected(said),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::protocol::LockKeys;

    #[test]
    fn a_call_is_sent_with_its_keys_and_arguments_in_order() {
        let keys = Arc::new(LockKeys::new("fairlock", "n"));
        let (liveness, buffer) = (Duration::from_micros(3), Duration::from_micros(4));
        let (client, ids) = ("c".into(), vec!["c.1".into(), "c.2".into()]);
        let heartbeat = Duration::from_secs(5);
        let call =
            Request::Heartbeat(HeartbeatRequest { keys: keys.clone(), client, liveness, buffer, heartbeat, ids });
        let mut expected = redis::cmd("EVALSHA");
        expected.arg("digest").arg(2).arg("fairlock:{n}:lock").arg("fairlock:{n}:waiters");
        expected.arg("c").arg(3).arg(4).arg(5_000_000).arg("c.1").arg("c.2");
        assert_eq!(call.command("EVALSHA", "digest", "channel").get_packed_command(), expected.get_packed_command());
        assert_eq!(call.keys(), &keys);
    }

    // What the server says, as the library reads it from the wire.
    #[test]
    fn a_failure_tells_what_is_worth_asking_again() {
        let said = |line: &str| {
            let value = redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap();
            Failure::of(&value.extract_error().unwrap_err()).unwrap()
        };
        for passing in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "READONLY You can't write against a read only replica.",
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            "NOREPLICAS Not enough good replicas to write.",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "UNKILLABLE Sorry the script already executed write commands against the dataset.",
            "ERR Error running script: @user_script:1: Script attempted to access a non local key in a cluster node",
            "ERR Error running script: @user_script:7: -OOM command not allowed when used memory > 'maxmemory'.",
            "LOADING Redis is loading the dataset in memory",
            "TRYAGAIN Multiple keys request during rehashing of slot",
            "ASK 1 127.0.0.1:1",
            "MOVED 1 127.0.0.1:1",
            "CLUSTERDOWN The cluster is down",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "NOSCRIPT No matching script. Please use EVAL.",
            "LATER a word that nobody knows yet",
        ] {
            let failure = said(passing);
            assert!(matches!(failure, Failure::Refused(_)), "{failure:?}");
            let (_, what) = passing.split_once(' ').unwrap();
            assert!(failure.cause().contains(what), "{failure:?} has lost {what:?}");
        }
        for denied in
            ["NOAUTH Authentication required.", "NOPERM this user has no permissions to run the 'evalsha' command"]
        {
            assert!(matches!(said(denied), Failure::Denied(_)), "{:?}", said(denied));
        }
        for line in [
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR Error running script: @user_script:7: WRONGTYPE Operation against a key",
        ] {
            assert!(matches!(said(line), Failure::WrongType(_)), "{:?}", said(line));
        }
        assert!(matches!(said("ERR unknown command 'EVALSHA'"), Failure::Rejected(_)));
        let other = said("OTHERLAYOUT the lock is kept in layout 2");
        assert!(matches!(other, Failure::OtherLayout(_)), "{other:?}");
        let broken = RedisError::from(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        assert_eq!(Failure::of(&broken), None);
    }
}
