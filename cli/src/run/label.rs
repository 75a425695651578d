//! The label of `run` and `hold`, unless `--label` gives one. It ends with what the command is about: `backup.sh` in
//! `timeout -s TERM 1h sh -c 'cd /srv && ./backup.sh -v'`.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser as _;
use nix::unistd::{User, geteuid};

use crate::connect;

/// A program that runs another one.
struct Wrapper {
    names: &'static [&'static str],
    /// Its options of one letter that take a value.
    valued: &'static str,
    /// The words before the command that are no options, such as the time of `timeout`.
    words: usize,
    runs: Runs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// The rest of its words.
    Command,
    /// A file, or with `-c` a line.
    Shell,
    /// A file, or with `-m` a module. With `-c`, `-e` or `-r` its own language, which says nothing.
    Interpreter,
}

const fn wrapper(names: &'static [&'static str], valued: &'static str, words: usize, runs: Runs) -> Wrapper {
    Wrapper { names, valued, words, runs }
}

const WRAPPERS: [Wrapper; 12] = [
    wrapper(&["timeout"], "sk", 1, Runs::Command),
    wrapper(&["env"], "uC", 0, Runs::Command),
    wrapper(&["sudo", "doas"], "ughpCrtTUDR", 0, Runs::Command),
    wrapper(&["nice"], "n", 0, Runs::Command),
    wrapper(&["ionice"], "cn", 0, Runs::Command),
    wrapper(&["taskset", "chrt"], "", 1, Runs::Command),
    wrapper(&["stdbuf"], "ioe", 0, Runs::Command),
    wrapper(&["time"], "fo", 0, Runs::Command),
    wrapper(&["exec"], "a", 0, Runs::Command),
    wrapper(&["chronic", "command", "nohup", "setsid"], "", 0, Runs::Command),
    wrapper(&["ash", "bash", "dash", "ksh", "sh", "zsh"], "oO", 0, Runs::Shell),
    wrapper(&["perl", "php", "python", "python3", "ruby"], "WXI", 0, Runs::Interpreter),
];

/// `fairlock run …`. Of its other subcommands none runs anything.
#[derive(clap::Parser)]
struct Nested {
    #[command(flatten)]
    _server: connect::Args,
    #[command(subcommand)]
    task: NestedTask,
}

#[derive(clap::Subcommand)]
enum NestedTask {
    Run(super::args::Args),
}

/// The long options of these programs that take a value, which may be the next word. Other options stand alone.
const LONG_VALUED: [&str; 23] = [
    "adjustment",
    "chdir",
    "chroot",
    "class",
    "classdata",
    "close-from",
    "command-timeout",
    "error",
    "format",
    "group",
    "host",
    "init-file",
    "input",
    "kill-after",
    "other-user",
    "output",
    "prompt",
    "rcfile",
    "role",
    "signal",
    "type",
    "unset",
    "user",
];

/// Words of a shell before which no command is named, or whose commands only prepare others.
const PREPARES: [&str; 19] = [
    ":", "alias", "cd", "declare", "exit", "export", "for", "local", "pushd", "readonly", "set", "shift", "shopt",
    "trap", "true", "ulimit", "umask", "unset", "wait",
];
/// Words of a shell that stand before a command.
const BEFORE: [&str; 8] = ["!", "do", "elif", "else", "if", "then", "until", "while"];

/// The label that others see: who runs this process and where, and which command it is for.
pub(crate) fn default(command: &[OsString], process: u32) -> String {
    let machine = rustix::system::uname();
    let host = machine.nodename().to_string_lossy();
    let user = User::from_uid(geteuid()).ok().flatten().map(|user| user.name + "@").unwrap_or_default();
    let name: String = subject(command).chars().take(40).collect();
    format!("{user}{host}:{process} {name}").trim_end().to_owned()
}

/// The name of the program or script that this command runs in the end. If there is none, the command's own name.
fn subject(command: &[OsString]) -> String {
    let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    run_by(&words).unwrap_or_else(|| words.first().map(|word| base(word)).unwrap_or_default())
}

