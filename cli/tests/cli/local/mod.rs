//! `--local`: a private server that needs no set-up, is shared by the jobs of a user, and is closed to other users.

mod homes;
mod refused;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::shared::{Process, Signal, ask, await_death, eventually, fairlock, lives, signal, stat};
use testkit::server::redis_server;

/// A folder for a private server. The server ends with it.
struct Place {
    root: tempfile::TempDir,
    /// Servers whose folder was removed.
    strays: Vec<u32>,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("bin")).unwrap();
        symlink(redis_server().canonicalize().unwrap(), root.path().join("bin/redis-server")).unwrap();
        Self { root, strays: Vec::new() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn folder(&self) -> PathBuf {
        self.path("private")
    }

    /// The binary under test, which finds the server of the tests in PATH.
    fn set_up<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let mut path = self.path("bin").into_os_string();
        path.push(":");
        path.push(env::var_os("PATH").unwrap());
        command.env("PATH", path).env("FAIRLOCK_LOCAL_DIR", self.folder())
    }

    fn fairlock(&self) -> Command {
        let mut command = fairlock();
        self.set_up(&mut command);
        command
    }

    fn run(&self, script: &str) -> Process {
        Process::spawn(self.fairlock().args(["run", "--local", "x", "--", "sh", "-c", script]))
    }

    fn local(&self, arguments: &[&str]) -> crate::shared::Finished {
        Process::spawn(self.fairlock().arg("local").args(arguments)).finish()
    }

    fn server(&self) -> Option<u32> {
        server_at(&self.folder().join("redis.sock"))
    }

    /// The folder is removed, and the server goes on.
    fn lose_folder(&mut self, how: impl FnOnce(&Path)) -> u32 {
        let server = self.server().unwrap();
        self.strays.push(server);
        how(&self.folder());
        server
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for server in self.strays.iter().copied().chain(self.server()).filter(|server| lives(*server)) {
            signal(server, Signal::KILL);
        }
    }
}

fn server_at(socket: &Path) -> Option<u32> {
    let about = ask(socket, "INFO server")?;
    about.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok())
}

#[test]
fn jobs_that_start_together_share_one_private_server() {
    let place = Place::new();
    let runs: Vec<Process> = (0..8).map(|_| place.run("echo done")).collect();
    for run in runs {
        let finished = run.finish();
        assert_eq!((finished.code, finished.stdout.as_str()), (0, "done\n"), "{finished:?}");
    }
    let server = place.server().expect("it goes on running");
    // Each server that starts announces itself in the log, and several servers would share the log.
    let log = fs::read_to_string(place.folder().join("redis.log")).unwrap();
    assert_eq!(log.matches(" is starting").count(), 1, "{log}");

    // No second server waits for the end of the first either.
    let folder = place.folder().to_str().unwrap().to_owned();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let of_folder = processes
        .filter(|process| fs::read_to_string(process.path().join("cmdline")).is_ok_and(|line| line.contains(&folder)));
    let its_processes = of_folder.count();
    // Old servers hide their arguments.
    assert!(its_processes == 1 || testkit::run::lacks("a title with the arguments", (7, 0)), "{its_processes}");

    assert_eq!(place.folder().metadata().unwrap().mode() & 0o7777, 0o700);
    let settings = ask(&place.folder().join("redis.sock"), "CONFIG GET *").unwrap();
    for setting in
        ["\r\nport\r\n$1\r\n0\r\n", "\r\nappendonly\r\n$3\r\nyes\r\n", "\r\nmaxmemory-policy\r\n$10\r\nnoeviction\r\n"]
    {
        assert!(settings.contains(setting), "{setting:?} in {settings}");
    }
    assert_eq!(stat(server).unwrap()[3], server.to_string(), "its own session: no terminal can reach it");
}

/// A descriptor that the server kept would make its reader wait for the end of the server.
#[test]
fn the_private_server_keeps_no_descriptor_of_its_callers() {
    let place = Place::new();
    let mut caller = Command::new("bash");
    place.set_up(&mut caller).env("F", env!("CARGO_BIN_EXE_fairlock"));
    // Another copy of stdout, as descriptor 9; `finish` waits until no process holds any.
    let finished = Process::spawn(caller.args(["-c", "exec 9>&1; $F run --local x -- true"])).finish();
    assert_eq!(finished.code, 0, "{finished:?}");
    assert!(place.server().is_some());
}

