//! What the tests of the command line share: a private Redis, and processes that are waited for.
//!
//! Nothing here depends on the speed of the machine: every wait is for an event, and gives up after `PATIENCE`.
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use testkit::{RedisServer, mark::Mark};

/// Far more time than anything takes on the slowest machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// A command that ignores TERM, and prints its number when it is ready.
pub(crate) const STUBBORN: &str = "trap '' TERM; echo $$; while :; do sleep 1; done";

/// Waits until `probe` returns something.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "gave up waiting: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A server for this test alone.
pub(crate) struct Redis(RedisServer);

/// What a user needs in addition, to list locks, to use those of another prefix, and to check how a server is set up.
pub(crate) const RIGHTS_TO_LOOK: &str = "+scan +config|get ~other:* &other:*";

impl Redis {
    pub(crate) fn start() -> Self {
        Self(RedisServer::builder().more_rights(RIGHTS_TO_LOOK).start())
    }

    /// One that can be made a replica: a node of a cluster refuses that.
    pub(crate) fn alone() -> Self {
        Self(RedisServer::builder().alone().more_rights(RIGHTS_TO_LOOK).start())
    }

    /// A server whose lock `x` is held under this label.
    pub(crate) fn held(label: &str) -> (Self, Process) {
        let redis = Self::start();
        let holder = hold(&redis, "x", label);
        (redis, holder)
    }

    pub(crate) fn of(server: RedisServer) -> Self {
        Self(server)
    }

    /// The number of its newest connection.
    pub(crate) fn newest_connection(&self) -> u64 {
        self.0.connections().last().copied().unwrap_or_default()
    }

    /// Ends the connections of all clients, and returns how many there were.
    pub(crate) fn cut(&self) -> u64 {
        redis::cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]).query(&mut self.0.raw()).unwrap()
    }

    /// The binary under test, with this server in its environment.
    pub(crate) fn fairlock(&self) -> Command {
        let mut command = fairlock();
        command.env("REDIS_URL", self.url());
        command
    }

    /// `fairlock run NAME OPTIONS -- sh -c SCRIPT`
    pub(crate) fn run(&self, name: &str, options: &[&str], script: &str) -> Process {
        Process::spawn(self.fairlock().args(["run", name]).args(options).args(["--", "sh", "-c", script]))
    }

    /// The same with a command that holds the lock until it is told to end, as it does when this returns.
    pub(crate) fn hold(&self, name: &str, options: &[&str]) -> Process {
        let holder = self.run(name, options, "echo; exec sleep 1000");
        holder.line();
        holder
    }

    /// The same with a command that has a place in the queue when this returns.
    pub(crate) fn waiter(&self, name: &str, options: &[&str], script: &str) -> Process {
        let before = self.state(name)["waiting"].as_u64().unwrap_or_default();
        let waiter = self.run(name, options, script);
        self.await_waiting(name, before + 1);
        waiter
    }

    /// The output of `status --json`.
    pub(crate) fn state(&self, name: &str) -> serde_json::Value {
        let output = self.fairlock().args(["status", name, "--json"]).output().unwrap();
        // Held, or free.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    pub(crate) fn await_waiting(&self, name: &str, waiting: u64) {
        eventually("the queue has the wanted length", || (self.state(name)["waiting"] == waiting).then_some(()));
    }
}

impl Deref for Redis {
    type Target = RedisServer;

    fn deref(&self) -> &RedisServer {
        &self.0
    }
}

/// [`Redis::hold`] under this label.
pub(crate) fn hold(redis: &Redis, name: &str, label: &str) -> Process {
    redis.hold(name, &["--label", label])
}

/// Waits for the lock, and says whether process `pid` is alive at the moment of the grant. It is in the queue when this
/// returns.
pub(crate) fn witness(redis: &Redis, name: &str, pid: u32) -> Process {
    // A zombie is dead, though it can still be signalled.
    let script =
        format!("case $(cut -d')' -f2 /proc/{pid}/stat 2>/dev/null) in ''|' Z'*) echo dead;; *) echo alive;; esac");
    redis.waiter(name, &[], &script)
}

/// A run with a timeout that is to end while it waits. On a busy machine the time may be over before the run has a place
/// in the queue, which is another error: then it is given twice as many seconds.
pub(crate) fn with_time_to_queue(run: impl Fn(f64) -> Finished) -> Finished {
    let times = std::iter::successors(Some(0.3), |seconds| Some(2.0 * seconds));
    let mut ended = times.take_while(|seconds| *seconds < PATIENCE.as_secs_f64()).map(run);
    ended.find(|ended| ended.code != 125).expect("a place in the queue")
}

