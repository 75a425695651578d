//! A member that is the driver of another client (docs/conformance.md). A thread here tells it what to do, and writes
//! the history for it: an end is recorded before the driver is told of it, and a beginning after it has told.

use std::{
    collections::{BTreeMap, HashSet},
    io::{BufRead as _, BufReader, Write as _},
    process::ChildStdin,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    time::Duration,
};

use fastrand::Rng;

use super::{member::Orders, notes::ANSWER_TIMEOUT, turn::up_to};
use crate::{
    child::Child,
    history::{Event, Recorder, now_ns},
    place::say,
};

/// How often it looks what is due, and asks whether a lease is believed in.
const LOOK: Duration = Duration::from_millis(5);
/// Whether a member was killed. Who holds it keeps the member as it is.
pub(super) type Dead = Arc<Mutex<bool>>;

/// The most waiters of a driver: each may be a client of its own.
const WAITERS: usize = 2;

enum Doing {
    Rests { until: u64 },
    Waits { called: u64, timeout: u64, leaves: u64 },
    Leaves,
    Holds { granted: u64, until: u64, asked: Option<u64>, was_held: bool },
    Releases,
    Failed,
}

struct Slot {
    waiter: String,
    doing: Doing,
    long: bool,
}

struct Driven {
    orders: Orders,
    kind: usize,
    record: Recorder,
    rng: Rng,
    input: ChildStdin,
    can: HashSet<String>,
    slots: Vec<Slot>,
    turns: usize,
    /// What it was told and has not answered, by the names of waiters, and when somebody is told that it may hang.
    unanswered: BTreeMap<String, (String, u64)>,
    hangs_after: Duration,
}

/// Starts the driver. `kind`: which of the crew's drivers it is. `dead`: from the moment on nothing more is recorded.
/// `hangs_after`: how late an answer is before somebody is told of that.
pub(super) fn hire(command: &str, kind: usize, orders: Orders, dead: Dead, hangs_after: Duration) -> Child {
    let (child, input, output) = Child::program(command);
    let (line, lines) = channel();
    std::thread::spawn(move || {
        let output = BufReader::new(output).lines().map_while(Result::ok);
        output.map(|said| (now_ns(), said)).try_for_each(|said| line.send(said))
    });
    let record = Recorder::open(&orders.history, &orders.name()).expect("the history");
    let rng = Rng::with_seed(orders.seed ^ ((orders.number as u64) << 32));
    let (can, slots, unanswered) = Default::default();
    let driven = Driven { orders, kind, record, rng, input, can, slots, turns: 0, unanswered, hangs_after };
    std::thread::spawn(move || driven.live(&lines, &dead));
    child
}

