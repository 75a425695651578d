//! A process that cannot outlive the test that started it.
//!
//! `Drop` covers tests that return or panic. A test process that is killed runs no `Drop`; for that each process gets a
//! leash: a tiny shell that reads from a pipe which only this test process holds open. When the test process ends, in
//! whatever way, the kernel closes the pipe, and the shell kills the process that it guards. The kernel's own means
//! (`PR_SET_PDEATHSIG`, `setpriv --pdeathsig`) does not fit: it exists on Linux only, and it acts when the *thread*
//! ends that started the process; a test's thread ends long before a server that several tests share.

use std::{
    ffi::OsStr,
    io,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::waiting::{SOON, eventually};

#[derive(Debug)]
pub struct Process {
    child: Child,
    leash: Child,
    stopped: bool,
}

impl Process {
    /// Starts `command`. If this test process is killed, the leash also removes the folder `litter`.
    pub fn spawn(command: &mut Command, litter: Option<&Path>) -> io::Result<Process> {
        // In groups of their own, so that Ctrl-C reaches only the test process, and the rest follows in one way.
        let mut child = command.process_group(0).spawn()?;
        let leash = Command::new("sh")
            .args(["-c", r#"read -r _; kill -KILL "$1"; rm -rf -- ${2:+"$2"}"#, "leash"])
            .arg(child.id().to_string())
            .arg(litter.map_or(OsStr::new(""), Path::as_os_str))
            // Without the marks of what it guards.
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        match leash {
            Ok(leash) => Ok(Process { child, leash, stopped: false }),
            Err(error) => {
                end(&mut child);
                Err(error)
            }
        }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it has neither ended nor been stopped by this handle.
    pub fn is_running(&mut self) -> bool {
        !self.stopped && self.exited().is_none()
    }

    /// The exit status, once there is one.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("asking for the state of a child process")
    }

    /// Waits for the end. Panics if it does not come.
    #[track_caller]
    pub fn wait(&mut self, timeout: Duration) -> ExitStatus {
        let mut status = None;
        eventually(&format!("process {} ends", self.pid()), timeout, || {
            status = self.exited();
            status.is_some()
        });
        status.expect("the loop above ends with a status")
    }

    /// SIGSTOP, and waits until the process stands still: the signal alone only asks for it.
    #[track_caller]
    pub fn stop(&mut self) {
        if self.stopped {
            return;
        }
        self.signal(Signal::STOP);
        let start = Instant::now();
        let id = WaitId::Pid(Pid::from_child(&self.child));
        // Asks for stops only; `exited` collects the end of the process.
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        while !matches!(waitid(id.clone(), options), Ok(Some(_))) {
            assert!(self.exited().is_none(), "process {} ended when it should stop", self.pid());
            assert!(start.elapsed() < SOON, "process {} does not stop", self.pid());
            std::thread::sleep(Duration::from_micros(200));
        }
        self.stopped = true;
    }

    /// SIGCONT.
    #[track_caller]
    pub fn cont(&mut self) {
        self.stopped = false;
        self.signal(Signal::CONT);
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        end(&mut self.child);
    }

    /// Sends a signal to this same process: its pid is not reused before its end was collected here.
    #[track_caller]
    pub fn signal(&mut self, signal: Signal) {
        assert!(self.exited().is_none(), "process {} has ended: no {signal:?} for it", self.pid());
        kill_process(Pid::from_child(&self.child), signal).expect("signalling a child process");
    }

    pub(super) fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The leash first: it must not kill a number that has been reused meanwhile.
        end(&mut self.leash);
        end(&mut self.child);
    }
}

/// SIGKILL also ends a stopped process. Both calls fail only for a child that has been collected already.
fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
