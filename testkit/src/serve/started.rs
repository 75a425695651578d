//! What requests have started, by number.

use std::{collections::BTreeMap, ptr};

use super::request::Id;
#[cfg(target_os = "linux")]
use crate::vclock::WallClock;
use crate::{
    certificates::Certificates,
    cluster::Cluster,
    proxy::{Fault, Proxy},
    sentinel::Sentinels,
    server::RedisServer,
};

/// All of it ends with this.
#[derive(Default)]
pub(super) struct Started {
    things: BTreeMap<Id, Thing>,
    last: Id,
}

pub(super) enum Thing {
    Server(RedisServer),
    /// One of the servers of these Sentinels, or of this cluster.
    Member(Id, usize),
    Proxy(Proxy),
    /// One of this proxy.
    Fault(Id, Fault),
    Sentinels(Sentinels),
    Cluster(Cluster),
    Certificates(Certificates),
    #[cfg(target_os = "linux")]
    Clock(WallClock),
}

type Found<T> = Result<T, String>;

impl Started {
    pub(super) fn begin(&mut self, thing: Thing) -> Id {
        self.last += 1;
        self.things.insert(self.last, thing);
        self.last
    }

    /// Ends this, and all that belongs to it.
    pub(super) fn end(&mut self, id: Id) -> Found<()> {
        if let Thing::Member(whole, _) | Thing::Fault(whole, _) = self.thing(id)? {
            return Err(format!("{id} is a part of {whole}, and ends with it"));
        }
        self.things.retain(|other, thing| match thing {
            Thing::Member(whole, _) | Thing::Fault(whole, _) => *whole != id,
            _ => *other != id,
        });
        Ok(())
    }

    pub(super) fn thing(&self, id: Id) -> Found<&Thing> {
        self.things.get(&id).ok_or_else(|| format!("nothing has the id {id}, or it was ended"))
    }

    pub(super) fn server(&self, id: Id) -> Found<&RedisServer> {
        match self.thing(id)? {
            Thing::Server(server) => Ok(server),
            Thing::Member(whole, number) => {
                let member = self.members(*whole).nth(*number);
                Ok(member.expect("a member has the number that it was given"))
            }
            _ => Err(is_no(id, "server")),
        }
    }

    /// The number of a server that is a member.
    pub(super) fn id_of(&self, server: &RedisServer) -> Id {
        let is_it = |id: &&Id| self.server(**id).is_ok_and(|other| ptr::eq(other, server));
        *self.things.keys().find(is_it).expect("each member has a number")
    }

    /// The servers of Sentinels or of a cluster.
    fn members(&self, whole: Id) -> Box<dyn Iterator<Item = &RedisServer> + '_> {
        match self.things.get(&whole) {
            Some(Thing::Sentinels(set_up)) => Box::new(set_up.servers().iter().chain(set_up.sentinels())),
            Some(Thing::Cluster(cluster)) => Box::new(cluster.nodes().iter()),
            _ => Box::new(std::iter::empty()),
        }
    }

    pub(super) fn proxy(&self, id: Id) -> Found<&Proxy> {
        let Thing::Proxy(proxy) = self.thing(id)? else { return Err(is_no(id, "proxy")) };
        Ok(proxy)
    }

    pub(super) fn fault(&self, id: Id) -> Found<&Fault> {
        let Thing::Fault(_, fault) = self.thing(id)? else { return Err(is_no(id, "fault")) };
        Ok(fault)
    }

    pub(super) fn cluster(&self, id: Id) -> Found<&Cluster> {
        let Thing::Cluster(cluster) = self.thing(id)? else { return Err(is_no(id, "cluster")) };
        Ok(cluster)
    }

    pub(super) fn certificates(&self, id: Id) -> Found<&Certificates> {
        let Thing::Certificates(certificates) = self.thing(id)? else { return Err(is_no(id, "certificates")) };
        Ok(certificates)
    }

    #[cfg(target_os = "linux")]
    pub(super) fn clock(&self, id: Id) -> Found<&WallClock> {
        let Thing::Clock(clock) = self.thing(id)? else { return Err(is_no(id, "clock")) };
        Ok(clock)
    }
}

fn is_no(id: Id, what: &str) -> String {
    format!("{id} is no {what}")
}
