//! The connection that callers use themselves (`keeper/direct/`).
//!
//! It belongs to the main connection: it leads to the same run of the same server, it ends with it, and what is asked
//! over either of them is ended before anything is asked again. So if it breaks while an answer is awaited, the main
//! connection is given up too.

use std::sync::Arc;

use super::peers::{Role, Up};
use super::{Effect, LEAST_PATIENCE, Line, Peer, Routes};
use crate::clock::Time;
use crate::server::Previous;

impl Routes {
    /// Opens it, where late requests can be ended. In a cluster it would be one for each node.
    pub(super) fn open_direct(&mut self, now: Time) {
        let (line, peer) = (self.new_line(), Peer::Only);
        let Some(up) = self.up_at(&peer).filter(|up| up.direct.is_none() && up.can_kill) else { return };
        up.direct = Some((line, None));
        let (node, by) = (up.node.clone(), now + LEAST_PATIENCE);
        self.lines.insert(line, Role::Direct(peer));
        self.effects.push(Effect::ConnectSecond { line, node, by });
    }

    /// The direct connection is set up.
    pub(super) fn direct_ready(&mut self, peer: &Peer, line: Line, run: Option<Previous>) {
        let is_this = |up: &&mut Up| up.direct.as_ref().is_some_and(|(its, _)| *its == line);
        let Some(up) = self.up_at(peer).filter(is_this) else { return };
        let same_run = run.as_ref().is_some_and(|run| up.run.as_ref().is_some_and(|up| up.run_id() == run.run_id()));
        if same_run {
            up.direct = Some((line, run));
            self.effects.push(Effect::Offer { line });
        } else {
            // It leads to another server: the main connection will break too, if that one is gone.
            self.close_direct(peer, line);
        }
    }

    /// The direct connection could not be made.
    pub(super) fn forget_direct(&mut self, peer: &Peer) {
        if let Some(up) = self.up_at(peer) {
            up.direct = None;
        }
    }

    /// Nobody awaits anything over it.
    pub(super) fn close_direct(&mut self, peer: &Peer, line: Line) {
        self.drop_line(line);
        self.forget_direct(peer);
    }

    /// Callers use it no longer.
    pub(super) fn direct_ended(&mut self, now: Time, line: Line, broke: Option<Arc<str>>) {
        let Some(Role::Direct(peer)) = self.lines.get(&line).cloned() else { return };
        match broke {
            Some(cause) => self.fail(now, &peer, &cause),
            None => self.close_direct(&peer, line),
        }
    }

    /// It ends with the main connection.
    pub(super) fn end_direct(&mut self, peer: &Peer, direct: Option<(Line, Option<Previous>)>) {
        let Some((line, run)) = direct else { return };
        self.drop_line(line);
        if let Some(link) = self.links.get_mut(peer) {
            link.previous.extend(run);
        }
    }
}
