//! `fairlock bench`: it measures at any kind of server, and leaves nothing behind.

use crate::shared::{Process, Signal, fairlock};
use redis::cmd;
use serde_json::Value;
use testkit::{Cluster, RedisServer, SOON, eventually, run};

fn rows(url: &str) -> Vec<Value> {
    let output = fairlock().args(["--redis", url, "bench", "--rounds", "20", "--json"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["rounds"], 20);
    report["rows"].as_array().unwrap().clone()
}

#[track_caller]
fn is_empty(server: &RedisServer) {
    assert_eq!(cmd("DBSIZE").query::<u64>(&mut server.raw()).unwrap(), 0, "nothing is left behind");
}

#[test]
fn cycle_hand_off_and_contention_are_measured_beside_their_floors() {
    let server = RedisServer::builder().plain().tcp().start();
    let rows = rows(&server.tcp_url());
    let whats: Vec<&str> = rows.iter().map(|row| row["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["cycle", "hand-off", "4 contend"]);
    for row in &rows {
        let number = |field: &str| row[field].as_f64().unwrap();
        assert!(number("floor_us") > 0.0 && number("ratio") > 0.0, "{row}");
        assert!(number("median_us") <= number("p90_us") && number("p90_us") <= number("p99_us"), "{row}");
        assert!((number("ratio") - number("median_us") / number("floor_us")).abs() < 0.01, "{row}");
    }
    assert_eq!(rows[0]["floor"], "SET NX PX and DEL");
    is_empty(&server);
    let table = fairlock().args(["--redis", &server.tcp_url(), "bench", "--rounds", "10"]).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(
        table.contains("FLOOR  FAIRLOCK   RATIO") && table.lines().all(|line| line.chars().count() <= 80),
        "{table}"
    );
}

#[test]
fn bench_needs_no_more_rights_than_locks() {
    let server = RedisServer::builder().plain().user("least", &run::least_rights("pw", false)).start();
    assert_eq!(rows(&server.url_as("least", "pw"))[0]["floor"], "two round trips");
    is_empty(&server);
}

#[test]
fn a_cluster_is_measured_where_the_lock_is() {
    let cluster = Cluster::start();
    assert_eq!(rows(&cluster.url()).len(), 3);
    cluster.nodes().iter().for_each(is_empty);
}

#[test]
fn a_signal_ends_bench_and_leaves_no_keys() {
    let server = RedisServer::builder().plain().tcp().start();
    let mut command = fairlock();
    let bench = Process::spawn(command.args(["--redis", &server.tcp_url(), "bench", "--rounds", "100000"]));
    eventually("it measures", SOON, || cmd("DBSIZE").query::<u64>(&mut server.raw()).unwrap() > 0);
    bench.signal(Signal::INT);
    let ended = bench.finish();
    assert_eq!(ended.code, 130, "{ended:?}");
    assert!(ended.stdout.is_empty() && ended.stderr.contains("SIGINT ended the measurement"), "{ended:?}");
    is_empty(&server);
}
