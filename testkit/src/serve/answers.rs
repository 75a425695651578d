//! What each request does, and what it is answered.

use std::time::Duration;

use redis::cmd;
use serde_json::{Value, json};

use super::{
    request::{ClusterSetup, Id, Of, Request, SentinelsSetup, Setup, Strike},
    started::{Started, Thing},
};
#[cfg(target_os = "linux")]
use crate::vclock::WallClock;
use crate::{
    certificates::Certificates,
    cluster::Cluster,
    proxy::{Fault, Proxy},
    sentinel::{MASTER, Sentinels},
    server::{Builder, RedisServer},
    waiting::{SOON, eventually},
    watch::keys_left,
};

type Answer = Result<Value, String>;

impl Started {
    pub(super) fn answer(&mut self, request: Request) -> Answer {
        match request {
            Request::Server(setup) => {
                let server = self.builder(&setup)?.start();
                Ok(self.begin_server(server))
            }
            Request::Replica(Of { of }) => {
                let replica = self.server(of)?.replica();
                Ok(self.begin_server(replica))
            }
            Request::Kill(Of { of }) => self.server(of).map(RedisServer::kill).map(done),
            Request::Shutdown(Of { of }) => self.server(of).map(RedisServer::shutdown).map(done),
            Request::Restart(Of { of }) => {
                let server = self.server(of)?;
                server.restart();
                Ok(json!({ "pid": server.pid() }))
            }
            Request::Stop(Of { of }) => self.server(of).map(RedisServer::stop).map(done),
            Request::Cont(Of { of }) => self.server(of).map(RedisServer::cont).map(done),
            Request::Flush(Of { of }) => self.server(of).map(RedisServer::flush).map(done),
            Request::AwaitCopies { of, replicas, key } => Ok(await_copies(self.server(of)?, replicas, &key)),
            Request::NothingLeft(Of { of }) => self.server(of).map(keys_left).map(done),

            Request::Clock {} => self.begin_clock(),
            Request::Step { of, seconds, seen_by } => self.step(of, seconds, &seen_by),
            Request::Certificates { host } => Ok(self.begin_certificates(&host)),

            Request::Proxy { of, tcp } => self.begin_proxy(of, tcp),
            Request::Fault(strike) => self.begin_fault(&strike),
            Request::AwaitStruck(Of { of }) => self.fault(of).map(Fault::await_struck).map(done),
            Request::Struck(Of { of }) => Ok(json!({ "times": self.fault(of)?.struck() })),
            Request::Lift(Of { of }) => self.fault(of).map(Fault::lift).map(done),
            Request::Heal(Of { of }) => self.proxy(of).map(Proxy::heal).map(done),
            Request::Refuse(Of { of }) => self.proxy(of).map(Proxy::refuse).map(done),
            Request::Cut(Of { of }) => self.proxy(of).map(Proxy::cut).map(done),
            Request::Abandon(Of { of }) => self.proxy(of).map(Proxy::abandon).map(done),
            Request::LeadTo { of, to } => {
                self.proxy(of)?.lead_to(self.server(to)?);
                Ok(done(()))
            }
            Request::Counts(Of { of }) => self.counts(of),

            Request::Sentinels(setup) => Ok(self.begin_sentinels(setup)),
            Request::Cluster(setup) => self.begin_cluster(&setup),
            Request::Master { of, key } => Ok(self.named(match self.whole(of)? {
                Whole::Sentinels(sentinels) => sentinels.master(),
                Whole::Cluster(cluster) => cluster.owner(slot_of(of, cluster, key)?),
            })),
            Request::FailOver(Of { of }) => match self.whole(of)? {
                Whole::Sentinels(sentinels) => Ok(self.named(sentinels.fail_over())),
                Whole::Cluster(..) => Err(format!("{of} is a cluster: kill a master of it instead")),
            },
            Request::AwaitPromotion { of, key, old } => {
                let old = self.server(old)?;
                Ok(self.named(match self.whole(of)? {
                    Whole::Sentinels(sentinels) => sentinels.await_failover(old),
                    Whole::Cluster(cluster) => cluster.await_promotion(slot_of(of, cluster, key)?, old),
                }))
            }
            Request::AwaitReplica { of, server } => {
                let server = self.server(server)?;
                match self.whole(of)? {
                    Whole::Sentinels(sentinels) => sentinels.await_replica(server),
                    Whole::Cluster(cluster) => cluster.await_replica(server),
                }
                Ok(done(()))
            }
            Request::Migrate { of, key, to, keys } => self.migrate(of, &key, to, keys),

            Request::End(Of { of }) => self.end(of).map(done),
        }
    }

