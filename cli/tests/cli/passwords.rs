//! Passwords come from a file or the environment, and are shown nowhere.

use std::path::Path;
use std::process::{Command, Output};

use crate::pty::Terminal;
use crate::shared::{Process, fairlock, parent};
use testkit::RedisServer;

const SECRET: &str = "hunter2";

/// A server whose users have this password, and its URL without one.
fn guarded() -> (RedisServer, String) {
    let rules = format!("on >{SECRET} ~* &* +@all");
    let server = RedisServer::builder().plain().tcp().appendonly().password(SECRET).user("worker", &rules).start();
    let url = format!("redis://127.0.0.1:{}/", server.port());
    (server, url)
}

fn password_file() -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), format!("{SECRET}\n")).unwrap();
    file
}

#[test]
fn a_password_is_in_a_file_or_in_the_environment() {
    let (server, url) = guarded();
    let file = password_file();
    let path = file.path();
    let as_worker = url.replace("redis://", "redis://work%65r@");
    let at_socket = format!("unix://{}?user=work%65r", server.socket().display());
    let right = |command: &mut Command| {
        command.env("FAIRLOCK_PASSWORD", SECRET);
    };
    type Arrange<'a> = &'a dyn Fn(&mut Command);
    // Its output stays open after it has ended, so fairlock hears of its end while it still reads.
    let prints = format!("cat {}; echo more; sleep 1 &", path.display());
    let ways: [(&str, &str, Arrange<'_>); 9] = [
        ("default", &url, &|command| {
            command.arg("--password-file").arg(path);
        }),
        ("default", &url, &|command| {
            command.env("FAIRLOCK_PASSWORD_FILE", path);
        }),
        ("default", &url, &right),
        ("worker", &url, &|command| {
            command.args(["--user", "worker", "--password-command", &prints]);
        }),
        ("worker", &url, &|command| {
            command.env("FAIRLOCK_PASSWORD", SECRET).args(["--user", "worker"]);
        }),
        ("worker", &url, &|command| {
            command.env("FAIRLOCK_USER", "worker").arg("--password-file").arg(path);
        }),
        ("worker", &as_worker, &right),
        ("worker", &at_socket, &right),
        // A file comes before a variable.
        ("default", &url, &|command| {
            command.env("FAIRLOCK_PASSWORD", "wrong").arg("--password-file").arg(path);
        }),
    ];
    for (number, (user, url, arrange)) in ways.into_iter().enumerate() {
        let mut command = fairlock();
        arrange(command.env("REDIS_URL", url));
        let job = Process::spawn(command.args(["run", "x", "--", "sh", "-c", "echo; exec sleep 1000"]));
        job.line();
        let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut server.raw()).unwrap();
        let client = clients.lines().find(|client| client.contains(" sub=1 ")).expect("the job listens");
        // In old versions this ends the line.
        assert!(format!("{client} ").contains(&format!(" user={user} ")), "{number}: {client}");
        drop(job);
        testkit::eventually("the job is gone", testkit::SOON, || {
            !redis::cmd("CLIENT").arg("LIST").query::<String>(&mut server.raw()).unwrap().contains(" sub=1 ")
        });
        redis::cmd("FLUSHALL").exec(&mut server.raw()).unwrap();
    }
    let lonely = fairlock().args(["--redis", &url, "--user", "worker", "status", "x"]).output().unwrap();
    assert_eq!(lonely.status.code(), Some(125));
    assert!(String::from_utf8(lonely.stderr).unwrap().contains("--user needs a password"));
}

#[test]
fn a_password_that_is_missing_is_no_denied_login() {
    let (_server, url) = guarded();
    let said = |options: &[&str]| {
        let ended = fairlock().args(["--redis", &url]).args(options).args(["status", "x"]).output().unwrap();
        assert_eq!(ended.status.code(), Some(125));
        String::from_utf8(ended.stderr).unwrap()
    };
    let at = url["redis://".len()..].trim_end_matches('/');
    let none = said(&[]);
    assert!(none.starts_with(&format!("fairlock: the server at {at} needs a password, and none was given")), "{none}");
    let no_file = said(&["--password-file", "/nowhere/password"]);
    let reason = "the password file /nowhere/password cannot be read: No such file or directory";
    assert!(no_file.starts_with(&format!("fairlock: no login for the server at {at}: {reason}")), "{no_file}");
}

