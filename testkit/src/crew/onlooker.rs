//! What the server shows of the leases, in the history: a thread with a client of its own asks for it again and again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use fairlock::Client;

use super::member::Orders;
use crate::history::{Event, Recorder};

const INTERVAL: Duration = Duration::from_millis(50);
/// More holders than this are shown less often, so that the history remains short.
const MANY: u32 = 16;

pub(super) struct Onlooker {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Onlooker {
    pub(super) fn start(orders: &Orders) -> Onlooker {
        let record = Recorder::open(&orders.history, "onlooker").expect("the history");
        let lock = Client::connect_lazy(&orders.url).expect("a client").lock(&orders.lock).expect("a lock");
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Acquire) {
                // A server that does not answer shows nothing.
                let holders = lock.inspect().blocking().map(|state| state.holders).unwrap_or_default();
                for holder in &holders {
                    let (token, slot, most) = (holder.token, holder.slot, holder.slots);
                    record.remark(format_args!("{holder:?}"));
                    record.note_process(Event::Seen { token, slot, most });
                }
                std::thread::sleep(INTERVAL * (1 + holders.len() as u32 / MANY));
            }
        });
        Onlooker { ended, thread: Some(thread) }
    }
}

impl Drop for Onlooker {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
