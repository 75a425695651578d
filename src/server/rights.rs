//! The rights of the user, asked for as part of the set-up of a connection: half a right is found before it is used.

use super::endpoint::Endpoint;
use super::resp::Value;
use crate::error::ConnectError;
use crate::protocol::{LockKeys, RIGHTS};

/// A script that does nothing.
const NOTHING: &str = "return 1";

/// Two calls, one by text and one by digest, that show whether the user may run scripts. One of them runs [`RIGHTS`],
/// and is answered with the commands that this user may not run: the first, unless the server knows this digest of it.
/// Without a channel of its own the client is one of a cluster, where channels belong to locks.
pub(super) fn questions(prefix: &str, channel: Option<&str>, known: Option<&str>) -> [Vec<String>; 2] {
    let key = LockKeys::new(prefix, "fairlock").lock;
    let of_a_lock = || format!("{prefix}:{{fairlock}}:client:");
    let in_cluster = u8::from(channel.is_none()).to_string();
    let channel = channel.map_or_else(of_a_lock, str::to_owned);
    let call = |verb: &str, script: &str| vec![verb.to_owned(), script.to_owned(), "0".to_owned()];
    let ask = |verb, script| [call(verb, script), vec![key, channel, in_cluster]].concat();
    match known {
        Some(digest) => [call("EVAL", NOTHING), ask("EVALSHA", digest)],
        None => [ask("EVAL", RIGHTS.text), call("EVALSHA", &"0".repeat(40))],
    }
}

impl Endpoint {
    /// The answer to the question.
    pub(super) fn has_rights(&self, user: &str, answer: &Value<'_>) -> Result<(), ConnectError> {
        let names = |list: &Value<'_>| -> Vec<String> {
            let Value::List(names) = list else { return Vec::new() };
            names.iter().filter_map(Value::text).map(Into::into).collect()
        };
        // Another program may answer anything.
        let Value::List(lists) = answer else { return Ok(()) };
        let [missing, unknown] = [0, 1].map(|list| lists.get(list).map(names).unwrap_or_default());
        let address = self.address.clone();
        if !unknown.is_empty() {
            let commands = unknown.join(", ").to_uppercase();
            let cause = format!("it does not know {commands}: renamed, or switched off");
            return Err(ConnectError::Refused { address, cause: cause.into() });
        }
        if missing.is_empty() {
            return Ok(());
        }
        let (commands, rules) = (missing.join(", "), missing.join(" +"));
        let cause = format!("{user} may not run {commands}; ACL SETUSER {user} +{rules} allows that");
        Err(ConnectError::MissingRight { address, cause: cause.into() })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::protocol::SCRIPTS;
    use crate::server::Node;

    /// The names in apostrophes that follow this, as they are in ACLs.
    fn named(text: &str, before: &str) -> BTreeSet<String> {
        text.split(before).skip(1).map(|rest| rest.split('\'').next().unwrap().to_lowercase()).collect()
    }

    #[test]
    fn each_command_of_the_scripts_is_asked_for_but_those_of_a_history() {
        let mut called: BTreeSet<String> = SCRIPTS.iter().flat_map(|script| named(script.text, "call('")).collect();
        for of_history in ["exists", "xadd", "xdel", "xrevrange"] {
            assert!(called.remove(of_history), "{of_history}");
        }
        // These are asked for under the names `hear` and `tell`.
        assert!(called.remove("publish") && called.remove("spublish"));
        let mut asked = named(RIGHTS.text, "{'");
        // These are the client's own.
        assert!(asked.remove("asking") && asked.remove("cluster"));
        assert_eq!(asked, called);
    }

    fn answer<'a>(missing: &[&'a str], unknown: &[&'a str]) -> Value<'a> {
        let list =
            |names: &[&'a str]| Value::List(names.iter().map(|name| Value::Text(name.as_bytes().into())).collect());
        Value::List(vec![list(missing), list(unknown)])
    }

    #[test]
    fn the_error_names_what_is_missing_and_the_rule_that_gives_it() {
        let endpoint = Endpoint::of_node(Node { host: "host".into(), port: 1 }, false);
        assert_eq!(endpoint.has_rights("worker", &answer(&[], &[])), Ok(()));
        for other in [Value::Int(1), Value::List(Vec::new()), Value::List(vec![Value::Int(1)])] {
            assert_eq!(endpoint.has_rights("worker", &other), Ok(()), "another program that answers EVAL");
        }
        let error = endpoint.has_rights("worker", &answer(&[], &["zadd", "del"])).unwrap_err();
        assert!(
            matches!(error, ConnectError::Refused { .. }) && error.to_string().contains("know ZADD, DEL:"),
            "{error}"
        );
        let error = endpoint.has_rights("worker", &answer(&["zadd", "cluster|slots"], &[])).unwrap_err().to_string();
        assert!(error.contains("worker may not run zadd, cluster|slots;"), "{error}");
        assert!(error.contains("; ACL SETUSER worker +zadd +cluster|slots allows that"), "{error}");
    }
}
