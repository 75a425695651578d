//! Finding all servers: the one of the URL, or sentinels with their master and its replicas, or the nodes of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fairlock::operator::{Answer, Place, Places};

use super::finding::Finding;
use super::node::{Fields, Node, Part};
use crate::duration::shown;
use crate::text::quoted;

/// All servers, and the findings that concern all of them together.
pub(crate) struct Report {
    pub(crate) kind: &'static str,
    pub(crate) nodes: Vec<Node>,
    pub(crate) findings: Vec<Finding>,
    pub(crate) is_cluster: bool,
}

pub(crate) fn all(places: &Places, user: &str, lease: Duration) -> Report {
    match places {
        Places::One(place) => {
            let nodes = visit(vec![(place.clone(), Part::Server)], user);
            Report { kind: "one server", nodes, findings: Vec::new(), is_cluster: false }
        }
        Places::Sentinels { sentinels, master, login } => behind_sentinels(sentinels, master, login, user, lease),
        Places::Cluster(seeds) => of_cluster(seeds, user, lease),
    }
}

/// All at the same time, because each may be silent.
fn visit(places: Vec<(Place, Part)>, user: &str) -> Vec<Node> {
    std::thread::scope(|scope| {
        let visits: Vec<_> =
            places.into_iter().map(|(place, part)| scope.spawn(move || Node::visit(place, part, user))).collect();
        // A visit panics only if this program is wrong, and then its panic is told.
        visits.into_iter().filter_map(|visit| visit.join().ok()).collect()
    })
}