    fn builder(&self, setup: &Setup) -> Result<Builder, String> {
        // Whatever the environment says about a run of the tests in Rust.
        let mut server = RedisServer::builder().plain();
        if setup.tcp {
            server = server.tcp();
        }
        if setup.appendonly {
            server = server.appendonly();
        }
        if let Some(password) = &setup.password {
            server = server.password(password);
        }
        if let Some(certificates) = setup.certificates {
            server = self.certificates(certificates)?.given_to(server);
        }
        #[cfg(target_os = "linux")]
        if let Some(clock) = setup.clock {
            server = self.clock(clock)?.given_to(server);
        }
        server = setup.config.iter().fold(server, |server, line| server.config(line));
        Ok(setup.arguments.iter().fold(server, |server, argument| server.argument(argument)))
    }

    fn begin_server(&mut self, server: RedisServer) -> Value {
        let described = described(&server);
        numbered(self.begin(Thing::Server(server)), described)
    }

    #[cfg(target_os = "linux")]
    fn begin_clock(&mut self) -> Answer {
        Ok(json!({ "id": self.begin(Thing::Clock(WallClock::on_time())) }))
    }

    #[cfg(target_os = "linux")]
    fn step(&self, of: Id, seconds: f64, seen_by: &[Id]) -> Answer {
        let by = Duration::try_from_secs_f64(seconds.abs()).map_err(|error| format!("{seconds} seconds: {error}"))?;
        let clock = self.clock(of)?;
        let servers: Vec<&RedisServer> = seen_by.iter().map(|id| self.server(*id)).collect::<Result<_, _>>()?;
        let before: Vec<f64> = servers.iter().map(|server| time_of(server)).collect();
        if seconds < 0.0 {
            clock.step_back(by)
        } else {
            clock.step_forwards(by)
        }
        // Some servers look at the clock a few times in a hundredth of a second only.
        for (server, before) in servers.into_iter().zip(before) {
            let moved = || (time_of(server) - before).abs() >= seconds.abs() / 2.0;
            eventually("the server has the new time", SOON, moved);
        }
        Ok(done(()))
    }

    #[cfg(not(target_os = "linux"))]
    fn begin_clock(&mut self) -> Answer {
        Err("only on Linux a server has a clock that a test steps".to_owned())
    }

    #[cfg(not(target_os = "linux"))]
    fn step(&self, of: Id, _: f64, _: &[Id]) -> Answer {
        Err(format!("{of} is no clock"))
    }

    fn begin_certificates(&mut self, host: &str) -> Value {
        let certificates = Certificates::of(host);
        let [authority, certificate, key] =
            ["ca.pem", "server.pem", "server.key"].map(|name| certificates.files.path().join(name));
        let files = json!({ "authority": authority, "certificate": certificate, "key": key });
        numbered(self.begin(Thing::Certificates(certificates)), files)
    }

    fn begin_proxy(&mut self, of: Id, tcp: bool) -> Answer {
        let proxy = Proxy::start(self.server(of)?);
        let mut places = json!({ "socket": proxy.socket() });
        let proxy = if tcp { proxy.tcp() } else { proxy };
        if tcp {
            places["port"] = proxy.port().into();
        }
        Ok(numbered(self.begin(Thing::Proxy(proxy)), places))
    }

    fn begin_fault(&mut self, strike: &Strike) -> Answer {
        let times = strike.times.unwrap_or(u64::MAX);
        let fault = self.proxy(strike.of)?.fault_times(times, strike.target(), strike.act());
        Ok(json!({ "id": self.begin(Thing::Fault(strike.of, fault)) }))
    }

    fn counts(&self, of: Id) -> Answer {
        let counts = self.proxy(of)?.counts();
        Ok(json!({
            "connections": counts.connections,
            "refused": counts.refused,
            "open": counts.open,
            "requests": counts.requests,
            "replies": counts.replies,
            "pushes": counts.pushes,
        }))
    }

