//! A private PostgreSQL, which only this test can reach.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

use testkit::{SOON, eventually, process::Process};

pub struct Postgres {
    _server: Process,
    folder: tempfile::TempDir,
}

/// The folder of initdb and postgres: `scripts/ensure-postgres.sh` finds it.
fn programs() -> PathBuf {
    let folder = std::env::var_os("FAIRLOCK_POSTGRES").map(PathBuf::from);
    folder.expect("`make test-examples` names the folder of PostgreSQL's initdb in FAIRLOCK_POSTGRES")
}

impl Postgres {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let mut initdb = as_user(&folder, "initdb");
        initdb.args(["--auth=trust", "--username=postgres", "--no-sync", "-D"]).arg(&data);
        let done = initdb.output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let mut postgres = as_user(&folder, "postgres");
        postgres.arg("-D").arg(&data).arg("-k").arg(folder.path()).args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        postgres.stdout(Stdio::null()).stderr(Stdio::null());
        let server = Process::spawn(&mut postgres, Some(folder.path())).unwrap();
        let this = Self { _server: server, folder };
        let is_up = || postgres::Client::connect(&this.address(), postgres::NoTls).is_ok();
        eventually("PostgreSQL is up", SOON, is_up);
        this
    }

    pub fn address(&self) -> String {
        format!("host={} user=postgres", self.folder.path().display())
    }
}

/// PostgreSQL refuses to run as root, so root runs it as the user that its package has made, or as nobody.
fn as_user(folder: &tempfile::TempDir, program: &str) -> Command {
    let program = programs().join(program);
    let mut command = if rustix::process::getuid().is_root() {
        let exists = |user: &&str| Command::new("id").arg(user).output().is_ok_and(|id| id.status.success());
        let user = ["postgres", "nobody"].into_iter().find(exists).unwrap();
        let owns = Command::new("chown").arg(user).arg(folder.path()).status().unwrap();
        assert!(owns.success());
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid"]).arg(group_of(user)).arg("--clear-groups").arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir(folder.path()).env("LC_ALL", "C");
    command
}

fn group_of(user: &str) -> String {
    let id = Command::new("id").args(["-g", user]).output().unwrap();
    String::from_utf8(id.stdout).unwrap().trim().to_owned()
}
