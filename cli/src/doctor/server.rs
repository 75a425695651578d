//! What a server says of itself: its version, its part, what it writes to disk, its memory, its replicas.

use std::time::Duration;

use super::finding::Finding;
use super::node::{Node, Part};
use super::rights::is_unknown;
use crate::duration::shown;

/// After this share of a limit there is a warning, in percent.
const NEARLY: u64 = 80;

pub(crate) fn check(node: &mut Node, lease: Duration) {
    if node.line.is_none() {
        return;
    }
    if node.info.is_empty() {
        let (why, fix) = match is_unknown(&node.ask_one(&["INFO", "server"])) {
            true => ("INFO is renamed, or switched off", "take `rename-command INFO` out of redis.conf".into()),
            false => ("this user may not call INFO", node.allow(&["+info".to_owned()])),
        };
        let found = format!("{why}: version, disk, memory and replicas are unknown");
        return node.findings.push(Finding::note("info", found).fix(fix));
    }
    let mut findings = Vec::new();
    findings.extend(node.version().map(|version| Finding::good("version", version)));
    if node.part != Part::Sentinel {
        findings.extend(role(node));
        findings.extend(persistence(node));
        findings.extend(forks(node, lease));
        findings.extend(memory(node));
        findings.extend(replicas(node));
    }
    findings.extend(connections(node));
    node.findings.extend(findings);
}

fn role(node: &Node) -> Option<Finding> {
    let is_replica = node.info.get("role") != Some("master");
    match (node.part, is_replica) {
        (Part::Server, true) => {
            let host = node.info.get("master_host").unwrap_or("?");
            let port = node.info.get("master_port").unwrap_or("?");
            let fault = Finding::fault("role", format!("it is a replica of {host}:{port}"));
            Some(fault.risk("it takes no locks").fix(format!("let the URL name {host}:{port}")))
        }
        (Part::Master, true) => {
            let fault = Finding::fault("role", "it is called a master, and says that it is a replica");
            Some(fault.risk("it takes no locks until a failover is over").fix("run doctor again in a minute"))
        }
        (Part::Replica, false) => {
            let fault = Finding::fault("role", "it is called a replica, and says that it is a master");
            Some(fault.risk("locks that are taken here are lost").fix("run doctor again in a minute"))
        }
        _ => None,
    }
}

fn persistence(node: &Node) -> Vec<Finding> {
    let on = |field: &str| node.info.get(field);
    let mut findings = Vec::new();
    let append = node.shell("CONFIG SET appendonly yes");
    let has_replicas = node.info.number("connected_slaves").unwrap_or(0) > 0;
    let snapshots = node.config.get("save").map(|save| !save.is_empty());
    findings.push(match (on("aof_enabled"), node.config.get("appendfsync"), snapshots) {
        (Some("1"), Some("no"), _) => Finding::warning("disk", "an append-only file, written when the system likes")
            .risk("a crash of the machine can undo the last half minute: until their clients are back, locks are as they were then")
            .fix(node.shell("CONFIG SET appendfsync everysec")),
        (Some("1"), Some("always"), _) => Finding::good("disk", "an append-only file, written before each answer"),
        (Some("1"), _, _) => Finding::good("disk", "an append-only file, written each second"),
        (_, _, Some(true)) => Finding::warning("disk", "snapshots only, and no append-only file")
            .risk("a crash takes the server back to the last snapshot: locks are as they were then, until their clients are back")
            .fix(append),
        (_, _, None) => Finding::warning("disk", "no append-only file (and this user may not see whether there are snapshots)")
            .risk("a crash takes the server back by minutes, or it forgets all locks")
            .fix(append),
        (_, _, Some(false)) if has_replicas => {
            Finding::fault("disk", "nothing is written to disk, and there are replicas")
                .risk("when it restarts it is empty, and so are its replicas then: two jobs may hold one lock")
                .fix(append)
        }
        (_, _, Some(false)) => Finding::warning("disk", "nothing is written to disk")
            .risk("a restart forgets all locks: a job that comes before the former ones are back can be granted a lock that is held")
            .fix(append),
    });
    if on("rdb_last_bgsave_status") == Some("err") {
        let strict = node.config.get("stop-writes-on-bgsave-error") != Some("no");
        let folder = node.config.get("dir").map_or_else(String::new, |folder| format!(" in {folder}"));
        let found = "the last snapshot failed";
        findings.push(if strict && snapshots != Some(false) {
            Finding::fault("snapshot", format!("{found}, and the server refuses writes until one succeeds"))
                .risk("no lock can be taken or renewed (MISCONF)")
                .fix(format!("make room{folder}, then {}", node.shell("BGSAVE")))
        } else {
            Finding::warning("snapshot", found)
                .risk("after a crash the server goes back to an older one")
                .fix(format!("make room{folder}, then {}", node.shell("BGSAVE")))
        });
    }
    if on("aof_last_write_status") == Some("err") {
        findings.push(
            Finding::fault("append-only file", "the last write to it failed")
                .risk("no lock can be taken or renewed (MISCONF)")
                .fix("make room on the server's disk"),
        );
    }
    findings
}

