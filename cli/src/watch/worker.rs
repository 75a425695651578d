//! The thread that asks the servers, so that the screen and its keys never wait for one.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use fairlock::operator::Seen;
use fairlock::{ClientBuilder, state::BreakOutcome};

use crate::duration::shown;
use crate::survey::{Locks, Survey};

/// The most waiters that are shown of one lock.
const WAITERS: u32 = 500;

pub(crate) enum Order {
    /// Look at this lock with all its waiters.
    Open(Option<String>),
    Break {
        name: String,
        token: u64,
        force: bool,
    },
}

pub(crate) enum Report {
    /// The locks; and the open one with its queue, unless it is gone.
    Seen(Locks, Option<Seen>),
    Trouble(String),
    /// What became of an order to break a lease; and the lease, if its holder was told and has still to let go.
    Broke(String, Option<Lease>),
}

/// A lock, and the token of its holder.
pub(crate) type Lease = (String, u64);

/// Looks until nobody listens any more.
pub(crate) fn start(
    mut survey: Survey,
    client: ClientBuilder,
    every: Duration,
    report: impl Fn(Report) -> bool + Send + 'static,
) -> std::io::Result<Sender<Order>> {
    let (orders, taken) = channel();
    std::thread::Builder::new().name("look".to_owned()).spawn(move || {
        let mut open = None;
        while report(look(&mut survey, open.as_deref())) {
            match wait(&taken, every) {
                Ok(Some(Order::Open(name))) => open = name,
                Ok(Some(Order::Break { name, token, force })) => {
                    let (news, told) = break_lease(&client, &name, token, force);
                    report(Report::Broke(news, told.then_some((name, token))));
                }
                Ok(None) => {}
                Err(()) => return,
            }
        }
    })?;
    Ok(orders)
}

fn wait(orders: &Receiver<Order>, every: Duration) -> Result<Option<Order>, ()> {
    match orders.recv_timeout(every) {
        Ok(order) => Ok(Some(order)),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(()),
    }
}

fn look(survey: &mut Survey, open: Option<&str>) -> Report {
    let looked = survey.look(1).and_then(|locks| {
        let opened = open.filter(|name| locks.seen.contains_key(*name));
        Ok((opened.map(|name| survey.look_at(name, WAITERS)).transpose()?.flatten(), locks))
    });
    match looked {
        Ok((opened, locks)) => Report::Seen(locks, opened),
        Err(error) => Report::Trouble(error.to_string()),
    }
}

/// What became of it, and whether the holder was told and has still to let go. With a client of its own, because nobody
/// else here needs the rights to change a lock.
fn break_lease(client: &ClientBuilder, name: &str, token: u64, force: bool) -> (String, bool) {
    let broken = || {
        let client = client.clone().connect().blocking().map_err(|error| error.to_string())?;
        let lock = client.lock(name).map_err(|error| error.to_string())?;
        let broken = if force { lock.force_break_lease(token).blocking() } else { lock.break_lease(token).blocking() };
        broken.map_err(|error| error.to_string())
    };
    let broken = broken();
    let news = match &broken {
        Ok(BreakOutcome::Told { remaining, .. }) => {
            format!("the holder of {name} is told; its lease ends within {}", shown(*remaining))
        }
        Ok(BreakOutcome::Ended) => format!("the lease on {name} was ended"),
        Ok(_) => format!("that lease on {name} is over already"),
        Err(error) => format!("{name} was not broken: {error}"),
    };
    (news, matches!(broken, Ok(BreakOutcome::Told { .. })))
}
