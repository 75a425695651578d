//! What servers say when they refuse a request, and what it means: the one place that knows their words.

use self::Meaning::{
    Database, Denied, Hello, Login, NotCluster, NotServing, OtherLayout, Permanent, Temporary, WrongType,
};
use crate::protocol::Refusal;

/// What a server means by an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// A refusal for the moment; no other server could do better.
    Temporary,
    /// A server that does not serve the locks, now or any more. Another one may, by now.
    NotServing,
    /// A user or a password is missing or wrong.
    Login,
    /// The user lacks a right.
    Denied,
    /// A key has another type.
    WrongType,
    /// The scripts found a lock that is kept in another layout.
    OtherLayout,
    /// A database that the server does not have.
    Database,
    /// The server is no node of a cluster.
    NotCluster,
    /// A server that does not know HELLO.
    Hello,
    /// A refusal that will be the same each time.
    Permanent,
}

/// The words by which each meaning is known; the first that is found decides. A word in capitals begins the message.
/// But up to Redis 6.2 the error of a command in a script arrives as `ERR Error running script … -OOM command not
/// allowed`, and one that the script itself returns as `@user_script: 1: …`: so the words are looked for everywhere in a
/// message that begins like that.
const WORDS: &[(&str, Meaning)] = &[
    // A command that is unknown, renamed or disabled is quoted with its arguments, in which any other word may occur.
    // Up to Redis 6.2 the command is in backquotes, from 7.0 on in apostrophes.
    ("unknown command `HELLO`", Hello),
    ("unknown command 'HELLO'", Hello),
    ("unknown command", Permanent),
    ("WRONGTYPE", WrongType),
    ("OTHERLAYOUT", OtherLayout),
    // The master of these locks is in trouble, which only an operator or time ends.
    ("OOM ", Temporary),
    ("MISCONF", Temporary),
    ("BUSY", Temporary),
    ("UNKILLABLE", Temporary),
    ("max number of clients", Temporary),
    ("NOSCRIPT", Temporary),
    // A slot that is moving; the first is said by scripts in all versions, the second by those of Redis 8.
    ("non local key", Temporary),
    ("rehashing of the slot", Temporary),
    ("TRYAGAIN", Temporary),
    // MOVED and ASK name another node, which only a client of a cluster can follow.
    ("ASK ", Temporary),
    ("MOVED ", Temporary),
    // A replica, which may have been the master; the second has lost its own.
    ("READONLY", NotServing),
    ("MASTERDOWN", NotServing),
    // On a connection that was made before: a master that was demoted takes over the data of the new one. A restart would
    // have ended the connection.
    ("LOADING", NotServing),
    // With `min-replicas-to-write`, a master that is cut off, and may have been replaced.
    ("NOREPLICAS", NotServing),
    // A node that is cut off from its cluster, or does not know who serves a slot.
    ("CLUSTERDOWN", NotServing),
    ("NOAUTH", Login),
    ("WRONGPASS", Login),
    ("NOPERM", Denied),
    // From a script: Redis 7.0, Redis 8 and Valkey 9 leave NOPERM out.
    ("The user executing the script", Denied),
    ("ACL failure in script", Denied),
    ("DB index is out of range", Database),
    ("SELECT is not allowed in cluster mode", Database),
    ("cluster support disabled", NotCluster),
    // Protected mode: refused for the address that the client comes from.
    ("DENIED", Permanent),
];

/// What the server means by this error, as it worded it.
pub(super) fn meaning(said: &str) -> Meaning {
    meaning_of(said).unwrap_or(if said.starts_with("ERR") { Permanent } else { Temporary })
}

/// Why a request has no answer.
pub(crate) fn refusal(said: &str) -> Refusal {
    match meaning(said) {
        Temporary | NotServing => Refusal::Temporary(said.into()),
        Login => Refusal::Denied(said.into()),
        Denied => Refusal::Denied(format!("{said}; docs/guide.md lists the rights that are needed").into()),
        WrongType => Refusal::WrongType(said.into()),
        OtherLayout => Refusal::OtherLayout(said.into()),
        Database | NotCluster | Hello | Permanent => Refusal::Permanent(said.into()),
    }
}

