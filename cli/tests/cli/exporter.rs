//! `fairlock exporter`: what Prometheus scrapes.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;

use crate::shared::{PATIENCE, Process, RIGHTS_TO_LOOK, Redis, Signal, fairlock, stat};
use testkit::{Cluster, RedisServer, SOON, eventually, run};

/// A running exporter, and where it listens.
struct Exporter {
    process: Process,
    address: String,
}

impl Exporter {
    fn start(url: &str, options: &[&str]) -> Self {
        Self::start_as(fairlock(), url, options)
    }

    /// The same with another command that becomes the exporter.
    fn start_as(mut command: Command, url: &str, options: &[&str]) -> Self {
        command.env("REDIS_URL", url).args(["exporter", "--listen", "127.0.0.1:0"]).args(options);
        let process = Process::spawn(&mut command);
        let said = process.complaint();
        let address = said.strip_prefix("fairlock: the metrics are at http://").unwrap_or_else(|| panic!("{said}"));
        let address = address.strip_suffix("/metrics").unwrap().to_owned();
        Self { process, address }
    }

    /// A client that has sent this.
    fn client(&self, said: &str) -> TcpStream {
        let mut client = TcpStream::connect(&self.address).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        client.write_all(said.as_bytes()).unwrap();
        client
    }

    /// Sends this, and returns the whole answer.
    fn send(&self, request: &str) -> String {
        let mut stream = self.client(request);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn get(&self, path: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    }

    fn scrape(&self) -> Scrape {
        let answer = self.get("/metrics");
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 200 ") && head.contains("content-type: text/plain; version=0.0.4"),
            "{head}"
        );
        Scrape::read(text)
    }

    /// The time that it has computed, in hundredths of a second.
    fn ticks(&self) -> u64 {
        stat(self.process.id()).unwrap()[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum()
    }

    /// Scrapes until the metric has this value.
    #[track_caller]
    fn await_value(&self, metric: &str, value: f64) -> Scrape {
        let mut scrape = self.scrape();
        eventually(&format!("{metric} is {value}"), SOON, || {
            scrape = self.scrape();
            scrape.get(metric) == Some(value)
        });
        scrape
    }
}

/// The command line, started by a shell after this.
fn after(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{script}; exec \"$0\" \"$@\""), env!("CARGO_BIN_EXE_fairlock")]);
    command
}

/// What this client is told until the connection ends.
fn answer(client: &mut TcpStream) -> String {
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

/// Names with labels, and values.
#[derive(Debug)]
struct Scrape(Vec<(String, f64)>);

impl Scrape {
    /// Refuses what Prometheus would refuse: a value without its kind, a name twice, a line that is no number.
    fn read(text: &str) -> Self {
        let (mut kind, mut values) = (String::new(), Vec::<(String, f64)>::new());
        for line in text.lines() {
            if let Some(of) = line.strip_prefix("# TYPE ") {
                let (name, is) = of.split_once(' ').unwrap();
                assert!(["gauge", "counter"].contains(&is), "{line}");
                assert_eq!(is == "counter", name.ends_with("_total"), "{line}");
                name.clone_into(&mut kind);
            } else if !line.starts_with("# HELP ") {
                let (name, value) = line.rsplit_once(' ').unwrap();
                assert_eq!(name.split('{').next(), Some(kind.as_str()), "{line}");
                assert!(values.iter().all(|(other, _)| other != name), "{name} is there twice");
                values.push((name.to_owned(), value.parse().unwrap()));
            }
        }
        assert!(text.ends_with('\n'), "{text}");
        Self(values)
    }

    fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }

    #[track_caller]
    fn of(&self, metric: &str, lock: &str) -> f64 {
        let name = format!("fairlock_lock_{metric}{{lock=\"{lock}\"}}");
        self.get(&name).unwrap_or_else(|| panic!("{name} is not in {self:#?}"))
    }
}