fn base(word: &str) -> String {
    let name = Path::new(word).file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // A login shell is called `-bash`.
    name.trim_start_matches('-').to_owned()
}

/// None if these words name no command.
fn run_by(words: &[String]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let own = base(first);
    if own == "fairlock" {
        let NestedTask::Run(run) = Nested::try_parse_from(words).ok()?.task;
        let words: Vec<String> = run.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        return if run.shell { of_line(words.first()?) } else { run_by(&words) };
    }
    let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&own.as_str())) else {
        // A script that is read from a descriptor, such as /dev/fd/3, has no name.
        return Some(own).filter(|own| !own.is_empty() && !own.chars().all(|c| c.is_ascii_digit()));
    };
    let mut rest = rest.iter().peekable();
    while let Some(option) = rest.next_if(|word| word.len() > 1 && (word.starts_with('-') || is_assignment(word))) {
        let letters = option.trim_start_matches('-');
        match (wrapper.runs, option.starts_with("--")) {
            _ if option == "--" => break,
            // `-euo pipefail`, `-c LINE`, and both at once.
            (Runs::Shell, false) if letters.contains('c') => {
                return rest.find(|word| !word.starts_with('-')).and_then(|line| of_line(line));
            }
            (Runs::Interpreter, false) if letters == "m" => return rest.next().cloned(),
            (Runs::Interpreter, false) if ["c", "e", "r"].contains(&letters) => return None,
            (_, true) if LONG_VALUED.contains(&letters) => drop(rest.next()),
            (_, false) if letters.chars().last().is_some_and(|last| wrapper.valued.contains(last)) => drop(rest.next()),
            _ => {}
        }
    }
    let rest: Vec<String> = rest.skip(wrapper.words).cloned().collect();
    run_by(&rest)
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// The first command of a shell's line that does more than prepare the next one.
fn of_line(line: &str) -> Option<String> {
    commands(line).into_iter().find_map(|words| {
        let words: Vec<String> =
            words.into_iter().skip_while(|word| BEFORE.contains(&word.as_str()) || is_assignment(word)).collect();
        words.first().filter(|first| !PREPARES.contains(&first.as_str()))?;
        run_by(&words)
    })
}

/// The simple commands of a line, without quotes and redirections; of a pipeline the first one. (Only as well as a label
/// needs it.)
fn commands(line: &str) -> Vec<Vec<String>> {
    let mut commands = vec![Vec::new()];
    let (mut word, mut quote, mut quoted, mut reads) = (String::new(), None, false, false);
    let mut rest = line.chars().chain(['\n']).peekable();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (Some(mark), c) if c == mark => quote = None,
            (None, '\'' | '"') => (quote, quoted) = (Some(c), true),
            // The name of a function, in `lock() { …; }`.
            (None, '(') if rest.next_if_eq(&')').is_some() => {
                word.clear();
                commands.last_mut().into_iter().for_each(Vec::clear);
            }
            (None, c) if c.is_whitespace() || ";&|(){}".contains(c) => {
                let word = std::mem::take(&mut word);
                let is_redirection = !quoted && word.contains(['<', '>']);
                if let (Some(command), false) = (commands.last_mut(), word.is_empty() || is_redirection || reads) {
                    command.push(word);
                }
                quoted = false;
                if !" \t".contains(c) {
                    // Behind `||` no pipe is read.
                    reads = c == '|' && rest.next_if_eq(&'|').is_none();
                    commands.push(Vec::new());
                }
            }
            (_, c) => word.push(c),
        }
    }
    commands
}

#[cfg(test)]
mod tests {
    use super::subject;

