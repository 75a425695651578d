//! `--local`: the private server, one for the jobs of one user on one machine, started when it is first needed.

mod args;
mod folder;
pub(crate) mod server;

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;

use crate::duration;
use crate::exit::{Failure, say};
use crate::process::{descendants, lookup, this_binary};
use crate::text::{printable, quoted};
use args::Action;
pub(crate) use args::Args;
use folder::Folder;
use server::{Place, become_server, servers_of};

/// How long a server may take to answer after its start, or to end.
const START: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(5);
/// How long a server that does not answer counts as starting or ending.
const GRACE: Duration = Duration::from_secs(1);
/// The pause between two starts of a server that ends again and again, and the longest pause while starts fail.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

pub(crate) fn local(args: &Args) -> Result<u8, Failure> {
    match args.action {
        Action::Start { foreground } => start(foreground),
        Action::Stop { force } => stop(force),
        Action::Status => status(),
    }
}

/// Starts the server unless it runs. In the foreground this process becomes the server as soon as no other runs.
fn start(in_front: bool) -> Result<u8, Failure> {
    if !in_front {
        return share_or_start().map(|folder| show(&format!("running: {}", folder.url())));
    }
    let (folder, program) = (Folder::find()?, find_server()?);
    folder.prepare()?;
    if answer(&folder)? != Readiness::Nothing {
        say("the private server runs already; this one takes over when it ends");
    }
    let failure = become_server(&folder, &program, Place::InTurn);
    Err(if failure.code == server::TAKEN { unreachable(&folder) } else { failure })
}

fn stop(force: bool) -> Result<u8, Failure> {
    let folder = Folder::find()?;
    let connection = if answer(&folder)? == Readiness::Nothing { None } else { Connection::open(&folder).ok() };
    let failed = |error| Failure::because(&folder.shown(), error);
    let Some(mut connection) = connection else {
        return stop_unreachable(&folder, force);
    };
    let about = connection.ask("INFO clients").map_err(failed)?;
    let clients = about.lines().find_map(|line| line.strip_prefix("connected_clients:")?.trim().parse::<u64>().ok());
    // This connection is one of them.
    if clients.is_some_and(|clients| clients > 1) && !force {
        return Err(Failure::own(format!("the private server in {} is in use: {ENDED}", folder.shown())));
    }
    // Without the mark, jobs that go on would start the server again.
    File::create(folder.stop_mark()).map_err(failed)?;
    connection.shut_down().map_err(|error| Failure::because("the private server did not stop", error))?;
    Ok(0)
}

/// What makes the private server forget all locks. It keeps them on disk, so its end alone does not.
pub(crate) fn how_to_forget() -> Option<String> {
    let folder = Folder::find().ok()?;
    let folder = quoted(&folder.path().to_string_lossy());
    Some(format!(
        "to begin anew, where no job holds a lock or waits: fairlock local stop && rm -r {folder}/appendonly*"
    ))
}

const ENDED: &str = "commands that hold a lock would be ended; `fairlock local stop --force` stops it anyway";

