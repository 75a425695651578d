//! A terminal for the tests of the command line.
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process};

use crate::shared::PATIENCE;

const ROWS: u16 = 24;

/// A terminal with a job-control shell in it.
pub(crate) struct Terminal {
    shell: Child,
    keyboard: std::fs::File,
    /// The programs' side.
    tty: std::fs::File,
    /// Held while the output is not read.
    eyes: Arc<Mutex<()>>,
    output: Receiver<Vec<u8>>,
    /// The output that no `expect` has passed yet.
    seen: Vec<u8>,
    /// The screen after all of the output so far.
    screen: vt100::Parser,
}

impl Terminal {
    /// Starts bash as a user would, with these variables.
    pub(crate) fn open(variables: &[(&str, &str)]) -> Self {
        Self::open_with(80, variables)
    }

    /// The same, this many columns wide.
    pub(crate) fn open_with(columns: u16, variables: &[(&str, &str)]) -> Self {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let size = rustix::termios::Winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&master, size).unwrap();
        let name = ptsname(&master, Vec::new()).unwrap();
        let path = Path::new(OsStr::new(name.to_str().unwrap()));
        let open = || std::fs::File::options().read(true).write(true).open(path).unwrap();
        let slave = || Stdio::from(open());
        let shell = Command::new("setsid")
            .args(["--ctty", "env", "--default-signal", "bash", "--norc", "--noprofile", "--noediting", "-i"])
            .env("PS1", "PROMPT> ")
            .envs([("TERM", "xterm"), ("NO_COLOR", "1")])
            .env("F", env!("CARGO_BIN_EXE_fairlock"))
            .envs(variables.iter().copied())
            .stdin(slave())
            .stdout(slave())
            .stderr(slave())
            .spawn()
            .expect("the tests need setsid and bash");
        let mut reader = std::fs::File::from(master.try_clone().unwrap());
        let (sender, output) = channel();
        let eyes = Arc::new(Mutex::new(()));
        let open_eyes = Arc::clone(&eyes);
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                drop(open_eyes.lock());
                let _ = sender.send(buffer[..length].to_vec());
            }
        });
        let screen = vt100::Parser::new(ROWS.try_into().unwrap(), columns.try_into().unwrap(), 0);
        let mut terminal = Self { shell, keyboard: master.into(), tty: open(), eyes, output, seen: Vec::new(), screen };
        terminal.expect("PROMPT> ");
        // Without an echo, all text on the screen was printed by a program.
        terminal.command("stty -echo");
        terminal
    }

    /// The keyboard: text, or control characters such as "\x03".
    pub(crate) fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// What the kernel does when the terminal is closed, as by a lost connection.
    pub(crate) fn hang_up(&self) {
        kill_process(Pid::from_child(&self.shell), Signal::HUP).unwrap();
    }

    /// Stops the output as Ctrl-S does, but with effect when this returns.
    pub(crate) fn stop_output(&self) {
        rustix::termios::tcflow(&self.tty, rustix::termios::Action::OOff).unwrap();
    }

    /// From now on the output is not read until the guard is dropped.
    pub(crate) fn close_eyes(&self) -> MutexGuard<'_, ()> {
        self.eyes.lock().unwrap()
    }

    /// Waits until the writer to the terminal blocks.
    pub(crate) fn await_stuck(&self) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        testkit::eventually("the terminal takes nothing more", PATIENCE, || {
            poll(&mut [PollFd::new(&self.tty, PollFlags::OUT)], Some(&at_once)) == Ok(0)
        });
    }

    pub(crate) fn enter(&mut self, line: &str) {
        self.keys(&format!("{line}\n"));
    }

    /// Runs a command, and returns what it printed.
    #[track_caller]
    pub(crate) fn command(&mut self, line: &str) -> String {
        self.enter(line);
        self.expect("PROMPT> ")
    }

    /// Waits until the text appears, and returns what was printed before it.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) -> String {
        let began = Instant::now();
        loop {
            if let Some(at) = self.seen.windows(text.len()).position(|window| window == text.as_bytes()) {
                let before = String::from_utf8_lossy(&self.seen[..at]).into_owned();
                self.seen.drain(..at + text.len());
                return before;
            }
            assert!(self.hear(began), "{text:?} did not appear in {:?}", String::from_utf8_lossy(&self.seen));
        }
    }

    #[track_caller]
    pub(crate) fn enter_and_expect(&mut self, line: &str, text: &str) -> String {
        self.enter(line);
        self.expect(text)
    }

    #[track_caller]
    pub(crate) fn keys_and_expect(&mut self, keys: &str, text: &str) -> String {
        self.keys(keys);
        self.expect(text)
    }

    /// Waits until the screen satisfies the condition, which is checked after every change, and returns all of it.
    #[track_caller]
    pub(crate) fn await_screen(&mut self, mut shows: impl FnMut(&str) -> bool) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen.screen().contents();
            if shows(&screen) {
                return screen;
            }
            assert!(self.hear(began), "it is not on the screen:\n{screen}");
        }
    }

    #[track_caller]
    pub(crate) fn keys_and_await(&mut self, keys: &str, shows: impl FnMut(&str) -> bool) -> String {
        self.keys(keys);
        self.await_screen(shows)
    }

    #[track_caller]
    pub(crate) fn enter_and_await(&mut self, line: &str, shows: impl FnMut(&str) -> bool) -> String {
        self.enter(line);
        self.await_screen(shows)
    }

    /// Reads the next output. False if there was none.
    fn hear(&mut self, began: Instant) -> bool {
        let more = self.output.recv_timeout(PATIENCE.saturating_sub(began.elapsed()));
        if let Ok(more) = &more {
            self.seen.extend(more);
            self.screen.process(more);
        }
        more.is_ok()
    }

    /// Enters a line of which a part prints `mark` and a number.
    #[track_caller]
    pub(crate) fn enter_for(&mut self, mark: &str, line: &str) -> u32 {
        self.enter(line);
        self.number_after(mark)
    }

    /// Waits for a line that begins with `mark` and returns the rest of it, as a number.
    #[track_caller]
    pub(crate) fn number_after(&mut self, mark: &str) -> u32 {
        self.expect(mark);
        self.expect("\n").trim().parse().unwrap()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let session = self.shell.id().to_string();
        let _ = self.shell.kill();
        let _ = self.shell.wait();
        // For processes that a hang-up does not end, as under nohup.
        for process in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let in_session = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(3)) == Some(&session);
            if let (true, Some(pid)) = (in_session, process.file_name().to_str().and_then(|pid| pid.parse().ok())) {
                let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
            }
        }
    }
}
