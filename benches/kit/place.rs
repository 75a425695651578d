//! What the kernel knows of processes: the cores on which they run, priorities, counters, and the clock that they share.

use std::fs;
use std::process::Command;

use rustix::process::{Pid, setpriority_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

/// Where client and server run. A ratio means something only together with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// On a core each.
    Split,
    /// On one core.
    Same,
    /// Wherever the kernel puts them.
    Free,
}

pub const PLACEMENTS: [Placement; 3] = [Placement::Split, Placement::Same, Placement::Free];

impl Placement {
    pub fn name(self) -> &'static str {
        match self {
            Placement::Split => "split",
            Placement::Same => "same core",
            Placement::Free => "free",
        }
    }

    /// Puts all threads of these processes where they belong. What they start later inherits it.
    pub fn put(self, server: u32, clients: &[u32]) {
        let (server_cores, client_cores) = match self {
            Placement::Split => (vec![1], vec![0]),
            Placement::Same => (vec![0], vec![0]),
            Placement::Free => ((0..cores()).collect(), (0..cores()).collect()),
        };
        pin(server, &server_cores);
        clients.iter().for_each(|client| pin(*client, &client_cores));
    }
}

/// How many cores there are.
pub fn cores() -> usize {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let last = online.trim().rsplit(['-', ',']).next().and_then(|last| last.parse::<usize>().ok());
    last.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), |last| last + 1)
}

fn pin(process: u32, cores: &[usize]) {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    for thread in threads(process) {
        // A thread may have ended since it was listed.
        let _ = sched_setaffinity(Some(thread), &set);
    }
}

/// Whether this process may use two cores at all.
pub fn has_two_cores() -> bool {
    sched_getaffinity(None).is_ok_and(|set| set.is_set(0) && set.is_set(1))
}

fn threads(process: u32) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| Pid::from_raw(task.file_name().to_str()?.parse().ok()?)).collect()
}

/// Makes the calling thread as unimportant as can be.
pub fn be_nice() {
    setpriority_process(Some(rustix::thread::gettid()), 19).expect("a lower priority is always allowed");
}

/// Whether `chrt` may start a process here that the scheduler prefers to all others.
pub fn may_be_urgent() -> bool {
    Command::new("chrt").args(["-f", "1", "true"]).status().is_ok_and(|status| status.success())
}

/// What the kernel counted for a process.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub cpu_ms: f64,
    pub rss_bytes: u64,
}

pub fn counted(process: u32) -> Counted {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    // After the name, which may hold anything: field 3 is the state, 14 and 15 the times in ticks of 10 ms.
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    Counted { cpu_ms: (ticks(11) + ticks(12)) * 10.0, rss_bytes: value(&status, "VmRSS:") * 1024 }
}

fn value(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The clock that all processes of a machine share.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The highest priority for this process and its helpers, until it is dropped: what else runs on the machine then disturbs
/// the less. Linux shares the cores between sessions first ("autogroups"), and within them by the nice values.
pub struct Urgent {
    autogroup: Option<String>,
}

const AUTOGROUP: &str = "/proc/self/autogroup";

impl Urgent {
    pub fn become_so() -> Urgent {
        let nice = setpriority_process(None, -10);
        // `/autogroup-123 nice 0`
        let before =
            fs::read_to_string(AUTOGROUP).ok().and_then(|text| Some(text.trim().rsplit(' ').next()?.to_owned()));
        let autogroup = before.filter(|_| fs::write(AUTOGROUP, "-15").is_ok());
        if nice.is_err() {
            eprintln!("This process may not raise its priority: what else runs on this machine will show.");
        }
        Urgent { autogroup }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // The session goes on after this process.
        let _ = self.autogroup.as_ref().map(|before| fs::write(AUTOGROUP, before));
    }
}
