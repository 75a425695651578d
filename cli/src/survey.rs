//! The state of all locks whose names match patterns, at all servers. A survey changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fairlock::error::Fault;
use fairlock::operator::{Line, LookError, Places, Seen};

use crate::text::quoted;

/// How long one server may take for one answer.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) struct Survey {
    places: Places,
    prefix: String,
    /// Names, and patterns of Redis.
    patterns: Vec<String>,
    /// New names are looked for this often, because that takes a walk through all keys of the servers.
    find_every: Duration,
    /// The servers with the locks that were found there. Empty: they have to be found.
    servers: Vec<(Line, Vec<String>)>,
    found: Option<Instant>,
}

/// What a survey has seen.
pub(crate) struct Locks {
    /// By name, each with as many waiters as were asked for.
    pub(crate) seen: BTreeMap<String, Seen>,
    /// Why others cannot be read: another version of fairlock uses them, or their keys have another type.
    pub(crate) unreadable: Vec<Fault>,
}

impl Locks {
    /// That there are such locks. Of many it tells of one, as the way out is the same for all.
    pub(crate) fn complaint(&self) -> Option<String> {
        complaint(&self.unreadable)
    }
}

pub(crate) fn complaint(unreadable: &[Fault]) -> Option<String> {
    match unreadable {
        [] => None,
        [one] => Some(one.to_string()),
        [first, ..] => Some(format!("{} locks cannot be read; the first: {first}", unreadable.len())),
    }
}

impl Survey {
    /// All locks if there are no patterns.
    pub(crate) fn new(places: Places, prefix: &str, patterns: &[String], find_every: Duration) -> Self {
        let patterns = if patterns.is_empty() { vec!["*".to_owned()] } else { patterns.to_vec() };
        Self { places, prefix: prefix.to_owned(), patterns, find_every, servers: Vec::new(), found: None }
    }

    /// The locks, each with this many waiters at most. Those that the user may not see are left out, unless no other is
    /// there.
    pub(crate) fn look(&mut self, waiters: u32) -> Result<Locks, LookError> {
        let mut seen = self.look_once(waiters);
        // A lock that has moved, or a connection that was lost long ago.
        if seen.is_err() {
            self.servers.clear();
            seen = self.look_once(waiters);
        }
        if seen.is_err() {
            self.servers.clear();
        }
        seen
    }

    /// One of them with more waiters. None if it has moved or was never seen.
    pub(crate) fn look_at(&mut self, name: &str, waiters: u32) -> Result<Option<Seen>, LookError> {
        let name = [name.to_owned()];
        let Some((line, _)) = self.servers.iter_mut().find(|(_, names)| names.contains(&name[0])) else {
            return Ok(None);
        };
        Ok(line.look(&self.prefix, &name, waiters, PATIENCE)?.pop().and_then(Result::ok))
    }

    fn look_once(&mut self, waiters: u32) -> Result<Locks, LookError> {
        let is_old = self.found.is_none_or(|found| found.elapsed() >= self.find_every);
        if self.servers.is_empty() {
            for master in self.places.masters(PATIENCE)? {
                self.servers.push((master.connect(PATIENCE)?, Vec::new()));
            }
            self.find()?;
        } else if is_old {
            self.find()?;
        }
        let mut all = Locks { seen: BTreeMap::new(), unreadable: Vec::new() };
        let mut refused = None;
        for (line, names) in &mut self.servers {
            for (name, seen) in names.iter().zip(line.look(&self.prefix, names, waiters, PATIENCE)?) {
                match seen {
                    Ok(seen) => drop(all.seen.insert(name.clone(), seen)),
                    Err(LookError::Unreadable(fault)) => all.unreadable.push(fault),
                    Err(error @ LookError::Moved(_)) => return Err(error),
                    Err(error) => refused = Some(error),
                }
            }
        }
        match refused {
            Some(error) if all.seen.is_empty() && all.unreadable.is_empty() => Err(error),
            _ => Ok(all),
        }
    }

    fn find(&mut self) -> Result<(), LookError> {
        let (plain, patterns) = split(&self.patterns);
        for (line, names) in &mut self.servers {
            let mut found = BTreeSet::new();
            for pattern in &patterns {
                found.extend(line.lock_names(&self.prefix, pattern, PATIENCE)?);
            }
            // A name is looked at where it belongs, whether the lock is in use or not.
            let here = line.look(&self.prefix, &plain, 1, PATIENCE)?;
            let here = plain.iter().zip(here).filter(|(_, seen)| !matches!(seen, Err(LookError::Moved(_))));
            found.extend(here.map(|(name, _)| name.clone()));
            *names = found.into_iter().collect();
        }
        self.found = Some(Instant::now());
        Ok(())
    }
}

/// The names among these texts, and the patterns of Redis. A name with wildcards has a backslash before each of them.
pub(crate) fn split(texts: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut names, mut patterns) = (Vec::new(), Vec::new());
    for text in texts {
        match exact(text) {
            Some(name) => names.push(name),
            None => patterns.push(text.clone()),
        }
    }
    (names, patterns)
}

/// The name of one lock, as an argument has it. A pattern is refused: taken for a name it would mean a lock that nobody
/// uses.
pub(crate) fn name(text: &str) -> Result<String, &'static str> {
    exact(text).ok_or(
        "a pattern may match many locks, and this is about one (`fairlock status` lists those that match); if * ? or [ \
         belong to its name, write a backslash before each",
    )
}

/// The argument for a shell that means this name.
pub(crate) fn word(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if name.contains(WILDCARDS) && (c == '\\' || WILDCARDS.contains(&c)) {
            text.push('\\');
        }
        text.push(c);
    }
    quoted(&text)
}

const WILDCARDS: [char; 3] = ['*', '?', '['];

/// None if the text is a pattern.
fn exact(text: &str) -> Option<String> {
    if !text.contains(WILDCARDS) {
        return Some(text.to_owned());
    }
    let (mut name, mut rest) = (String::new(), text.chars());
    while let Some(c) = rest.next() {
        match c {
            '\\' => name.extend(rest.next()),
            c if WILDCARDS.contains(&c) => return None,
            c => name.push(c),
        }
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::{exact, word};

    #[test]
    fn a_text_is_a_name_unless_it_has_a_wildcard_without_a_backslash() {
        for (text, name) in [
            ("deploy", Some("deploy")),
            (r"OFFICE\deploy", Some(r"OFFICE\deploy")),
            (r"job\[1]", Some("job[1]")),
            (r"a\\\*", Some(r"a\*")),
            ("", Some("")),
            ("ci:*", None),
            (r"\*?", None),
            ("job[1]", None),
        ] {
            assert_eq!(exact(text).as_deref(), name, "{text}");
        }
    }

    #[test]
    fn the_word_for_a_name_means_this_name() {
        for (name, written) in [
            ("prod:web/deploy", "prod:web/deploy"),
            ("nightly backup", "'nightly backup'"),
            (r"OFFICE\deploy", r"'OFFICE\deploy'"),
            (r"a\b*", r"'a\\b\*'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
        ] {
            assert_eq!(word(name), written);
            let unquoted = written.trim_matches('\'').replace(r"'\''", "'");
            assert_eq!(exact(&unquoted).as_deref(), Some(name), "{written}");
        }
    }
}