    #[test]
    fn a_label_names_the_script_and_not_its_shell() {
        for (command, name) in [
            (&["./deploy.sh", "-v"][..], "deploy.sh"),
            (&["/usr/bin/rsync", "-a", "a", "b"], "rsync"),
            (&["sh", "-c", "/srv/backup.sh --all"], "backup.sh"),
            (&["bash", "-euo", "pipefail", "x.sh"], "x.sh"),
            (&["bash", "-euo", "pipefail", "-c", "set -x; ./x.sh"], "x.sh"),
            (&["sh", "-c", "cd /srv && ./backup.sh -v"], "backup.sh"),
            (&["env", "A=1", "timeout", "1h", "python3", "-u", "report.py"], "report.py"),
            (&["python3", "-m", "reports.nightly"], "reports.nightly"),
            (&["perl", "-e", "sleep 1"], "perl"),
            (&["sudo", "-n", "nice", "-n", "5", "sh", "-c", "(cat; true)"], "cat"),
            (&["sh", "-c", "exit 3"], "sh"),
            (&["fairlock", "run", "-w", "10m", "inner", "-a", "other", "--", "./deploy.sh", "-v"], "deploy.sh"),
            (&["/usr/bin/fairlock", "--redis", "redis://h/", "run", "-n", "x", "-c", "cd / && ./a.sh"], "a.sh"),
            (&["timeout", "1h", "fairlock", "run", "x", "sh", "a.sh"], "a.sh"),
            (&["fairlock", "status", "x"], "fairlock"),
            (&["bash"], "bash"),
            (&["-bash"], "bash"),
            (&["sh", "-s"], "sh"),
            (&["日本語", "x"], "日本語"),
            (&[""], ""),
        ] {
            assert_eq!(subject_of(command), name, "{command:?}");
        }
    }

    #[test]
    fn the_value_of_an_option_is_not_the_command() {
        for (command, name) in [
            (&["timeout", "-s", "TERM", "5", "sleep", "1"][..], "sleep"),
            (&["timeout", "--signal=TERM", "-k", "1", "5", "sleep", "1"], "sleep"),
            (&["timeout", "--signal", "TERM", "5", "sleep", "1"], "sleep"),
            (&["env", "-u", "FOO", "sleep", "1"], "sleep"),
            (&["env", "--unset", "FOO", "sleep", "1"], "sleep"),
            (&["env", "--ignore-environment", "sleep", "1"], "sleep"),
            (&["sudo", "--user", "nobody", "sleep", "30"], "sleep"),
            (&["nice", "--adjustment", "5", "sleep", "1"], "sleep"),
            (&["sudo", "-u", "nobody", "sleep", "30"], "sleep"),
            (&["sudo", "-nu", "nobody", "--", "./x.sh"], "x.sh"),
            (&["nice", "-n", "10", "sleep", "1"], "sleep"),
            (&["nice", "-10", "sleep", "1"], "sleep"),
            (&["taskset", "-c", "0,1", "make"], "make"),
            (&["stdbuf", "-oL", "tail", "-f", "x"], "tail"),
        ] {
            assert_eq!(subject_of(command), name, "{command:?}");
        }
    }

    #[test]
    fn a_line_is_called_after_its_first_work() {
        for (line, name) in [
            ("trap 'rm -f x; exit' INT TERM; ./work --fast", "work"),
            ("exec 9>x.lock; A=1 B=2 ./work", "work"),
            ("exec ./work", "work"),
            ("exec 9>x.lock; fairlock hold x --fd 9 || exit; ./work", "work"),
            ("fairlock wait y && fairlock run x ./work", "work"),
            ("if ./work; then true; fi", "work"),
            ("while true; do ./work; sleep 1; done", "work"),
            ("umask 077 && export A=b && \"./my work\" | tee log", "my work"),
            ("for i in 1 2; do ./work; done", "work"),
            ("fairlock hold a --fd 9; fairlock status a | grep held; ./work", "work"),
            ("fairlock hold a --fd 9; fairlock status a | grep held | cat", "sh"),
            ("fairlock hold a --fd 9 || ./work", "work"),
            ("lock() { fairlock hold $1 --fd 9; }; lock () { :; }; ./work", "work"),
            ("set -e", "sh"),
            ("", "sh"),
        ] {
            assert_eq!(subject_of(&["sh", "-c", line]), name, "{line}");
        }
        // A script that a shell reads from a descriptor: `bash <(…)`.
        assert_eq!(subject_of(&["bash", "/dev/fd/63"]), "bash");
    }

    fn subject_of(command: &[&str]) -> String {
        let words: Vec<_> = command.iter().map(Into::into).collect();
        subject(&words)
    }
}
