//! The label of `run` and `hold`, unless `--label` gives one.

use std::ffi::OsString;
use std::path::Path;

use nix::unistd::{User, geteuid};

/// Programs that run a script: the label names the script.
const INTERPRETERS: [&str; 8] = ["ash", "bash", "dash", "ksh", "python", "python3", "sh", "zsh"];

/// The label that others see: who runs this process and where, and which command it is for.
pub(crate) fn default(command: &[OsString], process: u32) -> String {
    let machine = rustix::system::uname();
    let host = machine.nodename().to_string_lossy();
    let user = User::from_uid(geteuid()).ok().flatten().map(|user| user.name + "@").unwrap_or_default();
    let name: String = subject(command).chars().take(40).collect();
    format!("{user}{host}:{process} {name}").trim_end().to_owned()
}

/// The file name of the command; of an interpreter that of its script, if it has one and no line (`-c`).
fn subject(command: &[OsString]) -> String {
    let mut words = command.iter().map(|word| word.to_string_lossy());
    let own = words.next().map(|word| base(&word)).unwrap_or_default();
    if !INTERPRETERS.contains(&own.as_str()) {
        return own;
    }
    while let Some(word) = words.next() {
        match word.strip_prefix('-') {
            None => return Some(base(&word)).filter(|script| is_name(script)).unwrap_or(own),
            Some(letters) if letters.contains('c') => break,
            // `bash -euo pipefail x.sh`
            Some(letters) if letters.ends_with('o') => drop(words.next()),
            Some(_) => {}
        }
    }
    own
}

fn base(word: &str) -> String {
    let name = Path::new(word).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // A login shell is called `-bash`.
    name.trim_start_matches('-').to_owned()
}

/// A script that is read from a descriptor, such as /dev/fd/3, has none.
fn is_name(script: &str) -> bool {
    !script.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::subject;

    #[test]
    fn a_label_names_the_script_and_not_its_shell() {
        for (command, name) in [
            (&["./deploy.sh", "-v"][..], "deploy.sh"),
            (&["/usr/bin/rsync", "-a", "a", "b"], "rsync"),
            (&["bash", "-euo", "pipefail", "x.sh"], "x.sh"),
            (&["/bin/sh", "-e", "/srv/x.sh", "-c"], "x.sh"),
            (&["python3", "-u", "report.py"], "report.py"),
            (&["python3", "-m", "reports.nightly"], "reports.nightly"),
            (&["sh", "-c", "cd /srv && ./backup.sh -v"], "sh"),
            (&["bash", "/dev/fd/63"], "bash"),
            (&["-bash"], "bash"),
            (&["sh", "-s"], "sh"),
            (&["日本語", "x"], "日本語"),
            (&[""], ""),
            (&[], ""),
        ] {
            let words: Vec<_> = command.iter().map(Into::into).collect();
            assert_eq!(subject(&words), name, "{command:?}");
        }
    }
}
