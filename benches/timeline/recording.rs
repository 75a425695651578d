//! What the kernel recorded of some processes: a sweep over its events that says, for each span between two marks, which
//! threads ran, in which system call, and for whom everybody waited to wake up.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::process::{Command, Stdio};

use crate::kit::{place::threads, stats::median};

/// A system call that nobody needs, to be seen in the recording.
pub fn mark() {
    let _ = rustix::process::getppid();
}

const MARK: u32 = 110;

/// Whether such a recording can be made here, or why not.
pub fn possible() -> Result<(), &'static str> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("it knows the system calls of Linux on x86-64 only");
    }
    let probe =
        Command::new("perf").args(["stat", "-a", "-e", "sched:sched_switch", "true"]).stderr(Stdio::null()).status();
    match probe {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("perf may not record here; root may"),
        Err(_) => Err("there is no perf"),
    }
}

pub struct Recording {
    /// The name of each thread.
    names: HashMap<u32, String>,
    events: Vec<Event>,
}

struct Event {
    at_ns: u64,
    kind: Kind,
}

enum Kind {
    Runs(u32),
    Stops(u32),
    Enters(u32, u32),
    Leaves(u32),
}

impl Recording {
    /// Records processes, each under a name, while `work` is done.
    pub fn of(processes: &[(&str, u32)], work: impl FnOnce()) -> Recording {
        let names: HashMap<u32, String> = processes.iter().flat_map(|(name, process)| named(name, *process)).collect();
        let any = |fields: &[&str]| {
            let tests = names.keys().flat_map(|thread| fields.iter().map(move |field| format!("{field}=={thread}")));
            tests.collect::<Vec<_>>().join("||")
        };
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("recorded").to_str().expect("a path").to_owned();
        let (switches, calls) = (any(&["prev_pid", "next_pid"]), any(&["common_pid"]));
        let mut recorder = Command::new("perf")
            .args(["record", "-q", "-a", "-m", "4096", "-o", &file])
            .args(["-e", "sched:sched_switch", "--filter", &switches])
            .args(["-e", "raw_syscalls:sys_enter", "--filter", &calls])
            .args(["-e", "raw_syscalls:sys_exit", "--filter", &calls])
            .args(["--", "sleep", "600"])
            .stderr(Stdio::null())
            .spawn()
            .expect("starting perf");
        while fs::metadata(&file).map_or(true, |file| file.len() == 0) {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        std::thread::sleep(std::time::Duration::from_millis(300));
        work();
        let recorder_pid = rustix::process::Pid::from_child(&recorder);
        rustix::process::kill_process(recorder_pid, rustix::process::Signal::INT).expect("ending perf");
        recorder.wait().expect("the end of perf");
        let script = Command::new("perf")
            .args(["script", "-i", &file, "--ns", "-F", "tid,time,event,trace"])
            .stderr(Stdio::null())
            .output()
            .expect("reading what perf recorded");
        let text = String::from_utf8_lossy(&script.stdout);
        let mut events: Vec<Event> = text.lines().flat_map(parse).collect();
        events.sort_by_key(|event| event.at_ns);
        Recording { names, events }
    }

    /// Prints what the `nth` of each group of spans between marks was made of.
    pub fn report(&self, what: &str, marks_of_a_group: usize, nth: usize) {
        let mut spans = Vec::new();
        let mut marks = 0;
        let mut sweep = Sweep::default();
        for event in &self.events {
            sweep.advance(event.at_ns, &event.kind, &self.names);
            if let Kind::Enters(_, MARK) = event.kind {
                if marks % marks_of_a_group == nth {
                    sweep.begin();
                } else if marks % marks_of_a_group == nth + 1 {
                    spans.push(sweep.end());
                }
                marks += 1;
            }
        }
        let total: Vec<f64> = spans.iter().map(|span| span.values().sum()).collect();
        println!("\n| {what}: {:.0} µs, the median of {} | µs | share |\n|---|---|---|", median(&total), spans.len());
        // A mean shows all that there is; spans that something else disturbed are left out of it.
        let usual: Vec<&BTreeMap<String, f64>> =
            spans.iter().zip(&total).filter(|(_, sum)| **sum <= 1.5 * median(&total)).map(|(span, _)| span).collect();
        let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
        usual.iter().flat_map(|span| span.iter()).for_each(|(key, us)| *sums.entry(key).or_default() += us);
        let mut means: Vec<(&str, f64)> = sums.into_iter().map(|(key, sum)| (key, sum / usual.len() as f64)).collect();
        means.sort_by(|one, other| other.1.total_cmp(&one.1));
        let all: f64 = means.iter().map(|(_, us)| us).sum();
        let mut threads: BTreeMap<&str, f64> = BTreeMap::new();
        means.iter().for_each(|(key, us)| *threads.entry(key.split(", ").next().unwrap_or(key)).or_default() += us);
        let mut threads: Vec<(&str, f64)> = threads.into_iter().collect();
        threads.sort_by(|one, other| other.1.total_cmp(&one.1));
        for (thread, us) in threads.iter().filter(|(_, us)| *us >= 0.01 * all) {
            println!("| **{thread}** | **{us:.1}** | **{:.0} %** |", 100.0 * us / all);
        }
        for (key, us) in means.iter().filter(|(_, us)| *us >= 0.005 * all) {
            println!("| {key} | {us:.1} | {:.0} % |", 100.0 * us / all);
        }
    }
}

/// The threads of a process under names of their own: the caller is the first one.
fn named(process_name: &str, process: u32) -> Vec<(u32, String)> {
    let name = |thread: rustix::process::Pid| {
        let id = thread.as_raw_nonzero().get() as u32;
        let comm = fs::read_to_string(format!("/proc/{process}/task/{id}/comm")).unwrap_or_default();
        let own = match (process_name, id == process) {
            ("server", true) => String::new(),
            (_, true) => "caller".to_owned(),
            _ => comm.trim().to_owned(),
        };
        (id, format!("{process_name} {own}").trim().to_owned())
    };
    threads(process).into_iter().map(name).collect()
}

/// `  1234 15394.085560462: sched:sched_switch: prev_comm=… prev_pid=1 … ==> next_comm=… next_pid=2 …`
fn parse(line: &str) -> Vec<Event> {
    let parsed = || -> Option<Vec<Event>> {
        let (thread, rest) = line.trim_start().split_once(' ')?;
        let (time, rest) = rest.trim_start().split_once(": ")?;
        let (seconds, nanos) = time.split_once('.')?;
        let at_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + nanos.parse::<u64>().ok()?;
        let thread: u32 = thread.parse().ok()?;
        let (event, rest) = rest.trim_start().split_once(": ")?;
        let number = |after: &str| rest.split(after).nth(1)?.split_whitespace().next()?.parse::<u32>().ok();
        let kinds = match event {
            "sched:sched_switch" => vec![Kind::Stops(number("prev_pid=")?), Kind::Runs(number("next_pid=")?)],
            "raw_syscalls:sys_enter" => vec![Kind::Enters(thread, number("NR ")?)],
            "raw_syscalls:sys_exit" => vec![Kind::Leaves(thread)],
            _ => vec![],
        };
        Some(kinds.into_iter().map(|kind| Event { at_ns, kind }).collect())
    };
    parsed().unwrap_or_default()
}

/// Who runs at the moment, and what the time of the span so far was made of.
#[derive(Default)]
struct Sweep {
    now_ns: u64,
    running: BTreeMap<u32, ()>,
    calls: HashMap<u32, u32>,
    /// Time in which nobody ran, and which counts for the next to run.
    nobody_us: f64,
    span: Option<BTreeMap<String, f64>>,
}

impl Sweep {
    fn advance(&mut self, at_ns: u64, kind: &Kind, names: &HashMap<u32, String>) {
        let us = at_ns.saturating_sub(self.now_ns) as f64 / 1000.0;
        self.now_ns = at_ns;
        if self.running.is_empty() {
            self.nobody_us += us;
        } else {
            let key = self.key(names);
            self.add(key, us);
        }
        match *kind {
            Kind::Runs(thread) if names.contains_key(&thread) => {
                let waited = std::mem::take(&mut self.nobody_us);
                self.add(format!("waking up: {}", names[&thread]), waited);
                self.running.insert(thread, ());
            }
            Kind::Runs(_) => {}
            Kind::Stops(thread) => drop(self.running.remove(&thread)),
            Kind::Enters(thread, call) => {
                self.running.insert(thread, ());
                self.calls.insert(thread, call);
            }
            Kind::Leaves(thread) => drop(self.calls.remove(&thread)),
        }
    }

