//! An example as a user starts it: a process with a terminal's input and output.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use testkit::{RedisServer, SOON};

/// Ended when it is dropped.
pub struct Program {
    child: Child,
    lines: Receiver<String>,
}

impl Program {
    /// `path`: as cargo names it, `env!("CARGO_BIN_EXE_…")`.
    pub fn start(path: &str, redis: &RedisServer, arguments: &[&str]) -> Self {
        let mut command = Command::new(path);
        command.args(arguments).env("REDIS_URL", redis.url()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (say, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
        Self { child, lines }
    }

    /// The rest of the next line that begins like this. Others are passed over.
    pub fn says(&self, begins: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(SOON).unwrap_or_else(|error| panic!("no line {begins:?}: {error}"));
            if let Some(rest) = line.strip_prefix(begins) {
                return rest.to_owned();
            }
        }
    }

    /// All other lines, to the end of its output.
    pub fn all_said(&self) -> Vec<String> {
        self.lines.iter().collect()
    }

    pub fn press_enter(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn ends(&mut self) {
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