fn behind_sentinels(sentinels: &[Place], name: &str, login: &Place, user: &str, lease: Duration) -> Report {
    let mut nodes = visit(sentinels.iter().map(|sentinel| (sentinel.clone(), Part::Sentinel)).collect(), "default");
    let mut findings = Vec::new();
    // What the sentinels say: the master by its address, with the sentinels that name it, and its replicas.
    let mut masters: BTreeMap<(String, u16), Vec<String>> = BTreeMap::new();
    let mut replicas: BTreeSet<(String, u16)> = BTreeSet::new();
    for node in &mut nodes {
        sentinel(node, name, lease);
        let place = node.place.to_string();
        let replied =
            node.ask(&[vec!["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name], vec!["SENTINEL", "REPLICAS", name]]);
        let [master, known] = &replied[..] else { continue };
        if let [host, port] = master.items()
            && let Some(address) =
                host.text().map(Into::into).zip(port.number().and_then(|port| u16::try_from(port).ok()))
        {
            masters.entry(address).or_default().push(place);
        }
        replicas.extend(known.items().iter().filter_map(|replica| {
            let fields = Fields::of_pairs(replica);
            Some((fields.get("ip")?.to_owned(), fields.get("port")?.parse().ok()?))
        }));
    }
    if masters.len() > 1 {
        let said: Vec<String> =
            masters.iter().map(|((host, port), by)| format!("{host}:{port} by {}", by.join(", "))).collect();
        findings.push(
            Finding::fault("master", format!("the sentinels disagree who the master is: {}", said.join("; ")))
                .risk("clients that ask different sentinels keep their locks on different servers")
                .fix("wait for the failover to end, then check the network between the sentinels"),
        );
    }
    if masters.is_empty() {
        let list = nodes.first().map(|sentinel| sentinel.shell("SENTINEL MASTERS")).unwrap_or_default();
        findings.push(
            Finding::fault("master", format!("no sentinel names a master called {name}"))
                .risk("there is no server to take locks at")
                .fix(format!("check the name at the end of the URL: {}", list)),
        );
    }
    replicas.retain(|replica| !masters.contains_key(replica));
    let with_locks = masters.keys().map(|address| (address, Part::Master));
    let with_locks = with_locks.chain(replicas.iter().map(|address| (address, Part::Replica)));
    nodes.extend(visit(with_locks.map(|((host, port), part)| (login.at(host, *port), part)).collect(), user));
    Report { kind: "sentinels", nodes, findings, is_cluster: false }
}

/// What a sentinel says of the master, and of the other sentinels.
fn sentinel(node: &mut Node, name: &str, lease: Duration) {
    let replied = node.ask(&[vec!["SENTINEL", "MASTER", name], vec!["SENTINEL", "CKQUORUM", name]]);
    let [master, quorum] = &replied[..] else { return };
    if let Some(error) = master.error() {
        let finding = if error.starts_with("NOPERM") {
            Finding::note("sentinel", format!("this user may not ask it about the master ({error})"))
        } else {
            Finding::fault("sentinel", format!("it knows no master called {name} ({error})"))
                .risk("a client that asks this sentinel finds no server")
                .fix(node.shell(&format!("SENTINEL MONITOR {} HOST PORT QUORUM", quoted(name))))
        };
        return node.findings.push(finding);
    }
    if let Some(error) = quorum.error().filter(|error| error.starts_with("NOQUORUM")) {
        node.findings.push(
            Finding::fault("quorum", error)
                .risk("when the master dies no replica takes its place, and all locks stop")
                .fix(format!(
                    "start the other sentinels, or lower the quorum: {}",
                    node.shell(&format!("SENTINEL SET {} quorum N", quoted(name)))
                )),
        );
    }
    let master = Fields::of_pairs(master);
    let others = master.number("num-other-sentinels").unwrap_or(0);
    node.findings.push(if others < 2 {
        Finding::warning("sentinels", format!("it knows {others} other sentinel{}", if others == 1 { "" } else { "s" }))
            .risk("fewer than three cannot agree on a failover when one machine dies with the master")
            .fix("run a sentinel on a third machine")
    } else {
        Finding::good("sentinels", format!("{} know each other", others + 1))
    });
    if let Some(after) = master.number("down-after-milliseconds") {
        let set = |ms| node.shell(&format!("SENTINEL SET {} down-after-milliseconds {ms}", quoted(name)));
        let finding = failover_after(Duration::from_millis(after), lease, set);
        node.findings.push(finding);
    }
}

/// A holder renews at the latest a third of its lease before the end; a failover should be over by then.
fn failover_after(silence: Duration, lease: Duration, set: impl Fn(u128) -> String) -> Finding {
    let found = format!("a failover begins after {} of silence", shown(silence));
    if silence > lease / 3 {
        Finding::warning("failover", found)
            .risk(format!(
                "jobs with a lease of {} may lose it before there is a new master, and with --lease {}s they do not",
                shown(lease),
                (silence * 3).as_secs_f64().ceil()
            ))
            .fix(set((lease / 3).min(Duration::from_secs(5)).as_millis()))
    } else {
        Finding::good("failover", found)
    }
}

fn of_cluster(seeds: &[Place], user: &str, lease: Duration) -> Report {
    let mut findings = Vec::new();
    let mut seen = visit(seeds.iter().map(|seed| (seed.clone(), Part::Master)).collect(), user);
    let mut told = None;
    for node in &mut seen {
        let replied = node.ask(&[vec!["CLUSTER", "SLOTS"], vec!["CLUSTER", "INFO"]]);
        let [slots, info] = &replied[..] else { continue };
        match slots.error() {
            Some(error) if error.starts_with("NOPERM") => {
                let fix = node.allow(&["+cluster|slots".to_owned()]);
                let fault = Finding::fault("cluster", format!("this user may not ask for the slots ({error})"));
                node.findings.push(fault.risk("no client finds its locks").fix(fix));
            }
            Some(error) => {
                let fault = Finding::fault("cluster", format!("it is not a node of a cluster ({error})"));
                node.findings.push(fault.risk("no lock can be taken").fix("leave +cluster out of the URL"));
            }
            None => {
                let slots = slots.clone();
                told.get_or_insert((node.place.clone(), slots, info.clone()));
            }
        }
    }
    let Some((asked, slots, info)) = told else {
        return Report { kind: "cluster", nodes: seen, findings, is_cluster: true };
    };
    findings.extend(cluster_state(&asked, &slots, &info));
    let ranges = slots.items().iter().filter_map(|range| range.items().get(2..));
    let address = |node: &Answer| match node.items() {
        [host, port, ..] => {
            Some(asked.at(&host.text().filter(|host| host != "?").unwrap_or_default(), port.number()?.try_into().ok()?))
        }
        _ => None,
    };
    let mut parts: BTreeMap<String, (Place, Part)> = BTreeMap::new();
    for range in ranges {
        for (index, place) in range.iter().enumerate().filter_map(|(index, node)| Some((index, address(node)?))) {
            let part = if index == 0 { Part::Master } else { Part::Replica };
            parts.entry(place.to_string()).or_insert((place, part));
        }
    }
    if seeds.len() == 1 && parts.len() > 1 {
        findings.push(
            Finding::note("url", "the URL names a single node")
                .risk("a client that starts while this node is down finds no cluster")
                .fix("name several nodes: redis+cluster://HOST:PORT,HOST:PORT"),
        );
    }
    // The nodes that were asked stay as they are, and the others are visited.
    let known: BTreeSet<String> = seen.iter().map(|node| node.place.to_string()).collect();
    for node in &mut seen {
        node.part = parts.get(&node.place.to_string()).map_or(node.part, |(_, part)| *part);
    }
    let others = parts.into_values().filter(|(place, _)| !known.contains(&place.to_string()));
    seen.extend(visit(others.collect(), user));
    seen.sort_by_key(|node| (node.part == Part::Replica, node.place.to_string()));
    for node in &mut seen {
        if let Some(timeout) = node.config.number("cluster-node-timeout") {
            let set = |ms| node.shell(&format!("CONFIG SET cluster-node-timeout {ms}"));
            let finding = failover_after(Duration::from_millis(timeout), lease, set);
            node.findings.push(finding);
        }
        if node.major().is_some_and(|major| major < 7) {
            node.findings.push(
                Finding::note("messages", "this version has no sharded messages")
                    .risk("each message about a grant goes to all nodes of the cluster")
                    .fix("upgrade to Redis 7 or Valkey"),
            );
        }
    }
    Report { kind: "cluster", nodes: seen, findings, is_cluster: true }
}

fn cluster_state(asked: &Place, slots: &Answer, info: &Answer) -> Vec<Finding> {
    let served: i64 = slots
        .items()
        .iter()
        .filter_map(|range| match range.items() {
            [first, last, ..] => Some(last.number()? - first.number()? + 1),
            _ => None,
        })
        .sum();
    let is_down = info.text().is_some_and(|info| info.contains("cluster_state:fail"));
    let mut findings = Vec::new();
    if served < 16384 {
        findings.push(
            Finding::fault("slots", format!("{} of 16384 slots are served by no node", 16384 - served))
                .risk("locks whose names fall into these slots cannot be taken, and by default no others either")
                .fix(format!("redis-cli --cluster fix {asked}")),
        );
    } else {
        findings.push(Finding::good("slots", "all 16384 are served"));
    }
    if is_down {
        findings.push(
            Finding::fault("cluster", "its state is `fail`")
                .risk("it refuses all locks")
                .fix(format!("redis-cli --cluster check {asked}")),
        );
    }
    findings
}
