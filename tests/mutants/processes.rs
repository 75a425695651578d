//! The processes of tests, which end when a test fails, or after a time.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use testkit::mark::Mark;

use crate::stages::binary_of;
use crate::tree::Verdict;

/// In place of the name of a test, if a process ends without a word.
pub(crate) const END: &str = "(the end of its process)";

#[derive(Clone)]
pub(crate) struct Processes {
    pub(crate) folder: PathBuf,
    pub(crate) env: Vec<(&'static str, String)>,
    pub(crate) arguments: &'static [&'static str],
    /// Longer than all unit tests take without optimizations on a busy machine, and than the patience of any test, of
    /// which some wait twice for a minute and a half before they fail.
    pub(crate) timeout: Duration,
    /// What unit tests may compute: all together need a sixth of it, and a mutant may loop for ever.
    pub(crate) processor_seconds: u32,
}

impl Processes {
    pub(crate) fn of(folder: PathBuf) -> Self {
        let timeout = Duration::from_secs(900);
        Self { folder, env: vec![], arguments: &[], timeout, processor_seconds: 60 }
    }

    /// Runs all of them at once, until a test fails. What they say while they run goes to the file, if there is one.
    pub(crate) fn run(
        &self,
        binaries: &[(String, PathBuf)],
        stderr: Option<&File>,
        arguments: impl Fn(&str) -> Vec<String>,
    ) -> Verdict {
        let (say, said) = mpsc::channel();
        let start = |(target, binary): &(String, PathBuf)| -> (Child, Mark) {
            let limits = format!("ulimit -t {} -v 4194304; exec \"$0\" \"$@\"", self.processor_seconds);
            let mut command = Command::new(if target.starts_with("lib") { Path::new("sh") } else { binary });
            if target.starts_with("lib") {
                command.args(["-c", &limits]).arg(binary);
            }
            command.args(arguments(target)).args(self.arguments).current_dir(&self.folder);
            command.env("FAIRLOCK_UNSHRUNK", "1").envs(self.env.iter().cloned());
            let stderr = stderr.map(|file| {
                command.arg("--nocapture");
                file.try_clone().expect("another descriptor").into()
            });
            let mark = Mark::on(&mut command);
            command.stdout(Stdio::piped()).stderr(stderr.unwrap_or_else(Stdio::null));
            let mut child = command.spawn().expect("a test binary");
            let output = BufReader::new(child.stdout.take().expect("it is piped"));
            let (say, binary) = (say.clone(), binary_of(target).0.to_owned());
            std::thread::spawn(move || {
                let mut passed = false;
                for line in output.lines().map_while(Result::ok) {
                    if let Some(test) = line.strip_prefix("test ").and_then(|line| line.strip_suffix(" ... FAILED")) {
                        let _ = say.send(Some(format!("{binary}::{test}")));
                    }
                    passed |= line.starts_with("test result: ok");
                }
                let _ = say.send((!passed).then(|| format!("{binary}::{END}")));
            });
            (child, mark)
        };
        let mut children: Vec<(Child, Mark)> = binaries.iter().map(start).collect();
        let (end, mut left) = (Instant::now() + self.timeout, children.len());
        let verdict = loop {
            if left == 0 {
                break Verdict::Survived(String::new());
            }
            match said.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(Some(test)) => break Verdict::Killed(test),
                Ok(None) => left -= 1,
                Err(_) => break Verdict::TimedOut(format!("{left} of {} test binaries", children.len())),
            }
        };
        for (child, mark) in &mut children {
            let _ = child.kill();
            let _ = child.wait();
            // What a mutant leaves behind would slow the next ones down.
            mark.end_all();
        }
        verdict
    }
}

/// Where a test panicked, and the first line of its reason.
pub(crate) fn panic_in(said: &str, test: &str) -> String {
    let panics = said.match_indices(" panicked at ").map(|(at, word)| {
        let thread = said[..at].lines().next_back().unwrap_or_default();
        (thread.contains(&format!("'{test}'")), &said[at + word.len()..])
    });
    let (_, last) = panics.max_by_key(|(is_its_own, _)| *is_its_own).unwrap_or_default();
    last.lines().take(2).collect::<Vec<_>>().join(" ")
}
