//! `fairlock doctor`: each finding is provoked at a real server.

use std::time::Duration;

use crate::shared::{RIGHTS_TO_LOOK, fairlock, is_slow};
use redis::cmd;
use serde_json::Value;
use testkit::vclock::WallClock;
use testkit::{
    Act, Cluster, Proxy, RedisServer, SOON, Sentinels, Target, eventually, keys_left, run, sentinel::MASTER,
};

/// What doctor says, as JSON, and its exit code.
fn doctor(url: &str, options: &[&str]) -> (i32, Value) {
    let output = fairlock().args(["--redis", url, "doctor", "--json"]).args(options).output().unwrap();
    let report = serde_json::from_slice(&output.stdout);
    let report = report.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code().unwrap(), report)
}

/// All findings of this check that are not good: level, text, risk and line.
fn trouble(report: &Value, check: &str) -> Vec<[String; 4]> {
    let text = |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
    let of_check = |finding: &&Value| finding["check"] == check && finding["level"] != "good";
    let findings = report["findings"].as_array().unwrap().iter().filter(of_check);
    findings.map(|finding| ["level", "found", "risk", "fix"].map(|field| text(finding, field))).collect()
}

/// The only trouble of this check.
#[track_caller]
fn the_trouble(report: &Value, check: &str) -> [String; 4] {
    let all = trouble(report, check);
    assert_eq!(all.len(), 1, "{check}: {report:#}");
    all[0].clone()
}

#[track_caller]
fn told(report: &Value, check: &str, level: &str, found: &str, fix: &str) {
    let [is, says, risk, line] = the_trouble(report, check);
    assert!(is == level && says.contains(found) && !risk.is_empty() && line.contains(fix), "{is} {says} {risk} {line}");
}

fn healthy() -> RedisServer {
    RedisServer::builder().plain().tcp().appendonly().start()
}

