//! The network of a world: requests, replies, messages and connections on their way.

use super::clients::Link;
use super::server::{Executed, Reply};
use super::world::World;
use crate::keeper::machine::Event;
use crate::protocol::{self, AcquireVerdict, HeartbeatVerdict, LockKeys, Request, Verdict};

impl World {
    /// The server executes the first request of this client's connection, `times` times; one reply is sent.
    pub(super) fn execute(&mut self, index: usize, times: usize) {
        if !self.server.up {
            return;
        }
        let Some(link) = self.clients[index].link.as_mut().filter(|link| !link.dead) else { return };
        let Some((_, request, call)) = link.out.pop_front() else { return };
        let result = match &self.server.refuses {
            Some(refusal) => Err(refusal.clone()),
            None => {
                let reply = self.run(index, &call);
                (1..times).for_each(|_| drop(self.run(index, &call)));
                Ok(reply)
            }
        };
        let lock = call.keys().name.clone();
        let reply = Reply { request, lock, result, basis: self.server.basis };
        if let Some(link) = &mut self.clients[index].link {
            link.back.push_back((self.now, reply));
        }
    }

    /// A request of a broken connection is executed after all.
    pub(super) fn execute_late(&mut self, index: usize) {
        if !self.server.up || self.server.refuses.is_some() {
            return;
        }
        let client = &mut self.clients[index];
        let call = client.limbo.pop_front().or_else(|| {
            let link = client.link.as_mut().filter(|link| link.dead)?;
            link.out.pop_front().map(|(_, _, call)| call)
        });
        if let Some(call) = call {
            self.run(index, &call);
        }
    }

    pub(super) fn run(&mut self, index: usize, call: &Request) -> protocol::Reply {
        self.now += self.script;
        let executed = self.server.execute(self.now, call);
        self.tell(|w| {
            let name = &w.clients[index].name;
            format!("server, for {name}: {call:?}\n  = {:?}\n  {:?}", executed.reply, w.server.locks[executed.lock].1)
        });
        self.heed(index, &executed);
        self.judge_script(&executed);
        let Executed { reply, pushes, .. } = executed;
        for (name, push) in pushes {
            let (now, basis) = (self.now, self.server.basis);
            let Some(client) = self.clients.iter_mut().find(|client| client.name.as_str() == name) else { continue };
            match client.link.as_mut().filter(|link| !link.dead && !self.no_pushes) {
                Some(link) => link.pushes.push_back((now, push, basis)),
                None => client.in_touch = false,
            }
        }
        reply
    }

    /// The client takes in up to so many replies at once.
    pub(super) fn answer(&mut self, index: usize, most: usize) {
        if !self.clients[index].runs() {
            return;
        }
        let client = &mut self.clients[index];
        let Some(link) = &mut client.link else { return };
        // Of one basis, so that each event has the basis of its own answer.
        let mut replies = Vec::new();
        while let Some((_, reply)) = link.back.front()
            && replies.len() < most
            && replies.first().is_none_or(|first: &Reply| first.basis == reply.basis)
        {
            replies.extend(link.back.pop_front().map(|(_, reply)| reply));
        }
        let Some(basis) = replies.first().map(|reply| reply.basis) else { return };
        for reply in &replies {
            if let Ok(told) = &reply.result
                && keeps_alive(&told.verdict)
            {
                client.kept.insert(reply.lock.clone(), basis);
            }
        }
        let events = replies.into_iter().map(|Reply { request, result, .. }| Event::Answered { request, result });
        self.feed(index, basis, events.collect::<Vec<_>>());
    }

    pub(super) fn push(&mut self, index: usize, nth: usize) {
        if !self.clients[index].runs() {
            return;
        }
        let client = &mut self.clients[index];
        let Some(link) = &mut client.link else { return };
        if let Some((_, push, basis)) = link.pushes.remove(nth) {
            // A claim is counted from the last answered sign of life.
            let kept = LockKeys::of_lock("fairlock", &push.lock).and_then(|keys| client.kept.get(&keys.name));
            let basis = if kept == Some(&basis) { basis } else { basis.doubted() };
            self.feed(index, basis, [Event::Push(push)]);
        }
    }

    /// Replicas answer whether they have what they are asked about.
    pub(super) fn replicas(&mut self, index: usize, enough: bool) {
        let client = &mut self.clients[index];
        if !client.runs() {
            return;
        }
        let Some((_, request, needed, basis)) =
            client.link.as_mut().filter(|link| !link.dead).and_then(|link| link.questions.pop_front())
        else {
            return;
        };
        client.replicated = enough;
        client.in_touch &= enough;
        let result = Ok(if enough { needed } else { needed - 1 });
        self.feed(index, basis, [Event::Replicated { request, result }]);
        self.clients[index].replicated = false;
    }

    pub(super) fn connected(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if !self.server.up || !client.runs() || client.connecting.take().is_none() {
            return;
        }
        client.link = Some(Link::default());
        client.pace.reasons += 4 + client.machine.core.members as u32;
        let can_kill = client.can_kill;
        if can_kill {
            client.limbo.clear();
        }
        self.feed(index, self.server.basis, [Event::Connected { can_kill }]);
    }

    /// The client notices that its connection is gone, or that there is none to be had.
    pub(super) fn disconnected(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if client.link.is_some() || client.connecting.is_some() {
            let linked = client.link.is_some() && client.runs();
            self.feed(index, self.server.basis, [Event::Disconnected { cause: "gone".into() }]);
            if linked {
                let client = &mut self.clients[index];
                client.unlink();
                client.connect(self.now);
            }
        }
    }
}

/// Whether the server heard a waiter with this.
fn keeps_alive(verdict: &Verdict) -> bool {
    matches!(
        verdict,
        Verdict::Acquire(AcquireVerdict::Queued { .. }) | Verdict::Heartbeat(HeartbeatVerdict::Alive { rank: Some(_) })
    )
}
