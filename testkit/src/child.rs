//! Helper processes for tests that need real ones: to be killed, stopped and continued, or simply to be several.
//!
//! A helper is the test binary itself, started again with a role, so that its code is next to the test that uses it:
//! the new process runs the test `child` of the file that spawned it, and nothing else.
//!
//! ```ignore
//! #[test]
//! fn child() {
//!     testkit::child::main(|role, args| match role {
//!         "hold" => hold(&args[0]),
//!         other => panic!("no role {other}"),
//!     });
//! }
//!
//! let mut holder = Child::spawn("hold", &[&server.url()]);
//! let token = holder.wait_line("granted ", SOON);
//! holder.kill();
//! ```

use std::{
    env,
    ffi::OsStr,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _},
    panic::Location,
    path::Path,
    process::{ChildStdin, ChildStdout, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

use super::process::Process;

/// The variable that names the role of a helper.
pub const ROLE: &str = "FAIRLOCK_CHILD";
const ARGS: &str = "FAIRLOCK_CHILD_ARGS";
/// Set in the process of a test that runs alone.
const ALONE: &str = "FAIRLOCK_ALONE";
/// How long such a test may take.
const ALONE_FOR: Duration = Duration::from_secs(300);
/// The separator of the arguments in their variable. No URL, path or name contains it.
const TERMINATOR: &str = "\u{1f}";
/// The beginning of an event's line, which distinguishes it from output of the test harness.
const EVENT: &str = "@event ";

/// The body of the `#[test] fn child()` that each test file with helpers has. In the test run itself it does nothing;
/// in a helper process it plays the role and ends the process.
pub fn main(play: impl FnOnce(&str, &[String])) {
    let Ok(role) = env::var(ROLE) else { return };
    let args = env::var(ARGS).unwrap_or_default();
    let args: Vec<String> = args.split_terminator(TERMINATOR).map(str::to_owned).collect();
    play(&role, &args);
    std::process::exit(0);
}

/// Sends the test that started this helper one line, in one write. The harness may have left a line unfinished, so this
/// starts a new one. A test that is gone ends its helpers, so a failed write does not matter.
pub fn say(event: impl std::fmt::Display) {
    let line = format!("\n{EVENT}{event}\n");
    let mut out = io::stdout().lock();
    let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Runs the body of this test in a separate process, for a test that measures or changes the whole process, such as its
/// processor time or its log records. The test binary is started once more for this test alone.
#[track_caller]
pub fn alone(test: &str, body: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return body();
    }
    let name = format!("{}{test}", module(Location::caller()));
    let mut output = tempfile::tempfile().expect("a file for the output");
    let mut command = Command::new(env::current_exe().expect("the path of the running test binary"));
    command.args(["--exact", &name, "--nocapture", "--test-threads=1"]).env(ALONE, &name).stdin(Stdio::null());
    for redirect in [Command::stdout, Command::stderr] {
        redirect(&mut command, output.try_clone().expect("a second handle of the file"));
    }
    let mut process = Process::spawn(&mut command, None).expect("starting the test binary once more");
    let status = process.wait(ALONE_FOR);
    let mut said = String::new();
    output.rewind().and_then(|()| output.read_to_string(&mut said)).expect("reading the output");
    print!("{said}");
    assert!(status.success() && said.contains("1 passed"), "{name} failed in a process of its own: {status}");
}

/// Tests that run [`alone`], each with the function that is its body.
#[macro_export]
macro_rules! alone {
    ($($test:ident: $body:ident;)*) => {
        $(
            #[test]
            fn $test() {
                $crate::child::alone(stringify!($test), $body);
            }
        )*
    };
}

/// A helper process; killed when dropped, and also when the test process itself is killed.
#[derive(Debug)]
pub struct Child {
    process: Process,
    events: Receiver<String>,
    seen: Vec<String>,
}

impl Child {
    /// Starts this test binary once more, as `role`.
    #[track_caller]
    pub fn spawn(role: &str, args: &[&str]) -> Child {
        Child::spawn_under(&[], role, args)
    }

    /// Like `spawn`, through a command that sets something up and then becomes the program that its last arguments
    /// name.
    #[track_caller]
    pub fn spawn_under(wrapper: &[&str], role: &str, args: &[&str]) -> Child {
        Child::spawn_of(&module(Location::caller()), wrapper, role, args)
    }

    /// Like `spawn_under`, as a helper of the module with this path.
    pub(crate) fn spawn_of(module: &str, wrapper: &[&str], role: &str, args: &[&str]) -> Child {
        let args: String = args.iter().flat_map(|arg| [arg, TERMINATOR]).collect();
        let binary = env::current_exe().expect("the path of the running test binary");
        let mut words = wrapper.iter().map(OsStr::new).chain([binary.as_os_str()]);
        let mut command = Command::new(words.next().expect("the binary at least"));
        command
            .args(words)
            .args(["--exact", &format!("{module}child"), "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(ARGS, args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut process = Process::spawn(&mut command, None).expect("starting the test binary once more");
        let out = process.child_mut().stdout.take().expect("its output is piped");
        let (sender, events) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            for event in lines.filter_map(|line| line.strip_prefix(EVENT).map(str::to_owned)) {
                if sender.send(event).is_err() {
                    break;
                }
            }
        });
        Child { process, events, seen: Vec::new() }
    }

    /// Starts another program, by a command of the shell, and talks to it.
    #[track_caller]
    pub fn program(command: &str) -> (Child, ChildStdin, ChildStdout) {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {command}")]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Process::spawn(&mut shell, None).expect("starting a shell");
        let child = process.child_mut();
        let ends = child.stdin.take().zip(child.stdout.take()).expect("both are piped");
        (Child { process, events: channel().1, seen: Vec::new() }, ends.0, ends.1)
    }

    /// The next event that contains `pattern`; earlier ones are skipped. Panics if none comes.
    #[track_caller]
    pub fn wait_line(&mut self, pattern: &str, timeout: Duration) -> String {
        let deadline = Instant::now() + timeout;
        loop {
            match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(event) => {
                    self.seen.push(event.clone());
                    if event.contains(pattern) {
                        return event;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("no {pattern:?} from helper {} within {timeout:?}; it said {:?}", self.pid(), self.seen)
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.process.wait(timeout);
                    panic!("helper {} ended ({status}) before {pattern:?}; it said {:?}", self.pid(), self.seen)
                }
            }
        }
    }

    /// All events until now, in order.
    pub fn lines(&mut self) -> &[String] {
        self.seen.extend(self.events.try_iter());
        &self.seen
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGSTOP, and waits until the process is stopped.
    #[track_caller]
    pub fn stop(&mut self) {
        self.process.stop();
    }

    /// SIGCONT.
    #[track_caller]
    pub fn cont(&mut self) {
        self.process.cont();
    }

    /// Waits for its end. Panics if it does not come.
    #[track_caller]
    pub fn wait(&mut self, timeout: Duration) -> ExitStatus {
        self.process.wait(timeout)
    }

    /// The exit status, once there is one.
    pub fn exited(&mut self) -> Option<ExitStatus> {
        self.process.exited()
    }
}

/// The module path of the tests in a file: `b::c::` in `tests/a/b/c.rs`, nothing in the `main.rs` of a binary.
fn module(file: &Location<'_>) -> String {
    let path = Path::new(file.file()).with_extension("");
    let names = path.iter().map(|name| name.to_str().expect("source files have plain names"));
    // Without the folder of all tests and that of the binary.
    let modules = names.skip_while(|name| *name != "tests").skip(2);
    modules.filter(|name| !["main", "mod"].contains(name)).map(|name| format!("{name}::")).collect()
}
