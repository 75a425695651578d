//! Helper processes: the benchmark itself, started again with a role. They speak by lines on their standard streams.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const ROLE: &str = "--role";

/// The role of this process and its arguments, if it has one.
pub fn of_this_process() -> Option<(String, Vec<String>)> {
    let mut arguments = std::env::args().skip(1);
    (arguments.next()? == ROLE).then_some(())?;
    Some((arguments.next()?, arguments.collect()))
}

/// A process with a role. It ends with this handle, or when this process ends: its input is closed then.
pub struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    pub fn start(role: &str, arguments: &[&str]) -> Helper {
        Helper::start_by(&[], role, arguments)
    }

    /// Starts it by another program, such as `strace`, which is given before it.
    pub fn start_by(program: &[&str], role: &str, arguments: &[&str]) -> Helper {
        let this = std::env::current_exe().expect("the path of this program");
        let this = this.to_str().expect("a path of letters");
        Helper::of_program(&[program, &[this, ROLE, role], arguments].concat())
    }

    /// Any program that speaks by lines.
    pub fn of_program(words: &[&str]) -> Helper {
        let mut command = Command::new(words[0]);
        let child = command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("starting {words:?}: {error}"));
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Helper { child, input, output }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().expect("an open pipe"), "{line}").expect("a helper that listens");
    }

    /// The next line that it says.
    pub fn hear(&mut self) -> String {
        self.output.next().expect("a helper that speaks").expect("a line")
    }

    pub fn ask(&mut self, line: &str) -> String {
        self.say(line);
        self.hear()
    }

    /// Closes its input, upon which it ends, and waits for that.
    pub fn end(mut self) {
        drop(self.input.take());
        assert!(self.child.wait().expect("the end of a helper").success(), "a helper failed");
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// In a helper: calls `answer` for each line that it is told, until there are none, and says what that returns.
pub fn serve(mut answer: impl FnMut(&str) -> Option<String>) {
    for line in std::io::stdin().lines() {
        if let Some(answer) = answer(&line.expect("a line")) {
            say(&answer);
        }
    }
}

/// In a helper: says a line.
pub fn say(line: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").and_then(|()| output.flush()).expect("somebody who listens");
}
