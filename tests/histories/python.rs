//! Rust processes and processes of the Python client (`examples/python-client`, written from `docs/protocol.md`) in one
//! queue, while processes are killed and all data is flushed. The same judges read the history. `make test-python`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use redis::cmd;
use testkit::{
    RedisServer,
    crew::{Crew, Fault, Struck, fault, seeds},
    history::{Trouble, Wait},
    keys_left, tmp,
};

use crate::injected::{connections, data, silence};

/// A Python with the packages that the client needs, in an environment of its own next to the build artifacts.
pub(crate) fn python() -> Option<PathBuf> {
    // The tests of this file start together, and the first one makes the environment.
    static MAKING: Mutex<()> = Mutex::new(());
    let _making = MAKING.lock().unwrap();
    if !Command::new("python3").arg("--version").status().is_ok_and(|status| status.success()) {
        return None;
    }
    let environment = tmp().join("python-client");
    let python = environment.join("bin/python");
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/python-client/requirements.txt");
    let has_packages = || Command::new(&python).args(["-c", "import redis, msgpack"]).status();
    if !has_packages().is_ok_and(|status| status.success()) {
        let run = |command: &mut Command| assert!(command.status().expect("it starts").success(), "{command:?}");
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&environment));
        run(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--requirement"]).arg(requirements));
    }
    Some(python)
}

/// A crew at work, in which every other process is this command.
fn half_of_others(server: &RedisServer, seed: u64, processes: usize, command: &[&str]) -> Crew {
    let setup = Crew::at(server).seed(seed).processes(processes).waiters(4).long_of(4);
    let mut crew = setup.slack(Duration::from_secs(6)).every_other_is(command).start();
    crew.work(20);
    crew
}

#[test]
#[ignore = "it needs python3 and packages from an index: make test-python"]
fn a_copy_of_the_python_client_does_what_its_readme_shows() {
    let Some(python) = python() else { return };
    let (root, server) = (Path::new(env!("CARGO_MANIFEST_DIR")), RedisServer::start());
    let copy = tempfile::tempdir_in(tmp()).unwrap();
    for file in ["fairlock.py", "fairlock_wire.py"] {
        std::fs::copy(root.join("examples/python-client").join(file), copy.path().join(file)).unwrap();
    }
    let run = || {
        let steps = root.join("tests/histories/first_steps.py");
        let url = server.url().replace("redis+unix", "unix");
        Command::new(&python).arg(steps).arg(url).env("PYTHONPATH", copy.path()).output().unwrap()
    };
    let complaint = |out: &std::process::Output| String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(complaint(&run()).contains("copy the folder lua/rendered"));
    std::fs::create_dir(copy.path().join("rendered")).unwrap();
    for script in std::fs::read_dir(root.join("lua/rendered")).unwrap() {
        let script = script.unwrap();
        std::fs::copy(script.path(), copy.path().join("rendered").join(script.file_name())).unwrap();
    }
    let out = run();
    assert!(out.status.success(), "{}", complaint(&out));
    keys_left(&server);
}

/// Kills processes of one language. A hit is a waiter that died in the queue, or holding the lock.
fn killed(name: &'static str, of_python: bool, hits: u64) -> Fault<'static> {
    Fault::new(name, hits, move |crew| {
        let awake = crew.awake();
        let concerned = |wait: &&Wait| {
            let ended = wait.released_ns.or(wait.lost_ns).or(wait.left_ns).or(wait.returned_ns);
            wait.waiter.contains("-python-") == of_python && ended.is_none() && awake.contains(&wait.process)
        };
        let history = crew.recent();
        let Some(process) = history.waits().iter().find(concerned).map(|wait| wait.process.clone()) else {
            return Struck::hits(0);
        };
        crew.kill(&process);
        let died = |wait: &&Wait| wait.process == process && wait.died_ns.is_some() && wait.released_ns.is_none();
        Struck::hits(crew.recent().waits().iter().filter(died).count().min(1) as u64)
    })
}

/// SIGKILL, and another start with the data of an earlier moment.
fn rolled_back(server: &RedisServer) -> Fault<'_> {
    Fault::new("the server was rolled back", 2, move |crew| {
        let () = cmd("SAVE").query(&mut server.raw()).unwrap();
        crew.work(5);
        Struck::during(&[Trouble::Silent, Trouble::LostData], || {
            server.kill();
            let concerned = fault::concerned(crew).min(1);
            server.restart();
            concerned
        })
    })
}

/// Processes that wait in either way are granted the lock.
fn each_is_served(crew: &mut Crew, ways: [&str; 2]) {
    for way in ways {
        let of_this_way = |wait: &&Wait| wait.waiter.contains(way) && wait.token.is_some();
        let served = (0..50).any(|_| {
            crew.work(5);
            crew.history().waits().iter().filter(of_this_way).count() >= 5
        });
        assert!(served, "processes of the kind {way} are not granted the lock");
    }
}

#[test]
#[ignore = "it needs python3 and packages from an index: make test-python"]
fn python_and_rust_processes_stand_in_one_queue() {
    let Some(python) = python() else {
        eprintln!("\n*** SKIPPED: there is no python3, so the client of docs/protocol.md was not tested ***\n");
        return;
    };
    let member = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories/member.py");
    let command = [python.to_str().unwrap(), member.to_str().unwrap()];
    for seed in seeds(&[31]) {
        let server = RedisServer::start();
        let mut crew = half_of_others(&server, seed, 8, &command);
        crew.suffer(vec![
            killed("Rust processes killed", false, 3),
            killed("Python processes killed", true, 3),
            fault::holders_killed(2),
            fault::processes_paused_briefly(3),
            fault::holders_paused(1),
            connections::killed(&server, 30),
            connections::scripts_flushed(&server, 10, 5),
            data::flushed(&server, 4),
            rolled_back(&server),
            silence::stopped(&server, silence::briefly, 2),
        ]);
        each_is_served(&mut crew, ["-push-", "-polls-"]);
        crew.finish();
        keys_left(&server);
    }
}

/// The Python package, built and installed by `make test-package-python`, which names its interpreter.
#[test]
#[ignore = "it needs the Python package: make test-package-python"]
fn processes_of_the_python_package_and_of_rust_stand_in_one_queue() {
    let python = std::env::var("FAIRLOCK_PYTHON").expect("a Python with the package");
    let member = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories/package_member.py");
    let command = [&*python, member.to_str().unwrap()];
    let server = RedisServer::start();
    let mut crew = half_of_others(&server, seeds(&[37])[0], 16, &command);
    crew.suffer(vec![
        killed("Rust processes killed", false, 3),
        killed("Python processes killed", true, 3),
        fault::holders_killed(2),
    ]);
    each_is_served(&mut crew, ["-thread-", "-task-"]);
    crew.finish();
    keys_left(&server);
}