#[test]
fn a_server_that_is_fit_has_no_trouble_and_nothing_is_left_there() {
    let server = healthy();
    // No machine is too slow for this lease.
    let (mut code, mut report) = (0, Value::Null);
    eventually("time for all round trips", SOON, || {
        (code, report) = doctor(&server.tcp_url(), &["--lease", "1h"]);
        report["nodes"][0]["latency"]["samples"] == 100
    });
    let levels: Vec<_> = report["findings"].as_array().unwrap().iter().map(|finding| &finding["level"]).collect();
    assert!(levels.iter().all(|level| *level == "good"), "{report:#}");
    assert_eq!((code, &report["verdict"], &report["kind"]), (0, &"good".into(), &"one server".into()));
    let node = &report["nodes"][0];
    assert!(node["clock_offset_ms"].is_i64(), "never -0: {report:#}");
    assert_eq!((&node["part"], &node["latency"]["samples"]), (&"server".into(), &100.into()), "{report:#}");
    assert_eq!(node["address"], format!("127.0.0.1:{}", server.port()));
    assert_eq!(cmd("DBSIZE").query::<u64>(&mut server.raw()).unwrap(), 0, "the trial leaves no key");
    let text = fairlock().args(["--redis", &server.tcp_url(), "doctor", "--lease", "1h"]).output().unwrap();
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.ends_with("\nNothing was found that harms locks\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    keys_left(&server);
}

/// What doctor finds at a server that was fit until these settings, with how grave that is and what fixes it.
#[test]
fn what_is_set_wrongly_is_told_with_what_to_set() {
    const LONG: &[&str] = &["--lease", "1h"];
    for (settings, options, [check, level, found, fix]) in [
        (&["appendfsync no"][..], LONG, ["disk", "warning", "when the system likes", "appendfsync everysec"]),
        (&["appendonly no"], LONG, ["disk", "warning", "nothing is written", "redis-cli -h 127.0.0.1 -p"]),
        (&["appendonly no", "save 3600 1"], LONG, ["disk", "warning", "snapshots only", "appendonly yes"]),
        (&["maxmemory-policy allkeys-lru"], LONG, ["eviction", "note", "memory has no limit", "noeviction"]),
        (
            &["maxmemory-policy allkeys-lru", "maxmemory 100mb"],
            LONG,
            ["eviction", "fault", "allkeys-lru, with a limit of 105 MB", "maxmemory-policy noeviction"],
        ),
        (&["maxmemory 1000"], LONG, ["memory", "warning", " of 1000 bytes are used", "CONFIG SET maxmemory"]),
        (&["maxclients 10"], LONG, ["connections", "warning", "of at most 10 are open", "maxclients"]),
    ] {
        let server = healthy();
        let _open = [(); 8].map(|()| server.raw());
        for setting in settings {
            let (name, value) = setting.split_once(' ').unwrap();
            server.set(name, value);
        }
        let (code, report) = doctor(&server.tcp_url(), options);
        told(&report, check, level, found, fix);
        let is = |level: &str| report["findings"].as_array().unwrap().iter().any(|finding| finding["level"] == level);
        let worst = if is("fault") { 2 } else { i32::from(is("warning")) };
        assert_eq!(code, worst, "a note is no warning: {report:#}");
    }
    let server = RedisServer::builder().plain().tcp().appendonly().config("rename-command EVALSHA hidden").start();
    told(&doctor(&server.tcp_url(), &[]).1, "rights", "fault", "EVALSHA is unknown here", "rename-command EVALSHA");
}

#[test]
fn a_snapshot_that_failed_and_a_long_fork_are_told() {
    let server = healthy();
    cmd("BGREWRITEAOF").exec(&mut server.raw()).unwrap();
    eventually("it has forked", SOON, || server.info("latest_fork_usec").as_deref() != Some("0"));
    // No fork takes less than a thirtieth of this.
    told(&doctor(&server.tcp_url(), &["--lease", "100us"]).1, "fork", "warning", "stood still", "hugepage");
    server.set("save", "3600 1");
    // A snapshot cannot take the name of a folder.
    std::fs::create_dir(server.dir().join("dump.rdb")).unwrap();
    eventually("a snapshot begins", SOON, || cmd("BGSAVE").exec(&mut server.raw()).is_ok());
    eventually("the snapshot fails", SOON, || server.info("rdb_last_bgsave_status").as_deref() == Some("err"));
    told(&doctor(&server.tcp_url(), &[]).1, "snapshot", "fault", "refuses writes", "make room in /");
    server.set("stop-writes-on-bgsave-error", "no");
    told(&doctor(&server.tcp_url(), &[]).1, "snapshot", "warning", "the last snapshot failed", "BGSAVE");
}

#[test]
fn an_empty_master_empties_its_replicas() {
    let master = RedisServer::builder().plain().master().start();
    let replica = master.replica();
    let (code, report) = doctor(&master.tcp_url(), &[]);
    told(&report, "disk", "fault", "there are replicas", "appendonly yes");
    told(&report, "replication", "note", "do not wait", "--replicas 1");
    assert_eq!(code, 2);
    master.set("min-replicas-to-write", "1");
    assert!(trouble(&doctor(&master.tcp_url(), &[]).1, "replication").is_empty());
    // This is the URL of a replica whose master is gone.
    told(&doctor(&replica.tcp_url(), &[]).1, "role", "fault", "a replica of 127.0.0.1", "let the URL name 127.0.0.1:");
    master.kill();
    eventually("the link is down", SOON, || replica.info("master_link_status").as_deref() == Some("down"));
    told(&doctor(&replica.tcp_url(), &[]).1, "link", "fault", "not connected", "check its log");
}

#[test]
fn each_missing_right_is_told_with_the_rule_that_gives_it() {
    let readme = run::least_rights("pw", false);
    let commands: Vec<&str> =
        readme.split_whitespace().filter(|rule| rule.starts_with('+') && *rule != "+hello").collect();
    let without = |lacking: &str| {
        let rules: Vec<&str> = readme.split_whitespace().filter(|rule| *rule != lacking).collect();
        rules.join(" ")
    };
    let name = |lacking: &str| lacking.replace('~', "keys").replace('&', "channels").replace(['+', '|', ':', '*'], "-");
    let channels = (!testkit::run::lacks("a right to a channel", (6, 2))).then_some("&fairlock:*");
    let lacking: Vec<&str> = commands.iter().copied().chain(["~fairlock:*"]).chain(channels).collect();
    let builder = RedisServer::builder().plain().tcp().appendonly();
    let builder = lacking.iter().fold(builder, |builder, lacking| builder.user(&name(lacking), &without(lacking)));
    let no_queues = format!("{} +xadd +xdel +xrevrange +scan", readme.replace("~fairlock:*", "~fairlock:*:lock"));
    let builder = builder.user("least", &readme).user("no-queues", &no_queues);
    let server = builder.user("blind", "on >pw ~* &* +@all -info -config").start();
    let as_user = |user: &str| {
        let url = format!("redis://{user}:pw@127.0.0.1:{}/", server.port());
        doctor(&url, &[]).1
    };
    for lacking in &lacking {
        let report = as_user(&name(lacking));
        let found = trouble(&report, "rights");
        let gives_it = |finding: &&[String; 4]| finding[3].split(' ').any(|word| word.trim_matches('\'') == *lacking);
        let finding = found.iter().find(gives_it).unwrap_or_else(|| panic!("{lacking}: {report:#}"));
        let comfort = ["+info", "+client|id", "+client|kill", "+client|setinfo", "+wait"].contains(lacking);
        assert_eq!(finding[0], if comfort { "note" } else { "fault" }, "{finding:?}");
    }
    // Requests name one key of a lock; the scripts use the others too.
    let report = as_user("no-queues");
    told(&report, "rights", "fault", "this user may not use the keys fairlock:*", "~fairlock:*");
    // Every lock needs these rights. The others are for histories and for watching.
    let report = as_user("least");
    let [level, found, _, fix] = the_trouble(&report, "rights");
    assert_eq!((&*level, &*found), ("note", "this user may not call XADD, XDEL, XREVRANGE, SCAN"), "{report:#}");
    assert!(fix.ends_with("ACL SETUSER least +xadd +xdel +xrevrange +scan"), "{fix}");
    assert!(report["findings"].as_array().unwrap().iter().any(|one| one["check"] == "trial" && one["level"] == "good"));
    // Without them the doctor sees less, and says so.
    let report = as_user("blind");
    let [level, found, _, fix] = the_trouble(&report, "info");
    assert!(level == "note" && found.contains("may not call INFO") && fix.contains("+info"), "{report:#}");
    server.set("appendonly", "no");
    told(&as_user("least"), "disk", "warning", "may not see whether there are snapshots", "appendonly yes");
}

/// A user who is set up by hand often has no rights at all.
#[test]
fn a_user_without_rights_is_told_once_with_the_line_that_gives_them() {
    // Redis 6.0 refuses rules for channels. It must be known for what it is, and then none are told.
    let rules = format!("on >pw resetchannels -@all {}", if run::version() < (6, 2) { "+info" } else { "" });
    let server = RedisServer::builder().plain().tcp().appendonly().user("bare", &rules).start();
    let url = format!("redis://bare:pw@127.0.0.1:{}/", server.port());
    let (code, report) = doctor(&url, &[]);
    let found = trouble(&report, "rights");
    assert_eq!(found.iter().map(|[level, ..]| &**level).collect::<Vec<_>>(), ["fault", "note"], "{report:#}");
    assert_eq!(code, 2);
    for [_, found, risk, fix] in &found {
        assert!(found.starts_with("this user may not call ") && !risk.is_empty(), "{report:#}");
        // As somebody copies it to a shell.
        let line = fix.replace("redis-cli ", "set -- ");
        let words = std::process::Command::new("sh").args(["-c", &format!("{line}; printf '%s\\n' \"$@\"")]).output();
        let words = String::from_utf8(words.unwrap().stdout).unwrap();
        let words: Vec<&str> = words.lines().skip_while(|word| *word != "ACL").collect();
        assert_eq!(words[..3], ["ACL", "SETUSER", "bare"], "{fix}");
        cmd("ACL").arg(&words[1..]).exec(&mut server.raw()).unwrap();
    }
    let (_, report) = doctor(&url, &[]);
    assert!(trouble(&report, "rights").is_empty(), "{report:#}");
    assert!(report["findings"].as_array().unwrap().iter().any(|one| one["check"] == "trial" && one["level"] == "good"));
}

#[test]
fn commands_that_are_renamed_are_told() {
    let hidden = RedisServer::builder().plain().tcp().appendonly().config("rename-command CLIENT x");
    let (code, report) = doctor(&hidden.config("rename-command INFO y").start().tcp_url(), &["--lease", "1h"]);
    let [_, found, _, fix] = the_trouble(&report, "info");
    assert!(found.starts_with("INFO is renamed") && fix.contains("rename-command INFO"), "{report:#}");
    let without = "INFO, CLIENT ID, CLIENT KILL are unknown here";
    told(&report, "rights", "note", without, "rename-command INFO`, `rename-command CLIENT");
    assert_eq!(code, 0);
}

#[test]
fn a_slow_network_is_measured_against_the_lease() {
    let server = healthy();
    let proxy = Proxy::start(&server).tcp();
    let _slow = proxy.fault(Target::reply("time").command(), Act::Delay(Duration::from_secs(2)));
    let at = |lease| doctor(&proxy.tcp_url(), &["--lease", lease]).1;
    // From 2 s to 5.9 s, and from 1.5 s.
    told(&at("59s"), "latency", "warning", "the slowest ", "LATENCY DOCTOR");
    let report = at("15s");
    told(&report, "latency", "fault", "the slowest ", "fairlock run --lease ");
    let lease = the_trouble(&report, "latency")[3].split(' ').nth(3).unwrap().to_owned();
    assert!(
        lease.ends_with('s') && trouble(&at(&lease), "latency").iter().all(|[level, ..]| level != "fault"),
        "{lease}"
    );
}

#[test]
fn clocks_that_differ_are_told() {
    let clock = WallClock::on_time();
    let master = RedisServer::builder().plain().master().appendonly().start();
    let late = clock.given_to(RedisServer::builder().plain().tcp().appendonly());
    let replica = late.config(&format!("replicaof 127.0.0.1 {}", master.port())).start();
    let sentinel = RedisServer::builder().plain().tcp().argument("--sentinel");
    let sentinel = sentinel.config(&format!("sentinel monitor m 127.0.0.1 {} 1", master.port())).start();
    let url = format!("redis+sentinel://127.0.0.1:{}/m", sentinel.port());
    let knows = || sentinel.info("master0").is_some_and(|master| master.contains("slaves=1"));
    eventually("the sentinel knows the replica", SOON, knows);
    assert!(trouble(&doctor(&url, &[]).1, "clocks").is_empty());
    clock.step_forwards(Duration::from_secs(30));
    let report = doctor(&url, &[]).1;
    told(&report, "clocks", "warning", &format!("127.0.0.1:{} is 3", replica.port()), "set-ntp true");
    let [level, found, ..] = the_trouble(&report, "clock");
    assert!(level == "note" && found.contains("+30."), "{level} {found}");
}

#[test]
fn sentinels_are_asked_one_by_one() {
    let set_up = Sentinels::builder().down_after(SOON).config("appendonly yes").start();
    let (_, report) = doctor(&set_up.url(), &["--lease", "1h"]);
    let parts = |part: &str| report["nodes"].as_array().unwrap().iter().filter(|node| node["part"] == part).count();
    assert_eq!([parts("sentinel"), parts("master"), parts("replica")], [3, 1, 2], "{report:#}");
    assert!(["sentinels", "quorum", "master", "failover"].iter().all(|check| trouble(&report, check).is_empty()));
    let failover = trouble(&doctor(&set_up.url(), &[]).1, "failover");
    assert!(failover.len() == 3 && failover[0][1].contains("after 30s"), "a lease of 30 s is too short: {failover:?}");
    let [one, two, _] = set_up.sentinels() else { panic!("three sentinels") };
    let wrong = set_up.url().replace(MASTER, "other");
    let report = doctor(&wrong, &[]).1;
    assert_eq!(trouble(&report, "sentinel").len(), 3, "{report:#}");
    told(&report, "master", "fault", "no sentinel names a master called other", "SENTINEL MASTERS");
    one.kill();
    two.kill();
    let (code, report) = doctor(&set_up.url(), &["--lease", "1h"]);
    let reach = trouble(&report, "reach");
    assert!(code == 2 && reach.len() == 2 && reach[0][2].contains("one sentinel fewer"), "{report:#}");
}

#[test]
fn a_lone_sentinel_without_a_quorum_is_told() {
    let master = RedisServer::builder().plain().master().appendonly().start();
    let sentinel = RedisServer::builder().plain().tcp().argument("--sentinel");
    let sentinel = sentinel.config(&format!("sentinel monitor m 127.0.0.1 {} 2", master.port())).start();
    let (code, report) = doctor(&format!("redis+sentinel://127.0.0.1:{}/m", sentinel.port()), &[]);
    told(&report, "quorum", "fault", "NOQUORUM", "quorum N");
    told(&report, "sentinels", "warning", "it knows 0 other sentinels", "third machine");
    told(&report, "failover", "warning", "after 30s of silence", "down-after-milliseconds 5000");
    told(&report, "replicas", "warning", "it has none", "REPLICAOF");
    assert_eq!(code, 2);
}

#[test]
fn all_nodes_of_a_cluster_are_visited() {
    let cluster = Cluster::builder().node_timeout(SOON).replicas().config("appendonly yes");
    let cluster = cluster.each(|node| node.more_rights(RIGHTS_TO_LOOK)).start();
    let [first, ..] = cluster.nodes() else { panic!("nodes") };
    let mut report = Value::Null;
    // A node hears of the others' replicas by and by.
    eventually("all nodes are known", SOON, || {
        report = doctor(&cluster.url_of(&[first]), &["--lease", "1h"]).1;
        let parts = |part: &str| report["nodes"].as_array().unwrap().iter().filter(|node| node["part"] == part).count();
        [parts("master"), parts("replica")] == [3, 3]
    });
    told(&report, "url", "note", "a single node", "HOST:PORT,HOST:PORT");
    assert!(
        ["slots", "cluster", "rights", "failover"].iter().all(|check| trouble(&report, check).is_empty()),
        "{report:#}"
    );
    let (_, report) = doctor(&cluster.url(), &[]);
    assert!(trouble(&report, "url").is_empty(), "{report:#}");
    let failover = trouble(&report, "failover");
    assert!(failover.len() == 6 && failover[0][3].contains("cluster-node-timeout 5000"), "{failover:?}");
    let mut text = String::new();
    eventually("no round trip is slow", SOON, || {
        let output = fairlock().args(["--redis", &cluster.url(), "doctor"]).output().unwrap();
        text = String::from_utf8(output.stdout).unwrap();
        !is_slow(&text)
    });
    // What is alike at six nodes is told once, with six lines that fix it.
    assert_eq!(text.matches("failover: a failover begins after").count(), 1, "{text}");
    assert_eq!(text.matches("CONFIG SET cluster-node-timeout 5000").count(), 6, "{text}");
    assert!(text.contains("in danger if something else fails: 1 warning"), "{text}");
    let good = text.lines().filter(|line| line.starts_with("  ok      ") && line.contains(", disk, ")).count();
    assert_eq!(good, 6, "one line for what is good about a node: {text}");
    for node in cluster.nodes() {
        assert_eq!(cmd("DBSIZE").query::<u64>(&mut node.raw()).unwrap(), 0, "the trial leaves no key");
    }
    first.kill();
    let (code, report) = doctor(&cluster.url(), &[]);
    assert!(code == 2 && the_trouble(&report, "reach")[2].contains("neither take"), "{report:#}");
}

#[test]
fn on_a_narrow_terminal_all_lines_are_wrapped_but_those_to_copy() {
    let server = RedisServer::builder().plain().tcp().start();
    server.set("save", "");
    let mut terminal = crate::pty::Terminal::open_with(40, &[("REDIS_URL", &server.tcp_url())]);
    let report = terminal.command("$F doctor");
    assert!(report.contains("fix: redis-cli ") && report.contains("1 warning"), "{report}");
    let mut lines = report.lines().filter(|line| !line.contains("fix: redis-cli "));
    assert!(lines.all(|line| line.trim_end().chars().count() <= 40), "{report}");
}

#[test]
fn slots_that_nobody_serves_are_told() {
    let cluster = Cluster::start();
    let node = cluster.owner(0);
    cmd("CLUSTER").arg("DELSLOTS").arg(0).exec(&mut node.raw()).unwrap();
    let (code, report) = doctor(&cluster.url_of(&[node]), &[]);
    told(&report, "slots", "fault", "1 of 16384 slots", "--cluster fix");
    let replicas = trouble(&report, "replicas");
    assert!(!replicas.is_empty() && replicas.iter().all(|one| one[3].contains("--cluster-slave")), "{replicas:?}");
    assert_eq!(code, 2);
    let alone = healthy();
    let url = format!("redis+cluster://127.0.0.1:{}/", alone.port());
    told(&doctor(&url, &[]).1, "cluster", "fault", "not a node of a cluster", "leave +cluster out");
}

#[test]
fn a_server_that_cannot_be_used_is_a_fault_and_a_wrong_call_is_none() {
    let server = healthy();
    let url = server.tcp_url();
    server.kill();
    let (code, report) = doctor(&url, &[]);
    assert!(code == 2 && the_trouble(&report, "reach")[1].contains("no Redis server answers"), "{report:#}");
    assert_eq!(report["findings"].as_array().unwrap().len(), 1, "one reason is enough: {report:#}");
    for call in [&["--redis", "http://x", "doctor"][..], &["doctor", "--lease", "0s"]] {
        assert_eq!(fairlock().args(call).output().unwrap().status.code(), Some(125), "{call:?}");
    }
    if let Some(old) = RedisServer::too_old() {
        let report = doctor(&old.admin_url(), &[]).1;
        assert!(the_trouble(&report, "reach")[1].contains("too old"), "{report:#}");
    }
}
