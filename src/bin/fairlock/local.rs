//! `--local`: a private redis-server for the jobs of one user on one machine, started when it is first needed.

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;

use crate::exit::{Failure, say};
use crate::job::this_binary;
use crate::local_folder::{Folder, candidates};
use crate::text::printable;
use crate::{lookup, stage};

/// How long the server may take until it answers: it may have an old journal to read.
const START: Duration = Duration::from_secs(10);
const ANSWER: Duration = Duration::from_secs(5);

pub(crate) fn stop(force: bool) -> Result<u8, Failure> {
    let Some(folder) = running()? else {
        say("the private server is not running");
        return Ok(0);
    };
    let shown = printable(&folder.path().to_string_lossy());
    let mut connection = Connection::open(&folder).map_err(|error| Failure::because(&shown, error))?;
    let about = connection.ask("INFO clients").map_err(|error| Failure::because(&shown, error))?;
    let clients = about.lines().find_map(|line| line.strip_prefix("connected_clients:")?.trim().parse::<u64>().ok());
    // This connection is one of them.
    let others = clients.unwrap_or(1).saturating_sub(1);
    if others > 0 && !force {
        return Err(Failure::own(format!(
            "{others} connected to the private server in {shown}: commands that hold a lock would be ended; --force stops it all the same"
        )));
    }
    connection.shut_down().map_err(|error| Failure::because("the private server did not stop", error))?;
    Ok(0)
}

pub(crate) fn status() -> Result<u8, Failure> {
    let (running, folders) = (running()?, candidates()?);
    let text = match (&running, folders.first()) {
        (Some(folder), _) => format!("running: {}\n", folder.url()),
        (None, Some(folder)) => {
            format!("not running; its folder would be {}\n", printable(&folder.path().to_string_lossy()))
        }
        (None, None) => "not running\n".to_owned(),
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(0)
}

/// The folder of a server that answers.
fn running() -> Result<Option<Folder>, Failure> {
    for folder in candidates()? {
        if folder.socket().exists() {
            folder.check()?;
            if answers(&folder)? {
                return Ok(Some(folder));
            }
        }
    }
    Ok(None)
}

/// Does a server answer there? One that accepts connections and does not answer is no reason to start another: both
/// would write the same journal.
fn answers(folder: &Folder) -> Result<bool, Failure> {
    let Ok(mut connection) = Connection::open(folder) else {
        return Ok(false);
    };
    match connection.ask("PING") {
        // A server that is still reading its journal says so, and counts as alive.
        Ok(answer) => Ok(["+PONG", "-LOADING", "-BUSY"].iter().any(|alive| answer.starts_with(alive))),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Err(Failure::own(format!("the private server in {} hangs", printable(&folder.path().to_string_lossy()))))
        }
        // It is about to end.
        Err(_) => Ok(false),
    }
}

pub(crate) fn share_or_start() -> Result<Folder, Failure> {
    if let Some(folder) = running()? {
        return Ok(folder);
    }
    let folders = candidates()?;
    let folder = folders.into_iter().next().ok_or_else(|| Failure::own("no folder for the private server"))?;
    folder.prepare()?;
    let failed = |error: std::io::Error| Failure::because(&printable(&folder.path().to_string_lossy()), error);
    // Held until the server answers. It is closed on exec, so the server does not inherit it.
    let lock = File::options().create(true).truncate(false).write(true).open(folder.start_lock()).map_err(failed)?;
    retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive)).map_err(|error| failed(error.into()))?;
    let began = Instant::now();
    // Somebody else may have started it while we waited for the lock.
    let mut child = None;
    while !answers(&folder)? {
        let server = match &mut child {
            Some(server) => server,
            None => child.insert(start(&folder)?),
        };
        if let Ok(Some(status)) = server.try_wait() {
            return Err(Failure::own(format!(
                "the private redis-server ended at its start ({status}): {}",
                last_words(&folder)
            )));
        }
        if began.elapsed() > START {
            // It may be waiting for an earlier server, whose socket somebody removed.
            let _ = server.kill();
            let _ = server.wait();
            return Err(Failure::own(format!("the private redis-server does not answer: {}", last_words(&folder))));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(folder)
}

fn start(folder: &Folder) -> Result<Child, Failure> {
    let program = find_server()?;
    this_binary()
        .arg(stage::SERVER_WORD)
        .arg(folder.server_lock())
        .arg(program)
        // A socket in a folder that is ours alone, and no port.
        .args(["--port", "0", "--unixsocketperm", "600", "--unixsocket"])
        .arg(folder.socket())
        .arg("--dir")
        .arg(folder.path())
        .arg("--logfile")
        .arg(folder.log())
        // Tickets and tokens survive a restart; nothing is ever evicted.
        .args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--maxmemory-policy", "noeviction"])
        .args(["--daemonize", "no", "--supervised", "no"])
        // It outlives us, so it must hold nothing that somebody may wait for.
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| Failure::because("cannot start redis-server", error))
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
}