#[test]
fn local_stop_spares_a_server_with_a_running_command_unless_forced() {
    let place = Place::new();
    let local = |arguments: &[&str]| place.local(arguments);
    let status = local(&["status"]);
    assert!(status.code == 1 && status.stdout.starts_with("not running"), "{status:?}");
    assert_eq!(local(&["stop"]).code, 0, "nothing to do");

    let holder = place.run("echo; exec sleep 1000");
    holder.line();
    let server = place.server().unwrap();
    let status = local(&["status"]);
    assert!(status.code == 0 && status.stdout.contains(place.folder().to_str().unwrap()), "{status:?}");
    assert_eq!(local(&["stop"]).code, 125);
    assert_eq!(place.server(), Some(server));
    holder.signal(Signal::TERM);
    assert_eq!(holder.finish().code, 143);
    // The server may need a moment to see that the connection is closed.
    eventually("it stops", || (local(&["stop"]).code == 0).then_some(()));
    await_death(server);

    // The lease is so long that a holder that restarted the server after a second would keep it.
    let mut holder = place.fairlock();
    let holder =
        Process::spawn(holder.args(["run", "--local", "x", "--lease", "6s", "--", "sh", "-c", "echo; sleep 1000"]));
    holder.line();
    let server = place.server().unwrap();
    assert_eq!(local(&["stop", "--force"]).code, 0);
    await_death(server);
    // The holder does not start it again, and so it loses its lease.
    assert_eq!(holder.finish().code, 123);
    assert_eq!(place.server(), None);
    assert_eq!(place.run("true").finish().code, 0, "who comes later starts it");
}

/// A second server would write to the same journal.
#[test]
fn a_server_that_hangs_is_not_replaced() {
    let place = Place::new();
    assert_eq!(place.run("true").finish().code, 0);
    let server = place.server().unwrap();
    signal(server, Signal::STOP);
    let finished = place.run("true").finish();
    assert_eq!(finished.code, 125);
    assert!(finished.stderr.contains("hangs"), "{finished:?}");

    signal(server, Signal::CONT);
    eventually("it answers again", || (place.server() == Some(server)).then_some(()));
}

/// Running jobs hold their locks at the server that they are connected to, even if its folder is gone.
#[test]
fn a_server_whose_folder_is_gone_is_not_joined_by_a_second() {
    let ways: [fn(&Path); 4] = [
        |folder| fs::remove_dir_all(folder).unwrap(),
        |folder| fs::rename(folder, folder.with_file_name("moved")).unwrap(),
        |folder| fs::remove_file(folder.join("redis.sock")).unwrap(),
        |folder| {
            fs::remove_dir_all(folder).unwrap();
            fs::create_dir(folder).unwrap();
            fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
        },
    ];
    for way in ways {
        let mut place = Place::new();
        let (go, end) = (place.path("go"), "echo; until [ -e \"$0\" ]; do sleep 0.05; done; echo done");
        let mut run = place.fairlock();
        let holder = Process::spawn(run.args(["run", "--local", "x", "--", "sh", "-c", end]).arg(&go));
        holder.line();
        let server = place.lose_folder(way);

        let newcomer = place.run("echo never").finish();
        assert_eq!((newcomer.code, newcomer.stdout.as_str()), (125, ""), "{newcomer:?}");
        if cfg!(target_os = "linux") {
            assert!(newcomer.stderr.contains(&format!("process {server}")), "{newcomer:?}");
            assert!(place.local(&["status"]).stdout.contains(&format!("process {server}")));
            assert_eq!(place.local(&["stop"]).code, 125, "it is in use");
        }
        assert!(lives(server));

        fs::write(&go, "").unwrap();
        let finished = holder.finish();
        assert_eq!((finished.code, finished.stdout.as_str()), (0, "done\n"), "{finished:?}");
        // The server has no holders any more, so the next job ends it and starts another.
        eventually("there is room", || (place.run("echo now").finish().stdout == "now\n").then_some(()));
        assert!(!lives(server) && place.server().is_some());
    }
}

#[test]
fn a_server_whose_folder_is_gone_is_stopped_by_force() {
    let mut place = Place::new();
    let mut holder = place.fairlock();
    let holder =
        Process::spawn(holder.args(["run", "--local", "x", "--lease", "9s", "--", "sh", "-c", "echo; sleep 1000"]));
    holder.line();
    let server = place.lose_folder(|folder| fs::remove_dir_all(folder).unwrap());
    assert_eq!(place.local(&["stop", "--force"]).code, 0);
    assert!(!lives(server));
    assert_eq!(holder.finish().code, 123);
    assert_eq!(place.run("true").finish().code, 0);
}