#[test]
fn holders_queues_and_recoveries_are_scraped() {
    let redis = Redis::start();
    let exporter = Exporter::start(&redis.url(), &[]);
    let of_one = Exporter::start(&redis.url(), &["deploy"]);
    assert_eq!(of_one.scrape().of("held", "deploy"), 0.0);
    let scrape = exporter.scrape();
    assert_eq!((scrape.get("fairlock_up"), scrape.get("fairlock_locks")), (Some(1.0), Some(0.0)), "{scrape:#?}");
    let holder = redis.hold("deploy", &[]);
    let waiters: Vec<_> = (0..2).map(|_| redis.waiter("deploy", &[], "echo; exec sleep 1000")).collect();
    let scrape = exporter.await_value("fairlock_locks", 1.0);
    assert_eq!([scrape.of("held", "deploy"), scrape.of("waiting", "deploy")], [1.0, 2.0], "{scrape:#?}");
    let (hold, wait) = (scrape.of("hold_seconds", "deploy"), scrape.of("wait_seconds", "deploy"));
    assert!(0.0 < wait && wait < hold && hold < PATIENCE.as_secs_f64(), "{scrape:#?}");
    assert_eq!(scrape.get("fairlock_longest_hold_seconds"), Some(hold));
    assert_eq!(scrape.get("fairlock_longest_wait_seconds"), Some(wait));
    assert!((1.0..=30.0).contains(&scrape.of("lease_remaining_seconds", "deploy")), "{scrape:#?}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64();
    let granted = scrape.of("last_grant_timestamp_seconds", "deploy");
    assert!((granted - (now - hold)).abs() < PATIENCE.as_secs_f64(), "{granted} {now}");
    assert_eq!(scrape.of("grants_total", "deploy"), 1.0, "{scrape:#?}");
    assert_eq!(["breaking", "recovering", "recoveries_total"].map(|metric| scrape.of(metric, "deploy")), [0.0; 3]);
    assert!(!scrape.0.iter().any(|(name, _)| name.contains("holder_info")), "only with --holders");

    assert_eq!(of_one.scrape().of("recoveries_total", "deploy"), 0.0);
    // The holder dies, so that the recovery lasts as long as its lease could.
    holder.signal(Signal::KILL);
    redis.flush();
    let scrape = exporter.await_value("fairlock_lock_recovering{lock=\"deploy\"}", 1.0);
    assert_eq!(scrape.of("recoveries_total", "deploy"), 1.0, "{scrape:#?}");
    assert_eq!(of_one.scrape().of("recoveries_total", "deploy"), 1.0);
    drop(waiters);
}

#[test]
fn the_labels_of_holders_are_escaped() {
    let redis = Redis::start();
    let exporter = Exporter::start(&redis.url(), &["--holders"]);
    let _holder = redis.hold("a \"b\"\\\nc", &["--label", "日本 \"x\"\n"]);
    let scrape = exporter.scrape();
    assert_eq!(scrape.of("held", r#"a \"b\"\\\nc"#), 1.0);
    let info = r#"fairlock_lock_holder_info{lock="a \"b\"\\\nc",slot="0",label="日本 \"x\"\n",owner=""}"#;
    assert_eq!(scrape.get(info), Some(1.0), "{scrape:#?}");
}

#[test]
fn patterns_choose_locks_and_plain_names_show_free_locks_too() {
    let redis = Redis::of(RedisServer::builder().plain().start());
    for name in ["deploy:one", "deploy:two", "nightly", "odd*name"] {
        assert_eq!(redis.run(name, &[], "true").finish().code, 0);
    }
    let names = |options: &[&str]| {
        let scrape = Exporter::start(&redis.url(), options).scrape();
        let names = scrape
            .0
            .into_iter()
            .filter_map(|(name, _)| Some(name.strip_prefix("fairlock_lock_held{lock=\"")?.to_owned()));
        names.map(|name| name.trim_end_matches("\"}").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["deploy:one", "deploy:two", "nightly", "odd*name"]);
    assert_eq!(names(&["deploy:*", "backup"]), ["backup", "deploy:one", "deploy:two"]);
    assert_eq!(names(&[r"odd\*name", "deploy:[t]??"]), ["deploy:two", "odd*name"]);
    let other = ["--prefix", "[a]*"];
    assert_eq!(redis.run("of a prefix", &other, "true").finish().code, 0);
    assert_eq!(names(&other), ["of a prefix"], "a prefix is no pattern");
}

#[test]
fn all_masters_of_a_cluster_are_scraped() {
    let cluster = Cluster::builder().each(|node| node.more_rights(RIGHTS_TO_LOOK)).start();
    let names: Vec<String> = (0..12).map(|number| format!("lock {number}")).collect();
    for name in &names {
        let status = fairlock().args(["--redis", &cluster.url(), "run", name, "--", "true"]).status().unwrap();
        assert!(status.success());
    }
    let [first, ..] = cluster.nodes() else { panic!("nodes") };
    let options = ["lock*", "elsewhere", "free"];
    let exporter = Exporter::start(&cluster.url_of(&[first]), &options);
    let scrape = exporter.await_value("fairlock_locks", 14.0);
    names.iter().for_each(|name| assert_eq!(scrape.of("held", name), 0.0));
    // A lock moves to another node.
    let slot = cluster.slot("lock 0");
    let owner = cluster.owner(slot);
    cluster.migrate(slot, cluster.another_master(owner)).finish();
    let scrape = exporter.scrape();
    assert_eq!(scrape.get("fairlock_locks"), Some(14.0), "{scrape:#?}");
}

/// The rights in this section of the page.
fn documented_rights() -> String {
    let page = include_str!("../../../docs/operating.md");
    let start = if run::version() >= (7, 0) { "\n%R~fairlock:* " } else { "\n~fairlock:* " };
    let at = page.find(start).expect("the page lists the rights");
    page[at..].trim_start().lines().next().unwrap().to_owned()
}

#[test]
fn rights_to_read_are_enough_and_no_other_right_is_listed() {
    let all = documented_rights();
    let commands: Vec<&str> = all.split(' ').filter(|right| right.starts_with('+') && *right != "+hello").collect();
    let user = |rights: &str| format!("on >pw resetkeys resetchannels -@all {rights}");
    let without = |right: &str| all.split(' ').filter(|one| *one != right).collect::<Vec<_>>().join(" ");
    let mut builder = RedisServer::builder().plain().user("reader", &user(&all)).user("writer", "on >pw ~* &* +@all");
    for right in &commands {
        builder = builder.user(&right[1..], &user(&without(right)));
    }
    let server = builder.start();
    let writer = server.url_as("writer", "pw");
    let run = || {
        let mut command = fairlock();
        command.args(["--redis", &writer, "run", "x", "--", "sh", "-c", "echo; exec sleep 1000"]);
        Process::spawn(&mut command)
    };
    let holder = run();
    holder.line();
    let waiter = run();
    waiter.complaint();
    let once = |user: &str| {
        let url = server.url_as(user, "pw");
        fairlock().env("REDIS_URL", url).args(["exporter", "--once", "x*"]).output().unwrap()
    };
    let output = once("reader");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(Scrape::read(&String::from_utf8(output.stdout).unwrap()).of("held", "x"), 1.0);
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.raw()).unwrap();
    assert!(once("reader").status.success(), "the scripts are loaded by whoever needs them");
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.raw()).unwrap();
    for right in &commands {
        // No script is loaded, so that all commands are needed.
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut server.raw()).unwrap();
        let output = once(&right[1..]);
        assert_eq!(output.status.code(), Some(125), "{right} is not needed: {output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let refused =
            ["NOPERM", "can't run this command", "ACL failure in script"].iter().any(|reason| said.contains(reason));
        assert!(refused && !said.contains("pw"), "{said}");
    }
}

#[test]
fn a_server_that_is_away_is_reported_until_it_is_back() {
    let redis = Redis::of(RedisServer::builder().plain().appendonly().start());
    let exporter = Exporter::start(&redis.url(), &["x"]);
    assert_eq!(exporter.scrape().get("fairlock_up"), Some(1.0));
    redis.kill();
    let scrape = exporter.scrape();
    assert_eq!((scrape.get("fairlock_up"), scrape.get("fairlock_scrape_errors_total")), (Some(0.0), Some(1.0)));
    assert_eq!(scrape.get("fairlock_locks"), None, "{scrape:#?}");
    exporter.scrape();
    redis.restart();
    assert_eq!(exporter.scrape().of("held", "x"), 0.0);
    assert!(exporter.process.complaint().contains("no Redis server answers"));
    assert_eq!(exporter.process.complaint(), "fairlock: the locks can be read again", "each is said once");
    redis.kill();
    let once = redis.fairlock().args(["exporter", "--once"]).output().unwrap();
    assert_eq!(once.status.code(), Some(125), "{once:?}");
    assert!(String::from_utf8(once.stdout).unwrap().contains("\nfairlock_up 0\n"));
}

/// Half of them have begun a request, and some come back without a new one, as clients with kept connections do.
#[test]
fn silent_clients_do_not_keep_others_from_their_metrics() {
    let redis = Redis::start();
    let exporter = Exporter::start(&redis.url(), &[]);
    let page = || {
        let mut client = exporter.client("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        client.read_to_string(&mut String::new()).expect("no connection is kept");
    };
    page();
    // A scrape that is being answered makes room for nobody, though the server takes its time.
    redis.stop();
    let mut asked = exporter.client("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    // What was asked before is known when this is answered.
    page();
    let mut silent: Vec<_> =
        ["", "GET /metrics HT"].into_iter().cycle().take(150).map(|said| exporter.client(said)).collect();
    // Prometheus gives up after 10 s.
    let mut next = exporter.client("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    next.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
    let mut answer = String::new();
    next.read_to_string(&mut answer).expect("it is not kept waiting by 150 silent ones");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    redis.cont();
    let mut answer = String::new();
    asked.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    // The first ones made room; the others are given up after a while.
    for client in &mut silent {
        // The end of the connection, or its reset.
        let _ = client.read_to_string(&mut String::new());
    }
}

/// With few descriptors, and with fewer than it knows of, because its parent left it some.
#[test]
fn clients_that_take_all_descriptors_give_them_back_to_those_who_ask() {
    let redis = Redis::start();
    for limit in ["ulimit -n 40", "ulimit -n 28; exec 3<&0 4<&0 5<&0 6<&0 7<&0 8<&0 9<&0"] {
        let exporter = Exporter::start_as(after(limit), &redis.url(), &[]);
        let whole = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        let inherits = limit.contains("exec");
        if inherits {
            assert_eq!(exporter.scrape().get("fairlock_up"), Some(1.0), "a connection to Redis that is kept");
        }
        let (begin, rest) = whole.split_at(15);
        let mut slow = exporter.client(begin);
        let _silent: Vec<_> = (0..60).map(|_| exporter.client("")).collect();
        let scrape = exporter.scrape();
        assert_eq!(scrape.get("fairlock_up"), Some(1.0), "{limit}: a descriptor is left for Redis");
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", exporter.process.id())).unwrap().count();
        assert!(inherits || descriptors < 36, "{limit}: some are left for many servers, not {descriptors} taken");
        slow.write_all(rest.as_bytes()).unwrap();
        let answer = answer(&mut slow);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{limit}: the rest of a question came in time: {answer}");
        // All that have a descriptor wait for their answers.
        redis.stop();
        let before = exporter.ticks();
        let mut asking: Vec<_> = (0..60).map(|_| exporter.client(whole)).collect();
        let first = self::answer(&mut asking[0]);
        let ticks = exporter.ticks() - before;
        redis.cont();
        let answers: Vec<_> = std::iter::once(first).chain(asking[1..].iter_mut().map(self::answer)).collect();
        let odd = answers.iter().find(|answer| !answer.starts_with("HTTP/1.1 200 "));
        assert_eq!(odd, None, "{limit}: a client that asks gives its place to nobody");
        assert!(ticks < 200, "{limit}: it waits for a descriptor without spinning: {ticks} ticks");
    }
}

/// Their answers are longer than what the kernel takes for a client that does not read.
#[test]
fn clients_that_do_not_read_their_answers_do_not_keep_others_from_their_metrics() {
    let redis = Redis::start();
    let names: Vec<String> = (100..500).map(|number| format!("{number}{}", "\"".repeat(500))).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let exporter = Exporter::start_as(after("ulimit -n 50"), &redis.url(), &names);
    let _unread: Vec<_> = (0..100).map(|_| exporter.client("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")).collect();
    let mut next = exporter.client("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    // The others are given up after a minute in any case.
    next.set_read_timeout(Some(std::time::Duration::from_secs(50))).unwrap();
    let (began, mut answer) = (std::time::Instant::now(), String::new());
    next.read_to_string(&mut answer).expect("it is not kept waiting");
    println!("{} bytes after {:?}", answer.len(), began.elapsed());
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.len() > 3 << 20, "{} bytes", answer.len());
}
