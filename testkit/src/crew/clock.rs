//! The server's clock in the history: a thread asks for it again and again.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, SystemTime},
};

use crate::history::{Event, Recorder, now_ns};

const INTERVAL: Duration = Duration::from_millis(50);
/// A server that hangs must not hold up the end of a run.
const PATIENCE: Duration = Duration::from_secs(1);

pub struct ClockMarks {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ClockMarks {
    pub fn start(history: &Path, mut ask: Box<dyn FnMut() -> Option<u64> + Send>) -> ClockMarks {
        let record = Recorder::open(history, "clock").expect("the history");
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Acquire) {
                let asked = now_ns();
                if let Some(server_us) = ask() {
                    let took_ns = now_ns() - asked;
                    record.note_at(asked, "-", Event::Clock { server_us, took_ns });
                }
                std::thread::sleep(INTERVAL);
            }
        });
        ClockMarks { ended, thread: Some(thread) }
    }

    pub fn stop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for ClockMarks {
    fn drop(&mut self) {
        self.stop();
    }
}

/// TIME at a server, over a connection that is made again when it breaks.
pub fn of_url(url: &str) -> Box<dyn FnMut() -> Option<u64> + Send> {
    let client = redis::Client::open(url).expect("the URL of one server, or another clock");
    let mut connection: Option<redis::Connection> = None;
    Box::new(move || {
        let mut using = match connection.take() {
            Some(connection) => connection,
            None => {
                let made = client.get_connection_with_timeout(PATIENCE).ok()?;
                made.set_read_timeout(Some(PATIENCE)).ok()?;
                made
            }
        };
        let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(&mut using).ok()?;
        connection = Some(using);
        Some(seconds * 1_000_000 + micros)
    })
}

/// TIME at any server of a set-up: while no test sets the clock of one, it is the time of this machine.
pub fn of_this_machine() -> Option<u64> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
    u64::try_from(since.as_micros()).ok()
}