impl Driven {
    /// Until the driver is gone, or everybody is told to stop; then the end of its input tells the driver.
    fn live(mut self, lines: &Receiver<(u64, String)>, dead: &Dead) {
        let Orders { url, lock, lease, liveness, buffer, .. } = &self.orders;
        let [lease, liveness, buffer] = [lease, liveness, buffer].map(Duration::as_micros);
        self.tell(&format!(
            "open {url} fairlock {lock} {lease} {liveness} {buffer} {} {}",
            lease / 10,
            self.orders.most()
        ));
        let (mut pinged, mut looked) = (None, 0);
        loop {
            let line = lines.recv_timeout(LOOK);
            let dead = dead.lock().unwrap_or_else(PoisonError::into_inner);
            if *dead {
                return;
            }
            match line {
                Ok((at, line)) => match &*line.split(' ').collect::<Vec<_>>() {
                    ["ready", can @ ..] => {
                        self.can = can.iter().map(|&what| what.to_owned()).collect();
                        self.slots = (0..self.orders.waiters.min(WAITERS)).map(|_| Slot::idle()).collect();
                    }
                    // It was asked at that moment, and may have stood still since then.
                    [_, "-"] => {
                        self.unanswered.remove("-");
                        if let Some(asked) = pinged.take() {
                            self.record.note_pause(asked, self.orders.long_pause());
                        }
                    }
                    words => self.hear(at, words),
                },
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            // Not at each answer: the two would keep a core busy.
            if now_ns() - looked < LOOK.as_nanos() as u64 {
                continue;
            }
            looked = now_ns();
            if pinged.is_none() {
                pinged = Some(looked);
                self.tell("held -");
            }
            self.say_if_it_hangs();
            let stops = Orders::stop(&self.orders.history).exists();
            (0..self.slots.len()).for_each(|slot| self.go_on(slot, stops));
            let idle = |slot: &Slot| matches!(slot.doing, Doing::Rests { .. } | Doing::Failed);
            if stops && self.slots.iter().all(idle) {
                return;
            }
        }
    }

    fn tell(&mut self, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        let may_take = match words[..] {
            ["open", ..] | ["acquire", _, "-"] => None,
            ["acquire", _, timeout] => timeout.parse().ok().map(Duration::from_micros),
            _ => Some(Duration::ZERO),
        };
        if let Some(span) = may_take {
            let late = now_ns() + (span + self.hangs_after).as_nanos() as u64;
            self.unanswered.insert(words[1].to_owned(), (line.to_owned(), late));
        }
        // A driver that was killed is noticed at the end of its output.
        let _ = writeln!(self.input, "{line}");
    }

    fn say_if_it_hangs(&mut self) {
        let (name, now) = (self.orders.name(), now_ns());
        for (line, late) in self.unanswered.values_mut().filter(|(_, late)| now >= *late) {
            *late = u64::MAX;
            let text = format!("{name}: the driver has not answered for {:?}: {line}", self.hangs_after);
            say(&text);
            self.record.remark(text);
        }
    }

    /// What is due.
    fn go_on(&mut self, slot: usize, stops: bool) {
        let (now, waiter) = (now_ns(), self.slots[slot].waiter.clone());
        match &mut self.slots[slot].doing {
            Doing::Rests { until } if now >= *until && !stops => self.call(slot),
            Doing::Waits { leaves, .. } if now >= *leaves => {
                self.slots[slot].doing = Doing::Leaves;
                self.record.note(&waiter, Event::Left);
                self.tell(&format!("leave {waiter}"));
            }
            Doing::Holds { asked: asked @ None, .. } => {
                *asked = Some(now);
                self.tell(&format!("held {waiter}"));
            }
            _ => {}
        }
    }

    fn call(&mut self, slot: usize) {
        self.turns += 1;
        let long = self.rng.u32(..200) < 2 * self.orders.long_of;
        let stay = if long { "long" } else { "waits" };
        let waiter = format!("{}.{}-driver{}-{stay}", self.orders.name(), self.turns, self.kind);
        let mut leaves = u64::MAX;
        let (timeout, line) = if self.can.contains("waits") && self.rng.u32(..7) > 0 {
            let timeout = (self.rng.u32(..10) < 3).then(|| up_to(&mut self.rng, Duration::from_millis(2500)));
            if timeout.is_none() && self.can.contains("leaves") && self.rng.u32(..10) == 0 {
                leaves = now_ns() + up_to(&mut self.rng, Duration::from_millis(1500)).as_nanos() as u64;
            }
            let micros = timeout.map_or("-".to_owned(), |timeout| timeout.as_micros().to_string());
            (timeout, format!("acquire {waiter} {micros}"))
        } else {
            (Some(ANSWER_TIMEOUT), format!("try {waiter}"))
        };
        let timeout = timeout.map(|timeout| timeout.as_nanos() as u64);
        let called = now_ns();
        let event = timeout.map_or(Event::Called, Event::CalledFor);
        self.record.note_at(called, &waiter, event);
        if self.orders.most() > 1 {
            self.record.note_at(called, &waiter, Event::Shares(self.orders.most()));
        }
        self.tell(&line);
        self.slots[slot] = Slot { waiter, long, doing: Doing::Waits { called, timeout: timeout.unwrap_or(0), leaves } };
    }

    /// What the driver said at this moment, or before it.
    fn hear(&mut self, at: u64, words: &[&str]) {
        let Some(slot) = words.get(1).and_then(|its| self.slots.iter().position(|slot| slot.waiter == *its)) else {
            return say(format_args!("{}: the driver said {words:?}", self.orders.name()));
        };
        let (waiter, long) = (self.slots[slot].waiter.clone(), self.slots[slot].long);
        let number = |nth: usize| words.get(nth).and_then(|word| word.parse::<u64>().ok()).unwrap_or_default();
        let note = |at, event| self.record.note_at(at, &waiter, event);
        let over =
            Doing::Rests { until: now_ns() + up_to(&mut self.rng, Duration::from_millis(300)).as_nanos() as u64 };
        let release = Some(format!("release {waiter}"));
        if !matches!((&self.slots[slot].doing, words[0]), (_, "queued") | (Doing::Leaves, "granted")) {
            self.unanswered.remove(&waiter);
        }
        let (next, line) = match (&mut self.slots[slot].doing, words[0]) {
            (Doing::Waits { .. }, "queued") => return note(at, Event::Queued(number(2))),
            (Doing::Waits { .. }, "granted") => {
                note(at, Event::Queued(number(3)));
                note(at, Event::Granted(number(2), number(4) as u32));
                let rest = if long { self.orders.lease.mul_f64(1.1 + 0.4 * self.rng.f64()) } else { LOOK };
                let until = at + rest.as_nanos() as u64;
                (Doing::Holds { granted: at, until, asked: None, was_held: false }, None)
            }
            (Doing::Waits { called, .. }, "busy") => {
                note(at, Event::Returned);
                note(*called, Event::Left);
                (over, None)
            }
            (Doing::Waits { called, timeout, .. }, "timeout") => {
                note(at, Event::Returned);
                note(*called + *timeout, Event::Left);
                (over, None)
            }
            (Doing::Holds { asked, until, was_held, .. }, "held") => {
                let held = asked.take().unwrap_or(at);
                note(held, Event::Held);
                *was_held = true;
                if at < *until {
                    return;
                }
                note(held, Event::Released);
                (Doing::Releases, release)
            }
            (Doing::Holds { granted, was_held, .. }, "lost") => {
                // Nobody acted under a lease that was over when its grant was told.
                note(if *was_held { at } else { *granted }, Event::Lost);
                (Doing::Releases, release)
            }
            (Doing::Releases, "released" | "lost") | (Doing::Leaves, "left") => (over, None),
            // It has given up: its client gives back what it was granted meanwhile.
            (Doing::Leaves, "queued" | "granted") => return,
            _ => {
                // The judge will say that this acquire never finished.
                say(format_args!("{waiter}: the driver said {words:?}"));
                (Doing::Failed, None)
            }
        };
        self.slots[slot].doing = next;
        line.into_iter().for_each(|line| self.tell(&line));
    }
}

impl Slot {
    fn idle() -> Slot {
        Slot { waiter: String::new(), doing: Doing::Rests { until: 0 }, long: false }
    }
}
