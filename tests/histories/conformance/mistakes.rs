//! Deliberate mistakes in the Python client, or in what `by_hdel.py` and `full.py` add to it, and the rule of the page
//! that each breaks. The judge must find it, and name that rule.

mod by_hdel;
mod full;
mod small;

use std::{fs, path::Path};

use testkit::{root, say, tmp};

use super::{complaint::Verdict, play};

pub struct Mistake {
    what: &'static str,
    /// The scene that shows it.
    scene: &'static str,
    /// Words of the rule.
    rule: &'static str,
    /// What the client has instead of what; each occurs once, in one of its files.
    changes: &'static [(&'static str, &'static str)],
}

/// By the file that starts the client.
pub const MISTAKES: [(&str, &[Mistake]); 3] =
    [("driver.py", &small::MISTAKES), ("by_hdel.py", &by_hdel::MISTAKES), ("full.py", &full::MISTAKES)];

/// Not of the client: its machine is too busy for a try.
pub const LATE: Mistake = Mistake {
    what: "a try has no answer within 5 s",
    scene: "no free lock",
    rule: "",
    changes: &[("lease = lock.try_acquire()", "raise fairlock.Timeout")],
};
pub const LATE_ONCE: Mistake = Mistake {
    what: "the first try has no answer within 5 s",
    changes: &[(
        "lease = lock.try_acquire()",
        "import pathlib\n                late = pathlib.Path(__file__).with_name(\"late\")\n                if not late.exists():\n                    late.touch()\n                    raise fairlock.Timeout\n                lease = lock.try_acquire()",
    )],
    ..LATE
};

impl Mistake {
    /// The verdict on the client with it.
    pub fn play(&self, python: &Path, started: &str) -> Verdict<bool> {
        let copy = tempfile::tempdir_in(tmp()).unwrap();
        let example = ["fairlock.py", "fairlock_wire.py", "driver.py"].map(|file| ("examples/python-client", file));
        let more = [("tests/histories/conformance", started)].into_iter().filter(|&(_, file)| file != "driver.py");
        let files: Vec<_> =
            example.into_iter().chain(more).map(|(folder, file)| root().join(folder).join(file)).collect();
        let mut texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        for (right, wrong) in self.changes {
            let count: usize = texts.iter().map(|text| text.matches(right).count()).sum();
            assert_eq!(count, 1, "{}: {right:?} is not in the client once", self.what);
            texts.iter_mut().for_each(|text| *text = text.replace(right, wrong));
        }
        let copied = |file: &Path| copy.path().join(file.file_name().unwrap());
        files.iter().zip(texts).for_each(|(file, text)| fs::write(copied(file), text).unwrap());
        std::os::unix::fs::symlink(root().join("lua/rendered"), copy.path().join("rendered")).unwrap();
        let command = format!("'{}' '{}'", python.display(), copied(Path::new(started)).display());
        play(&command, |scene| scene == self.scene).remove(0).1
    }

    /// What the judge says instead of the rule that is broken, if it does not find it.
    pub fn missed(&self, python: &Path, started: &str) -> Option<String> {
        let Err(complaint) = self.play(python, started) else { return Some(format!("not found: {}", self.what)) };
        if !complaint.rule.contains(self.rule) {
            return Some(format!("{}: this rule is named instead: {complaint}", self.what));
        }
        let timed = |line: &String| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
        if !complaint.exchange.iter().all(timed) {
            return Some(format!("{}: its exchange has no times: {complaint}", self.what));
        }
        let is_of_deadline = ["A deadline counts", "own_left_us"].iter().any(|words| complaint.rule.contains(words));
        if is_of_deadline && !complaint.exchange.iter().any(|line| line.contains("own_left_us")) {
            return Some(format!("{}: its exchange does not show how long the lease lasts: {complaint}", self.what));
        }
        say(format_args!(
            "{}\n  {}",
            self.what,
            complaint.to_string().lines().take(2).collect::<Vec<_>>().join("\n  ")
        ));
        None
    }
}