/// Stops a server whose socket, and perhaps its folder, was removed.
fn stop_unreachable(folder: &Folder, force: bool) -> Result<u8, Failure> {
    let servers = servers_of(folder);
    if servers.is_empty() {
        say("the private server is not running");
        return Ok(0);
    }
    if !force && servers.iter().any(|server| server.has_clients()) {
        return Err(Failure::own(format!(
            "the private server without a socket in {} is in use: {ENDED}",
            folder.shown()
        )));
    }
    folder.prepare()?;
    File::create(folder.stop_mark()).map_err(|error| Failure::because(&folder.shown(), error))?;
    servers.iter().for_each(|server| server.end());
    let deadline = Instant::now() + START;
    while !servers_of(folder).is_empty() {
        if Instant::now() > deadline {
            return Err(unreachable(folder));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(0)
}

fn status() -> Result<u8, Failure> {
    let folder = Folder::find()?;
    let shown = folder.shown();
    let (text, code) = match (answer(&folder)?, servers_of(&folder).first()) {
        (Readiness::Ready, _) => (format!("running: {}{}", folder.url(), about(&folder).unwrap_or_default()), 0),
        (Readiness::Loading, _) => (format!("reading its data: {}", folder.url()), 0),
        (Readiness::Nothing, Some(server)) => (format!("process {} runs without a socket in {shown}", server.pid), 1),
        (Readiness::Nothing, None) => (format!("not running; its folder would be {shown}"), 1),
    };
    show(&text);
    Ok(code)
}

/// The server's process, how long it has run, and who is connected.
fn about(folder: &Folder) -> Option<String> {
    let mut connection = Connection::open(folder).ok()?;
    let server = connection.ask("INFO server").ok()?;
    let clients = connection.ask("INFO clients").ok()?;
    let number = |info: &str, field: &str| info.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok());
    let (pid, age): (u64, u64) = (number(&server, "process_id:")?, number(&server, "uptime_in_seconds:")?);
    // This connection is one of them.
    let clients = number(&clients, "connected_clients:")?.saturating_sub(1);
    let s = if clients == 1 { "" } else { "s" };
    Some(format!("\nprocess {pid}, up {}, {clients} client{s} connected", duration::short(Duration::from_secs(age))))
}

fn show(line: &str) -> u8 {
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
    0
}

/// The folder of the server, which runs when this returns.
pub(crate) fn share_or_start() -> Result<Folder, Failure> {
    let folder = Folder::find()?;
    let _ = std::fs::remove_file(folder.stop_mark());
    bring_up(&folder)?;
    Ok(folder)
}

/// Whether there is a server, also one that does not answer. If it has ended by itself, jobs that hold its locks may be
/// about to start it again.
pub(crate) fn runs() -> Result<bool, Failure> {
    let folder = Folder::find()?;
    let deadline = Instant::now() + PAUSE + GRACE;
    loop {
        if answer(&folder)? != Readiness::Nothing || !servers_of(&folder).is_empty() {
            return Ok(true);
        }
        if !folder.path().exists() || folder.stop_mark().exists() || Instant::now() > deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Starts the server again whenever it has ended, for as long as this process lives. The server ends with the control
/// group of the job that started it, while other jobs may wait and hold.
pub(crate) fn keep_running() {
    let watch = || {
        let mut pause = PAUSE;
        loop {
            let began = Instant::now();
            match watch_over_server() {
                Ok(()) => pause = PAUSE,
                Err(failure) => {
                    // Only the first failure of a row is reported.
                    if pause == PAUSE {
                        say(&failure.message);
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            std::thread::sleep(pause.saturating_sub(began.elapsed()));
        }
    };
    // If the thread cannot be started, the command runs without it.
    let _ = std::thread::Builder::new().name("local server".to_owned()).spawn(watch);
}

/// Starts the server unless it runs or was stopped on purpose, and returns when it has ended. The connection also shows
/// to others that the server is in use, should its folder be removed.
fn watch_over_server() -> Result<(), Failure> {
    let folder = Folder::find()?;
    let child = if folder.stop_mark().exists() { None } else { bring_up(&folder)? };
    if let Ok(connection) = Connection::open(&folder) {
        connection.await_end();
    }
    if let Some(mut child) = child {
        let _ = child.wait();
    }
    Ok(())
}

/// Starts the server unless it runs. Returns when it answers.
fn bring_up(folder: &Folder) -> Result<Option<Child>, Failure> {
    if answer(folder)? == Readiness::Ready {
        return Ok(None);
    }
    // Before the folder is made, which would be left behind.
    let program = find_server()?;
    folder.prepare()?;
    let failed = |error: std::io::Error| Failure::because(&folder.shown(), error);
    // Held until the server answers. It is closed on exec, so the server does not inherit it.
    let lock = File::options().create(true).truncate(false).write(true).open(folder.start_lock()).map_err(failed)?;
    retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive)).map_err(|error| failed(error.into()))?;
    let began = Instant::now();
    let mut deadline = began + START;
    let mut child: Option<Child> = None;
    loop {
        match (answer(folder)?, &mut child) {
            // Another job may have started it while this one waited for the lock.
            (Readiness::Ready, _) => return Ok(child),
            // It reads its journal, which may take long or fail.
            (Readiness::Loading, _) => deadline = Instant::now() + START,
            (Readiness::Nothing, None) => child = Some(launch(folder, &program)?),
            (Readiness::Nothing, Some(_)) => {}
        }
        if let Some(server) = &mut child
            && let Some(status) = server.try_wait().ok().flatten()
        {
            descendants::collected(server);
            if status.code() != Some(server::TAKEN.into()) {
                let words = last_words(folder);
                return Err(Failure::own(format!("the private redis-server ended at its start ({status}): {words}")));
            }
            child = None;
            if began.elapsed() > GRACE {
                make_room(folder)?;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        if Instant::now() > deadline {
            let Some(mut server) = child else {
                return Err(unreachable(folder));
            };
            let _ = server.kill();
            let _ = server.wait();
            descendants::collected(&server);
            return Err(Failure::own(format!("the private redis-server does not answer: {}", last_words(folder))));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Ends a server that cannot be reached because its socket or its folder was removed. Its clients may hold locks, so it
/// is ended only when it has none.
fn make_room(folder: &Folder) -> Result<(), Failure> {
    let servers = servers_of(folder);
    if servers.iter().any(|server| server.has_clients()) {
        return Err(unreachable(folder));
    }
    servers.iter().filter(|server| server.is_idle()).for_each(|server| server.end());
    Ok(())
}

fn unreachable(folder: &Folder) -> Failure {
    let shown = folder.shown();
    Failure::own(match servers_of(folder).first() {
        Some(server) => format!(
            "the private server (process {}) still runs, but its socket in {shown} was removed. Commands may hold its \
             locks, so no other server is started: wait until they have ended, or end them with `fairlock local stop \
             --force`",
            server.pid
        ),
        None => format!(
            "a private server that does not answer has locked {shown}. Either it is about to end: try again. Or it \
             runs on another machine that shares this folder: set FAIRLOCK_LOCAL_DIR to a folder on a local disk"
        ),
    })
}

fn launch(folder: &Folder, program: &Path) -> Result<Child, Failure> {
    let mut server = this_binary();
    server.arg(server::WORD).arg(folder.path()).arg(program);
    // The server outlives this process, so it must not hold a descriptor whose end another process awaits.
    server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    descendants::spawn_apart(&mut server).map_err(|error| Failure::because("cannot start redis-server", error))
}

fn find_server() -> Result<PathBuf, Failure> {
    ["redis-server", "valkey-server"].into_iter().find_map(|name| lookup::find(name.as_ref()).ok()).ok_or_else(|| {
        Failure::own(
            "--local needs redis-server, which is not in PATH. Install it (Debian, Ubuntu: apt install redis-server; \
             Fedora: dnf install valkey; macOS: brew install redis), or name a server with --redis URL",
        )
    })
}

/// The end of the server's log, for an error message.
fn last_words(folder: &Folder) -> String {
    let log = std::fs::read(folder.log()).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let end = log.lines().rev().find(|line| !line.trim().is_empty());
    end.map_or_else(|| "it wrote no log".to_owned(), printable)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// The server reads its journal.
    Loading,
    /// There is no server, or it is about to end.
    Nothing,
}

/// Asks the server of this folder. A server that accepts connections but does not answer is an error: no other is
/// started.
fn answer(folder: &Folder) -> Result<Readiness, Failure> {
    if !folder.socket().exists() {
        return Ok(Readiness::Nothing);
    }
    folder.check()?;
    match Connection::open(folder).and_then(|mut connection| connection.ask("PING")) {
        Ok(answer) if answer.is_empty() => Ok(Readiness::Nothing),
        Ok(answer) if answer.starts_with("-LOADING") => Ok(Readiness::Loading),
        Ok(_) => Ok(Readiness::Ready),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(Failure::own(format!(
                "the private server in {} hangs: it accepts connections but does not answer within {} s",
                folder.shown(),
                ANSWER.as_secs()
            )))
        }
        Err(_) => Ok(Readiness::Nothing),
    }
}

/// A connection to the private server, for the three commands that are needed here.
struct Connection(UnixStream);

impl Connection {
    fn open(folder: &Folder) -> std::io::Result<Self> {
        let stream = UnixStream::connect(folder.socket())?;
        stream.set_read_timeout(Some(ANSWER))?;
        Ok(Self(stream))
    }

    /// Sends an inline command, and returns the first piece of the answer, which is enough for these commands.
    fn ask(&mut self, command: &str) -> std::io::Result<String> {
        self.0.write_all(format!("{command}\r\n").as_bytes())?;
        let mut answer = vec![0; 4096];
        let length = self.0.read(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
    }

    /// Returns when the server has closed the connection, which it does by exiting.
    fn shut_down(&mut self) -> std::io::Result<()> {
        match self.ask("SHUTDOWN") {
            Ok(answer) if answer.is_empty() => Ok(()),
            Ok(answer) => Err(std::io::Error::other(answer.trim().to_owned())),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Returns when the server has ended.
    fn await_end(mut self) {
        let _ = self.0.set_read_timeout(None);
        // Without a request nothing is received but the end of the stream.
        let _ = self.0.read(&mut [0]);
    }
}
