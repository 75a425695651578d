//! `--local`: a private redis-server for the jobs of one user on one machine, started when it is first needed.

mod folder;
pub(crate) mod server;

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;

use crate::exit::{Failure, say};
use crate::process::{descendants, lookup, this_binary};
use crate::text::printable;
use folder::Folder;
use server::{Place, become_server, servers_of};

/// How long a server may take until it answers, or until it has ended.
const START: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(5);
/// How long a server without an answer counts as one that begins or ends.
const GRACE: Duration = Duration::from_secs(1);
/// How often a server that is gone again and again is started, and the most that grows to while that fails.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Starts the server unless it runs; in front, this process becomes the server as soon as no other is in its place.
pub(crate) fn start(in_front: bool) -> Result<u8, Failure> {
    if !in_front {
        return share_or_start().map(|folder| show(&format!("running: {}", folder.url())));
    }
    let (folder, program) = (Folder::find()?, find_server()?);
    folder.prepare()?;
    if answer(&folder)? != Answer::Nothing {
        say("the private server runs already; taking its place when it ends");
    }
    let failure = become_server(&folder, &program, Place::InTurn);
    Err(if failure.code == server::TAKEN { unreachable(&folder) } else { failure })
}

pub(crate) fn stop(force: bool) -> Result<u8, Failure> {
    let folder = Folder::find()?;
    let connection = if answer(&folder)? == Answer::Nothing { None } else { Connection::open(&folder).ok() };
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
    // Those that go on without it would start it again.
    File::create(folder.stop_mark()).map_err(failed)?;
    connection.shut_down().map_err(|error| Failure::because("the private server did not stop", error))?;
    Ok(0)
}

const ENDED: &str =
    "commands that hold a lock would be ended; `fairlock local stop --force` stops the server all the same";

/// Stops a server whose socket is gone, with its folder perhaps.
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

pub(crate) fn status() -> Result<u8, Failure> {
    let folder = Folder::find()?;
    let shown = folder.shown();
    let text = match (answer(&folder)?, servers_of(&folder).first()) {
        (Answer::Ready, _) => format!("running: {}", folder.url()),
        (Answer::Loading, _) => format!("reading its data: {}", folder.url()),
        (Answer::Nothing, Some(server)) => format!("process {} runs without a socket in {shown}", server.pid),
        (Answer::Nothing, None) => format!("not running; its folder would be {shown}"),
    };
    Ok(show(&text))
}

fn show(line: &str) -> u8 {
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
    0
}

/// The folder of the server, which answers when this returns.
pub(crate) fn share_or_start() -> Result<Folder, Failure> {
    let folder = Folder::find()?;
    let _ = std::fs::remove_file(folder.stop_mark());
    bring_up(&folder)?;
    Ok(folder)
}

/// Starts the server again whenever it is gone, for as long as this process lives: the server ends with the control
/// group of the job that started it, and other jobs wait and hold then.
pub(crate) fn keep_running() {
    let watch = || {
        let mut pause = PAUSE;
        loop {
            let began = Instant::now();
            match watch_over_server() {
                Ok(()) => pause = PAUSE,
                Err(failure) => {
                    // Once: it is the same trouble that is met again, though the server's log has another time.
                    if pause == PAUSE {
                        say(&failure.message);
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
            std::thread::sleep(pause.saturating_sub(began.elapsed()));
        }
    };
    // Without it the command runs as well.
    let _ = std::thread::Builder::new().name("local server".to_owned()).spawn(watch);
}

/// Brings the server up unless somebody stopped it, and returns when it is gone. The connection also shows to others that
/// the server is in use, should its folder be removed.
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

/// Returns when the server answers, and starts it if there is none.
fn bring_up(folder: &Folder) -> Result<Option<Child>, Failure> {
    if answer(folder)? == Answer::Ready {
        return Ok(None);
    }
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
            // Somebody else may have started it while we waited for the lock.
            (Answer::Ready, _) => return Ok(child),
            // It reads its journal, which may take long, and may find that it cannot.
            (Answer::Loading, _) => deadline = Instant::now() + START,
            (Answer::Nothing, None) => child = Some(launch(folder)?),
            (Answer::Nothing, Some(_)) => {}
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

/// A server lives that cannot be reached: somebody removed its socket, or the folder. Whoever is connected may hold a
/// lock, so it is left alone until nobody is.
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
            "the private server (process {}) still runs, but its socket in {shown} was removed. Commands may hold its locks, so \
             no other is started: wait until they have ended, or end them with `fairlock local stop --force`",
            server.pid
        ),
        None => format!(
            "a private server that does not answer has {shown}: it is about to end, or it runs on another machine that shares \
             this folder. Then set FAIRLOCK_LOCAL_DIR to a folder on a local disk"
        ),
    })
}

fn launch(folder: &Folder) -> Result<Child, Failure> {
    let mut server = this_binary();
    server.arg(server::WORD).arg(folder.path()).arg(find_server()?);
    // It outlives us, so it must hold nothing that somebody may wait for.
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
enum Answer {
    Ready,
    /// The server reads its journal.
    Loading,
    /// There is no server, or it is about to end.
    Nothing,
}

/// Asks the server of this folder. One that accepts connections and does not answer is no reason to start another.
fn answer(folder: &Folder) -> Result<Answer, Failure> {
    if !folder.socket().exists() {
        return Ok(Answer::Nothing);
    }
    folder.check()?;
    match Connection::open(folder).and_then(|mut connection| connection.ask("PING")) {
        Ok(answer) if answer.is_empty() => Ok(Answer::Nothing),
        Ok(answer) if answer.starts_with("-LOADING") => Ok(Answer::Loading),
        Ok(_) => Ok(Answer::Ready),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(Failure::own(format!("the private server in {} hangs", folder.shown())))
        }
        Err(_) => Ok(Answer::Nothing),
    }
}

/// A connection to the private server that needs no more than three commands.
struct Connection(UnixStream);

impl Connection {
    fn open(folder: &Folder) -> std::io::Result<Self> {
        let stream = UnixStream::connect(folder.socket())?;
        stream.set_read_timeout(Some(ANSWER))?;
        Ok(Self(stream))
    }

    /// Sends an inline command, and returns the first piece of the answer: ample for what is asked here.
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

    /// Returns when the server is gone, however it ended.
    fn await_end(mut self) {
        let _ = self.0.set_read_timeout(None);
        // It is not asked anything, so it does not say anything.
        let _ = self.0.read(&mut [0]);
    }
}