#[test]
fn a_password_command_that_fails_says_why() {
    let (_server, url) = guarded();
    for (command, says) in [("echo no token >&2; exit 3", "status: 3) no token"), (":", "prints nothing")] {
        let ended = fairlock().args(["--redis", &url, "--password-command", command, "status", "x"]).output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.code() == Some(125) && stderr.contains(says), "{stderr}");
    }
}

/// The arguments of a process, as `ps` shows them.
fn arguments(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap().replace('\0', " ")
}

#[test]
fn no_process_has_the_password_among_its_arguments() {
    let (_server, url) = guarded();
    let file = password_file();
    for arrange in [
        &(|command: &mut Command, _: &Path| {
            command.env("FAIRLOCK_PASSWORD", SECRET);
        }) as &dyn Fn(&mut Command, &Path),
        &|command, path| {
            command.arg("--password-file").arg(path);
        },
        &|command, _| {
            command.env("REDIS_URL", format!("redis://:{SECRET}@{}", &url["redis://".len()..]));
        },
        &|command, _| {
            command.arg(format!("--redis=redis://:{SECRET}@{}", &url["redis://".len()..]));
        },
        &|command, _| {
            command.args(["--redis", &format!("redis://worker:{SECRET}@{}", &url["redis://".len()..])]);
        },
    ] {
        let mut command = fairlock();
        arrange(command.env("REDIS_URL", &url), file.path());
        // No `exec`: in the middle of one a process has neither arguments nor an environment.
        let job = Process::spawn(command.args(["run", "x", "--", "sh", "-c", "echo $$; sleep 1000; :"]));
        let command = job.number();
        for pid in [job.id(), parent(command), command] {
            assert!(!arguments(pid).contains(SECRET), "{}", arguments(pid));
        }
        let environment = std::fs::read_to_string(format!("/proc/{command}/environ")).unwrap();
        assert!(!environment.contains("FAIRLOCK_GIVEN_URL"), "{environment}");
        job.signal(crate::shared::Signal::TERM);
        job.finish();
    }
}

/// Everything that a user can be shown, with the right password and with a wrong one that the server refuses.
#[test]
fn no_output_has_the_password() {
    let (server, url) = guarded();
    let at = &url["redis://".len()..];
    let calls: [&[&str]; 12] = [
        &["run", "x", "--no-wait", "--", "true"],
        &["run", "x", "--timeout", "2s", "--events", "/dev/stderr", "--", "true"],
        &["status"],
        &["status", "--json"],
        &["status", "x"],
        &["status", "x", "--json"],
        &["break", "x", "--force", "--json"],
        &["doctor"],
        &["doctor", "--json"],
        &["history", "x", "on"],
        &["history", "x", "--json"],
        &["exporter", "--once", "--holders"],
    ];
    let hidden = |output: &Output, call: &[&str]| {
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(!said.contains("hunter"), "{call:?}: {said}");
        assert!(!said.contains("panicked"), "{call:?}: {said}");
    };
    for password in [SECRET, "hunter3", "hun%zzter", "hunter@/:"] {
        for call in calls {
            let url = format!("redis://:{password}@{at}");
            hidden(&fairlock().args(["--redis", &url]).args(call).output().unwrap(), call);
            let mut command = fairlock();
            command.env("FAIRLOCK_PASSWORD", password).env("REDIS_URL", format!("redis://{at}"));
            hidden(&command.args(call).output().unwrap(), call);
        }
    }
    let mut terminal = Terminal::open_with(80, &[("REDIS_URL", &format!("redis://:{SECRET}@{at}"))]);
    terminal.enter_and_await("$F watch", |screen| {
        assert!(!screen.contains("hunter"), "{screen}");
        screen.contains("· 127.0.0.1:")
    });
    server.kill();
    terminal.await_screen(|screen| {
        assert!(!screen.contains("hunter"), "{screen}");
        screen.contains("no Redis server answers")
    });
}