/// The same, if its words are known.
pub(super) fn meaning_of(said: &str) -> Option<Meaning> {
    let anywhere = ["ERR", "@user_script"].iter().any(|start| said.starts_with(start));
    let says = |word: &str| said.starts_with(word) || anywhere && said.contains(word);
    WORDS.iter().find(|(word, _)| says(word)).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    // As servers say it, of the versions that are named.
    #[test]
    fn the_words_of_servers_are_understood() {
        for (line, means) in [
            ("ERR unknown command `HELLO`, with args beginning with: `3`, ", Hello), // 5, 6
            ("ERR unknown command 'HELLO', with args beginning with: '3' ", Hello),  // 7
            ("ERR unknown command 'SUBSCRIBE', with args beginning with: 'OOM BUSY NOPERM' ", Permanent), // 7
            ("ERR Unknown Redis command called from script script: 0a, on @user_script:1.", Permanent), // 7
            ("ERR wrong number of arguments for 'evalsha' command", Permanent),
            ("DENIED Redis is running in protected mode because protected mode is enabled", Permanent),
            ("WRONGTYPE Operation against a key holding the wrong kind of value", WrongType),
            ("ERR Error running script (call to f_0a): @user_script:7: WRONGTYPE Operation against a key", WrongType), // 6
            ("OOM command not allowed when used memory > 'maxmemory'.", Temporary),
            ("ERR Error running script: @user_script:7: -OOM command not allowed when used memory", Temporary), // 6
            ("ERR max number of clients reached", Temporary),
            ("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", Temporary),
            ("ERR Script attempted to access a non local key in a cluster node", Temporary),
            (
                "ERR Unable to execute command 'del' in script because undeclared keys were accessed during rehashing of \
                 the slot script: 0a, on @user_script:1.",
                Temporary,
            ), // 8
            ("LATER a word that nobody knows yet", Temporary),
            ("READONLY You can't write against a read only replica.", NotServing),
            (
                "ERR Error running script: @user_script:1: -READONLY You can't write against a read only replica.",
                NotServing,
            ), // 6
            ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", NotServing),
            ("LOADING Redis is loading the dataset in memory", NotServing),
            ("NOREPLICAS Not enough good replicas to write.", NotServing),
            ("CLUSTERDOWN The cluster is down", NotServing),
            ("NOAUTH HELLO must be called with the client already authenticated", Login),
            ("WRONGPASS invalid username-password pair or user is disabled.", Login),
            ("NOPERM this user has no permissions to run the 'evalsha' command", Denied), // 6, 7.0
            ("NOPERM User w has no permissions to run the 'eval' command", Denied),       // 7.2
            ("ERR Error running script: @user_script:1: -NOPERM The user executing the script can't run this", Denied), // 6
            ("@user_script: 1: The user executing the script can't run this command or subcommand", Denied), // 6
            ("ERR The user executing the script can't run this command or subcommand script: 0a", Denied),   // 7.0
            ("NOPERM ACL failure in script: User w has no permissions to run the 'zadd' command", Denied),   // 7.2
            ("ERR ACL failure in script: User w has no permissions to run the 'hset' command", Denied),      // Valkey 9
            ("ERR DB index is out of range", Database),
            ("ERR SELECT is not allowed in cluster mode", Database),
            ("ERR This instance has cluster support disabled", NotCluster),
        ] {
            assert_eq!(meaning(line), means, "{line}");
        }
    }

    // A name of a lock, a channel or a prefix may hold any word.
    #[test]
    fn words_that_a_server_quotes_do_not_count() {
        let quoted = "NOPERM this user has no permissions to access one of the keys: OOM WRONGTYPE";
        assert_eq!(meaning(quoted), Denied);
        assert_eq!(meaning("LATER the key BUSY WRONGTYPE"), Temporary);
    }

    #[test]
    fn a_refusal_says_whether_asking_again_can_help() {
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
            let refusal = refusal(passing);
            assert!(matches!(refusal, Refusal::Temporary(_)), "{refusal:?}");
            let (_, what) = passing.split_once(' ').unwrap();
            assert!(refusal.cause().contains(what), "{refusal:?} has lost {what:?}");
        }
        for denied in
            ["NOAUTH Authentication required.", "NOPERM this user has no permissions to run the 'evalsha' command"]
        {
            assert!(matches!(refusal(denied), Refusal::Denied(_)), "{:?}", refusal(denied));
        }
        for line in [
            "WRONGTYPE Operation against a key holding the wrong kind of value",
            "ERR Error running script: @user_script:7: WRONGTYPE Operation against a key",
        ] {
            assert!(matches!(refusal(line), Refusal::WrongType(_)), "{:?}", refusal(line));
        }
        assert!(matches!(refusal("ERR unknown command 'EVALSHA'"), Refusal::Permanent(_)));
        let other = refusal("OTHERLAYOUT the lock is kept in layout 99");
        assert!(matches!(other, Refusal::OtherLayout(_)), "{other:?}");
    }
}
