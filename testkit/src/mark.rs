//! A mark on a process and on everything that it starts, so that a test can end all of it. Process groups and parents do
//! not show what belongs together: the command line starts groups of its own, and what guards a command outlives its
//! parent.
//!
//! It needs Linux's `/proc`. On other systems nothing is found, and those processes end by themselves, later.

use std::{
    fs,
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::process::{Pid, Signal, kill_process};

/// A variable of the environment that no other process has.
#[derive(Debug)]
pub struct Mark(String);

impl Mark {
    pub fn on(command: &mut Command) -> Mark {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let mark = format!("TEST_MARK_{}_{}", std::process::id(), LAST.fetch_add(1, Ordering::Relaxed));
        command.env(&mark, "");
        Mark(mark)
    }

    /// Kills all processes that have it, and those that they start meanwhile.
    pub fn end_all(&self) {
        loop {
            let marked = self.marked();
            if marked.is_empty() {
                return;
            }
            for pid in marked {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::yield_now();
        }
    }

    fn marked(&self) -> Vec<Pid> {
        let mark = format!("{}=", self.0).into_bytes();
        let is_marked = |pid: &Pid| {
            // A process that is ending has no environment any more.
            let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark)
        };
        let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw));
        pids.filter(is_marked).collect()
    }
}