    fn key(&self, names: &HashMap<u32, String>) -> String {
        let threads: Vec<&u32> = self.running.keys().collect();
        match threads[..] {
            [thread] => match self.calls.get(thread) {
                Some(call) => format!("{}, in {}", names[thread], call_name(*call)),
                None => format!("{}, its own code", names[thread]),
            },
            _ => threads.iter().map(|thread| names[*thread].as_str()).collect::<Vec<_>>().join(" with "),
        }
    }

    fn add(&mut self, key: String, us: f64) {
        if let Some(span) = &mut self.span {
            *span.entry(key).or_default() += us;
        }
    }

    fn begin(&mut self) {
        self.nobody_us = 0.0;
        self.span = Some(BTreeMap::new());
    }

    fn end(&mut self) -> BTreeMap<String, f64> {
        self.span.take().expect("a span that began")
    }
}

fn call_name(number: u32) -> String {
    let known = match number {
        0 => "read",
        1 => "write",
        7 => "poll",
        19 => "readv",
        20 => "writev",
        39 => "getpid",
        44 => "sendto",
        45 => "recvfrom",
        46 => "sendmsg",
        47 => "recvmsg",
        202 => "futex",
        232 | 281 => "epoll_wait",
        233 => "epoll_ctl",
        271 => "ppoll",
        318 => "getrandom",
        MARK => "the mark",
        _ => return format!("system call {number}"),
    };
    known.to_owned()
}
