//! The test kit for tests in other languages: it answers every line, and leaves nothing behind.

use std::{
    collections::BTreeSet,
    env,
    io::{self, BufRead as _, BufReader, Lines, Write as _},
    net::TcpStream,
    path::Path,
    process::{ChildStdin, ChildStdout},
};

use serde_json::Value;
use testkit::{Child, SOON, child, eventually};

#[test]
fn child() {
    child::main(|_, _| {
        // The harness has begun a line.
        println!();
        testkit::serve::serve(io::stdin().lock(), io::stdout().lock()).unwrap();
    });
}

struct Served {
    process: Child,
    input: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Served {
    fn start() -> Served {
        let binary = env::current_exe().unwrap();
        let own = format!("env {}=serve {} --exact serve::child --nocapture", child::ROLE, binary.display());
        let (process, input, output) = Child::program(&own);
        Served { process, input: Some(input), answers: BufReader::new(output).lines() }
    }

    fn ask(&mut self, request: &str) -> Value {
        writeln!(self.input.as_ref().unwrap(), "{request}").unwrap();
        let answer = self.answers.by_ref().map(Result::unwrap).find(|line| line.starts_with('{'));
        serde_json::from_str(&answer.expect("an answer")).unwrap()
    }

    #[track_caller]
    fn does(&mut self, request: &str) -> Value {
        let mut answer = self.ask(request);
        assert!(answer.get("error").is_none(), "{request}: {answer}");
        answer["ok"].take()
    }

    #[track_caller]
    fn refuses(&mut self, request: &str, why: &str) {
        let answer = self.ask(request);
        assert!(answer["error"].as_str().is_some_and(|error| error.contains(why)), "{request}: {answer}");
    }
}

#[test]
fn what_was_started_ends_with_the_input_and_with_the_process() {
    for killed in [false, true] {
        let mut served = Served::start();
        let running = served.does(r#"{"do": "server", "tcp": true}"#);
        let stopped = served.does(r#"{"do": "server", "tcp": true}"#);
        let proxy = served.does(r#"{"do": "proxy", "of": 1, "tcp": true}"#);
        served.does(r#"{"do": "stop", "of": 2}"#);
        let listens = |of: &Value| TcpStream::connect(("127.0.0.1", of["port"].as_u64().unwrap() as u16)).is_ok();
        let all = [running, stopped, proxy];
        assert!(all.iter().all(listens), "{all:?}");
        if killed {
            served.process.kill();
        } else {
            served.input = None;
            assert!(served.process.wait(SOON).success());
        }
        eventually("nobody listens", SOON, || !all.iter().any(listens));
        let folder = |of: &Value| of["folder"].as_str().is_some_and(|folder| Path::new(folder).exists());
        eventually("their folders are gone", SOON, || !all.iter().any(folder));
    }
}

#[test]
fn a_bad_request_is_answered_by_what_is_wrong_and_the_next_one_is_done() {
    let mut served = Served::start();
    served.refuses("hello", "hello: expected");
    served.refuses(r#"{"do": "fly"}"#, "unknown variant `fly`, expected one of `server`");
    served.refuses(r#"{"do": "kill"}"#, "missing field `of`");
    served.refuses(r#"{"do": "server", "pasword": "x"}"#, "unknown field `pasword`");
    served.refuses(r#"{"do": "kill", "of": 1}"#, "nothing has the id 1");
    served.refuses(r#"{"do": "server", "config": ["maxmemory lots"]}"#, "redis-server ended at its start");
    let server = served.does(r#"{"do": "server"}"#);
    let of = |verb: &str| format!(r#"{{"do": "{verb}", "of": {}}}"#, server["id"]);
    served.refuses(&of("heal"), "1 is no proxy");
    served.does(&of("kill"));
    served.refuses(&of("stop"), "the server is not running");
    served.does(&of("restart"));
    served.does(&of("nothing_left"));
    served.does(&of("end"));
    served.refuses(&of("end"), "nothing has the id 1, or it was ended");
}

/// By its errors, which list what there is.
#[test]
fn the_essay_has_a_row_for_each_request_each_setting_of_a_server_and_each_act() {
    let mut served = Served::start();
    served.does(r#"{"do": "server"}"#);
    served.does(r#"{"do": "proxy", "of": 1}"#);
    let wrong =
        [r#"{"do": "_"}"#, r#"{"do": "server", "_": 1}"#, r#"{"do": "fault", "of": 2, "side": "reply", "act": "_"}"#];
    let listed = wrong.map(|request| served.ask(request)["error"].as_str().unwrap().to_owned());
    let there_is: BTreeSet<&str> = listed
        .iter()
        .flat_map(|error| error.split("expected one of").nth(1).unwrap().split('`').skip(1).step_by(2))
        .collect();

    let essay = include_str!("../../testkit/src/serve/mod.rs");
    let firsts = essay.lines().filter_map(|line| line.strip_prefix("//! | `")?.split(" | ").next());
    let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
    let rows: BTreeSet<&str> =
        firsts.flat_map(|cell| cell.split(|c| !is_name(c))).filter(|name| !name.is_empty()).collect();
    assert_eq!(rows, there_is);
}
