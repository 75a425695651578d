//! The client in Python (`examples/python-client`, written from `docs/protocol.md`), and the package for Python, as the
//! clients that `conformance` judges.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use testkit::{RedisServer, keys_left, tmp};

use crate::conformance::{replay, share_slots};

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

/// The Python package, built and installed by `make test-package-python`, which names its interpreter.
#[test]
#[ignore = "it needs the Python package: make test-package-python"]
fn the_python_package_conforms() {
    let python = std::env::var("FAIRLOCK_PYTHON").expect("a Python with the package");
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("python/tests/driver.py");
    let command = format!("'{python}' '{}'", driver.display());
    replay(&command);
    // What the keeper does under more faults is seen in crews of Rust: here it is the package's face that is new.
    share_slots(&[command.clone(), format!("{command} --tasks")], 1);
}