/// A server stands still while it forks.
fn forks(node: &Node, lease: Duration) -> Option<Finding> {
    let last = Duration::from_micros(node.info.number("latest_fork_usec")?);
    (last > lease / 30).then(|| {
        Finding::warning("fork", format!("for its last snapshot or rewrite the server stood still for {}", shown(last)))
            .risk("renewals wait that long; leases that are shorter are lost")
            .fix("echo never > /sys/kernel/mm/transparent_hugepage/enabled, or a server of its own for locks")
    })
}

fn memory(node: &Node) -> Vec<Finding> {
    let (limit, used) = (node.info.number("maxmemory").unwrap_or(0), node.info.number("used_memory").unwrap_or(0));
    let Some(policy) = node.info.get("maxmemory_policy") else { return Vec::new() };
    let fix = node.shell("CONFIG SET maxmemory-policy noeviction");
    let mut findings = Vec::new();
    findings.push(match (policy, limit) {
        ("noeviction", 0) => Finding::good("eviction", "no limit of memory, and noeviction"),
        ("noeviction", _) => Finding::good("eviction", "noeviction"),
        (policy, 0) => Finding::note("eviction", format!("maxmemory-policy is {policy}, but memory has no limit"))
            .risk("with a limit the server would drop keys of locks")
            .fix(fix),
        (policy, limit) => {
            Finding::fault("eviction", format!("maxmemory-policy is {policy}, with a limit of {}", size(limit)))
                .risk("when memory is short the server drops keys of locks that are held: two jobs may hold one lock")
                .fix(fix)
        }
    });
    if limit > 0 && used > limit / 100 * NEARLY {
        let found = format!("{} of {} are used", size(used), size(limit));
        findings.push(
            Finding::warning("memory", found)
                .risk("when memory is full no lock can be taken (OOM); leases are still renewed and released")
                .fix(node.shell(&format!("CONFIG SET maxmemory {}mb", used.max(limit).div_ceil(1 << 19)))),
        );
    }
    findings
}

/// As much memory, for people.
fn size(bytes: u64) -> String {
    match bytes {
        0..10_000 => format!("{bytes} bytes"),
        10_000..10_000_000 => format!("{} KB", bytes / 1000),
        _ => format!("{} MB", (bytes + 500_000) / 1_000_000),
    }
}

fn replicas(node: &Node) -> Vec<Finding> {
    let mut findings = Vec::new();
    if node.info.get("role") == Some("slave") {
        if node.info.get("master_link_status") != Some("up") {
            findings.push(
                Finding::fault("link", "it is not connected to its master")
                    .risk("after a failover to it the locks are as they were long ago")
                    .fix(format!("check its log, and the network to {}", node.info.get("master_host").unwrap_or("it"))),
            );
        }
        return findings;
    }
    let count = node.info.number("connected_slaves").unwrap_or(0);
    if count == 0 {
        if node.part == Part::Master {
            findings.push(
                Finding::warning("replicas", "it has none")
                    .risk("when it dies its locks can be neither taken nor renewed until it is back")
                    .fix(more_replicas(node)),
            );
        }
        return findings;
    }
    let behind: Vec<&str> = (0..count)
        .filter_map(|index| node.info.get(&format!("slave{index}")))
        .filter(|replica| !replica.contains("state=online") || lag(replica).is_some_and(|lag| lag > 10))
        .collect();
    findings.push(if behind.is_empty() {
        Finding::good("replicas", format!("{count}, all online"))
    } else {
        Finding::warning("replicas", format!("{} of {count} lag behind: {}", behind.len(), behind.join("; ")))
            .risk("a failover to one of them forgets the last grants: two jobs may hold one lock")
            .fix("check their logs and the network")
    });
    if node.config.number("min-replicas-to-write").unwrap_or(0) == 0 {
        findings.push(
            Finding::note("replication", "grants do not wait for replicas")
                .risk("a failover can forget the last grants: two jobs may hold one lock until the older one is told")
                .fix(format!("fairlock run --replicas {count} … where that matters")),
        );
    }
    findings
}

fn more_replicas(node: &Node) -> String {
    let (host, port) = node.host_and_port().unwrap_or_else(|| ("HOST".to_owned(), "PORT".to_owned()));
    // A node of a cluster refuses REPLICAOF.
    if node.info.get("cluster_enabled") == Some("1") {
        format!("redis-cli --cluster add-node NEW_HOST:NEW_PORT {host}:{port} --cluster-slave")
    } else {
        format!("redis-cli -h NEW_HOST -p NEW_PORT REPLICAOF {host} {port}")
    }
}

/// In `ip=…,port=…,state=online,offset=…,lag=0`.
fn lag(replica: &str) -> Option<u64> {
    replica.split(',').find_map(|field| field.strip_prefix("lag=")?.parse().ok())
}

fn connections(node: &Node) -> Option<Finding> {
    let most = node.info.number("maxclients").or(node.config.number("maxclients"))?;
    let open = node.info.number("connected_clients")?;
    (open > most * NEARLY / 100).then(|| {
        Finding::warning("connections", format!("{open} of at most {most} are open"))
            .risk("each process that waits for a lock or holds one needs a connection; more are refused")
            .fix(node.shell(&format!("CONFIG SET maxclients {}", most * 2)))
    })
}
