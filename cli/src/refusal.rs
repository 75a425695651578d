//! What a server means by an error that it gives again and again, and what to do.

/// The beginnings of errors that a server gives because it is short of something.
const KNOWN: [(&str, &str); 5] = [
    ("OOM ", "the server's memory is full, so it refuses new locks: raise its maxmemory, or remove other data"),
    ("MISCONF", "the server cannot write to its disk, so it refuses all changes: make room there"),
    ("NOREPLICAS", "the server has too few replicas to take changes (min-replicas-to-write): start them again"),
    ("max number of clients", "the server takes no more connections: raise its maxclients, or end some clients"),
    ("LOADING", "the server is still loading its data"),
];

/// What is wrong, if the server answered with an error that says it. None if there may have been no answer at all.
pub(crate) fn meaning(trouble: &str) -> Option<&'static str> {
    // Up to Redis 6.2 the error of a command in a script is in the middle of another one.
    KNOWN.iter().find(|(word, _)| trouble.contains(word)).map(|(_, meaning)| *meaning)
}

/// The same in any case, for a sentence that goes on.
pub(crate) fn told(trouble: &str) -> String {
    meaning(trouble).map_or_else(|| trouble.trim_end_matches('.').to_owned(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{meaning, told};

    #[test]
    fn a_sentence_says_what_to_do_and_ends_once() {
        for oom in [
            "OOM command not allowed when used memory > 'maxmemory'.",
            "ERR Error running script: @user_script:7: -OOM command not allowed when used memory > 'maxmemory'.",
        ] {
            assert!(told(oom).starts_with("the server's memory is full") && !told(oom).ends_with('.'), "{oom}");
        }
        assert_eq!(told("Connection refused."), "Connection refused");
        assert_eq!(meaning("no Redis server answers at localhost"), None);
    }
}