    fn begin_sentinels(&mut self, setup: SentinelsSetup) -> Value {
        let mut builder = Sentinels::builder();
        if let Some(replicas) = setup.replicas {
            builder = builder.replicas(replicas);
        }
        if let Some(time) = setup.down_after_ms {
            builder = builder.down_after(Duration::from_millis(time));
        }
        if let Some(password) = &setup.password {
            builder = builder.password(password);
        }
        let set_up = setup.config.iter().fold(builder, |builder, line| builder.config(line)).start();
        let (servers, sentinels) = (all(set_up.servers()), all(set_up.sentinels()));
        let first_sentinel = servers.len();
        let id = self.begin(Thing::Sentinels(set_up));
        let servers = self.begin_members(id, 0, servers);
        let sentinels = self.begin_members(id, first_sentinel, sentinels);
        json!({ "id": id, "master": MASTER, "servers": servers, "sentinels": sentinels })
    }

    fn begin_cluster(&mut self, setup: &ClusterSetup) -> Answer {
        let node = self.builder(&setup.node)?;
        let mut builder = Cluster::builder().each(|_| node);
        if setup.replicas {
            builder = builder.replicas();
        }
        if let Some(time) = setup.node_timeout_ms {
            builder = builder.node_timeout(Duration::from_millis(time));
        }
        let cluster = builder.start();
        let servers = all(cluster.nodes());
        let id = self.begin(Thing::Cluster(cluster));
        Ok(json!({ "id": id, "servers": self.begin_members(id, 0, servers) }))
    }

    fn begin_members(&mut self, whole: Id, first: usize, servers: Vec<Value>) -> Vec<Value> {
        let each = servers.into_iter().zip(first..);
        each.map(|(server, number)| numbered(self.begin(Thing::Member(whole, number)), server)).collect()
    }

    fn whole(&self, id: Id) -> Result<Whole<'_>, String> {
        match self.thing(id)? {
            Thing::Sentinels(set_up) => Ok(Whole::Sentinels(set_up)),
            Thing::Cluster(cluster) => Ok(Whole::Cluster(cluster)),
            _ => Err(format!("{id} is neither sentinels nor a cluster")),
        }
    }

    fn named(&self, server: &RedisServer) -> Value {
        json!({ "id": self.id_of(server) })
    }

    fn migrate(&self, of: Id, key: &str, to: Option<Id>, keys: Option<usize>) -> Answer {
        let cluster = self.cluster(of)?;
        let slot = cluster.slot(key);
        let to = match to {
            Some(to) => self.server(to)?,
            None => cluster.another_master(cluster.owner(slot)),
        };
        let mut migration = cluster.migrate(slot, to);
        let moved: Vec<String> = std::iter::from_fn(|| migration.step()).take(keys.unwrap_or(usize::MAX)).collect();
        if keys.is_none() {
            migration.finish();
        }
        Ok(json!({ "to": self.id_of(to), "moved": moved }))
    }
}

/// What has a master, or one for each slot.
enum Whole<'a> {
    Sentinels(&'a Sentinels),
    Cluster(&'a Cluster),
}

fn slot_of(id: Id, cluster: &Cluster, key: Option<String>) -> Result<u16, String> {
    let key = key.ok_or_else(|| format!("{id} is a cluster, and each of its masters has other keys: name a `key`"))?;
    Ok(cluster.slot(&key))
}

#[cfg(target_os = "linux")]
fn time_of(server: &RedisServer) -> f64 {
    let (seconds, micros): (f64, f64) = cmd("TIME").query(&mut server.raw()).expect("TIME");
    seconds + micros / 1e6
}

/// Replicas that confirm this write have all earlier ones.
fn await_copies(server: &RedisServer, replicas: u64, key: &str) -> Value {
    let mut raw = server.raw();
    let () = cmd("SET").arg(format!("{{{key}}}written")).arg(1).arg("PX").arg(1).query(&mut raw).expect("SET");
    let copies = || cmd("WAIT").arg(replicas).arg(100).query::<u64>(&mut raw).expect("WAIT") >= replicas;
    eventually("the replicas have everything", SOON, copies);
    done(())
}

fn done((): ()) -> Value {
    json!({})
}

fn numbered(id: Id, mut answer: Value) -> Value {
    answer["id"] = id.into();
    answer
}

fn all(servers: &[RedisServer]) -> Vec<Value> {
    servers.iter().map(described).collect()
}

fn described(server: &RedisServer) -> Value {
    let mut places = json!({ "pid": server.pid(), "folder": server.dir(), "socket": server.socket() });
    if server.has_port() {
        places["port"] = server.port().into();
    }
    places
}