/// The server ends with the control group of the job that started it.
#[test]
fn waiters_and_holders_restart_the_private_server() {
    let place = Place::new();
    let go = place.path("go");
    let mut run = place.fairlock();
    let script = "echo $FAIRLOCK_TOKEN; until [ -e \"$0\" ]; do sleep 0.05; done";
    let holder = Process::spawn(run.args(["run", "--local", "x", "--", "sh", "-c", script]).arg(&go));
    let token = holder.line().trim().parse::<u64>().unwrap();
    let waiter = place.run("echo $FAIRLOCK_TOKEN");
    let queue = || {
        let status = Process::spawn(place.fairlock().args(["status", "--local", "x", "--json"])).finish().stdout;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        (status["holders"][0]["token"].as_u64(), status["waiting"].as_u64())
    };
    eventually("it waits", || (queue() == (Some(token), Some(1))).then_some(()));

    for how in [Signal::KILL, Signal::TERM] {
        let server = place.server().unwrap();
        signal(server, how);
        await_death(server);
        // There is no other job that could start it.
        let again = eventually("it runs again", || place.server());
        assert_ne!(again, server);
        eventually("all is as before", || (queue() == (Some(token), Some(1))).then_some(()));
    }
    fs::write(&go, "").unwrap();
    let finished = holder.finish();
    assert_eq!(finished.code, 0, "{finished:?}");
    let finished = waiter.finish();
    assert_eq!(finished.code, 0, "{finished:?}");
    assert!(finished.stdout.trim().parse::<u64>().unwrap() > token);
}

/// `fairlock local start --foreground` is what a unit of systemd starts.
#[test]
fn a_server_in_the_foreground_replaces_one_that_ends() {
    let place = Place::new();
    assert!(place.local(&["start"]).stdout.starts_with("running: unix:///"));
    let first = place.server().unwrap();
    let front = Process::spawn(place.fairlock().args(["local", "start", "--foreground"]));
    assert!(front.complaint().contains("runs already"));
    let holder = place.run("echo; exec sleep 1000");
    holder.line();
    signal(first, Signal::TERM);
    await_death(first);
    // The holder may start a server first. Then that server ends, too.
    eventually("it takes the place", || {
        let server = place.server()?;
        if server != front.id() {
            signal(server, Signal::TERM);
            await_death(server);
        }
        (server == front.id()).then_some(())
    });
    holder.signal(Signal::TERM);
    assert_eq!(holder.finish().code, 143);
    front.signal(Signal::TERM);
    assert_eq!(front.finish().code, 0);
}

#[test]
fn looking_on_starts_no_server_and_leaves_nothing() {
    let place = Place::new();
    let look = |words: &[&str]| Process::spawn(place.fairlock().arg("--local").args(words)).finish();
    let list = look(&["status"]);
    assert_eq!((list.code, list.stdout.as_str()), (0, ""), "{list:?}");
    let status = look(&["status", "x"]);
    assert_eq!((status.code, status.stdout.as_str()), (1, "x  free\n"), "{status:?}");
    assert_eq!(status.stderr, "fairlock: the private server does not run\n");
    assert!(place.server().is_none() && !place.folder().exists());
    let without = Process::spawn(place.fairlock().env("PATH", "/nowhere").args(["--local", "run", "x", "/bin/true"]));
    let without = without.finish();
    assert!(without.code == 125 && without.stderr.contains("--local needs redis-server"), "{without:?}");
    assert!(!place.folder().exists(), "a failure leaves no folder");

    let holder = place.run("echo; exec sleep 1000");
    holder.line();
    assert_eq!(look(&["status", "x"]).code, 0);
    let status = place.local(&["status"]);
    let told = format!("\nprocess {}, up ", place.server().unwrap());
    assert!(status.stdout.starts_with("running: unix:///") && status.stdout.contains(&told), "{status:?}");
    assert!(status.stdout.ends_with(" connected\n") && !status.stdout.contains(" 0 clients"), "{status:?}");
    holder.signal(Signal::TERM);
    holder.finish();
    // A server that was stopped on purpose stays so.
    assert_eq!(place.local(&["stop", "--force"]).code, 0);
    assert_eq!(look(&["status", "x"]).code, 1);
    assert!(place.server().is_none());
}
