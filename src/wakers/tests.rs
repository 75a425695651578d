use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::sync::{Barrier, mpsc};

use super::*;

const SOON: Duration = Duration::from_secs(20);

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("this is the caller's waker");
    }
}

// Another thread would replace one that such a waker ends, but more slowly each time.
#[test]
fn a_waker_that_panics_does_not_end_the_thread_that_calls_it() {
    let wakers = Wakers::of_this_process().unwrap();
    let relay = Arc::new(Relay { wakers, caller: AtomicWaker::new() });
    relay.caller.register(&Arc::new(Panics).into());
    Due::Waker(relay).call();
}

struct Blocks(Barrier, Barrier);

impl Wake for Blocks {
    fn wake(self: Arc<Self>) {
        self.0.wait();
        self.1.wait();
    }
}

struct Reads(mpsc::Sender<()>);

impl Readable for Reads {
    fn readable(&self) {
        self.0.send(()).unwrap();
    }
}

/// A waker thread of their own, what it reads, and how often it did so.
#[cfg(any(target_os = "linux", target_os = "android"))]
struct Answers {
    wakers: Arc<Wakers>,
    reader: Reader,
    _readable: Arc<Reads>,
    reads: mpsc::Receiver<()>,
    socket: UnixStream,
    server: UnixStream,
}

#[cfg(any(target_os = "linux", target_os = "android"))]
impl Answers {
    fn awaited() -> Self {
        let wakers = Wakers::start().unwrap();
        let (send, reads) = mpsc::channel();
        let (reader, readable) = (Reader::new(), Arc::new(Reads(send)));
        wakers.register(&reader, Arc::downgrade(&readable) as Weak<dyn Readable>);
        let (socket, server) = UnixStream::pair().unwrap();
        Self { wakers, reader, _readable: readable, reads, socket, server }
    }

    /// Awaits one that comes.
    fn expect(&mut self) {
        self.wakers.expect_answer();
        self.wakers.watch(&self.reader, &self.socket).unwrap();
        self.server.write_all(b"answer").unwrap();
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn an_answer_is_read_once() {
    let mut answers = Answers::awaited();
    answers.expect();
    answers.reads.recv_timeout(SOON).unwrap();
    // The thread sleeps between most of these.
    for _ in 0..50 {
        let (called, calls) = mpsc::channel();
        answers.wakers.say(move || called.send(()).unwrap());
        calls.recv_timeout(SOON).unwrap();
    }
    answers.reads.try_recv().unwrap_err();
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn an_answer_is_read_though_a_waker_blocks_since_before() {
    let mut answers = Answers::awaited();
    let waker = Arc::new(Blocks(Barrier::new(2), Barrier::new(2)));
    let mut way = Way::new(answers.wakers.clone());
    way.waker(&waker.clone().into()).wake_by_ref();
    waker.0.wait();
    answers.expect();
    answers.wakers.look();
    answers.reads.recv_timeout(SOON).unwrap();
    waker.1.wait();
}

fn say_again(wakers: Arc<Wakers>, on: Weak<()>) {
    wakers.clone().say(move || {
        std::thread::sleep(Duration::from_micros(100));
        if on.strong_count() > 0 {
            say_again(wakers, on);
        }
    });
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn answers_are_read_though_there_is_always_a_waker_to_call() {
    let (mut answers, on) = (Answers::awaited(), Arc::new(()));
    // So many that some of them are due whenever one blocks.
    (0..20).for_each(|_| say_again(answers.wakers.clone(), Arc::downgrade(&on)));
    answers.expect();
    answers.reads.recv_timeout(SOON).unwrap();
}