/// Whether doctor says that a round trip took long, as on a busy machine.
pub(crate) fn is_slow(report: &str) -> bool {
    ["warning latency:", "fault   latency:"].iter().any(|slow| report.contains(slow))
}

/// A path that ends with its folder.
pub(crate) fn temporary(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    (folder, path)
}

/// One inline command to a server; None if it cannot be reached.
pub(crate) fn ask(socket: &Path, command: &str) -> Option<String> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.write_all(format!("{command}\r\n").as_bytes()).ok()?;
    let mut answer = vec![0; 65_536];
    let length = stream.read(&mut answer).ok()?;
    Some(String::from_utf8_lossy(&answer[..length]).into_owned())
}

/// The binary under test, in an environment that names no server.
pub(crate) fn fairlock() -> Command {
    // Tests that run under nohup, or in the background of a script, inherit ignored signals.
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_fairlock")]);
    for name in ["REDIS_URL", "FAIRLOCK_LOCAL_DIR", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    command
}

/// A process whose output is read line by line. It is killed when dropped, with all that it has started. What it leaves
/// behind when it ends by itself lives on.
pub(crate) struct Process {
    child: Child,
    mark: Option<Mark>,
    stdout: Receiver<String>,
    stderr: Receiver<String>,
}

impl Process {
    #[track_caller]
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self::spawn_speaking_to(Stdio::piped(), command)
    }

    /// Its stderr is this, and its messages there are lost.
    #[track_caller]
    pub(crate) fn spawn_speaking_to(stderr: Stdio, command: &mut Command) -> Self {
        let mark = Some(Mark::on(command));
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let stdout = lines(child.stdout.take().unwrap());
        let stderr = child.stderr.take().map_or_else(|| channel().1, lines);
        Self { child, mark, stdout, stderr }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line on stdout.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        let line = self.stdout.recv_timeout(PATIENCE);
        line.unwrap_or_else(|error| panic!("no line on stdout: {error}; on stderr: {}", drain(&self.stderr)))
    }

    /// The next line on stdout, as a number: most commands of these tests start with `echo $$`.
    #[track_caller]
    pub(crate) fn number(&self) -> u32 {
        self.line().trim().parse().unwrap()
    }

    /// The next line on stderr.
    #[track_caller]
    pub(crate) fn complaint(&self) -> String {
        self.stderr.recv_timeout(PATIENCE).expect("a line on stderr")
    }

    /// Whether any of the lines on stderr so far, which are read, has this text.
    pub(crate) fn has_complained(&self, text: &str) -> bool {
        self.stderr.try_iter().any(|line| line.contains(text))
    }

    pub(crate) fn signal(&self, number: Signal) {
        signal(self.id(), number);
    }

    /// The shim, while the command with this number runs.
    pub(crate) fn shim(&self, command: u32) -> u32 {
        let shim = parent(command);
        assert_eq!(parent(shim), self.id());
        shim
    }

    /// The exit code, or 128 + N if a signal ended fairlock itself. Both outputs must be closed by then, too.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Finished {
        let status = eventually("the process ends", || self.child.try_wait().unwrap());
        self.mark = None;
        Finished {
            code: status.code().unwrap_or_else(|| 128 + status.signal().unwrap()),
            stdout: drain(&self.stdout),
            stderr: drain(&self.stderr),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.mark.iter().for_each(Mark::end_all);
    }
}

fn lines(stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

#[track_caller]
fn drain(lines: &Receiver<String>) -> String {
    let mut text = String::new();
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => text += &(line + "\n"),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return text,
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                panic!("somebody keeps the output open after: {text}")
            }
        }
    }
}

pub(crate) fn signal(pid: u32, number: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), number).unwrap();
}

/// The living children of a process, by the name that `ps` shows.
pub(crate) fn children(pid: u32, name: &str) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let all = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let named = |child: &u32| {
        std::fs::read_to_string(format!("/proc/{child}/comm")).is_ok_and(|found| found.trim() == name) && lives(*child)
    };
    all.filter(|child| stat(*child).is_some_and(|stat| stat[1] == pid.to_string()) && named(child)).collect()
}

/// The fields of /proc/PID/stat after the name: state, parent, process group, session, …
pub(crate) fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}

/// A defunct process is not alive: it runs no more, whether it is collected or not.
pub(crate) fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| !matches!(stat[0].as_str(), "Z" | "X"))
}

#[track_caller]
pub(crate) fn await_death(pid: u32) {
    eventually("the process is dead", || (!lives(pid)).then_some(()));
}

#[track_caller]
pub(crate) fn await_state(pid: u32, state: &str) {
    eventually("the process is in the wanted state", || stat(pid).filter(|stat| stat[0] == state));
}

pub(crate) fn parent(pid: u32) -> u32 {
    stat(pid).unwrap()[1].parse().unwrap()
}
